-- restore: puts entries back that are pending in the journal.
--
-- ARGV   6 channel that wakes the other instances (`publish_if_first`)
--        7 the index in ARGV of the last key
--        8 1 if an entry has another than the usual priority, else 0
--        then for each lane, each once: lane, how many entries, when the first of them is to be claimed; then for each of
--        these its score in the lane, key; no key twice
--        then the envelope of each entry, in the same order; of one that may be bare, only the header of the envelope. If only
--        places are known, no envelopes follow
-- Reply  now, writes, how many were missing (or waited where no claim finds them), how many had other
--        progress
-- Keeps  a leased entry is not changed. In a running schedule, callers set VERIFY in the envelopes, so the
--        journal is asked before such an entry is sent. So no harm is done if the journal was read before the
--        entry's latest step.

local lost = check_in()
if lost then return lost end
if ARGV[8] == '1' then note_ranked() end

-- A million entries are put back this way. So there is one call for many entries where possible, since a call from Lua
-- costs more than its work, and what is usual after a loss takes no step for each entry.
local last, keys, i, none = tonumber(ARGV[7]), {}, 9, {}
while i < last do
  local ends = i + 2 + 2 * tonumber(ARGV[i + 1])
  for k = i + 4, ends, 2 do keys[#keys + 1] = ARGV[k] end
  i = ends + 1
end
-- After a loss there may be none of these.
local found = call('HLEN', JOBS) > 0 and call('HMGET', JOBS, unpack(keys)) or none
local leases = call('ZCARD', LEASES) > 0 and call('ZMSCORE', LEASES, unpack(keys)) or none
local changing = call('HLEN', CHANGING) > 0 and call('HMGET', CHANGING, unpack(keys)) or none

local missing, moved, touched, new_jobs, lanes, soonest = 0, 0, {}, {}, {}, {}

-- Adds bare entries to a lane: the scores and keys in `list` at these indexes.
local function add_bare(lane, list, from, to)
  local new = call_on_lane('ZADD', LANE .. lane, 'NX', unpack(list, from, to))
  missing = missing + new
  if 2 * new > to - from then return end
  -- After a loss there are none of these.
  local waiting = {}
  for k = from + 1, to, 2 do waiting[#waiting + 1] = list[k] end
  for n, score in ipairs(call_on_lane('ZMSCORE', LANE .. lane, unpack(waiting))) do
    local own = list[from + 2 * n - 2]
    if not is_same(score, own) then
      call_on_lane('ZADD', LANE .. lane, own, waiting[n])
      moved = moved + 1
    end
  end
end

-- Whether these entries, by their numbers, have nothing here but a place, and need no more.
local function are_bare(from, to)
  if #ARGV > last then return false end
  if found == none and leases == none and changing == none then return true end
  for n = from, to do
    if found[n] or leases[n] or changing[n] then return false end
  end
  return true
end

-- Puts one entry back. Notes in `added` and `bare` what is to be added to its lane.
local function put_back(n, lane, score, key, added, bare)
  local held, envelope = found[n], ARGV[last + n] or ''
  local may_be_bare = #envelope <= HEADER_BYTES
  if not held and may_be_bare and not leases[n] and not changing[n] then
    bare[#bare + 1], bare[#bare + 2] = score, key
    return
  end
  local progress = envelope ~= '' and string.sub(envelope, SERIES, RETRY_AT + 7)
  if may_be_bare then envelope = bare_envelope(lane, tonumber(score)) end
  if not readable(held) then
    missing = missing + 1
    envelope = with_required_checks(key, envelope, changing[n] and not leases[n])
    if leases[n] then envelope = with_flags(envelope, VERIFY) end
    new_jobs[#new_jobs + 1], new_jobs[#new_jobs + 2] = key, envelope
    if not leases[n] then added[#added + 1], added[#added + 2] = score, key end
  elseif is_pending(held) and not leases[n] then
    local unclaimable = not is_claimable(key, lane)
    local differs
    if is_bare(held) then
      -- It may be put off. Then its place in the lane is another one.
      differs = next_due(held) ~= due_of(tonumber(score))
    elseif progress then
      differs = progress ~= string.sub(held, SERIES, RETRY_AT + 7)
    else
      differs = next_due(held) ~= due_of(tonumber(score)) + BARE_EARLY
    end
    if (unclaimable or differs) and not (unclaimable and lease_of(key, lane)) then
      if unclaimable then missing = missing + 1 else moved = moved + 1 end
      call('HSET', JOBS, key, with_required_checks(key, envelope, changing[n], held))
      call_on_lane('ZADD', LANE .. lane, score, key)
      touched[lane] = true
    end
  end
end

local number = 1
i = 9
while i < last do
  local lane, count = ARGV[i], tonumber(ARGV[i + 1])
  local from, to = i + 3, i + 2 + 2 * count
  local is_added = true
  if are_bare(number, number + count - 1) then
    add_bare(lane, ARGV, from, to)
  else
    local added, bare = {}, {}
    for n = 0, count - 1 do
      put_back(number + n, lane, ARGV[from + 2 * n], ARGV[from + 2 * n + 1], added, bare)
    end
    if added[1] then call_on_lane('ZADD', LANE .. lane, unpack(added)) end
    if bare[1] then add_bare(lane, bare, 1, #bare) end
    is_added = added[1] or bare[1]
  end
  if is_added then
    lanes[#lanes + 1] = lane
    soonest[#lanes] = tonumber(ARGV[i + 2])
  end
  number, i = number + count, to + 1
end
if new_jobs[1] then call('HSET', JOBS, unpack(new_jobs)) end
if lanes[1] then
  -- A lane whose turn is no later than the first entry added to it keeps it.
  local current = call('ZMSCORE', LANES, unpack(lanes))
  for n, lane in ipairs(lanes) do
    if not current[n] or turn_of(tonumber(current[n])) > soonest[n] * 1000 then touched[lane] = true end
  end
end
for lane in pairs(touched) do
  place_lane(lane, 0)
end
if placed_us then publish_if_first(earliest(), ARGV[6]) end
return { NOW, WRITES, missing, moved }
