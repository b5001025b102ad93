-- clear: removes a bounded part of what a partition holds; when nothing is left, lets it be loaded.
--
-- KEYS   as for common.lua, and
--        9 rebuild  STRING  which instance loads it
-- ARGV   1 prefix of all keys of this partition
--        2 the instance that calls
--        3 how long it may load without a sign of life, ms
--        4 the generation that it loads
--        5 most lanes to remove
-- Reply  'lost': another instance has taken over | 'more' | 'done'
-- Keeps  every lane that holds something is among the lanes. What is left over of one that was lost from
--        there is found when it comes up. A call that comes late, when loading has begun, removes nothing.

local JOBS, LANES, LEASES, CHANGING, DEAD, ENDED, META, REBUILD =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[9]
local PREFIX, instance, hold_ms, generation, most = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local call = redis.call

if call('GET', REBUILD) ~= instance or call('HGET', META, 'generation') ~= generation then
  return { 'lost' }
end
call('PEXPIRE', REBUILD, hold_ms)
if call('HGET', META, 'state') ~= 'clearing' then return { 'done' } end
local lanes = call('ZRANGE', LANES, 0, most - 1)
for _, lane in ipairs(lanes) do
  call('UNLINK', PREFIX .. 'lane:' .. lane, PREFIX .. 'leased:' .. lane)
  call('ZREM', LANES, lane)
end
if lanes[1] then return { 'more' } end
call('UNLINK', JOBS, LEASES, CHANGING, DEAD, ENDED)
call('HSET', META, 'state', 'loading')
return { 'done' }
