-- holds: what is here of some keys, without their content. Only reads.
--
-- ARGV   6 onwards: keys
-- Reply  now, then for each key: 0 missing | the header of its envelope, then whether a lease on it
--        is out (1 or 0)

local reply = { NOW }
for i = 6, #ARGV do
  local envelope = call('HGET', JOBS, ARGV[i])
  if envelope then
    reply[#reply + 1] = string.sub(envelope, 1, HEADER_BYTES)
    reply[#reply + 1] = call('ZSCORE', LEASES, ARGV[i]) and 1 or 0
  else
    reply[#reply + 1] = 0
  end
end
return reply
