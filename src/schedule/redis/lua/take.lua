-- take: leases one particular pending entry, due or not and whatever its lane's cap.
--
-- ARGV   4 how long the lease lasts, ms
--        5 key
-- Reply  now, then 0 missing | 1, expiry, envelope: leased | 2 in flight | 3, envelope: ended
-- Keeps  inflight counts the leases of each lane.

local lease_ms, key = tonumber(ARGV[4]), ARGV[5]
local envelope = call('HGET', JOBS, key)
if not envelope then return { NOW, 0 } end
if string.byte(envelope, STATE) ~= 0 then return { NOW, 3, envelope } end
if call('ZSCORE', LEASES, key) then return { NOW, 2 } end
local lane = lane_of(envelope)
go_ahead_when_full()
call('HINCRBY', INFLIGHT, lane, 1)
call('ZADD', LEASES, NOW + lease_ms, key)
call('ZREM', LANE .. lane, key)
place(lane, 0)
return { NOW, 1, NOW + lease_ms, envelope }
