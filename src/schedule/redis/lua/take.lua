-- take: leases one particular pending entry, due or not and whatever its lane's cap.
--
-- ARGV   6 how long the lease lasts, ms
--        7 key
-- Reply  now, mark, then 0 missing | 1, expiry, envelope: leased | 2 in flight | 3, envelope: ended
-- Keeps  inflight counts the leases of each lane.

go_ahead_when_full()
local lost = check_in()
if lost then return lost end

local lease_ms, key = tonumber(ARGV[6]), ARGV[7]
local envelope = call('HGET', JOBS, key)
if not envelope then return { NOW, MARK, 0 } end
if string.byte(envelope, STATE) ~= 0 then return { NOW, MARK, 3, envelope } end
if call('ZSCORE', LEASES, key) then return { NOW, MARK, 2 } end
local lane = lane_of(envelope)
call('HINCRBY', INFLIGHT, lane, 1)
call('ZADD', LEASES, NOW + lease_ms, key)
call('ZREM', LANE .. lane, key)
place(lane, 0)
return { NOW, MARK, 1, NOW + lease_ms, envelope }
