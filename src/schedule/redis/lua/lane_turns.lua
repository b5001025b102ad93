-- The turns of lanes: in which order claims serve them. Put behind lanes.lua in front of each script.
--
-- The score of a lane in `lanes` is its turn (in microseconds), moved by its class: the lanes of one class
-- are those with scores from CLASS_US * class to the next multiple. Classes: -2 idle, -1 busy, 0 doubtful,
-- 1 probing. So `lanes` has the classes in the order in which they are served. A lane that is held has the turn
-- NEVER_US, or that of its earliest expiry.

local CLASS_US = 4503599627370496 -- 2^52: the scores of all classes are whole numbers that Redis keeps exactly
local NEVER_US = CLASS_US - 1

-- The turn of a lane (in microseconds) and its class, from its score in `lanes`.
local function turn_of(score)
  local turn = score % CLASS_US -- from 0 on, for the classes below 0 as well
  return turn, (score - turn) / CLASS_US
end

-- The start of the scores of each class, CLASS_US * class, as text.
local CLASS_FROM = { [IDLE] = '-9007199254740992', [BUSY] = '-4503599627370496', [DOUBTFUL] = '0',
  [PROBING] = '4503599627370496' }

-- The range of the scores of a class up to an instant.
local function range_of(class, until_us)
  return CLASS_FROM[class], '(' .. text_of(class * CLASS_US + until_us)
end

-- When the first entry of a lane is due to be claimed, whatever its priority; nil if none waits. The second result is the first
-- score. To count the entries is cheap; to ask for a score costs Redis as much as five other commands.
local function first_due(lane)
  if call_on_lane('ZCARD', LANE .. lane) == 0 then return nil end
  local head = call('ZRANGE', LANE .. lane, '0', '0', 'WITHSCORES')
  local score = tonumber(head[2])
  if score >= -HALF_MS and score < HALF_MS and not is_ranked() then return due_of(score), score end
  local due
  for _, range in ipairs(priority_ranges()) do
    local first = call('ZRANGEBYSCORE', LANE .. lane, range[1], range[2], 'WITHSCORES', 'LIMIT', '0', '1')
    local at = first[2] and due_of(tonumber(first[2]))
    if at and not (due and due <= at) then due = at end
  end
  return due, score
end

-- Whether an entry of the usual priority of which no attempt was requested by hand is due in a lane.
local function has_due(lane)
  return call_on_lane('ZRANGEBYSCORE', LANE .. lane, '0', NOW_TEXT, 'LIMIT', '0', '1')[1] ~= nil
end

-- The earliest turn that this script gave lanes of which at least one did not have its score before, in microseconds;
-- or nil.
local placed_us

-- The scores to be written by `write_turns`, each with its lane behind it, the earliest turn of them in microseconds,
-- and the lanes to be removed.
local planned, planned_us, removed = {}, nil, {}

-- Plans which score a lane gets in `lanes` after its entries, leases or state changed; `write_turns` writes it. So a
-- script plans a lane once, and reads nothing from `lanes` between that and the writing. A lane whose turn has come
-- keeps its turn, unless it was served. Any other gets its earliest due time, but at least `floor` (in microseconds),
-- and not before its next probe and its next call; or the earliest expiry of its leases, if that is earlier or the lane
-- is full.
-- A turn that has come and is a whole millisecond says since when the lane could be served: before that, nothing was
-- due in it for which it had a free lease. If that is not so, the floor is no whole millisecond (`floor_after`, and in
-- a claim). `how` says what was done: 'served' by a claim, 'settled' if leases of it have ended and none was given.
-- `score` is the one that it has now (false: none; nil: not known). `health`, `lease_count` (the number of its
-- leases), `expires` (the expiry that counts) and `due` (when its first entry is due; any instant before now, if one is
-- due) may be nil if not known. The results are the start of the scores of its class, and its turn (nil if it has
-- nothing), unless the lane keeps its score.
local function plan_turn(lane, floor, how, score, health, lease_count, expires, due)
  health = health or state_of(lane, health_fields({ lane })[1])
  local moved
  if not due then due, moved = first_due(lane) end
  if moved and (moved < -HALF_MS or moved >= HALF_MS) then note_ranked() end
  lease_count = lease_count or call_on_lane('ZCARD', LEASED .. lane)
  local full = lease_count > 0 and lease_count >= limit_of(health)
  local base = class_of(health, lease_count) * CLASS_US
  local current = score
  local at
  if due and not full then
    at = (due > health[AT] and due or health[AT]) * 1000
    if at < 0 then at = 0 end
    if health.interval then
      at = math.max(at, rate_until(health) * 1000)
    end
    -- A damaged entry or state may have any number.
    if health.held or at > NEVER_US then at = NEVER_US end
    if how ~= 'served' and at < NEXT_US then
      if current == nil then current = tonumber(call('ZSCORE', LANES, lane) or nil) or false end
      local turn = current and current % CLASS_US
      if turn and turn < NEXT_US then
        if current - turn == base then return end
        at, floor = turn, turn -- it has another class now
      end
    end
    if at < floor then at = floor end
  end
  -- If the lane's turn has come, the claim that serves it checks its leases.
  if lease_count > 0 and not (at and at < NEXT_US) then
    -- Its score is no later than an expiry of the leases it had, so no look-up is needed.
    if how == 'settled' and not at and call('ZSCORE', LANES, lane) then return end
    if not expires then
      local lease = call('ZRANGE', LEASED .. lane, '0', '0', 'WITHSCORES')
      expires = tonumber(lease[2] or nil)
    end
    expires = expires and ms_of(expires) * 1000
    if expires and not (at and at <= expires) then at = expires end
  end
  if not at then
    removed[#removed + 1] = lane
  elseif current ~= base + at then
    local count = #planned
    planned[count + 1], planned[count + 2] = text_of(base + at), lane
    if not (planned_us and planned_us <= at) then planned_us = at end
  end
  return base, at
end

-- Writes the scores that were planned. Commands have at most a few hundred items, far below the limit of unpack.
local function write_turns()
  if planned[1] then
    local changed = call('ZADD', LANES, 'CH', unpack(planned))
    if changed > 0 and not (placed_us and placed_us <= planned_us) then placed_us = planned_us end
    planned, planned_us = {}, nil
  end
  if removed[1] then
    call('ZREM', LANES, unpack(removed))
    removed = {}
  end
end

-- Gives a lane its score in `lanes` at once: see `plan_turn`.
local function place_lane(lane, floor, how, health, lease_count)
  plan_turn(lane, floor, how, nil, health, lease_count)
  write_turns()
end

-- The floor of the turn of a lane of which so many leases have ended now, and so many are left. `limit` is that of
-- before.
local function floor_after(ended, lease_count, limit)
  return ended > 0 and lease_count + ended >= limit and NOW_US or NOW_US + 1
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
  local ended = call_on_lane('ZREM', LEASED .. lane, key)
  call('ZREM', LEASES, key)
  local health, lease_count = state_of(lane, health_fields({ lane })[1]), call('ZCARD', LEASED .. lane)
  place_lane(lane, floor_after(ended, lease_count, limit_of(health)), nil, health, lease_count)
  return #envelope
end

-- The first lane with a score from `from` on, and that score; empty if there is none. Lanes in `skipped` (which may be
-- nil) do not count.
local function first_from(from, skipped)
  local first = call('ZRANGEBYSCORE', LANES, from, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  if not (skipped and skipped[first[1]]) then return first end
  local passed = 1
  repeat
    local some = call('ZRANGEBYSCORE', LANES, from, '+inf', 'WITHSCORES', 'LIMIT', count_text(passed), '64')
    for i = 1, #some, 2 do
      if not skipped[some[i]] then return { some[i], some[i + 1] } end
    end
    passed = passed + #some / 2
  until not some[1]
  return {}
end

-- When the turn of the first lane comes, in microseconds, or nil. Lanes in `skipped` do not count, nor do lanes of the
-- classes in `used_up` that are due now; the second result is whether there are any of those classes. Asks only for
-- classes that have lanes, and without `used_up` for none behind a class that is due: no turn matters more.
local function earliest(used_up, skipped)
  local at, passed_over
  local first = call('ZRANGE', LANES, '0', '0', 'WITHSCORES')
  if skipped and skipped[first[1]] then first = first_from('-inf', skipped) end
  while first[2] do
    local turn, class = turn_of(tonumber(first[2]))
    local is_due = turn < NEXT_US
    if is_due and used_up and used_up[class] then
      passed_over = true
    elseif turn ~= NEVER_US and not (at and at <= turn) then
      at = turn
    end
    if class >= PROBING or is_due and not used_up then break end
    first = first_from(CLASS_FROM[class + 1], skipped)
  end
  return at, passed_over
end

-- Wakes the other instances if this script brought the first turn, `first` by `earliest`. They may know of it
-- already: it may be no earlier than the first one before. A channel with '!' before it is that of a partition from which the
-- caller does not claim at once. What is due there then may be what its owner cannot serve now, which would hide what comes
-- after it; so the owner is told of that as well.
local function publish_if_first(first, channel)
  if not placed_us or not first then return end
  local is_of_another = string.sub(channel, 1, 1) == '!'
  if is_of_another then channel = string.sub(channel, 2) end
  if placed_us <= first or is_of_another and first < NEXT_US then call('PUBLISH', channel, ms_of(placed_us)) end
end
