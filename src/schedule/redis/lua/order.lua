-- order: after a lease on an entry with a place in an order was settled: ends its turn, and makes the next entry of its
-- order key due. If this is not called, the next one is due when the lease would have expired, or when it is to be asked
-- again whether a lower number has ended.
--
-- ARGV   6 channel that wakes the other instances
--        7 lane
--        8 key of the entry whose lease was settled
--        9 expiry of that lease
--       10 its order key
--       11 its order number, with 16 digits
--       12 'wait': the entry waits for another one | 'keep': none is next | 'lowest', 'highest': the waiting entry with
--          that number is next
-- Reply  now, writes
-- Keeps  what waits is in its lane all the time, so losing the set of those that wait delays them only.

allow_when_full()
local lost = check_in()
if lost then return lost end

local lane, key, expiry, group, what = ARGV[7], ARGV[8], tonumber(ARGV[9]), ARGV[10], ARGV[12]
local turns, waits = ARGV[2] .. 'turns:' .. lane, ARGV[2] .. 'waits:' .. lane
local own = group .. '\n' .. ARGV[11] .. '\n' .. key

local held = call_on_lane('HGET', turns, group)
if held and held == turn_text(expiry, key) then call('HDEL', turns, group) end
if what == 'wait' then
  call_on_lane('ZADD', waits, 0, own)
  return { NOW, WRITES }
end
call_on_lane('ZREM', waits, own)
if what == 'keep' then return { NOW, WRITES } end

local from, to = '[' .. group .. '\n', '(' .. group .. '\n\255'
for _ = 1, 8 do
  local found
  if what == 'lowest' then
    found = call('ZRANGEBYLEX', waits, from, to, 'LIMIT', 0, 1)
  else
    found = call('ZREVRANGEBYLEX', waits, to, from, 'LIMIT', 0, 1)
  end
  if not found[1] then break end
  call('ZREM', waits, found[1])
  local other = string.sub(found[1], #group + 19)
  local envelope = call('HGET', JOBS, other)
  if readable(envelope) and is_pending(envelope) and call_on_lane('ZSCORE', LANE .. lane, other) then
    call_on_lane('ZADD', LANE .. lane, lane_score(envelope, next_due(envelope)), other)
    place_lane(lane, NOW_US)
    break
  end
end
if placed_us then publish_if_first(earliest(), ARGV[6]) end
return { NOW, WRITES }
