-- claim: returns expired leases to their lanes, then leases due entries: class by class, and the lanes of
-- each in turn.
--
-- ARGV   (1 to 5, with the cap: common.lua)
--        6 maximum number of leases to give
--        7 how long a lease lasts, ms
--        8 maximum number of entries for one visit of a lane
--        9 how long ended entries are remembered, ms; '' if they are not
--       10 maximum bytes of envelopes to give, and to put back into their lanes
--       11 maximum number of expired leases to put back, and of ended entries to forget
--       12 the key that stores this instance's last claim
--       13 the number of this claim: a claim that is repeated because its reply was lost has the same one,
--          and gives the same leases
--       14 how many of the leases to give are kept for idle lanes, one for each
--       15 maximum number of leases to give to doubtful lanes
--       16 maximum number of leases to give to lanes that are probing
--       17 '1' if the settings of lanes come from a journal: until they are confirmed here, no lane gets anything
--       18 how many of the leases that are kept for idle lanes these leave to doubtful and probing lanes
--        19 and on: the lanes that this instance skips. They get nothing, keep their turns, and do not count for
--          the third and fourth item of the reply
-- Reply  now, writes, when to claim next (-1: nothing known), whether a lane is due that got nothing because
--        its part was used up (1 or 0; such lanes do not count for the item before), whether something is
--        missing here that no instance repairs yet (1 or 0), when something was found to be missing (0:
--        nothing is missing, and attempts whose lease was lost have ended), the expiry of the leases given,
--        then for each lease: key, envelope, class of the lane, plus 10 if the lane is full now. For a lane that was not
--        ready when something late was due, that is a text: the same number, and since when it was ready: see
--        `ready_since`. For a lane that was held or probed or has a rate, there is between both until when its rate
--        allowed no call, and its pauses: four instants, as lanes.lua has them (that of a lane that is probed ends now)
-- Keeps  a claim gives a lane no lease beyond its limit or its rate (lease_one may), and a held lane none. An entry
--        whose lease expired gets flags and the start of that lease, so that the journal is asked before it is sent
--        again.

allow_when_full()
local lost = check_in()
if lost then return lost end

local most, lease_ms, visit = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local kept_for_idle, kept_for_troubled = tonumber(ARGV[14]), tonumber(ARGV[18])
local parts = { [DOUBTFUL] = tonumber(ARGV[15]), [PROBING] = tonumber(ARGV[16]) }
local remember_ms, bytes_left, most_old = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local RECORD, number = ARGV[12], ARGV[13]
-- What an entry that has to wait for its order counts at least against the bytes of a claim. It is not given, but it
-- was looked at, and a claim looks at a bounded number of them.
local WAITING_BYTES = 65536
local lacks_settings = false
-- The lanes to skip; nil if there are none.
local skipped
for i = 19, #ARGV do
  skipped = skipped or {}
  skipped[ARGV[i]] = true
end
local reply

-- How many leases a visit of a lane of this class may give (as ClaimQuota::for_visit).
local function for_visit(class)
  local allowed = most - kept_for_idle
  if class >= DOUBTFUL and allowed < kept_for_troubled then allowed = math.min(most, kept_for_troubled) end
  if allowed <= 0 then return class == IDLE and most > kept_for_troubled and 1 or 0 end
  if allowed > visit then allowed = visit end
  local part = parts[class]
  if part and allowed > part then allowed = part end
  return class == PROBING and allowed > 1 and 1 or allowed
end

-- The earliest expiry of all leases, as it is now; false if there are none.
local function read_first_expiry()
  local first = call('ZRANGE', LEASES, '0', '0', 'WITHSCORES')
  return tonumber(first[2] or nil) or false
end

-- The earliest expiry of the leases that were there when this script began; false: there were none; nil: not known.
local first_expiry

local expiry, given_keys, given_classes

-- When there is next something to claim, in ms: `at` (the first turn, or nil), or a lease that expires. -1 for never.
local function next_claim(at)
  -- Nothing is earlier than what is due.
  if at and at <= NOW then return at end
  if first_expiry == nil then first_expiry = read_first_expiry() end
  local expires = first_expiry or given_keys and given_keys[1] and tonumber(expiry)
  if expires and not (at and at <= ms_of(expires)) then at = ms_of(expires) end
  return at or -1
end

-- About how many lanes get their turns anew in one claim.
local PLACED_ANEW = '64'

-- If the clock was set back, the turns of lanes may be as much too late: of those that were served, and of those that wait
-- for their next call or probe. Then this claim and the next ones give all lanes their turns anew, some in each.
-- `last_claim` is when the last claim was made, and `cursor` how far the lanes have come (false: there is nothing to do).
-- The result is whether there are more.
local function place_anew(last_claim, cursor)
  if last_claim and last_claim > NOW + SET_BACK then cursor = '0' end
  if not cursor then return false end
  local found = redis.pcall('ZSCAN', LANES, cursor, 'COUNT', PLACED_ANEW)
  if found.err then found = { '0', {} } end -- the cursor was overwritten
  local next_cursor, lanes = found[1], found[2]
  for i = 1, #lanes, 2 do
    local score = tonumber(lanes[i + 1])
    -- A turn that has come is not too late.
    if score % CLASS_US >= NEXT_US then plan_turn(lanes[i], NOW_US + 1, nil, score) end
    if #planned + #removed > 200 then write_turns() end
  end
  write_turns()
  if next_cursor == '0' then
    call('HDEL', META, 'placing')
    return false
  end
  call('HSET', META, 'placing', next_cursor)
  return true
end

-- Fills in the first items of every reply.
local function finish()
  local known = call('HMGET', META, 'state', 'lost', 'claimed', 'placing')
  call('HSET', META, 'at:' .. INSTANCE, NOW_TEXT, 'claimed', NOW_TEXT)
  local has_more_to_place = place_anew(tonumber(known[3] or nil), known[4])
  local used_up
  for class = IDLE, PROBING do
    if lacks_settings or most > 0 and for_visit(class) == 0 then
      used_up = used_up or {}
      used_up[class] = true
    end
  end
  local first, passed_over = earliest(used_up, skipped)
  reply[3] = has_more_to_place and NOW or next_claim(first and ms_of(first))
  reply[4] = passed_over and not lacks_settings and 1 or 0
  reply[5] = (known[1] == 'damaged' or known[1] == 'restarted') and 1 or 0
  local data_lost = loss_from(known[2])
  local over = known[1] == 'whole' and (not data_lost or NOW >= data_lost + lease_ms)
  reply[6] = over and 0 or data_lost or 0
  return reply
end

-- The leases that a claim gave, from its record; nil if that cannot be read: then they expire.
local function record_from(text)
  local is_read, record = pcall(cmsgpack.unpack, text)
  if not is_read or type(record) ~= 'table' then return nil end
  local keys, classes = record.keys, record.classes
  if type(keys) ~= 'table' or type(classes) ~= 'table' or #keys == 0 or #keys > 1024 or #keys ~= #classes
      or type(record.expiry) ~= 'string' or not string.find(record.expiry, '^%d+$') then
    return nil
  end
  for i = 1, #keys do
    local class = type(classes[i])
    if type(keys[i]) ~= 'string' or class ~= 'string' and class ~= 'number' then return nil end
  end
  return record
end

-- Gives the leases again that this claim gave the first time, if they are still in force.
local function give_again(before)
  local given_until = tonumber(before.expiry)
  local in_force = call('ZMSCORE', LEASES, unpack(before.keys))
  local envelopes = call('HMGET', JOBS, unpack(before.keys))
  reply = { NOW, WRITES, 0, 0, 0, 0, before.expiry }
  for i, key in ipairs(before.keys) do
    local envelope = envelopes[i]
    if readable(envelope) and in_force[i] and tonumber(in_force[i]) == given_until then
      if most > 0 then
        reply[#reply + 1] = key
        reply[#reply + 1] = envelope
        reply[#reply + 1] = before.classes[i]
        most = most - 1
      else
        -- This call asks for fewer. The others are returned: no instance knows that it has them.
        local lane = lane_of(envelope)
        return_entry(key, envelope)
        call_on_lane('ZREM', LEASED .. lane, key)
        call('ZREM', LEASES, key)
        place_lane(lane, NOW_US + 1)
      end
    end
  end
end

-- The end of a range of expiries that are over, without the next millisecond.
local BY_NOW = '(' .. text_of(NEXT_US)

local function return_expired()
  first_expiry = read_first_expiry()
  if not first_expiry or not is_over(first_expiry) then return end
  first_expiry = nil
  local bytes = bytes_left
  local expired = call('ZRANGEBYSCORE', LEASES, '-inf', BY_NOW, 'WITHSCORES', 'LIMIT', '0', ARGV[11])
  for i = 1, #expired, 2 do
    if bytes <= 0 then break end
    bytes = bytes - return_lease(expired[i], tonumber(expired[i + 1]), lease_ms)
  end
end

local function forget_ended()
  local over = call('ZRANGEBYSCORE', ENDED, '-inf', text_of(NOW - remember_ms), 'LIMIT', '0', ARGV[11])
  if over[1] then
    call('HDEL', JOBS, unpack(over))
    call('ZREM', ENDED, unpack(over))
  end
end

-- Ends the expired leases of a lane that `return_expired` did not return: there were too many, or
-- `leases` has lost them. `lease_count` is the number of its leases before; the result is that after.
local function end_expired(lane, lease_count)
  local first = call('ZRANGE', LEASED .. lane, '0', '0', 'WITHSCORES')
  if not first[1] or not is_over(first[2]) then return lease_count end
  local old = call('ZRANGEBYSCORE', LEASED .. lane, '-inf', BY_NOW, 'WITHSCORES', 'LIMIT', '0', ARGV[11])
  for i = 1, #old, 2 do
    local key, expiry = old[i], call('ZSCORE', LEASES, old[i])
    if expiry and not is_over(expiry) then
      call('ZADD', LEASED .. lane, expiry, key)
    else
      local envelope = call('HGET', JOBS, key)
      if readable(envelope) and lane_of(envelope) == lane and is_pending(envelope)
          and not call_on_lane('ZSCORE', LANE .. lane, key) then
        if not expiry then note_damage() end
        return_lease(key, tonumber(expiry or old[i + 1]), lease_ms)
      else
        call('ZREM', LEASED .. lane, key)
      end
    end
  end
  return call('ZCARD', LEASED .. lane)
end

-- The order keys of which this claim has leased an entry; nil if it has leased none with a place in an order.
local given_turns

-- Must equal BEHIND_MS in schedule/mod.rs.
local BEHIND_MS = 60000

-- The places of these entries in their orders, by index; nil where there is none. One with a lower number of the same
-- strict order among them `is_behind`.
local function orders_of(envelopes)
  local orders, lowest = {}, {}
  for i = 1, #envelopes do
    local envelope = envelopes[i]
    if readable(envelope) and bit.band(string.byte(envelope, FLAGS), ORDERED) ~= 0 then
      local group, number, is_strict = order_of(envelope)
      if group then
        orders[i] = { group = group, number = number, is_strict = is_strict,
          text = group .. '\n' .. string.format('%016d', number) .. '\n' }
        if is_strict then lowest[group] = math.min(lowest[group] or number, number) end
      end
    end
  end
  for _, order in pairs(orders) do order.is_behind = order.is_strict and lowest[order.group] < order.number end
  return orders
end

-- Whether a lower number of the order key waits in the lane. If so, that one is sent first, and no server need ask the
-- journal about this one.
local function waits_for_lower(lane, order)
  local waits = ARGV[2] .. 'waits:' .. lane
  local from, to = '[' .. order.group .. '\n', '(' .. string.sub(order.text, 1, -2)
  for _ = 1, 4 do
    local first = call_on_lane('ZRANGEBYLEX', waits, from, to, 'LIMIT', '0', '1')[1]
    if not first then return false end
    if call('ZSCORE', LANE .. lane, string.sub(first, #order.text + 1)) then return true end
    call('ZREM', waits, first) -- it has ended, or is leased
  end
  return false
end

-- Until when (in ms) an entry with a place in an order waits, because another one of its order key is in flight, or may
-- be, or goes first; nil if it may go.
local function waits_until(lane, key, order)
  local data_lost = loss_from(call('HGET', META, 'lost'))
  if data_lost and NOW < data_lost + lease_ms then return data_lost + lease_ms end -- a lease may have been lost
  if order.is_behind then return NOW + BEHIND_MS end
  if given_turns and given_turns[lane .. '\n' .. order.group] then return ms_of(tonumber(expiry)) end
  if order.is_strict and waits_for_lower(lane, order) then return NOW + BEHIND_MS end
  local held = call_on_lane('HGET', ARGV[2] .. 'turns:' .. lane, order.group)
  local holder = held and string.sub(held, 5)
  if not holder or holder == key then return nil end
  local current = lease_of(holder, lane)
  if current and is_turn_of(held, current, holder) then return ms_of(tonumber(current)) end
end

-- Must equal NOTICED_MS of domain/deferral.rs.
local NOTICED = 100

-- When the first of these due entries of a lane was due; nil if none can be read. Those of one priority are in the
-- order of their due times, behind those of which an attempt was requested by hand.
local function earliest_due(envelopes)
  local earliest
  for i = 1, #envelopes do
    if readable(envelopes[i]) then
      local due, retry_at = struct.unpack('>i8i8', envelopes[i], DUE)
      local by_hand = retry_at ~= 0 and retry_at < due
      if by_hand then due = retry_at end
      if not (earliest and earliest <= due) then earliest = due end
      if not by_hand and not is_ranked() then break end
    end
  end
  return earliest
end

-- The lanes that are being visited; and by lane the scores in `lanes`, as text, that those had that were visited together
-- with the first lane that had late entries. nil if none had.
local visiting, late_scores

-- Since when a lane could be served (in ms), if it is full now, or could not be served when the first of these entries
-- was due. 0 if none of them is late, or if that is not known: see `plan_turn`. Only what is late costs a command.
local function ready_since(lane, envelopes, is_full)
  local due = earliest_due(envelopes)
  if not due or due > NOW - NOTICED then return 0 end
  late_scores = late_scores or {}
  if late_scores[lane] == nil then
    -- The others are usually late as well, and to ask for all at once costs a third of asking for each.
    local scores = call('ZMSCORE', LANES, unpack(visiting))
    for n, visited in ipairs(visiting) do
      if late_scores[visited] == nil then late_scores[visited] = scores[n] end
    end
  end
  local turn = tonumber(late_scores[lane] or '1') % CLASS_US
  if turn % 1000 ~= 0 or not is_full and turn <= due * 1000 then return 0 end
  return turn / 1000
end

-- The class of a lane in the reply: see there.
local function class_mark(class, health, is_full, ready)
  local mark = is_full and class + 10 or class
  if ready == 0 and not health.pauses and not health.interval and class ~= PROBING then return mark end
  local pauses = health.pauses
  if class == PROBING then pauses = pauses_with(pauses, nil, health[SINCE]) end
  local a, b, c, d = 0, 0, 0, 0
  if not pauses and not health.interval then return string.format('%d %d', mark, ready) end
  if pauses then a, b, c, d = struct.unpack(PAUSES_FORMAT, pauses) end
  return string.format('%d %d %d %d %d %d %d', mark, rate_until(health), a, b, c, d, ready)
end

-- Gives the bare ones among these due entries of a lane their envelopes. One that is leased gets an empty one: whoever has
-- the lease puts it back.
local function envelop_bare(lane, keys, envelopes)
  local places, bare
  for i = 1, #keys do
    if not envelopes[i] then
      if not bare then places, bare = {}, {} end
      places[#places + 1], bare[#bare + 1] = i, keys[i]
    end
  end
  if not bare then return end
  local scores = call_on_lane('ZMSCORE', LANE .. lane, unpack(bare))
  local leases, changing = call('ZMSCORE', LEASES, unpack(bare)), call('HMGET', CHANGING, unpack(bare))
  local new = {}
  for n, key in ipairs(bare) do
    local envelope = ''
    if not leases[n] then
      envelope = with_required_checks(key, bare_envelope(lane, tonumber(scores[n])), changing[n])
      new[#new + 1], new[#new + 2] = key, envelope
    end
    envelopes[places[n]] = envelope
  end
  if new[1] then call('HSET', JOBS, unpack(new)) end
end

-- Whether a key is leased, also by this claim, which writes its leases at its end.
local function has_lease(key)
  for _, given in ipairs(given_keys) do
    if given == key then return true end
  end
  return call('ZSCORE', LEASES, key)
end

-- How long an entry waits whose key is leased in another lane, in ms.
local OTHER_LANE_MS = 1000

-- Takes those of these due entries of a lane out of `envelopes` of which another lane has the key as well: the journal had been
-- set back, and the key was registered for another lane since then. A whole entry was registered last, so it is sent by
-- its own lane, and not by this one. Of bare entries the journal says which lane is right: each is leased in its turn, and is
-- looked up. An envelope that is cut short within its lane stays: its worker sets it aside. The result is what is put back
-- into this lane, each with its score before it; nil if nothing is.
local function leave_to_other_lanes(lane, keys, envelopes)
  local waiting
  for i, key in ipairs(keys) do
    local envelope = envelopes[i]
    local own = envelope and #envelope > LANE_LEN and lane_of(envelope) or lane
    if own ~= lane and #own == struct.unpack('>I2', envelope, LANE_LEN) then
      local is_leased = has_lease(key)
      envelopes[i] = ''
      if not is_bare(envelope) then
        if is_pending(envelope) and not is_leased and not is_claimable(key, own) then note_damage() end
      else
        local score = tonumber(call_on_lane('ZSCORE', LANE .. lane, key))
        if is_leased then
          waiting = waiting or {}
          waiting[#waiting + 1] = score + NOW + OTHER_LANE_MS - due_of(score)
          waiting[#waiting + 1] = key
        else
          local is_unknown = call('HEXISTS', CHANGING, key) == 1
          envelopes[i] = with_required_checks(key, bare_envelope(lane, score), is_unknown, envelope)
          call('HSET', JOBS, key, envelopes[i])
        end
      end
    end
  end
  return waiting
end

-- When the call of an entry that is given now begins, in ms: the worker waits until it is due. A damaged entry may have
-- any number.
local function call_at(envelope)
  local at = attempt_due(envelope)
  return at > NOW and at <= NOW + BARE_EARLY and at or NOW
end

-- Leases these entries of a lane of this class, which is full then or not. The results are how many were there and may
-- be sent, whether others were put back into the lane, and when the last of the calls begins if the lane has a rate.
local function give(lane, class, health, is_full, keys)
  local envelopes = call('HMGET', JOBS, unpack(keys))
  local waiting
  if MAY_BE_BARE then
    envelop_bare(lane, keys, envelopes)
    waiting = leave_to_other_lanes(lane, keys, envelopes)
  end
  local mark = class_mark(class, health, is_full, ready_since(lane, envelopes, is_full))
  local leased, orders, last_call = {}
  local given, replied, before = 0, #reply, #given_keys
  for i = 1, #keys do
    local key, envelope = keys[i], envelopes[i]
    local can_be_read = envelope and #envelope > LANE_LEN
    local flags = can_be_read and byte(envelope, FLAGS) or 0
    local order, until_ms
    if flags >= ORDERED and bit.band(flags, ORDERED) ~= 0 then
      orders = orders or orders_of(envelopes)
      -- One whose place in the order cannot be read is no entry that an instance can send.
      order = orders[i]
      until_ms = order and waits_until(lane, key, order)
    end
    if until_ms then
      if bit.band(flags, PUT_OFF) == 0 then call('HSET', JOBS, key, with_flags(envelope, PUT_OFF)) end
      waiting = waiting or {}
      waiting[#waiting + 1] = lane_score(envelope, until_ms)
      waiting[#waiting + 1] = key
      call_on_lane('ZADD', ARGV[2] .. 'waits:' .. lane, 0, order.text .. key)
      bytes_left = bytes_left - math.max(#envelope, WAITING_BYTES)
    elseif can_be_read then
      if order then
        given_turns = given_turns or {}
        given_turns[lane .. '\n' .. order.group] = true
        call_on_lane('HSET', ARGV[2] .. 'turns:' .. lane, order.group, turn_text(expiry, key))
        call_on_lane('ZREM', ARGV[2] .. 'waits:' .. lane, order.text .. key)
      end
      leased[2 * given + 1], leased[2 * given + 2] = expiry, key
      reply[replied + 1], reply[replied + 2], reply[replied + 3] = key, envelope, mark
      given, replied = given + 1, replied + 3
      given_keys[before + given], given_classes[before + given] = key, mark
      bytes_left = bytes_left - #envelope
      if health.interval then last_call = math.max(last_call or NOW, call_at(envelope)) end
    elseif envelope ~= '' then
      note_damage()
    end
  end
  if leased[1] then call_on_lane('ZADD', LEASED .. lane, unpack(leased)) end
  call('ZREM', LANE .. lane, unpack(keys))
  if waiting then call('ZADD', LANE .. lane, unpack(waiting)) end
  return given, waiting ~= nil, last_call
end

-- The keys of up to `wanted` due entries of a lane: the higher priorities first, and those of one priority by due time.
-- The second result is whether more are due; nil if that is not known.
local function due_keys(lane, wanted)
  if not is_ranked() then
    -- One more than wanted: to ask for the first score behind them costs several times as much.
    local keys = call_on_lane('ZRANGEBYSCORE', LANE .. lane, '-inf', NOW_TEXT, 'LIMIT', '0', count_text(wanted + 1))
    local has_more = #keys > wanted
    if has_more then keys[wanted + 1] = nil end
    return keys, has_more
  end
  local keys = {}
  for _, range in ipairs(priority_ranges()) do
    if #keys < wanted then
      local some = call_on_lane('ZRANGEBYSCORE', LANE .. lane, range[1], range[3], 'LIMIT', '0', count_text(wanted - #keys))
      for _, key in ipairs(some) do keys[#keys + 1] = key end
    end
  end
  return keys
end

-- If a lane has due entries and is not nearly full, `end_expired` is called for it only at every eighth claim.
local checks_leases = tonumber(number) % 8 == 0

-- Gives the due entries of a lane of this class, within its limit and `allowed` leases. `tail` is the lane's turn
-- after that. The result is whether it is still due in this class.
local function visit_lane(lane, class, allowed, tail, health)
  local lease_count = call_on_lane('ZCARD', LEASED .. lane)
  local limit = limit_of(health)
  local checked = lease_count > 0 and (checks_leases or lease_count + visit > limit)
  if checked then lease_count = end_expired(lane, lease_count) end
  local free_leases = limit - lease_count
  if free_leases > allowed then free_leases = allowed end
  if health.interval then free_leases = math.min(free_leases, calls_allowed(health)) end
  if health[AT] > NOW or health.held then free_leases = 0 end
  local keys, has_more = {}
  if free_leases > 0 then
    keys, has_more = due_keys(lane, free_leases)
  end
  if not keys[1] and lease_count > 0 and not checked then
    lease_count, has_more = end_expired(lane, lease_count), nil
  end
  local given = 0
  if keys[1] then
    local some_wait, last_call
    given, some_wait, last_call = give(lane, class, health, lease_count + #keys >= limit, keys)
    if some_wait then has_more = nil end
    most = most - given
    if parts[class] then
      parts[class] = parts[class] - given
      kept_for_troubled = math.max(kept_for_troubled - given, 0)
    end
    if health.interval and given > 0 then
      health[ARRIVAL] = math.max(health[ARRIVAL], last_call * 1000) + given * health.interval
      health[USED] = NOW
      call('HSET', HEALTH, lane, health_field(health))
    end
  elseif lease_count == 0 and call('EXISTS', LANE .. lane) == 0 then
    note_damage() -- a lane without waiting or leased entries is not in `lanes`
  end
  -- For a lane that answers well, the last expiry will do: to ask for the first costs more than it brings.
  local expires = given > 0 and (lease_count == 0 or health == STEADY_STATE) and tonumber(expiry) or nil
  local base, at = plan_turn(lane, tail, 'served', nil, health, lease_count + given, expires, has_more and NOW or nil)
  return at and at < NEXT_US and base == class * CLASS_US
end

-- These lanes without those to skip, and how many there are of those.
local function without_skipped(lanes)
  local others = {}
  for _, lane in ipairs(lanes) do
    if not skipped[lane] then others[#others + 1] = lane end
  end
  return others, #lanes - #others
end

-- Visits the lanes whose turn has come, class by class. A lane that was served gets a turn in this millisecond, so
-- behind those that were due before, and behind those that were served in it: the count in `meta`, of which
-- `claim_number` has the last digits, counts the visits. To ask for the last turn of all would cost more than the rest
-- of a visit. Lanes to skip keep their turns, so those that were found are the first of their class, but for those of
-- this millisecond.
local function visit_lanes(claim_number)
  local tail = NOW_US + claim_number % 700 -- and so most turns stay in this millisecond
  local visits = 0
  local has_troubled = call('ZRANGEBYSCORE', LANES, CLASS_FROM[DOUBTFUL], '+inf', 'LIMIT', '0', '1')[1]
  for class = IDLE, has_troubled and PROBING or BUSY do
    local from, to = range_of(class, NEXT_US)
    local passed = 0
    local allowed = for_visit(class)
    while allowed > 0 and bytes_left > 0 and visits < 4 * most_old do
      local wanted = skipped and 64 or math.min(most, 64)
      local lanes = call('ZRANGEBYSCORE', LANES, from, to, 'LIMIT', count_text(passed), count_text(wanted))
      if not lanes[1] then break end
      local is_all = #lanes < wanted
      if skipped then
        local found
        lanes, found = without_skipped(lanes)
        passed = passed + found
      end
      local fields = lanes[1] and health_fields(lanes)
      visiting = lanes
      for n, lane in ipairs(lanes) do
        if allowed == 0 or bytes_left <= 0 then break end
        visits = visits + 1
        tail = tail + 1
        if tail % 1000 == 0 then tail = tail + 1 end -- not a turn of a lane that has become ready
        if visit_lane(lane, class, allowed, tail, state_to_read(lane, fields[n])) then is_all = false end
        allowed = for_visit(class)
      end
      write_turns()
      if is_all then break end
    end
  end
  if visits > 0 then call('HINCRBY', META, 'number', text_of(visits)) end
end

if call('EXISTS', EPOCH) == 0 then
  local owner = call('HGET', META, 'owner')
  if owner then call('SET', EPOCH, owner) end
end

-- An error (of a key of another type) is a table. The record of the next claim replaces such a key.
local before = redis.pcall('GET', RECORD)
if type(before) == 'string' and string.sub(before, 1, #number + 1) == number .. ' ' then
  local record = record_from(string.sub(before, #number + 2))
  if record then
    give_again(record)
    return finish()
  end
end

return_expired()
if remember_ms then forget_ended() end
if checks_leases then forget_unused() end

local claim_number
expiry, claim_number = new_expiry(lease_ms)
reply, given_keys, given_classes = { NOW, WRITES, 0, 0, 0, 0, expiry }, {}, {}
if ARGV[17] == '1' then
  local _, _, is_confirmed = settings_number()
  lacks_settings = not is_confirmed
end
if not lacks_settings then visit_lanes(claim_number) end
if given_keys[1] then
  local leases = {}
  for i, key in ipairs(given_keys) do
    leases[2 * i - 1], leases[2 * i] = expiry, key
  end
  call('ZADD', LEASES, unpack(leases))
end

-- If no lane is in `lanes`, no entry may be pending.
if call('ZCARD', LANES) == 0 then
  local elsewhere = call('ZCARD', DEAD) + call('ZCARD', ENDED) + call('ZCARD', LEASES)
  if call('HLEN', JOBS) > elsewhere then note_damage() end
end

if given_keys[1] then
  local record = cmsgpack.pack({ expiry = expiry, keys = given_keys, classes = given_classes })
  call('SET', RECORD, number .. ' ' .. record, 'PX', ARGV[7])
end
return finish()
