-- revive: turns a remembered dead entry into a pending one, or into a cancelled one.
--
-- ARGV   4 channel that wakes the other instances
--        5 key
--        6 'again' or 'remember'
--        7 when it is due, or when it ended
--        8 its new header, or the envelope to remember
-- Reply  now, then 0 missing | the envelope as it was before
-- Keeps  an entry that is not dead stays as it is.

local key, verb, at, bytes = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local envelope = call('HGET', JOBS, key)
if not envelope then return { NOW, 0 } end
if call('ZSCORE', DEAD, key) then
  if verb == 'again' then
    call('HSET', JOBS, key, bytes .. string.sub(envelope, HEADER_BYTES + 1))
    local lane = lane_of(envelope)
    call('ZADD', LANE .. lane, at, key)
    place(lane, 0)
    call('PUBLISH', ARGV[4], at)
  else
    call('HSET', JOBS, key, bytes)
    call('ZADD', ENDED, at, key)
  end
  call('ZREM', DEAD, key)
end
return { NOW, envelope }
