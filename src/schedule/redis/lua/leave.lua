-- leave: says that an instance has stopped; it is not taken to be alive any more.
--
-- KEYS   1 marks
-- ARGV   1 the instance
-- Reply  {}

redis.call('HDEL', KEYS[1], 'at:' .. ARGV[1])
return {}
