-- clear: removes a bounded part of what a partition holds; when nothing is left, lets it be filled.
--
-- KEYS   as for the prelude, and
--        8 rebuild  STRING  which instance fills it
-- ARGV   1 prefix of the lanes' own ZSETs
--        2 the instance that calls
--        3 how long it may fill without a sign of life, ms
--        4 the highest mark of its own that it has seen
--        5 most lanes to remove
-- Reply  'lost': another instance has taken over | 'more' | 'done', generation, mark, and how long
--        ago, ms, something was found to be lost (-1: never)
-- Keeps  every lane that holds something is among the lanes or has leases out, so none is left over.
--        A call that comes late, when filling has begun, removes nothing.

local JOBS, LANES, LEASES, INFLIGHT, DEAD, ENDED, MARKS, REBUILD =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local LANE, instance, hold_ms, seen, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local call = redis.call

if call('GET', REBUILD) ~= instance then return { 'lost' } end
call('PEXPIRE', REBUILD, hold_ms)
if call('HGET', MARKS, 'state') ~= 'clearing' then
  local mark = call('HGET', MARKS, instance)
  if not mark then return { 'lost' } end
  return { 'done', call('HGET', MARKS, 'generation'), mark, '0' }
end
local lanes = call('ZRANGE', LANES, 0, most - 1)
for _, lane in ipairs(lanes) do
  call('UNLINK', LANE .. lane)
  call('ZREM', LANES, lane)
end
if lanes[1] then return { 'more' } end
-- One step of a scan may find nothing although there is something: where much was removed before.
local cursor, full = '0', {}
repeat
  local found = call('HSCAN', INFLIGHT, cursor, 'COUNT', most)
  cursor, full = found[1], found[2]
until full[1] or cursor == '0'
for i = 1, #full, 2 do
  call('UNLINK', LANE .. full[i])
  call('HDEL', INFLIGHT, full[i])
end
if full[1] then return { 'more' } end
call('UNLINK', JOBS, LEASES, DEAD, ENDED)
local time = call('TIME')
local mark = string.format('%d', math.max(time[1] * 1000000 + time[2], seen + 1))
call('HSET', MARKS, 'state', 'filling', instance, mark)
local lost = call('HEXISTS', MARKS, 'lost') == 1
return { 'done', call('HGET', MARKS, 'generation'), mark, lost and '0' or '-1' }
