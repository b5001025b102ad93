-- check: whether changes can be made here, by making one that nobody minds, and whether the keys that
-- registering, claiming and settling work with are of the types they should be of: `check_in` finds that
-- of `meta`, and each of the others answers with an error if somebody has overwritten it.
--
-- Reply  now, writes

local lost = check_in()
if lost then return lost end

call('HEXISTS', JOBS, '')
call('HEXISTS', CHANGING, '')
call('HEXISTS', ARGV[2] .. 'directory', '')
for _, key in ipairs({ LANES, LEASES, DEAD, ENDED }) do call('ZSCORE', key, '') end
return { NOW, WRITES }
