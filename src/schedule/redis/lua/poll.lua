-- poll: when there is next something to claim in each of some partitions. It only reads, and costs much less than a claim
-- that finds nothing.
--
-- KEYS   lanes, leases and meta of each partition
-- ARGV   1 now in ms, or '' for this server's own clock
--        2 the instance that calls
--        then for each partition: the highest write count of its own that it has seen there
-- Reply  for each partition, in ms: the first turn of a lane, or expiry of a lease; -1: there is none; 0: a claim must look,
--        because data was lost or something is missing, or the clock was set back since the last claim (`place_anew` in
--        claim.lua)

local INSTANCE = ARGV[2]
-- Must equal SET_BACK_MS in schedule/mod.rs.
local SET_BACK = 1000
local CLASS_US, NEVER_US = 4503599627370496, 4503599627370495 -- as in lane_turns.lua
-- The starts of the scores of the classes behind the first: CLASS_US * class.
local CLASS_FROM = { '-4503599627370496', '0', '4503599627370496' }
-- Errors, of keys that another client has overwritten with another type, are tables with `err`.
local call = redis.pcall

local NOW = tonumber(ARGV[1])
if not NOW then
  local time = call('TIME')
  NOW = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The first turn of a lane in microseconds; nil if there is none; false if that cannot be read.
local function first_turn(lanes)
  local at
  local first = call('ZRANGE', lanes, '0', '0', 'WITHSCORES')
  local class = 0
  while true do
    if first.err then return false end
    local score = tonumber(first[2] or nil)
    if not score then return at end
    local turn = score % CLASS_US
    if turn ~= NEVER_US and not (at and at <= turn) then at = turn end
    local next_class = (score - turn) / CLASS_US + 3 -- its place in CLASS_FROM
    if next_class <= class or not CLASS_FROM[next_class] then return at end
    class = next_class
    first = call('ZRANGEBYSCORE', lanes, CLASS_FROM[class], '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  end
end

local function next_of(lanes, leases, meta, seen)
  local known = call('HMGET', meta, INSTANCE, 'state', 'claimed', 'placing')
  if known.err or (tonumber(known[1] or nil) or 0) < seen or known[2] == 'damaged' or known[2] == 'restarted' then
    return 0
  end
  local claimed = tonumber(known[3] or nil)
  if known[4] or claimed and claimed > NOW + SET_BACK then return 0 end
  local at, lease = first_turn(lanes), call('ZRANGE', leases, '0', '0', 'WITHSCORES')
  if at == false or lease.err then return 0 end
  local expires = tonumber(lease[2] or nil)
  if expires and not (at and at <= expires) then at = expires end
  return at and (at - at % 1000) / 1000 or -1
end

local reply = {}
for i = 1, #KEYS, 3 do
  local n = (i + 2) / 3
  reply[n] = next_of(KEYS[i], KEYS[i + 1], KEYS[i + 2], tonumber(ARGV[2 + n]))
end
return reply
