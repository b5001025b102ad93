-- clear: removes a bounded part of the data of a partition. When nothing is left, loading may begin.
--
-- KEYS   as for common.lua, and
--       11 rebuild  STRING  which instance loads it
-- ARGV   1 prefix of all keys of this partition
--        2 the instance that calls
--        3 how long it may load without a report, ms
--        4 the generation that it loads
--        5 maximum number of lanes to remove
-- Reply  'lost': another instance has taken over | 'more' | 'done'
-- Keeps  the settings of lanes stay. Every lane with entries is in `lanes`. If a lane was lost from there, what is left
--        of it is found when a claim visits that lane again. A late call, after loading has begun, removes nothing.

local JOBS, LANES, LEASES, CHANGING, DEAD, ENDED, META, REBUILD =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[11]
local PREFIX, instance, hold_ms, generation, most = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local call = redis.call

if call('GET', REBUILD) ~= instance or call('HGET', META, 'generation') ~= generation then
  return { 'lost' }
end
call('PEXPIRE', REBUILD, hold_ms)
if call('HGET', META, 'state') ~= 'clearing' then return { 'done' } end
local lanes = call('ZRANGE', LANES, 0, most - 1)
for _, lane in ipairs(lanes) do
  call('UNLINK', PREFIX .. 'lane:' .. lane, PREFIX .. 'leased:' .. lane, PREFIX .. 'turns:' .. lane,
    PREFIX .. 'waits:' .. lane)
  call('ZREM', LANES, lane)
end
if lanes[1] then return { 'more' } end
call('UNLINK', JOBS, LEASES, CHANGING, DEAD, ENDED, PREFIX .. 'contents')
call('HSET', META, 'state', 'loading')
return { 'done' }
