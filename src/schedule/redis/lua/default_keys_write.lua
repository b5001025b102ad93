-- default_keys_write: writes the record of the default keys (default_keys_read.lua), if it is the one that the caller
-- has read; or puts back one that was lost.
--
-- ARGV   6 the number of the record that the caller has read, 0 for none; '' to put one back
--        7 the number of the record that is put back; else ''
--        8 what to keep
-- Reply  now, writes, then 'done', number | 'differs': the record is another, or no older than the one to put back
-- Keeps  the number of a change is higher than all before it that are here, and not below the time of the change. That of a
--        first record is below those of all changes (until the year 2286), and the later it is written, the lower it
--        is. A server that starts after a loss may write a first record before another one puts back the record that was
--        lost: that has the higher number, so it stays.

local KEY = ARGV[2] .. 'default_keys'
local expected, number, text = ARGV[6], ARGV[7], ARGV[8]

allow_when_full()
local lost = check_in()
if lost then return lost end

local record = redis.pcall('GET', KEY)
local here, here_text
if type(record) == 'string' then here, here_text = string.match(record, '^(%d+) (.*)$') end
if expected == '' then
  if here and tonumber(here) >= tonumber(number) then return { NOW, WRITES, 'differs' } end
else
  -- A call that is repeated because its reply was lost finds its own record. It gets the same answer.
  if here_text == text then return { NOW, WRITES, 'done', here } end
  if (tonumber(here) or 0) ~= tonumber(expected) then return { NOW, WRITES, 'differs' } end
  if here then
    number = text_of(math.max(tonumber(expected) + 1, NOW))
  else
    number = text_of(math.max(1, math.floor((10000000000000 - NOW) / 10)))
  end
end
call('SET', KEY, number .. ' ' .. text)
return { NOW, WRITES, 'done', number }
