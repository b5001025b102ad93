-- renew: lets a lease that is in force begin anew.
--
-- ARGV   4 how long it lasts from now, ms
--        5 key
--        6 expiry of the lease
-- Reply  now, then the new expiry, or -1 if the lease is not the one in force
-- Keeps  a lost lease changes nothing.

local lease_ms, key, expiry = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local in_force = call('ZSCORE', LEASES, key)
if not in_force or tonumber(in_force) ~= expiry then return { NOW, -1 } end
call('ZADD', LEASES, NOW + lease_ms, key)
return { NOW, NOW + lease_ms }
