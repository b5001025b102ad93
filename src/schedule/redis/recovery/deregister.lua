-- deregister: notes that an instance has stopped. It does not count as alive any more, and inspect.lua
-- forgets it.
--
-- KEYS   meta of each of some partitions
-- ARGV   1 the instance
-- Reply  {}

for _, META in ipairs(KEYS) do
  redis.call('HSET', META, 'at:' .. ARGV[1], 0)
  redis.call('HDEL', META, 'claims:' .. ARGV[1])
end
return {}
