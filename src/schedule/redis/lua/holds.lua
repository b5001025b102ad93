-- holds: the entries of some keys, without their content. Only reads.
--
-- ARGV   6 onwards: keys
-- Reply  now, then for each key: 0 if it is missing, or waits where no claim finds it | the header of its
--        envelope, then whether it is leased (1 or 0)

local reply = { NOW }
for i = 6, #ARGV do
  local key = ARGV[i]
  local envelope = call('HGET', JOBS, key)
  local lane = readable(envelope) and lane_of(envelope)
  local leased = lane and (call('ZSCORE', LEASES, key) or lease_of(key, lane))
  if lane and (leased or not is_pending(envelope) or is_claimable(key, lane)) then
    reply[#reply + 1] = string.sub(envelope, 1, HEADER_BYTES)
    reply[#reply + 1] = leased and 1 or 0
  else
    reply[#reply + 1] = 0
  end
end
return reply
