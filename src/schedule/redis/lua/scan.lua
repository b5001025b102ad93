-- scan: a part of all entries, without their content. Only reads.
--
-- ARGV   6 the cursor, '0' at first
--        7 about how many entries to read
-- Reply  now, the next cursor ('0': that was all), then for each entry: key, lane, the header of its
--        envelope, whether it is leased (1 or 0). An entry that cannot be read is left out.

local found = call('HSCAN', JOBS, ARGV[6], 'COUNT', ARGV[7])
local reply = { NOW, found[1] }
for i = 1, #found[2], 2 do
  if readable(found[2][i + 1]) then
    reply[#reply + 1] = found[2][i]
    reply[#reply + 1] = lane_of(found[2][i + 1])
    reply[#reply + 1] = string.sub(found[2][i + 1], 1, HEADER_BYTES)
    reply[#reply + 1] = call('ZSCORE', LEASES, found[2][i]) and 1 or 0
  end
end
return reply
