-- holds: the entries of some keys, without their content. Only reads.
--
-- ARGV   6 onwards: key and lane of each, at least one
-- Reply  now, then for each key: 0 if it is missing, or waits where no claim finds it | the header of its
--        envelope, then whether it is leased (1 or 0)

local keys = {}
for i = 6, #ARGV, 2 do keys[#keys + 1] = ARGV[i] end
local envelopes = call('HMGET', JOBS, unpack(keys))
local expiries = call('ZMSCORE', LEASES, unpack(keys))

-- The turns of the lanes that were looked at; false for one that is not in `lanes`.
local turns = {}

local reply = { NOW }
for n, key in ipairs(keys) do
  local envelope, lane, leased = envelopes[n], nil, nil
  if readable(envelope) then
    lane = lane_of(envelope)
    local in_lane = not expiries[n] and call_on_lane('ZSCORE', LEASED .. lane, key)
    leased = expiries[n] or (in_lane and not is_over(in_lane))
  end
  local is_found = lane and (leased or not is_pending(envelope))
  local may_be_bare = MAY_BE_BARE and not envelope and not expiries[n]
  if may_be_bare then lane = ARGV[2 * n + 5] end
  if lane and not is_found then
    if turns[lane] == nil then turns[lane] = call('ZSCORE', LANES, lane) end
    is_found = turns[lane] and call_on_lane('ZSCORE', LANE .. lane, key)
    if is_found and may_be_bare then envelope = bare_envelope(lane, tonumber(is_found)) end
  end
  if is_found then
    reply[#reply + 1] = string.sub(envelope, 1, HEADER_BYTES)
    reply[#reply + 1] = leased and 1 or 0
  else
    reply[#reply + 1] = 0
  end
end
return reply
