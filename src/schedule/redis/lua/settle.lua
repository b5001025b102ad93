-- settle: ends leases on entries, and on keys that had no entry; each only if its lease is the one in
-- force.
--
-- ARGV   6 channel that wakes the other instances (`publish_if_first`)
--        7 how long the lease of an attempt lasts, ms
--        then for each: key, lane ('' for a key alone, or if it is not known), expiry of the lease, verb,
--        instant, bytes, what is reported about the lane: a number, at least 0: how long an answer took in ms,
--        times 16384, plus the number of the outcome (0: not known); below 0: a call brought no answer, 16384 plus the
--        number of the outcome | '=' and the number of an outcome that says nothing of the destination | 'now': a call
--        is asked for now | '': nothing
-- Verbs  again     back to its lane; the instant is its score there, the bytes are its header, or its envelope
--        keep      as again, and its content can be left to the journal later (contents.rs)
--        bare      as again, but bare: the journal has its content
--        put       into its lane; the bytes are its envelope, which says when it is due
--        release   back to where it was before it was leased
--        recheck   as release, but before it is sent, the journal must be asked and the fence raised; if the
--                  key has no entry, before the entry that is put in next is sent
--        defer     back to its lane as it is, due at the instant: this instance cannot send it, or not read it.
--                  With the lane, it lacked a key to sign it, or its proxy, or capacity, or the entry waits for
--                  another one of its order: then the bytes are what the entry has in the place of its cause. Then it
--                  is marked with that, and the rate of the lane gets the call back, which was not made
--        forget    ended, not remembered
--        remember  ended at the instant; the bytes are the envelope to remember
--        park      dead since the instant, kept with its body; the bytes are its header
-- Reply  now, writes, when to claim next because of this (-1: nothing has come), then for
--        each: 1 done, 0 lease lost, 2 its content is not here: it is still leased, and the caller must `put` it
-- Keeps  a lost lease changes nothing, and does not affect the others of the batch.
--
-- Commands are collected for the whole batch where possible: most of the time here is spent on calls
-- from Lua to Redis. No list has more than two items per settlement, far below the limit of unpack.

allow_when_full()
local lost = check_in()
if lost then return lost end

local reply = { NOW, WRITES, -1 }
-- For each lane, where in ARGV its settlement begins, or a list of that if it has several.
local lanes, settled_by_lane = {}, {}
local settled_keys, forgotten, written, ended, unknown = {}, {}, {}, {}, {}
local lease_ms, unmade, reminders = tonumber(ARGV[7]), {}, {}

local asked = {}
for i = 8, #ARGV, 7 do asked[#asked + 1] = ARGV[i] end
local in_force = call('ZMSCORE', LEASES, unpack(asked))
local settled = {}

for n = 1, #asked do
  local i = 8 + (n - 1) * 7
  local key, lane, expiry = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local verb, at, bytes = ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
  local current = in_force[n]
  if verb == 'put' then lane = lane_of(bytes) end
  if not current and lane ~= '' then
    current = call_on_lane('ZSCORE', LEASED .. lane, key)
    if current and not settled[key] and is_same(current, expiry) then note_damage() end
  end
  local done = 0
  if current and not settled[key] and is_same(current, expiry) then
    done = 1
    if verb == 'forget' then
      forgotten[#forgotten + 1] = key
    elseif verb == 'bare' then
      call_on_lane('ZADD', LANE .. lane, at, key)
      forgotten[#forgotten + 1] = key
    elseif verb == 'remember' then
      written[#written + 1] = key
      written[#written + 1] = bytes
      ended[#ended + 1] = at
      ended[#ended + 1] = key
    elseif verb == 'put' then
      call('HSET', JOBS, key, bytes)
      return_entry(key, bytes)
    else
      local envelope = call('HGET', JOBS, key)
      if not readable(envelope) then
        if lane ~= '' then
          note_damage()
          done = 2
        elseif verb == 'defer' then
          note_damage()
        else
          unknown[#unknown + 1] = key
        end
      elseif verb == 'release' or verb == 'recheck' or verb == 'defer' and not is_pending(envelope) then
        if verb == 'recheck' and is_pending(envelope) then
          envelope = with_flags(envelope, VERIFY, FENCE)
          call('HSET', JOBS, key, envelope)
        end
        return_entry(key, envelope)
        if lane == '' then lane = lane_of(envelope) end
      elseif verb == 'defer' and is_pending(envelope) then
        if lane ~= '' then
          envelope = with_flags(envelope, PUT_OFF)
          if bytes == '' then bytes = '\0' end
          call('HSET', JOBS, key, string.sub(envelope, 1, CAUSE - 1) .. bytes .. string.sub(envelope, CAUSE + 1))
          unmade[lane] = (unmade[lane] or 0) + 1
        end
        lane = lane_of(envelope)
        call_on_lane('ZADD', LANE .. lane, lane_score(envelope, tonumber(at)), key)
      elseif #bytes == HEADER_BYTES and is_bare(envelope) then
        done = 2
      else
        if #bytes == HEADER_BYTES then
          -- Whether its body is here does not change.
          bytes = string.sub(envelope, 1, 1) .. string.sub(bytes, 2) .. string.sub(envelope, HEADER_BYTES + 1)
        end
        call('HSET', JOBS, key, bytes)
        if verb == 'park' then
          call('ZADD', DEAD, at, key)
        else
          call_on_lane('ZADD', LANE .. lane, at, key)
          if verb == 'keep' then reminders[#reminders + 1] = NOW_TEXT .. ' ' .. key end
        end
      end
    end
    if done == 1 then
      settled[key] = true
      settled_keys[#settled_keys + 1] = key
      local before = settled_by_lane[lane]
      if lane == '' then
        -- Its lane is not known.
      elseif not before then
        lanes[#lanes + 1] = lane
        settled_by_lane[lane] = i
      elseif type(before) == 'number' then
        settled_by_lane[lane] = { before, i }
      else
        before[#before + 1] = i
      end
    end
  end
  reply[#reply + 1] = done
end

if written[1] then call('HSET', JOBS, unpack(written)) end
remind(reminders)
if ended[1] then call('ZADD', ENDED, unpack(ended)) end
if forgotten[1] then call('HDEL', JOBS, unpack(forgotten)) end
if settled_keys[1] then
  call('ZREM', LEASES, unpack(settled_keys))
  call('HDEL', CHANGING, unpack(settled_keys))
end
for _, key in ipairs(unknown) do note_unknown_change(key) end

-- The states to be written, each with its lane before it.
local changed = {}

-- Takes in what is reported about a lane by these settlements. The results are its state, and its limit of before.
local function take_in(lane, field, settlements)
  local health = state_of(lane, field)
  local limit = limit_of(health)
  if unmade[lane] and health.interval then
    health[ARRIVAL] = math.max(health[ARRIVAL] - unmade[lane] * health.interval, 0)
    health.is_changed = true
  end
  local is_reported = false
  for _, i in ipairs(settlements) do
    if ARGV[i + 6] ~= '' then
      is_reported = true
      observe(health, ARGV[i + 6], ms_of(tonumber(ARGV[i + 2])) - lease_ms)
    end
  end
  if health.is_changed or is_reported and health[USED] + USED_STEP <= NOW then
    health[USED] = NOW
    changed[#changed + 1] = lane
    changed[#changed + 1] = health_field(health)
  end
  if health.outage_from then note_outage(lane, health.outage_from) end
  return health, limit
end

-- The numbers of reports that were read, by their text: few differ.
local numbers = {}

local function number_of(report)
  local number = numbers[report]
  if number == nil then
    number = tonumber(report) or false
    numbers[report] = number
  end
  return number
end

-- Whether these settlements say nothing new of a lane with this field: it is steady, and the calls brought the same
-- answer as the last one, quickly.
local function is_as_before(field, settlements)
  if not is_steady(field) then return false end
  local used, _, outcome = struct.unpack('>i8i8I4', field, 37)
  if used + USED_STEP <= NOW then return false end
  for _, i in ipairs(settlements) do
    local number = number_of(ARGV[i + 6])
    if not number or number < 0 or number >= QUICK * OUTCOMES or number % OUTCOMES ~= outcome then return false end
  end
  return true
end

-- Whether a lane in this state keeps its score, because these settlements put nothing back into it, others of its
-- leases are left, and it was not full: then it has the same class, and has nothing to do earlier than before.
-- `lease_count` is the number of leases that are left.
local function keeps_turn(health, lease_count, settlements)
  if health ~= STEADY_STATE or lease_count == 0 or lease_count + #settlements >= CAP then return false end
  for _, i in ipairs(settlements) do
    local verb = ARGV[i + 3]
    if verb ~= 'forget' and verb ~= 'remember' and verb ~= 'park' then return false end
  end
  return true
end

local fields = lanes[1] and health_fields(lanes)
local alone = {}
for n, lane in ipairs(lanes) do
  local settlements = settled_by_lane[lane]
  if type(settlements) == 'number' then
    alone[1] = settlements
    settlements = alone
  end
  local health, limit = STEADY_STATE, CAP
  if not is_as_before(fields[n], settlements) then health, limit = take_in(lane, fields[n], settlements) end
  local keys = {}
  for k, i in ipairs(settlements) do keys[k] = ARGV[i] end
  local ended = call_on_lane('ZREM', LEASED .. lane, unpack(keys))
  local lease_count = call('ZCARD', LEASED .. lane)
  if not keeps_turn(health, lease_count, settlements) then
    local floor = floor_after(ended, lease_count, limit)
    -- Most lanes that were full have more that is due. To ask for that alone costs a third of asking when the first is due.
    local due = floor == NOW_US and has_due(lane) and NOW or nil
    plan_turn(lane, floor, 'settled', nil, health, lease_count, nil, due)
  end
end
write_turns()
if changed[1] then call('HSET', HEALTH, unpack(changed)) end
if placed_us then
  publish_if_first(earliest(), ARGV[6])
  reply[3] = ms_of(placed_us)
end
return reply
