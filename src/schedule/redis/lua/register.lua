-- register: adds entries, except those whose key has an entry already.
--
-- ARGV   6 channel that wakes the other instances (`publish_if_first`)
--        7 how long after it was accepted an entry is certainly new, ms; 0 for never. After that, the
--          journal must be asked before it is sent: another instance may have put it here, sent and
--          forgotten it, or changed it by hand
--        8 how long after it was accepted an entry may still be added, ms; '' for any time. The directory
--          reserves its key for that long (directory.rs)
--        9 how long before it is due an entry must have been accepted to be added to `contents`, ms; '' if none is
--          (contents.rs)
--        then for each entry: key, lane, its score in the lane, when it was accepted, envelope
-- Reply  now, writes, then for each entry: 0 if it was added, or was here and bare; -1 if it came too late, else the
--        envelope that is here and whether it is leased (1 or 0)
-- Keeps  an entry whose key is leased waits for the end of that lease.

local lost = check_in()
if lost then return lost end

local prompt, arrival, ahead = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local reply, touched, keys, added_to = { NOW, WRITES }, {}, {}, {}
local with_content = {}
for i = 10, #ARGV, 5 do keys[#keys + 1] = ARGV[i] end
local leases = call('ZMSCORE', LEASES, unpack(keys))
local changing = call('HMGET', CHANGING, unpack(keys))

for n, key in ipairs(keys) do
  local i = 10 + (n - 1) * 5
  local lane, score, accepted, envelope = ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), ARGV[i + 4]
  if prompt == 0 or NOW > accepted + prompt then envelope = with_flags(envelope, VERIFY) end
  local lease = leases[n]
  if changing[n] and not lease and not readable(call('HGET', JOBS, key)) then
    envelope = with_required_checks(key, envelope, true)
  end
  local late = arrival and NOW > accepted + arrival
  local added = not late and not lease and call('HSETNX', JOBS, key, envelope) == 1
  local here = not added and call('HGET', JOBS, key)
  local was_bare = readable(here) and is_bare(here)
  if late and not readable(here) then
    reply[#reply + 1] = -1
  elseif added or (not lease and (was_bare or not readable(here))) then
    if was_bare then
      -- It may be put off, because the journal did not know it until now.
      call('HSET', JOBS, key, with_required_checks(key, envelope, changing[n], here))
    elseif not added then
      call('HSET', JOBS, key, envelope)
      note_damage()
    end
    if string.byte(envelope, FLAGS) >= HIGH then note_ranked() end
    call_on_lane('ZADD', LANE .. lane, score, key)
    local due = due_of(tonumber(score))
    if not (touched[lane] and touched[lane] <= due) then touched[lane] = due end
    added_to[lane] = (added_to[lane] or 0) + 1
    if ahead and due > accepted + ahead then with_content[#with_content + 1] = ARGV[i + 3] .. ' ' .. key end
    reply[#reply + 1] = 0
  elseif was_bare then
    reply[#reply + 1] = 0 -- another instance found it in the journal and was faster
  elseif readable(here) then
    reply[#reply + 1] = here
    reply[#reply + 1] = lease and 1 or 0
  else
    call('HSET', JOBS, key, with_flags(envelope, VERIFY))
    reply[#reply + 1] = 0
  end
end

remind(with_content)

-- A lane whose turn comes by the time its new entries are due is in its place.
local lanes, misplaced, scores_of_misplaced = {}, {}, {}
for lane in pairs(touched) do lanes[#lanes + 1] = lane end
local scores = lanes[1] and call('ZMSCORE', LANES, unpack(lanes))
for n, lane in ipairs(lanes) do
  local score = tonumber(scores[n] or nil) or false
  if not score or turn_of(score) > touched[lane] * 1000 then
    misplaced[#misplaced + 1] = lane
    scores_of_misplaced[#misplaced] = score
  end
end
local fields = misplaced[1] and health_fields(misplaced)
for n, lane in ipairs(misplaced) do
  -- What is due now decides alone. Else, if nothing else waits there, the first entry of the lane is one of these.
  local due = touched[lane]
  if due > NOW and call_on_lane('ZCARD', LANE .. lane) ~= added_to[lane] then due = nil end
  plan_turn(lane, 0, nil, scores_of_misplaced[n], state_to_read(lane, fields[n]), nil, nil, due)
end
write_turns()
if placed_us then publish_if_first(earliest(), ARGV[6]) end
return reply
