-- settle: what becomes of leased entries; each only if its lease is the one in force.
--
-- ARGV   4 channel that wakes the other instances
--        then for each: key, lane, expiry of the lease, verb, instant, bytes
-- Verbs  again     back to its lane, due at the instant, with the bytes as its header
--        release   back to its lane as it was
--        recheck   likewise, but the journal must be asked before it is sent
--        forget    ended, not remembered
--        remember  ended at the instant; the bytes are the envelope to remember
--        park      dead since the instant, kept whole; the bytes are its header
-- Reply  now, when to claim next (-1: nothing known), then for each: 1 done, 0 lost
-- Keeps  inflight counts the leases of each lane; a lost lease changes nothing.

go_ahead_when_full()
local before = earliest()
local reply, touched = { NOW, 0 }, {}
for i = 5, #ARGV, 6 do
  local key, lane, expiry = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local verb, at, bytes = ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
  local in_force = call('ZSCORE', LEASES, key)
  if in_force and tonumber(in_force) == expiry then
    give_back(lane)
    touched[lane] = true
    if verb == 'forget' then
      call('HDEL', JOBS, key)
    elseif verb == 'remember' then
      call('HSET', JOBS, key, bytes)
      call('ZADD', ENDED, at, key)
    elseif verb == 'release' or verb == 'recheck' then
      local envelope = call('HGET', JOBS, key)
      if verb == 'recheck' then
        local flags = bit.bor(string.byte(envelope, FLAGS), VERIFY)
        call('HSET', JOBS, key, string.sub(envelope, 1, FLAGS - 1) .. string.char(flags)
          .. string.sub(envelope, FLAGS + 1))
      end
      call('ZADD', LANE .. lane, next_due(envelope), key)
    else
      local envelope = call('HGET', JOBS, key)
      call('HSET', JOBS, key, bytes .. string.sub(envelope, HEADER_BYTES + 1))
      call('ZADD', verb == 'park' and DEAD or LANE .. lane, at, key)
    end
    call('ZREM', LEASES, key)
    reply[#reply + 1] = 1
  else
    reply[#reply + 1] = 0
  end
end
for lane in pairs(touched) do
  place(lane, NOW)
end
publish_if_earlier(before, ARGV[4])
reply[2] = next_claim()
return reply
