-- order: after a lease on an entry with a place in an order was settled: ends its turn, and makes the next entry of its
-- order key due. If this is not called, the next one is due when the lease would have expired, or when it is to be
-- asked again whether a lower number has ended. It is also called if the lease was lost: the settlement may have been
-- done, and its reply lost. Then the entry may be in any state, also in flight under another lease.
--
-- ARGV   6 channel that wakes the other instances (`publish_if_first`)
--        7 lane
--        8 key of the entry whose lease was settled
--        9 expiry of that lease
--       10 its order key
--       11 its order number, with 16 digits
--       12 'keep': none is next
--          'lowest', 'highest': the waiting entry with that number is next
--          'wait': the entry waits; if lower numbers wait as well, the lowest is next
--          'yield': the entry waits; if higher numbers wait as well, the highest is next
-- Reply  now, writes
-- Keeps  what waits is in its lane all the time, so losing the set of those that wait delays them only. One that is
--        made due stays in the set until it is leased, so that higher numbers of a strict order need not ask meanwhile.
--        A turn is removed only if its lease is not in force: then a claim would give the next one without it as well. What
--        is made due is put off again by a claim if another one of its order key is in flight.

allow_when_full()
local lost = check_in()
if lost then return lost end

local lane, key, expiry, group, what = ARGV[7], ARGV[8], tonumber(ARGV[9]), ARGV[10], ARGV[12]
local turns, waits = ARGV[2] .. 'turns:' .. lane, ARGV[2] .. 'waits:' .. lane
local own = group .. '\n' .. ARGV[11] .. '\n' .. key

-- Makes an entry due, if it waits in its lane.
local function make_due(other)
  local envelope = call('HGET', JOBS, other)
  if not readable(envelope) or not is_pending(envelope) or not call_on_lane('ZSCORE', LANE .. lane, other) then
    return false
  end
  call_on_lane('ZADD', LANE .. lane, lane_score(envelope, next_due(envelope)), other)
  place_lane(lane, NOW_US)
  return true
end

-- Whether the entry was claimed, and put off because of its order, after its lease was settled and before this call: then
-- it is not in its lane at the instant at which it is due, and whoever ends the lease in force has to find it in `waits`.
local function was_put_off_since()
  local envelope = call('HGET', JOBS, key)
  if not readable(envelope) or not is_pending(envelope) then return false end
  local score = call_on_lane('ZSCORE', LANE .. lane, key)
  return score and tonumber(score) > lane_score(envelope, next_due(envelope))
end

-- Makes the first waiting entry of a range due.
local function make_first_due(command, from, to)
  for _ = 1, 8 do
    local found = call(command, waits, from, to, 'LIMIT', '0', '1')[1]
    if not found or make_due(string.sub(found, #group + 19)) then return end
    call('ZREM', waits, found)
  end
end

local turn = call_on_lane('HGET', turns, group)
local is_own = turn and is_turn_of(turn, expiry, key)
local from, to = '[' .. group .. '\n', '(' .. group .. '\n\255'
-- The entry may have been claimed again meanwhile, under a lease with the same number. Another one that waits in its lane
-- keeps its turn although its lease was settled: the mark in it is for the call of this script about that one.
local is_over
if is_own then
  local current = lease_of(key, lane)
  is_over = not (current and is_turn_of(turn, current, key))
else
  is_over = turn and is_turn_over(turn, lane)
end
if is_over then call('HDEL', turns, group) end
if what == 'wait' or what == 'yield' then
  -- It may have been leased or have ended since.
  if call_on_lane('ZSCORE', LANE .. lane, key) then call_on_lane('ZADD', waits, 0, own) end
  if is_own and string.sub(turn, 4, 4) == '!' then
    make_due(key) -- what it waits for may have ended after the journal was asked
  elseif what == 'wait' then
    make_first_due('ZRANGEBYLEX', from, '(' .. group .. '\n' .. ARGV[11])
  else
    make_first_due('ZREVRANGEBYLEX', to, '(' .. group .. '\n' .. ARGV[11] .. '\n\255')
  end
else
  if not was_put_off_since() then call_on_lane('ZREM', waits, own) end
  if what ~= 'keep' and turn and not is_own and not is_over then
    -- The lease in force may belong to an entry that has asked the journal before this one ended.
    call('HSET', turns, group, string.sub(turn, 1, 3) .. '!' .. string.sub(turn, 5))
  end
  if what == 'lowest' then
    make_first_due('ZRANGEBYLEX', from, to)
  elseif what == 'highest' then
    make_first_due('ZREVRANGEBYLEX', to, from)
  end
end
forget_turns(lane, '2')
if placed_us then publish_if_first(earliest(), ARGV[6]) end
return { NOW, WRITES }
