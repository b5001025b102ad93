-- leave_content: leaves the content of entries to the journal, which has had it for long, so they are bare from now on.
--
-- ARGV   6 how many reminders are taken from the list, at least 1
--        7 how long before it is due an entry still can be left, ms
--        then the keys that were read there, and that the journal has by now
-- Reply  now, writes
-- Keeps  an entry that is not as it was registered, or is due soon, is not changed. It has its content until it is sent.

allow_when_full()
local lost = check_in()
if lost then return lost end

local CONTENTS = ARGV[2] .. 'contents'
local due_after = NOW + tonumber(ARGV[7])
local keys = {}
for i = 8, #ARGV do keys[#keys + 1] = ARGV[i] end

local envelopes = keys[1] and call('HMGET', JOBS, unpack(keys)) or {}
local leases = keys[1] and call('ZMSCORE', LEASES, unpack(keys)) or {}
local changing = keys[1] and call('HMGET', CHANGING, unpack(keys)) or {}
-- For each lane, the scores and the keys of its entries.
local lists, soonest, left = {}, {}, {}
for n, key in ipairs(keys) do
  local envelope = envelopes[n]
  if readable(envelope) and not is_bare(envelope) and is_pending(envelope) and not leases[n] and not changing[n]
    and bit.band(byte(envelope, FLAGS), INTERRUPTED + FENCE + PUT_OFF + ORDERED) == 0
    and struct.unpack('>i8', envelope, RETRY_AT) == 0
  then
    local lane, due = lane_of(envelope), next_due(envelope)
    -- If its place is lost, its content says where it belongs.
    if due > due_after and call_on_lane('ZSCORE', LANE .. lane, key) then
      local list = lists[lane] or {}
      list[#list + 1], list[#list + 2] = lane_score(envelope, due) - BARE_EARLY, key
      lists[lane] = list
      soonest[lane] = math.min(soonest[lane] or due, due - BARE_EARLY)
      left[#left + 1] = key
    end
  end
end

local lanes = {}
for lane, list in pairs(lists) do
  call('ZADD', LANE .. lane, 'XX', unpack(list))
  lanes[#lanes + 1] = lane
end
if left[1] then call('HDEL', JOBS, unpack(left)) end
call_on_lane('LTRIM', CONTENTS, ARGV[6], '-1')
if lanes[1] then
  -- Their place is a little earlier than before. A lane whose turn is no later than that keeps it.
  local current = call('ZMSCORE', LANES, unpack(lanes))
  for n, lane in ipairs(lanes) do
    if not current[n] or turn_of(tonumber(current[n])) > soonest[lane] * 1000 then place_lane(lane, 0) end
  end
end
return { NOW, WRITES }
