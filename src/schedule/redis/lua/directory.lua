-- directory: writes down in which partition the lane of a key lies, each only if what is there is what the
-- caller has seen. Only where there is no journal, and in the partition that the key's own name decides.
--
-- ARGV   6 onwards, for each: key; the text that must be there, '' for none; the number of the partition
--        to be written down, with the time, '' to remove what is there
-- Reply  now, writes, then for each: 1 if it was done, else the text that is there, '' for none

local lost = check_in()
if lost then return lost end

local DIRECTORY = ARGV[2] .. 'directory'
local reply = { NOW, WRITES }
for i = 6, #ARGV, 3 do
  local key, expected, partition = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local here = call('HGET', DIRECTORY, key) or ''
  if here ~= expected then
    -- A repetition of a call whose reply was lost finds its own text, and is answered like any other.
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
