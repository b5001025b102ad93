-- deregister: notes that an instance has stopped. It does not count as alive any more, and inspect.lua
-- forgets it.
--
-- KEYS   1 meta
-- ARGV   1 the instance
-- Reply  {}

redis.call('HSET', KEYS[1], 'at:' .. ARGV[1], 0)
return {}
