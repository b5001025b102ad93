-- endpoint_page: some of the endpoints, removed ones included, while all are read. Writes what is kept beside the
-- records again where it was lost: the index of the changes, and the limits of lanes.
--
-- ARGV   6 channel that wakes the other instances
--        7 the cursor of a scan, '0' at first
--        8 about how many endpoints to scan
-- Reply  now, writes (0 if nothing was written), since when the data is here, the number of the last
--        change, the next cursor ('0': that was all), then for each: name, record
-- Keeps  several instances may do this at once: only what no record has is removed from the index.

local fields = endpoint_fields(':number', ':since')
local number, since = tonumber(fields[1] or nil), fields[2]
local surplus = index_surplus()
local found = call('HSCAN', ENDPOINTS, ARGV[7], 'COUNT', ARGV[8])
local reply = { NOW, 0, '', '', found[1] }

local index, limits, highest = {}, {}, number or 0
for i = 1, #found[2], 2 do
  local name, record = found[2][i], found[2][i + 1]
  if name ~= ':number' and name ~= ':since' then
    local changed, removed, own = parts_of(record)
    changed = tonumber(changed) or 0
    highest = math.max(highest, changed)
    local score = removed == '1' and -changed or changed
    if tonumber(call('ZSCORE', CHANGES, name) or nil) ~= score then
      index[#index + 1] = text_of(score)
      index[#index + 1] = name
    end
    local settings = settings_of('endpoint:' .. name) or '  0'
    if removed == '0' and (string.match(settings, '^(%d* %d*) ') or own) ~= own then
      limits['endpoint:' .. name] = own
    end
    reply[#reply + 1] = name
    reply[#reply + 1] = record
  end
end

local is_incomplete = call('HLEN', ENDPOINTS) > 0 and not (number and since)
local is_behind = number and highest > number
if index[1] or next(limits) or is_incomplete or is_behind or found[1] == '0' and surplus > 0 then
  allow_when_full()
  local lost = check_in()
  if lost then return lost end
  reply[2] = WRITES
  if is_incomplete or is_behind then
    number, since = math.max(highest, number or NOW), since or new_since()
    call('HSET', ENDPOINTS, ':number', text_of(number), ':since', since)
  end
  if index[1] then call('ZADD', CHANGES, unpack(index)) end
  if found[1] == '0' and index_surplus() > 0 then
    -- It has endpoints whose records are missing. Every server must notice that. The index is written again by the
    -- next reading.
    if since then
      since = new_since()
      call('HSET', ENDPOINTS, ':since', since)
    end
    call('UNLINK', CHANGES)
  end
  if next(limits) then change_limits(limits, ARGV[6]) end
end
reply[3], reply[4] = generation_of(since), text_of(number or 0)
return reply
