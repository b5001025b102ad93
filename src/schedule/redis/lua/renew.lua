-- renew: lets a lease that is in force begin anew.
--
-- ARGV   6 how long it lasts from now, ms
--        7 key
--        8 expiry of the lease
-- Reply  now, mark, then the new expiry, or -1 if the lease is not the one in force
-- Keeps  a lost lease changes nothing. One that ends later and was given while this one was in force is
--        this one renewed, by a call whose reply got lost.

go_ahead_when_full()
local lost = check_in()
if lost then return lost end

local lease_ms, key, expiry = tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8])
local held = tonumber(call('ZSCORE', LEASES, key) or nil)
if not held or held < expiry or (held > expiry and held - lease_ms >= expiry) then
  return { NOW, MARK, -1 }
end
call('ZADD', LEASES, NOW + lease_ms, key)
return { NOW, MARK, NOW + lease_ms }
