-- check: whether changes can be made here, by making one that nobody minds, and whether the keys hold
-- what they should.
--
-- Reply  now, mark

local lost = check_in()
if lost then return lost end

call('HEXISTS', JOBS, '')
call('HEXISTS', CHANGING, '')
for _, key in ipairs({ LANES, LEASES, DEAD, ENDED }) do call('ZSCORE', key, '') end
return { NOW, MARK }
