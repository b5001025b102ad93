-- restore: puts entries back that the journal holds pending.
--
-- ARGV   6 channel that wakes the other instances
--        then for each entry: key, lane, due, envelope
-- Reply  now, mark, how many were missing (or waited where nothing brings them up), how many stood
--        elsewhere
-- Keeps  a lease that is out stays out. What stood elsewhere has the journal asked before it is
--        sent, so it does no harm if the journal was read before the entry's latest step.

local lost = check_in()
if lost then return lost end

local before = earliest()
local missing, moved, touched, added = 0, 0, {}, {}
for i = 7, #ARGV, 4 do
  local key, lane, due, envelope = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if call('HSETNX', JOBS, key, envelope) == 1 then
    missing = missing + 1
    local list = added[lane] or {}
    list[#list + 1], list[#list + 2] = due, key
    added[lane], touched[lane] = list, true
  elseif not call('ZSCORE', LEASES, key) then
    local held = call('HGET', JOBS, key)
    if string.byte(held, STATE) == 0 then
      local stranded = not comes_up(key, lane)
      local progress = string.sub(held, SERIES, RETRY_AT + 7)
      if stranded or progress ~= string.sub(envelope, SERIES, RETRY_AT + 7) then
        if stranded then missing = missing + 1 else moved = moved + 1 end
        call('HSET', JOBS, key, envelope)
        call('ZADD', LANE .. lane, due, key)
        touched[lane] = true
      end
    end
  end
end
-- One call a lane: a million entries are put back this way, and each call costs more than its work.
for lane, list in pairs(added) do
  call('ZADD', LANE .. lane, unpack(list))
end
for lane in pairs(touched) do
  place(lane, 0)
end
publish_if_earlier(before, ARGV[6])
return { NOW, MARK, missing, moved }
