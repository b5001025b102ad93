-- advance: makes one pending entry due at once, as an attempt by hand.
--
-- ARGV   6 channel that wakes the other instances
--        7 key
-- Reply  now, mark, then 0 missing | envelope, whether a lease on it is out (1 or 0)
-- Keeps  one that is due already, in flight or ended stays as it is.

local lost = check_in()
if lost then return lost end

local key = ARGV[7]
local envelope = call('HGET', JOBS, key)
if not envelope then return { NOW, MARK, 0 } end
if call('ZSCORE', LEASES, key) then return { NOW, MARK, envelope, 1 } end
if string.byte(envelope, STATE) == 0 and next_due(envelope) > NOW then
  envelope = string.sub(envelope, 1, RETRY_AT - 1) .. struct.pack('>i8', NOW)
    .. string.sub(envelope, RETRY_AT + 8)
  call('HSET', JOBS, key, envelope)
  local lane = lane_of(envelope)
  call('ZADD', LANE .. lane, NOW, key)
  place(lane, 0)
  call('PUBLISH', ARGV[6], NOW)
end
return { NOW, MARK, envelope, 0 }
