-- revive: turns a remembered dead entry into a pending one, or into a cancelled one.
--
-- ARGV   6 channel that wakes the other instances
--        7 key
--        8 'again' or 'remember'
--        9 when it is due, or when it ended
--       10 its new header, or the envelope to remember
-- Reply  now, mark, then 0 missing | the envelope as it was before
-- Keeps  an entry that is not dead stays as it is.

local lost = check_in()
if lost then return lost end

local key, verb, at, bytes = ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local envelope = call('HGET', JOBS, key)
if not envelope then return { NOW, MARK, 0 } end
if call('ZSCORE', DEAD, key) then
  if verb == 'again' then
    call('HSET', JOBS, key, bytes .. string.sub(envelope, HEADER_BYTES + 1))
    local lane = lane_of(envelope)
    call('ZADD', LANE .. lane, at, key)
    place(lane, 0)
    call('PUBLISH', ARGV[6], at)
  else
    call('HSET', JOBS, key, bytes)
    call('ZADD', ENDED, at, key)
  end
  call('ZREM', DEAD, key)
end
return { NOW, MARK, envelope }
