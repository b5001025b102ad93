-- renew: renews a lease that is in force, so that it lasts for its full time from now.
--
-- ARGV   6 how long it lasts from now, ms
--        7 key
--        8 lane
--        9 expiry of the lease
-- Reply  now, writes, then the new expiry, or 0 if the lease is not the one in force
-- Keeps  a lost lease changes nothing. A lease keeps its number (the last three digits) when it is renewed.
--        So a lease with this number and a later expiry is the same lease, renewed by a call whose reply
--        was lost.

allow_when_full()
local lost = check_in()
if lost then return lost end

local lease_ms, key, lane, expiry = tonumber(ARGV[6]), ARGV[7], ARGV[8], ARGV[9]
local held = tonumber(lease_of(key, lane) or call('ZSCORE', LEASES, key) or nil)
local wanted = tonumber(expiry)
local same_number = held and held % 1000 == wanted % 1000
if not same_number or held < wanted or (held > wanted and held - lease_ms * 1000 >= wanted) then
  return { NOW, WRITES, 0 }
end
local renewed = text_of((NOW + lease_ms) * 1000 + wanted % 1000)
call('ZADD', LEASES, renewed, key)
call_on_lane('ZADD', LEASED .. lane, renewed, key)
return { NOW, WRITES, renewed }
