-- holds: what is here of some keys, without their content. Only reads.
--
-- ARGV   6 onwards: keys
-- Reply  now, then for each key: 0 missing, or waiting where nothing brings it up | the header of its
--        envelope, then whether a lease on it is out (1 or 0)

local reply = { NOW }
for i = 6, #ARGV do
  local envelope = call('HGET', JOBS, ARGV[i])
  local leased = envelope and call('ZSCORE', LEASES, ARGV[i])
  if envelope and (leased or string.byte(envelope, STATE) ~= 0
      or comes_up(ARGV[i], lane_of(envelope))) then
    reply[#reply + 1] = string.sub(envelope, 1, HEADER_BYTES)
    reply[#reply + 1] = leased and 1 or 0
  else
    reply[#reply + 1] = 0
  end
end
return reply
