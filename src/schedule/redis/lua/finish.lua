-- finish: says that a partition is being filled still, or is whole now.
--
-- KEYS   1 marks
--        2 rebuild
-- ARGV   1 the instance that calls
--        2 how long it may go on without a sign of life, ms; '' if it is done
--        3 the generation that it fills
-- Reply  {1}, or {0} if another instance has taken over, or this one fills another generation by now

local MARKS, REBUILD = KEYS[1], KEYS[2]
redis.call('HDEL', MARKS, '') -- a full server refuses nothing after this
if redis.call('GET', REBUILD) ~= ARGV[1] or redis.call('HGET', MARKS, 'generation') ~= ARGV[3] then
  return { 0 }
end
if ARGV[2] ~= '' then
  redis.call('PEXPIRE', REBUILD, ARGV[2])
else
  redis.call('HSET', MARKS, 'state', 'whole')
  redis.call('DEL', REBUILD)
end
return { 1 }
