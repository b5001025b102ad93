-- settle: what becomes of leased entries; each only if its lease is the one in force.
--
-- ARGV   6 channel that wakes the other instances
--        then for each: key, lane, expiry of the lease, verb, instant, bytes
-- Verbs  again     back to its lane, due at the instant, with the bytes as its header
--        release   back to its lane as it was
--        recheck   likewise, but the journal must be asked before it is sent
--        forget    ended, not remembered
--        remember  ended at the instant; the bytes are the envelope to remember
--        park      dead since the instant, kept whole; the bytes are its header
-- Reply  now, mark, when to claim next (-1: nothing known), then for
--        each: 1 done, 0 lost
-- Keeps  inflight counts the leases of each lane; a lost lease changes nothing.
--
-- What can be said to Redis at once for the whole batch is: most of the time here is spent between
-- Lua and Redis. No list gets longer than two per item of a batch, far below what unpack can take.

go_ahead_when_full()
local lost = check_in()
if lost then return lost end

local before = earliest()
local reply, back = { NOW, MARK, 0 }, {}
local given, gone, written, ended = {}, {}, {}, {}

local asked = {}
for i = 7, #ARGV, 6 do asked[#asked + 1] = ARGV[i] end
local in_force = call('ZMSCORE', LEASES, unpack(asked))
local settled = {}

for n = 1, #asked do
  local i = 7 + (n - 1) * 6
  local key, lane, expiry = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local verb, at, bytes = ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
  if in_force[n] and not settled[key] and tonumber(in_force[n]) == expiry then
    settled[key] = true
    given[#given + 1] = key
    back[lane] = (back[lane] or 0) + 1
    if verb == 'forget' then
      gone[#gone + 1] = key
    elseif verb == 'remember' then
      written[#written + 1] = key
      written[#written + 1] = bytes
      ended[#ended + 1] = at
      ended[#ended + 1] = key
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
    reply[#reply + 1] = 1
  else
    reply[#reply + 1] = 0
  end
end

if written[1] then call('HSET', JOBS, unpack(written)) end
if ended[1] then call('ZADD', ENDED, unpack(ended)) end
if gone[1] then call('HDEL', JOBS, unpack(gone)) end
if given[1] then call('ZREM', LEASES, unpack(given)) end
for lane, many in pairs(back) do
  give_back(lane, many)
  place(lane, NOW)
end
publish_if_earlier(before, ARGV[6])
reply[3] = next_claim()
return reply
