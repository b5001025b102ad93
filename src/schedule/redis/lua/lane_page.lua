-- lane_page: some of the lanes: how much waits in each, how its destination is doing, and its settings. Only reads.
--
-- ARGV   6 'settings': lanes that have settings | 'lanes': lanes in `lanes` that have none | 'failing': lanes that are in
--          neither, and whose last call was not acknowledged | 'one': one lane
--        7 the cursor of a scan, '0' at first; for one lane its name
--        8 about how many lanes to scan
--        9 maximum number of lanes in the reply
--       10 of the lanes that the scan gives, only those whose names come after this one
--       11 '1' if everything that is pending is here, unless `loaded_until` in `meta` says something else
-- Reply  now, the next cursor ('0': that was all), 1 if the scan gave more lanes than the reply has, else 0, by which
--        due time everything is here, in ms ('': everything), then for each lane, by name: lane, entries that wait,
--        entries that are due, entries that are due later than that time, leases, when the first of those that are due was due (-1: none is),
--        its field in `health` ('': none), its settings ('': none)

local source, cursor, most, after = ARGV[6], ARGV[7], tonumber(ARGV[9]), ARGV[10]
local reply, names = { NOW, '0', 0, '' }, {}

local held_until = tonumber(call('HGET', META, 'loaded_until') or nil)
if held_until and held_until >= 9007199254740992 then
  held_until = nil
elseif held_until or ARGV[11] ~= '1' then
  held_until = math.max(held_until or NOW, NOW)
  reply[4] = text_of(held_until)
end

-- How many entries of a lane are due later than that.
local function later_in(lane)
  local later, moved = 0, { -PRIORITY_MS, 0, PRIORITY_MS }
  for n, range in ipairs(priority_ranges()) do
    later = later + call_on_lane('ZCOUNT', LANE .. lane, '(' .. text_of(held_until + moved[n]), range[2])
  end
  return later
end

-- When an entry that waits in a lane with this score is due, in ms: the score says when it is claimed, which is some time
-- before. One that was put off is due when its score says.
local function due_at(key, score)
  local claimed, envelope = due_of(score), call('HGET', JOBS, key)
  local due = readable(envelope) and attempt_due(envelope) or claimed + BARE_EARLY
  return due > claimed and due <= claimed + BARE_EARLY and due or claimed
end

-- When the first entry of a lane is due, in ms, at the latest now; nil if none waits.
local function oldest_due(lane)
  local oldest
  for _, range in ipairs(priority_ranges()) do
    local first = call_on_lane('ZRANGEBYSCORE', LANE .. lane, range[1], range[2], 'WITHSCORES', 'LIMIT', '0', '1')
    local due = first[1] and due_at(first[1], tonumber(first[2]))
    if due and not (oldest and oldest <= due) then oldest = due end
  end
  return oldest and math.min(oldest, NOW)
end

if source == 'one' then
  names[1] = cursor
else
  local found
  if source == 'failing' then
    found = redis.pcall('HSCAN', HEALTH, cursor, 'COUNT', ARGV[8])
    if found.err then found = { '0', {} } end
  else
    found = call(source == 'settings' and 'HSCAN' or 'ZSCAN', source == 'settings' and SETTINGS or LANES,
      cursor, 'COUNT', ARGV[8])
  end
  reply[2] = found[1]
  local seen = {}
  for i = 1, #found[2], 2 do
    local name = found[2][i]
    local wanted = name ~= 'number'
    if source == 'lanes' then wanted = not settings_of(name) end
    if source == 'failing' then
      wanted = health_from(found[2][i + 1])[OUTCOME] >= UNACKNOWLEDGED and not settings_of(name)
        and not call('ZSCORE', LANES, name)
    end
    if wanted and name > after and not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  table.sort(names)
end

for n, lane in ipairs(names) do
  if n > most then
    reply[3] = 1
    break
  end
  local due = 0
  for _, range in ipairs(priority_ranges()) do
    due = due + call_on_lane('ZCOUNT', LANE .. lane, range[1], range[3])
  end
  local waiting = call_on_lane('ZCARD', LANE .. lane)
  reply[#reply + 1] = lane
  reply[#reply + 1] = waiting
  reply[#reply + 1] = due
  reply[#reply + 1] = held_until and waiting > due and later_in(lane) or 0
  reply[#reply + 1] = call_on_lane('ZCARD', LEASED .. lane)
  reply[#reply + 1] = due > 0 and oldest_due(lane) or -1
  reply[#reply + 1] = health_fields({ lane })[1] or ''
  reply[#reply + 1] = settings_of(lane) or ''
end
return reply
