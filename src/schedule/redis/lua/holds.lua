-- holds: the entries of some keys, without their content. Only reads.
--
-- ARGV   6 onwards: keys, at least one
-- Reply  now, then for each key: 0 if it is missing, or waits where no claim finds it | the header of its
--        envelope, then whether it is leased (1 or 0)

local keys = {}
for i = 6, #ARGV do keys[#keys + 1] = ARGV[i] end
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
  if lane and not is_found then
    if turns[lane] == nil then turns[lane] = call('ZSCORE', LANES, lane) end
    is_found = turns[lane] and call_on_lane('ZSCORE', LANE .. lane, key)
  end
  if is_found then
    reply[#reply + 1] = string.sub(envelope, 1, HEADER_BYTES)
    reply[#reply + 1] = leased and 1 or 0
  else
    reply[#reply + 1] = 0
  end
end
return reply
