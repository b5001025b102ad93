-- endpoint_write: makes, changes or removes an endpoint, if its record is the one that the caller has read.
--
-- ARGV   6 channel that wakes the other instances
--        7 name of the endpoint
--        8 the number of the record that the caller has read, 0 for none
--        9 '1': it is removed; else '0'
--       10 limits of its lane, as configure_lanes.lua gets them
--       11 what to keep beside that
--       12 maximum number of endpoints here
--       13 maximum number of removed endpoints that are remembered here
-- Reply  now, writes, then 'done' | 'differs': the record is another | 'full' | 'in_use': something pending waits in
--        its lane, so it is not removed
-- Keeps  the record and the limits of the lane are changed together. Nothing pending is left without a record, unless
--        the record is lost: a record is forgotten only while its lane is empty.

local name, expected, removed, limits, text = ARGV[7], tonumber(ARGV[8]), ARGV[9], ARGV[10], ARGV[11]
local MOST, MOST_REMOVED, MOST_FORGOTTEN = tonumber(ARGV[12]), tonumber(ARGV[13]), 16

if removed == '1' then allow_when_full() end
local lost = check_in()
if lost then return lost end

local fields = endpoint_fields(name, ':number', ':since')
local here_number, here_removed, here_limits, here_text
if fields[1] then here_number, here_removed, here_limits, here_text = parts_of(fields[1]) end
-- A call that is repeated because its reply was lost finds its own record. It gets the same answer.
if here_removed == removed and here_limits == limits and here_text == text then return { NOW, WRITES, 'done' } end
if (tonumber(here_number) or 0) ~= expected then return { NOW, WRITES, 'differs' } end

index_surplus() -- removes an index of another type
if removed == '1' then
  if pending_of(name) > 0 then return { NOW, WRITES, 'in_use' } end
elseif here_removed ~= '0' and call('ZCOUNT', CHANGES, '(0', '+inf') >= MOST then
  return { NOW, WRITES, 'full' }
end

local last = math.max(tonumber(fields[2] or nil) or 0, expected)
local number = text_of(math.max(last + 1, NOW))
call('HSET', ENDPOINTS, name, number .. ' ' .. removed .. ' ' .. limits .. ' ' .. text, ':number', number,
  ':since', fields[3] or new_since())
call('ZADD', CHANGES, (removed == '1' and '-' or '') .. number, name)
change_limits({ ['endpoint:' .. name] = removed == '1' and ' ' or limits }, ARGV[6])

local surplus = call('ZCOUNT', CHANGES, '-inf', '(0') - MOST_REMOVED
if surplus > 0 then
  local oldest = call('ZREVRANGEBYSCORE', CHANGES, '(0', '-inf', 'LIMIT', 0, MOST_FORGOTTEN)
  for _, old in ipairs(oldest) do
    if surplus > 0 and pending_of(old) == 0 then
      call('HDEL', ENDPOINTS, old)
      call('ZREM', CHANGES, old)
      surplus = surplus - 1
    end
  end
end
return { NOW, WRITES, 'done' }
