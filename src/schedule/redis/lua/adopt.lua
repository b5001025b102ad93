-- adopt: ties this partition to its owner, unless it belongs to another.
--
-- KEYS   1 epoch
-- ARGV   1 owner: whose data this is
-- Reply  'ours' | 'new': there was no owner, it is ours now | the other owner
-- Keeps  an owner is never replaced. Data without one is what came after a flush, from the server
--        that had been its owner.

local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] then return 'ours' end
if owner then return owner end
redis.call('SET', KEYS[1], ARGV[1])
return 'new'
