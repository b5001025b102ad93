-- The lanes: how each is doing, and when its turn comes. Put behind common.lua in front of each script.
--
-- The state of a lane is one field of `health`, and follows the rules of domain/lane_health.rs. A lane
-- without a state has never been called, or not for an hour. The state is only an optimization: if it is
-- lost, the lane begins as an unknown one.
--
-- The score of a lane in `lanes` is its turn (in microseconds), moved by its class: the lanes of one class
-- are those with scores from CLASS_US * class to the next multiple. Classes: -2 idle, -1 busy, 0 doubtful,
-- 1 probing. So `lanes` has the classes in the order in which they are served.

local CLASS_US = 4503599627370496 -- 2^52: the scores of all classes are whole numbers that Redis keeps exactly
local IDLE, BUSY, DOUBTFUL, PROBING = -2, -1, 0, 1

-- Must equal the constants of domain/lane_health.rs.
local PROBE_AFTER, FIRST_PROBE, LONGEST_PROBE = 3, 1000, 60000
local SLOW, KEPT = 2000, 3600000
local QUICK = 500

-- A state that is otherwise unchanged is written only if its last use is older than this, in ms.
local USED_STEP = 60000

local HEALTH_FORMAT, HEALTH_BYTES = '>I4I4I4I4I4i8i8i8', 44

-- The state of a lane from its field in `health`.
local function health_from(field)
  if not field or #field ~= HEALTH_BYTES then
    return { allowed = START, failures = 0, proven = 0, answer = 0, wait = 0, at = 0, since = 0, used = 0 }
  end
  local allowed, failures, proven, answer, wait, at, since, used = struct.unpack(HEALTH_FORMAT, field)
  return { allowed = allowed, failures = failures, proven = proven, answer = answer, wait = wait, at = at,
    since = since, used = used }
end

local function health_field(health)
  return struct.pack(HEALTH_FORMAT, health.allowed, health.failures, health.proven, health.answer,
    health.wait, health.at, health.since, health.used)
end

-- The fields of these lanes in `health`. If another client has overwritten that with another type, it is
-- removed.
local function health_fields(lanes)
  local fields = redis.pcall('HMGET', HEALTH, unpack(lanes))
  if not fields.err then return fields end
  call('UNLINK', HEALTH)
  return call('HMGET', HEALTH, unpack(lanes))
end

-- How many leases a lane may have.
local function limit_of(health)
  if health.wait > 0 then return 1 end
  return math.min(health.allowed, CAP)
end

local function class_of(health, lease_count)
  if health.wait > 0 then return PROBING end
  if health.proven == 0 or health.answer > SLOW then return DOUBTFUL end
  return lease_count > 0 and BUSY or IDLE
end

-- Takes in the report (as settle.lua gets it) of a lease that was given at `leased_ms`.
local function observe(health, report, leased_ms)
  if report == 'now' then
    if health.wait > 0 then health.at = NOW end
    return
  end
  local took = tonumber(report)
  if took then
    if took < QUICK then took = 0 end
    health.allowed = health.wait > 0 and START or math.min(health.allowed + 1, CAP)
    health.answer = health.proven == 1 and math.floor((3 * health.answer + took) / 4) or took
    health.proven, health.failures, health.since, health.wait, health.at = 1, 0, 0, 0, 0
    return
  end
  if health.failures == 0 then health.since = NOW end
  health.failures = math.min(health.failures + 1, 65535)
  health.proven = 0
  health.allowed = math.max(math.floor(health.allowed / 2), 1)
  if health.wait > 0 then
    -- Calls from before the lane was probing still end; they are no probes.
    if leased_ms >= health.at then
      health.wait = math.min(2 * health.wait, LONGEST_PROBE)
      health.at = NOW + health.wait
    end
  elseif health.failures >= PROBE_AFTER then
    health.wait = FIRST_PROBE
    health.at = NOW + health.wait
  end
end

-- Forgets the states of some lanes that were not called for long.
local function forget_unused()
  local some = redis.pcall('HRANDFIELD', HEALTH, 4, 'WITHVALUES')
  if some.err then return end
  for i = 1, #some, 2 do
    if health_from(some[i + 1]).used < NOW - KEPT then call('HDEL', HEALTH, some[i]) end
  end
end

-- The turn of a lane (in microseconds) and its class, from its score in `lanes`.
local function turn_of(score)
  local class = math.floor(score / CLASS_US)
  return score - class * CLASS_US, class
end

-- The range of the scores of a class up to an instant.
local function range_of(class, until_us)
  local base = class * CLASS_US
  return text_of(base), '(' .. text_of(base + until_us)
end

-- The turn of the first lane of a class, in microseconds, or nil.
local function first_turn(class)
  local from, to = range_of(class, CLASS_US)
  local first = call('ZRANGEBYSCORE', LANES, from, to, 'WITHSCORES', 'LIMIT', 0, 1)
  return first[2] and turn_of(tonumber(first[2]))
end

-- Gives a lane its score in `lanes` after its entries, leases or state changed. A lane whose turn has come
-- keeps its score, unless it was served or has another class now. Any other gets its earliest due time, but
-- at least `floor` (in microseconds), and not before its next probe; or the earliest expiry of its leases,
-- if that is earlier or the lane is full.
-- `how` says what was done: 'served' by a claim, 'settled' if leases of it have ended and none was given.
-- `health`, `lease_count` (the number of its leases) and `expires` (the first expiry) may be nil if not
-- known.
local function place_lane(lane, floor, how, health, lease_count, expires)
  health = health or health_from(health_fields({ lane })[1])
  local head = call_on_lane('ZRANGE', LANE .. lane, 0, 0, 'WITHSCORES')
  lease_count = lease_count or call_on_lane('ZCARD', LEASED .. lane)
  local full = lease_count > 0 and lease_count >= limit_of(health)
  local base = class_of(health, lease_count) * CLASS_US
  local at
  if head[1] and not full then
    at = math.max(tonumber(head[2]), health.at) * 1000
    if how ~= 'served' and at < NEXT_US then
      local current = tonumber(call('ZSCORE', LANES, lane) or nil)
      if current and current >= base and current < base + NEXT_US then return end
    end
    if at < floor then at = floor end
  end
  -- If the lane's turn has come, the claim that serves it checks its leases.
  if lease_count > 0 and not (at and at < NEXT_US) then
    -- Its score is no later than the first expiry of the leases it had, so no look-up is needed.
    if how == 'settled' and not at and call('ZSCORE', LANES, lane) then return end
    if not expires then
      local lease = call('ZRANGE', LEASED .. lane, 0, 0, 'WITHSCORES')
      expires = tonumber(lease[2] or nil)
    end
    expires = expires and ms_of(expires) * 1000
    if expires and not (at and at <= expires) then at = expires end
  end
  if at then
    call('ZADD', LANES, text_of(base + at), lane)
  else
    call('ZREM', LANES, lane)
  end
end

-- Ends a lease that has expired, and returns the entry to its set. An entry that was claimed for an
-- attempt gets the flag INTERRUPTED with the start of its lease, which lasted `lease_ms`. The result is the
-- size of the entry in bytes.
local function return_lease(key, expiry, lease_ms)
  local envelope = call('HGET', JOBS, key)
  local by_hand = call('HDEL', CHANGING, key) == 1
  if not readable(envelope) then
    if by_hand then note_unknown_change(key) else note_damage() end
    call('ZREM', LEASES, key)
    return 0
  end
  local lane = lane_of(envelope)
  if is_pending(envelope) then
    if by_hand then
      envelope = with_flags(envelope, VERIFY, FENCE)
    else
      envelope = with_flags(envelope, VERIFY, INTERRUPTED)
      envelope = string.sub(envelope, 1, ENDED_AT - 1)
        .. struct.pack('>i8', ms_of(expiry) - lease_ms) .. string.sub(envelope, ENDED_AT + 8)
    end
    call('HSET', JOBS, key, envelope)
  end
  return_entry(key, envelope)
  call_on_lane('ZREM', LEASED .. lane, key)
  call('ZREM', LEASES, key)
  place_lane(lane, NOW_US)
  return #envelope
end

-- When the turn of the first lane comes, in ms, or nil. Lanes of the classes in `used_up` that are due now do
-- not count.
local function earliest(used_up)
  local at
  for class = IDLE, PROBING do
    local first = first_turn(class)
    if first and first < NEXT_US and used_up and used_up[class] then first = nil end
    if first and not (at and at <= first) then at = first end
  end
  return at and ms_of(at)
end

-- Wakes the other instances if the first turn is now earlier than `before`.
local function publish_if_earlier(before, channel)
  local after = earliest()
  if after and (not before or after < before) then
    call('PUBLISH', channel, after)
  end
end

-- When there is next something to claim, in ms: a lane's turn, or a lease that expires. -1 for never. Lanes of
-- the classes in `used_up` that are due now do not count.
local function next_claim(used_up)
  local at = earliest(used_up)
  local lease = call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')
  local expires = lease[2] and ms_of(tonumber(lease[2]))
  if expires and not (at and at <= expires) then at = expires end
  return at or -1
end
