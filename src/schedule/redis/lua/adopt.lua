-- adopt: ties this partition to its owner, unless it belongs to another.
--
-- KEYS   1 jobs, 2 epoch
-- ARGV   1 owner: whose data this is
-- Reply  'ours' | 'new': there was nothing, it is ours now | 'orphan': data without an owner
--        | the other owner

local owner = redis.call('GET', KEYS[2])
if owner == ARGV[1] then return 'ours' end
if owner then return owner end
if redis.call('EXISTS', KEYS[1]) == 1 then return 'orphan' end
redis.call('SET', KEYS[2], ARGV[1])
return 'new'
