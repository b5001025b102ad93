-- pending: how many entries are pending in a part of the lanes. Only reads.
--
-- ARGV   6 the cursor, '0' at first
--        7 about how many lanes to look at
-- Reply  now, the next cursor ('0': that was all), how many entries wait in these lanes or are leased; with the first part,
--        also those that were put in under the lease of their key, and wait for its end

local many = 0
if ARGV[6] == '0' then
  local changing = call('HGETALL', CHANGING)
  for i = 1, #changing, 2 do
    local key = changing[i]
    local envelope = call('ZSCORE', LEASES, key) and call('HGET', JOBS, key)
    if readable(envelope) and is_pending(envelope) and not call('ZSCORE', LEASED .. lane_of(envelope), key) then
      many = many + 1
    end
  end
end
local found = call('ZSCAN', LANES, ARGV[6], 'COUNT', ARGV[7])
for i = 1, #found[2], 2 do
  many = many + call('ZCARD', LANE .. found[2][i]) + call('ZCARD', LEASED .. found[2][i])
end
return { NOW, found[1], many }
