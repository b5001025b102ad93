-- restore: puts entries back that are pending in the journal.
--
-- ARGV   6 channel that wakes the other instances (`publish_if_first`)
--        then for each entry: key, lane, its score in the lane, envelope; no key twice. Of one that may be bare, only the
--        header of the envelope, or nothing, if only its place is known
-- Reply  now, writes, how many were missing (or waited where no claim finds them), how many had other
--        progress
-- Keeps  a leased entry is not changed. In a running schedule, callers set VERIFY in the envelopes, so the
--        journal is asked before such an entry is sent. So no harm is done if the journal was read before the
--        entry's latest step.

-- How long before it is due what is bare is claimed, in ms. Must equal CLAIMED_EARLY_MS in schedule/mod.rs.
local EARLY = 20

local lost = check_in()
if lost then return lost end

-- One call for many entries where possible: a million entries are put back this way, and a call from Lua
-- costs more than its work.
local keys = {}
for i = 7, #ARGV, 4 do keys[#keys + 1] = ARGV[i] end
local found = call('HMGET', JOBS, unpack(keys))
-- After a loss there may be none of these.
local leases = call('ZCARD', LEASES) > 0 and call('ZMSCORE', LEASES, unpack(keys)) or {}
local changing = call('HLEN', CHANGING) > 0 and call('HMGET', CHANGING, unpack(keys)) or {}

local missing, moved, touched, new_jobs, added, bare, soonest = 0, 0, {}, {}, {}, {}, {}

-- Notes that an entry waits, in a list by lane.
local function add(lists, lane, score, key)
  local list, at = lists[lane] or {}, due_of(tonumber(score))
  list[#list + 1], list[#list + 2] = score, key
  lists[lane] = list
  if not soonest[lane] or at < soonest[lane] then soonest[lane] = at end
end

for n, key in ipairs(keys) do
  local held, i = found[n], 4 * n + 3
  local lane, score, envelope = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local may_be_bare = #envelope <= HEADER_BYTES
  local progress = envelope ~= '' and string.sub(envelope, SERIES, RETRY_AT + 7)
  if may_be_bare then envelope = bare_envelope(lane, tonumber(score)) end
  if byte(envelope, FLAGS) >= HIGH then note_ranked() end
  if not held and may_be_bare and not leases[n] and not changing[n] then
    add(bare, lane, score, key)
  elseif not readable(held) then
    missing = missing + 1
    envelope = with_required_checks(key, envelope, changing[n] and not leases[n])
    if leases[n] then envelope = with_flags(envelope, VERIFY) end
    new_jobs[#new_jobs + 1], new_jobs[#new_jobs + 2] = key, envelope
    if not leases[n] then add(added, lane, score, key) end
  elseif is_pending(held) and not leases[n] then
    local unclaimable = not is_claimable(key, lane)
    local differs
    if is_bare(held) then
      -- It may be put off. Then its place in the lane is another one.
      differs = next_due(held) ~= due_of(tonumber(score))
    elseif progress then
      differs = progress ~= string.sub(held, SERIES, RETRY_AT + 7)
    else
      differs = next_due(held) ~= due_of(tonumber(score)) + EARLY
    end
    if unclaimable or differs then
      if not unclaimable or not lease_of(key, lane) then
        if unclaimable then missing = missing + 1 else moved = moved + 1 end
        call('HSET', JOBS, key, with_required_checks(key, envelope, changing[n], held))
        call_on_lane('ZADD', LANE .. lane, score, key)
        touched[lane] = true
      end
    end
  end
end

if new_jobs[1] then call('HSET', JOBS, unpack(new_jobs)) end
for lane, list in pairs(added) do
  call_on_lane('ZADD', LANE .. lane, unpack(list))
end
for lane, list in pairs(bare) do
  local new = call_on_lane('ZADD', LANE .. lane, 'NX', unpack(list))
  missing = missing + new
  if new < #list / 2 then
    -- After a loss there are none of these.
    local waiting = {}
    for i = 2, #list, 2 do waiting[#waiting + 1] = list[i] end
    for n, score in ipairs(call_on_lane('ZMSCORE', LANE .. lane, unpack(waiting))) do
      if not is_same(score, list[2 * n - 1]) then
        call_on_lane('ZADD', LANE .. lane, list[2 * n - 1], waiting[n])
        moved = moved + 1
      end
    end
  end
end
local lanes = {}
for lane in pairs(soonest) do lanes[#lanes + 1] = lane end
if lanes[1] then
  -- A lane whose turn is no later than the first entry added to it keeps it.
  local current = call('ZMSCORE', LANES, unpack(lanes))
  for n, lane in ipairs(lanes) do
    if not current[n] or turn_of(tonumber(current[n])) > soonest[lane] * 1000 then touched[lane] = true end
  end
end
for lane in pairs(touched) do
  place_lane(lane, 0)
end
if placed_us then publish_if_first(earliest(), ARGV[6]) end
return { NOW, WRITES, missing, moved }
