-- replace: removes a bounded part of the data of a partition that belongs to this journal, but was made for another number of
-- partitions. When nothing is left, the partition belongs to this owner, also if this number does not have it: so a server
-- with the other number that goes on finds that out.
--
-- KEYS   as for common.lua, and
--       11 rebuild  STRING  which instance loads it
-- ARGV   1 now in ms, or '' for this server's own clock
--        2 prefix of all keys of this partition
--        3 the owner that the data should have
--        4 what the owners of the data of this journal begin with
--        5 how long after its last claim or heartbeat an instance counts as alive, ms
--        6 maximum number of lanes to remove
--        7 'look': remove nothing | 'other': remove what has another owner | 'any': also what has this one, and take what is
--          empty
-- Reply  'nothing': there is nothing to remove | 'foreign', the owner: it is of another journal |
--        'alive', the owner, for how long at least, ms: an instance with another number is at work here, or attempts may be in
--        flight | 'found': there is data to remove, and nobody is at work | 'more' | 'done'
-- Keeps  data with which an instance is at work is never removed. The write counts go first: an instance that goes on here
--        after that finds a loss, and loads everything again.

local JOBS, LANES, LEASES, META, EPOCH, REBUILD = KEYS[1], KEYS[2], KEYS[3], KEYS[7], KEYS[8], KEYS[11]
local PREFIX, own, same_data, alive_ms, most, mode = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local call = redis.call
local LONGEST_LEASE_MS = 600000 -- one that ends later is of a clock that was set back since

call('HDEL', META, '') -- a full server refuses nothing after this

local owner = call('GET', EPOCH) or call('HGET', META, 'owner')
if not owner then
  if mode == 'any' and call('EXISTS', JOBS, LANES) == 0 then call('SET', EPOCH, own) end
  return { 'nothing' }
end
if owner == own and mode ~= 'any' then return { 'nothing' } end
if string.sub(owner, 1, #same_data) ~= same_data then return { 'foreign', owner } end

local NOW = tonumber(ARGV[1])
if not NOW then
  local time = call('TIME')
  NOW = time[1] * 1000 + math.floor(time[2] / 1000)
end
local until_ms = 0
local fields = call('HGETALL', META)
for i = 1, #fields, 2 do
  if string.sub(fields[i], 1, 3) == 'at:' then
    local at = tonumber(fields[i + 1]) or 0
    if at > NOW + alive_ms then
      -- The clock was set back since. An instance at work soon says so again.
      at = NOW
      call('HSET', META, fields[i], string.format('%d', at))
    end
    until_ms = math.max(until_ms, at + alive_ms)
  end
end
local latest = string.format('%d', (NOW + LONGEST_LEASE_MS) * 1000)
local last = call('ZREVRANGEBYSCORE', LEASES, latest, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
until_ms = math.max(until_ms, tonumber(last[2] or 0) / 1000)
if until_ms > NOW then
  if owner == own then return { 'nothing' } end
  return { 'alive', owner, string.format('%d', math.ceil(until_ms - NOW)) }
end
if mode == 'look' then return { 'found' } end

call('UNLINK', META, REBUILD)
call('SET', EPOCH, owner)
local lanes = call('ZRANGE', LANES, 0, most - 1)
for _, lane in ipairs(lanes) do
  call('UNLINK', PREFIX .. 'lane:' .. lane, PREFIX .. 'leased:' .. lane, PREFIX .. 'turns:' .. lane,
    PREFIX .. 'waits:' .. lane)
  call('ZREM', LANES, lane)
end
if lanes[1] then return { 'more' } end
for i = 1, 10 do
  if KEYS[i] ~= EPOCH then call('UNLINK', KEYS[i]) end
end
call('UNLINK', PREFIX .. 'contents', PREFIX .. 'outages')
call('SET', EPOCH, own)
return { 'done' }
