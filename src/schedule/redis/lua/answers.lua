-- answers: whether this server has the partition and accepts changes. The change is none, and a full server accepts it, as it
-- accepts claims, which make it less full. While the slot of the partition is moved, this is refused as all other scripts are.
--
-- KEYS   as for common.lua
-- Reply  1

redis.call('HDEL', KEYS[7], '')
return 1
