-- present: which keys have an entry or a lease here. Only reads.
--
-- ARGV   6 onwards: keys
-- Reply  now, then for each key: 1 if it has, else 0

local reply = { NOW }
for i = 6, #ARGV do
  local here = call('HEXISTS', JOBS, ARGV[i]) == 1 or call('ZSCORE', LEASES, ARGV[i])
  reply[#reply + 1] = here and 1 or 0
end
return reply
