-- directory: writes down which partition has the lane of a key, if the stored text is the one that the
-- caller has read. Used only without a journal, in the partition that the key's own name decides.
--
-- ARGV   6 onwards, for each key: key; the expected text, '' for none; the number of the partition to
--        write down (the time is added), '' to remove the text
-- Reply  now, writes, then for each key: 1 if it was done, else the stored text, '' for none

for i = 8, #ARGV, 3 do
  if ARGV[i] == '' then
    allow_when_full() -- removing needs no memory
    break
  end
end
local lost = check_in()
if lost then return lost end

local DIRECTORY = ARGV[2] .. 'directory'
local reply = { NOW, WRITES }
for i = 6, #ARGV, 3 do
  local key, expected, partition = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local here = call('HGET', DIRECTORY, key) or ''
  if here ~= expected then
    -- A call that is repeated because its reply was lost finds its own text. It gets the same answer.
    reply[#reply + 1] = here
  else
    if partition == '' then
      call('HDEL', DIRECTORY, key)
    else
      call('HSET', DIRECTORY, key, partition .. ' ' .. NOW_TEXT)
    end
    reply[#reply + 1] = 1
  end
end
return reply
