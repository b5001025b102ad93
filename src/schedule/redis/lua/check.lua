-- check: whether this server accepts changes and the keys have the right types. `check_in` makes a
-- harmless change, which also checks the type of `meta`. Each command below fails if another client has
-- overwritten its key with another type.
--
-- Reply  now, writes

local lost = check_in()
if lost then return lost end

call('HEXISTS', JOBS, '')
call('HEXISTS', CHANGING, '')
call('HEXISTS', SETTINGS, '')
call('HEXISTS', ARGV[2] .. 'directory', '')
for _, key in ipairs({ LANES, LEASES, DEAD, ENDED }) do call('ZSCORE', key, '') end
return { NOW, WRITES }
