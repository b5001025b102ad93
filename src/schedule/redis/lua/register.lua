-- register: adds entries, each unless one of its key is here.
--
-- ARGV   6 channel that wakes the other instances
--        7 until when these are certainly new; later, the journal must be asked before they are sent:
--          one may have been put here by another instance, sent and forgotten meanwhile
--        then for each entry: key, lane, due, envelope
-- Reply  now, mark, then for each entry: 0 if it was added, else the envelope that is here and
--        whether a lease on it is out (1 or 0)
-- Keeps  an entry is in jobs and in exactly one of: its lane, leases, dead, ended.

local lost = check_in()
if lost then return lost end

local before = earliest()
local late = NOW > tonumber(ARGV[7])
local reply, touched = { NOW, MARK }, {}
for i = 8, #ARGV, 4 do
  local key, lane, due, envelope = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if late then
    local flags = bit.bor(string.byte(envelope, FLAGS), VERIFY)
    envelope = string.sub(envelope, 1, FLAGS - 1) .. string.char(flags)
      .. string.sub(envelope, FLAGS + 1)
  end
  if call('HSETNX', JOBS, key, envelope) == 1 then
    call('ZADD', LANE .. lane, due, key)
    touched[lane] = true
    reply[#reply + 1] = 0
  else
    reply[#reply + 1] = call('HGET', JOBS, key)
    reply[#reply + 1] = call('ZSCORE', LEASES, key) and 1 or 0
  end
end
for lane in pairs(touched) do
  place(lane, 0)
end
publish_if_earlier(before, ARGV[6])
return reply
