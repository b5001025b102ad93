-- scan: a part of all entries, without their content. Only reads.
--
-- ARGV   6 the cursor, '0' at first
--        7 about how many entries to read
-- Reply  now, the next cursor ('0': that was all), then for each entry: key, lane, the header of its
--        envelope, whether it is leased (1 or 0). An entry that cannot be read is left out.
-- Keeps  first come the entries in `jobs`, then the bare ones, lane by lane. Such a cursor is 'l', the place in `lanes`, that
--        in the lane, and the name of the lane: the lanes that one place gives come by name, since their order may change.

local reply = { NOW, '0' }

local function add(key, lane, envelope, is_leased)
  reply[#reply + 1] = key
  reply[#reply + 1] = lane
  reply[#reply + 1] = string.sub(envelope, 1, HEADER_BYTES)
  reply[#reply + 1] = is_leased and 1 or 0
end

local place, inner, from = string.match(ARGV[6], '^l(%d+):(%d+):(.*)$')
if not place then
  local found = call('HSCAN', JOBS, ARGV[6], 'COUNT', ARGV[7])
  for i = 1, #found[2], 2 do
    local key, envelope = found[2][i], found[2][i + 1]
    if readable(envelope) then add(key, lane_of(envelope), envelope, call('ZSCORE', LEASES, key)) end
  end
  reply[2] = found[1]
  if found[1] == '0' and MAY_BE_BARE then reply[2] = 'l0:0:' end
  return reply
end

-- Adds the bare entries of a part of a lane. The results are how many entries it has, and its next place ('0': none).
local function add_bare(lane, at)
  local found = call_on_lane('ZSCAN', LANE .. lane, at, 'COUNT', ARGV[7])
  local keys, scores = {}, {}
  for i = 1, #found[2], 2 do
    keys[#keys + 1], scores[#scores + 1] = found[2][i], found[2][i + 1]
  end
  if not keys[1] then return 0, found[1] end
  local envelopes, leases = call('HMGET', JOBS, unpack(keys)), call('ZMSCORE', LEASES, unpack(keys))
  for n, key in ipairs(keys) do
    if not envelopes[n] and not leases[n] then add(key, lane, bare_envelope(lane, tonumber(scores[n])), false) end
  end
  return #keys, found[1]
end

local found = call('ZSCAN', LANES, place, 'COUNT', '10')
local lanes = {}
for i = 1, #found[2], 2 do
  if found[2][i] >= from then lanes[#lanes + 1] = found[2][i] end
end
table.sort(lanes)
local many = 0
for _, lane in ipairs(lanes) do
  local at = lane == from and inner or '0'
  repeat
    if many >= tonumber(ARGV[7]) then
      reply[2] = 'l' .. place .. ':' .. at .. ':' .. lane
      return reply
    end
    local read
    read, at = add_bare(lane, at)
    many = many + math.max(read, 1)
  until at == '0'
end
if found[1] ~= '0' then reply[2] = 'l' .. found[1] .. ':0:' end
return reply
