-- loading: notes that a partition is still being loaded, or is whole now.
--
-- KEYS   1 meta
--        2 rebuild
-- ARGV   1 the instance that calls
--        2 how long it may continue without a report, ms; '' if it is done
--        3 the generation that it loads
-- Reply  {1}, or {0} if the instance must inspect again: another instance has taken over, the generation
--        has changed, or something more was found missing meanwhile

local META, REBUILD = KEYS[1], KEYS[2]
local call = redis.call

call('HDEL', META, '') -- a full server refuses nothing after this
if call('GET', REBUILD) ~= ARGV[1] or call('HGET', META, 'generation') ~= ARGV[3]
    or call('HGET', META, 'state') ~= 'loading' then
  return { 0 }
end
if ARGV[2] ~= '' then
  call('PEXPIRE', REBUILD, ARGV[2])
  return { 1 }
end
local again = call('HDEL', META, 'again') == 1
call('HSET', META, 'state', again and 'damaged' or 'whole')
call('DEL', REBUILD)
return { again and 0 or 1 }
