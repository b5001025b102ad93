-- The lanes: how each is doing, and its settings. Put behind common.lua in front of each script.
--
-- The state of a lane is one field of `health`, and follows the rules of domain/lane_health.rs. A lane
-- without a state has never been called, or not for long and has no entries. The state is only an optimization: if it
-- is lost, the lane begins as an unknown one.
--
-- The settings of a lane follow domain/lane_settings.rs. In `settings` they are a text: the largest number of leases
-- and the calls per 1,000 seconds (either may be empty), 1 or 0 for held or not, then what configure_lanes.lua gets
-- about that. The field `number` says up to which change of the journal the settings are here; it ends with
-- `loading` if the journal had more. It is in the same key, so whoever loses the settings loses it too.

-- The classes, in the order in which they are served: see lane_turns.lua.
local IDLE, BUSY, DOUBTFUL, PROBING = -2, -1, 0, 1

-- Must equal the constants of domain/lane_health.rs.
local PROBE_AFTER, FIRST_PROBE, LONGEST_PROBE = 3, 1000, 30000
local SLOW, KEPT, KEPT_UNACKNOWLEDGED, KEPT_FAILING = 2000, 3600000, 86400000, 604800000
local QUICK = 500
-- The numbers of outcomes from this on are those of calls that were not acknowledged: see CallOutcome::to_number.
local UNACKNOWLEDGED = 2000
-- Must equal BURST_US of domain/call_rate.rs.
local BURST_US = 100000

-- A report has the number of an outcome beside the time: see settle.lua.
local OUTCOMES = 16384

-- A state that is otherwise unchanged is written only if its last use is older than this, in ms.
local USED_STEP = 60000

local HEALTH_FORMAT, HEALTH_BYTES = '>I4I4I4I4I4i8i8i8i8I4i8', 64
-- A lane that was held or probed has its last pauses behind that: when it was held from and until, and when it was
-- probed from and until, in ms; 0 for never.
local PAUSES_FORMAT, PAUSES_BYTES = '>i8i8i8i8', 32

-- Where a state as an array has its items: the same order as in the field. An array costs a tenth of a table with
-- names. Besides these, a state has by name: `pauses`; `cap`, `held`, `interval` and `tolerance` from the settings of
-- its lane; and `is_changed`. What is nil is not there, false or the default.
local ALLOWED, FAILURES, PROVEN, ANSWER, WAIT, AT, SINCE, USED, ARRIVAL, OUTCOME, OUTCOME_AT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11

-- The state of a lane from its field in `health`.
local function health_from(field)
  local length = field and #field
  if length == HEALTH_BYTES then return { struct.unpack(HEALTH_FORMAT, field) } end
  if length ~= HEALTH_BYTES + PAUSES_BYTES then return { START, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 } end
  local health = { struct.unpack(HEALTH_FORMAT, field) }
  health.pauses = string.sub(field, HEALTH_BYTES + 1)
  return health
end

local function health_field(health)
  return struct.pack(HEALTH_FORMAT, unpack(health, 1, OUTCOME_AT)) .. (health.pauses or '')
end

-- How many leases a lane may have by its settings.
local function cap_of(health)
  return health.cap or CAP
end

-- Adds a pause that ends now to those of a lane. Follows `Pause::then` of domain/deferral.rs.
local function pauses_with(pauses, held_from, probed_from)
  local a, b, c, d = 0, 0, 0, 0
  if pauses then a, b, c, d = struct.unpack(PAUSES_FORMAT, pauses) end
  local function from_of(before, ended, from)
    if ended > 0 and from - ended < ended - before then return math.min(before, from) end
    return from
  end
  if held_from then a, b = from_of(a, b, held_from), NOW end
  if probed_from then c, d = from_of(c, d, probed_from), NOW end
  return struct.pack(PAUSES_FORMAT, a, b, c, d)
end

-- The fields of these lanes in `health`. If another client has overwritten that with another type, it is
-- removed.
local function health_fields(lanes)
  local fields = redis.pcall('HMGET', HEALTH, unpack(lanes))
  if not fields.err then return fields end
  call('UNLINK', HEALTH)
  return call('HMGET', HEALTH, unpack(lanes))
end

-- Whether any lane has settings; nil if this script has not looked yet.
local any_settings

-- Whether any lane has settings. If another client has overwritten `settings` with another type, it is removed; then it
-- counts as lost.
local function has_settings()
  if any_settings == nil then
    local fields = redis.pcall('HLEN', SETTINGS)
    if type(fields) == 'table' then
      call('UNLINK', SETTINGS)
      fields = 0
    end
    any_settings = fields > 1
  end
  return any_settings
end

-- Up to which change the settings are here, nil if they are lost; whether these are all that the journal had; and whether
-- they were compared with it in this generation of the data (`inspect.lua`): what was set back to an older copy lacks the
-- changes after that. After a restart, before anybody has inspected the data, it is not known whether it was set back.
local function settings_number()
  local text = redis.pcall('HGET', SETTINGS, 'number')
  if type(text) == 'table' then
    call('UNLINK', SETTINGS)
    text = false
  end
  if not text then return nil, false, false end
  local is_complete = not string.find(text, 'loading', 1, true)
  local known = call('HMGET', META, 'settings', 'generation', 'state')
  local is_confirmed = is_complete and known[1] == known[2] and known[3] ~= 'restarted'
  return tonumber(string.match(text, '^%d+')), is_complete, is_confirmed
end

-- The settings of a lane as text, or false.
local function settings_of(lane)
  return has_settings() and call('HGET', SETTINGS, lane)
end

-- Bounds how far ahead the next call and the next probe of a lane are: as far as calls move the one, and as the other
-- waits. If the clock was set back since, the lane would get nothing until the clock shows the former time again. The bounds
-- are written at once: counted from the time of each script, they would never come nearer. Follows `CallRate::bounded` of
-- domain/call_rate.rs and `LaneHealth::bound_probe` of domain/lane_health.rs.
local function bound_instants(lane, health)
  local is_ahead = false
  if health.interval then
    local furthest = NOW_US + BARE_EARLY * 1000 + health.tolerance + health.interval
    if health[ARRIVAL] > furthest then health[ARRIVAL], is_ahead = furthest, true end
  end
  if health[AT] > NOW + health[WAIT] then health[AT], is_ahead = NOW + health[WAIT], true end
  if is_ahead then call('HSET', HEALTH, lane, health_field(health)) end
end

-- The state of a lane from its field in `health`, with its settings. Settings that cannot be read hold it. For scripts that
-- have called `check_in`: it may write.
local function state_of(lane, field)
  local health = health_from(field)
  local text = settings_of(lane)
  if text then
    local cap, rate, held = string.match(text, '^(%d*) (%d*) ([01])')
    health.held = held ~= '0'
    health.cap = tonumber(cap or '')
    rate = tonumber(rate or '')
    if rate then
      health.interval = math.ceil(1000000000 / rate)
      health.tolerance = math.max(BURST_US - health.interval, 0)
    end
  end
  bound_instants(lane, health)
  return health
end

-- The start of the field of a lane that answers well and may have as many leases as any, as most do: up to AT. To
-- compare that costs a tenth of reading the field.
local STEADY = struct.pack('>I4I4I4I4I4i8', CAP, 0, 1, 0, 0, 0)
-- The state of every such lane, as far as its turn depends on it. Not to be changed.
local STEADY_STATE = { CAP, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0 }

local function is_steady(field)
  return field and #field == HEALTH_BYTES and string.sub(field, 1, #STEADY) == STEADY and not has_settings()
end

-- As `state_of`, for a caller that changes nothing of it unless the lane has a rate.
local function state_to_read(lane, field)
  return is_steady(field) and STEADY_STATE or state_of(lane, field)
end

-- How many calls the rate of a lane allows now.
local function calls_allowed(health)
  if not health.interval then return math.huge end
  local ahead = math.max(health[ARRIVAL], NOW_US) - NOW_US
  if ahead > health.tolerance then return 0 end
  return math.floor((health.tolerance - ahead) / health.interval) + 1
end

-- Until when the rate of a lane allows no call, in ms; 0 if it has none.
local function rate_until(health)
  if not health.interval then return 0 end
  return math.ceil((health[ARRIVAL] - health.tolerance) / 1000)
end

-- How many leases a lane may have.
local function limit_of(health)
  if health[WAIT] > 0 then return 1 end
  local allowed, cap = health[ALLOWED], health.cap or CAP
  return allowed < cap and allowed or cap
end

local function class_of(health, lease_count)
  if health[WAIT] > 0 then return PROBING end
  if health[PROVEN] == 0 or health[ANSWER] > SLOW then return DOUBTFUL end
  return lease_count > 0 and BUSY or IDLE
end

-- Takes in the report (as settle.lua gets it) of a lease that was given at `leased_ms`. `is_changed` says
-- whether the state is to be written.
local function observe(health, report, leased_ms)
  local number = tonumber(report)
  if report == 'now' then
    -- A lane that fails may be probing before the call is made.
    if health[WAIT] > 0 or health[FAILURES] > 0 then health[AT], health.is_changed = NOW, true end
    return
  end
  local outcome = number and math.abs(number) % OUTCOMES or tonumber(string.sub(report, 2))
  if outcome ~= health[OUTCOME] and outcome > 0 then
    health[OUTCOME], health[OUTCOME_AT], health.is_changed = outcome, NOW, true
  end
  if not number then return end
  if number >= 0 then
    local took = math.floor(number / OUTCOMES)
    if took < QUICK then
      took = 0
      local is_steady = health[ANSWER] == 0 and health[PROVEN] == 1 and health[FAILURES] == 0 and health[WAIT] == 0
      if is_steady and health[ALLOWED] == cap_of(health) then return end
    end
    health.is_changed = true
    if health[WAIT] > 0 then
      health.pauses = pauses_with(health.pauses, nil, health[SINCE])
      health.outage_from = health[SINCE]
    end
    health[ALLOWED] = health[WAIT] > 0 and START or math.min(health[ALLOWED] + 1, cap_of(health))
    health[ANSWER] = health[PROVEN] == 1 and math.floor((3 * health[ANSWER] + took) / 4) or took
    health[PROVEN], health[FAILURES], health[SINCE], health[WAIT], health[AT] = 1, 0, 0, 0, 0
    return
  end
  health.is_changed = true
  if health[FAILURES] == 0 then health[SINCE] = NOW end
  health[FAILURES] = math.min(health[FAILURES] + 1, 65535)
  health[PROVEN] = 0
  health[ALLOWED] = math.max(math.floor(health[ALLOWED] / 2), 1)
  -- Calls from before the lane was probing, or from before somebody asked for a call, still end. They are no probes, and
  -- what was asked for does not wait for them.
  local is_probe = leased_ms >= health[AT]
  if health[WAIT] > 0 then
    if is_probe then health[WAIT] = math.min(2 * health[WAIT], LONGEST_PROBE) end
  elseif health[FAILURES] >= PROBE_AFTER then
    health[WAIT] = FIRST_PROBE
  end
  if health[WAIT] > 0 and is_probe then health[AT] = NOW + health[WAIT] end
end

-- Notes that an outage of a lane has ended, for outages.lua. It began at `from`, or when one began that was noted
-- before and that no server has dealt with.
local function note_outage(lane, from)
  local outages = ARGV[2] .. 'outages'
  local noted = call_on_lane('HGET', outages, lane)
  local before = noted and tonumber(string.match(noted, '^%d+'))
  if before and before < from then from = before end
  call('HSET', outages, lane, text_of(from) .. ' ' .. NOW_TEXT)
end

-- Removes the turns of a lane whose entries have ended, of so many (as text) in no order. order.lua removes a turn when the
-- entry ends, but not if the server died before it, or the entry ended under another lease and no other one of its order
-- key comes after it.
local function forget_turns(lane, count)
  local turns = ARGV[2] .. 'turns:' .. lane
  local some = call_on_lane('HRANDFIELD', turns, count, 'WITHVALUES')
  for i = 1, #some, 2 do
    if is_turn_over(some[i + 1], lane) then call('HDEL', turns, some[i]) end
  end
end

-- Forgets the states of some lanes that were not called for long and have no entries, and what is left of their orders.
local function forget_unused()
  local some = redis.pcall('HRANDFIELD', HEALTH, '4', 'WITHVALUES')
  if some.err then return end
  for i = 1, #some, 2 do
    local lane, health = some[i], health_from(some[i + 1])
    local kept = health[OUTCOME] >= UNACKNOWLEDGED and KEPT_UNACKNOWLEDGED or KEPT
    if health[FAILURES] > 0 and string.sub(lane, 1, 9) == 'endpoint:' then kept = KEPT_FAILING end
    if health[USED] < NOW - kept and call('EXISTS', LANE .. lane, LEASED .. lane) == 0 then
      forget_turns(lane, '64')
      call('UNLINK', ARGV[2] .. 'waits:' .. lane)
      -- If it had more turns, the others are removed when it is its turn again.
      if call('EXISTS', ARGV[2] .. 'turns:' .. lane) == 0 then call('HDEL', HEALTH, lane) end
    end
  end
end
