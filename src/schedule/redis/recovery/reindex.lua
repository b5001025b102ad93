-- reindex: reads a part of all entries, and puts those back into their sets that are in none.
--
-- ARGV   6 the cursor, '0' at first
--        7 about how many entries to read
-- Reply  now, writes, the next cursor ('0': that was all), how many were put back
-- Keeps  an entry that waits, is leased, or has ended and is remembered is not changed. The journal is
--        asked before an entry that was put back is sent.

local lost = check_in()
if lost then return lost end

local found = call('HSCAN', JOBS, ARGV[6], 'COUNT', ARGV[7])
local many, touched = 0, {}
for i = 1, #found[2], 2 do
  local key, envelope = found[2][i], found[2][i + 1]
  if readable(envelope) and not call('ZSCORE', LEASES, key) then
    local lane = lane_of(envelope)
    if not is_pending(envelope) then
      if not call('ZSCORE', DEAD, key) and not call('ZSCORE', ENDED, key) then
        return_entry(key, envelope)
        call('HDEL', CHANGING, key)
        many = many + 1
      end
    elseif not is_claimable(key, lane) and not lease_of(key, lane) then
      call('HSET', JOBS, key, with_flags(envelope, VERIFY, FENCE))
      return_entry(key, envelope)
      call_on_lane('ZREM', LEASED .. lane, key)
      call('HDEL', CHANGING, key)
      touched[lane] = true
      many = many + 1
    end
  end
end
for lane in pairs(touched) do
  place_lane(lane, 0)
end
return { NOW, WRITES, found[1], many }
