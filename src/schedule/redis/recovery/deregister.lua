-- deregister: notes that an instance has stopped. It does not count as alive any more, and inspect.lua
-- forgets it.
--
-- KEYS   meta of each of some partitions
-- ARGV   1 the instance
-- Reply  {}
-- Keeps  where the instance was never at work, nothing is changed: that may be of another journal.

for _, META in ipairs(KEYS) do
  redis.call('HDEL', META, 'claims:' .. ARGV[1]) -- a full server refuses nothing after this
  if redis.call('HEXISTS', META, 'at:' .. ARGV[1]) == 1 then redis.call('HSET', META, 'at:' .. ARGV[1], 0) end
end
return {}
