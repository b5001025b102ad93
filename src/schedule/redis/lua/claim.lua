-- claim: returns expired leases to their lanes, then leases due entries, lane by lane in turn.
--
-- ARGV   6 most leases to give
--        7 how long a lease lasts, ms
--        8 most entries for one visit of a lane
--        9 how long ended entries are remembered, ms; '' if they are not
--       10 most bytes of envelopes to give, and to return
--       11 most expired leases to return and ended entries to forget
--       12 where this instance's last claim is written down
--       13 the number of this claim: if its reply got lost, what it gave is given again
-- Reply  now, mark, when to claim next (-1: nothing known), the expiry of the leases given, then for
--        each lease: key, envelope
-- Keeps  inflight counts the leases of each lane; no lane gets more than the cap; an entry that was
--        returned is marked, with the start of its lease, so that the journal is asked before it
--        is sent again.

go_ahead_when_full()
local lost = check_in()
if lost then return lost end

local most, lease_ms, visit = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local remember_ms, bytes_left, upkeep = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local RECORD, number = ARGV[12], ARGV[13]

local before = call('GET', RECORD)
if before and string.sub(before, 1, #number + 1) == number .. ' ' then
  before = cmsgpack.unpack(string.sub(before, #number + 2))
  local in_force = call('ZMSCORE', LEASES, unpack(before.keys))
  local envelopes = call('HMGET', JOBS, unpack(before.keys))
  local reply = { NOW, MARK, 0, before.expiry }
  for i, key in ipairs(before.keys) do
    local envelope = envelopes[i]
    if envelope and in_force[i] and tonumber(in_force[i]) == before.expiry then
      if most > 0 then
        reply[#reply + 1] = key
        reply[#reply + 1] = envelope
        most = most - 1
      else
        -- Fewer are asked for by now: nobody has heard of the others.
        local lane = lane_of(envelope)
        call('ZADD', LANE .. lane, next_due(envelope), key)
        give_back(lane, 1)
        call('ZREM', LEASES, key)
        place(lane, NOW)
      end
    end
  end
  reply[3] = next_claim()
  return reply
end

if remember_ms then
  local over = call('ZRANGEBYSCORE', ENDED, '-inf', NOW - remember_ms, 'LIMIT', 0, upkeep)
  if over[1] then
    call('HDEL', JOBS, unpack(over))
    call('ZREM', ENDED, unpack(over))
  end
end

local returned_bytes = bytes_left
local expired = call('ZRANGEBYSCORE', LEASES, '-inf', NOW_TEXT, 'WITHSCORES', 'LIMIT', 0, upkeep)
for i = 1, #expired, 2 do
  if returned_bytes <= 0 then break end
  local key, given = expired[i], tonumber(expired[i + 1]) - lease_ms
  local envelope = call('HGET', JOBS, key)
  if envelope then
    returned_bytes = returned_bytes - #envelope
    local lane = lane_of(envelope)
    local flags = bit.bor(string.byte(envelope, FLAGS), VERIFY, INTERRUPTED)
    call('HSET', JOBS, key, string.sub(envelope, 1, FLAGS - 1) .. string.char(flags)
      .. string.sub(envelope, FLAGS + 1, ENDED_AT - 1) .. struct.pack('>i8', given)
      .. string.sub(envelope, ENDED_AT + 8))
    call('ZADD', LANE .. lane, next_due(envelope), key)
    give_back(lane, 1)
    call('ZREM', LEASES, key)
    place(lane, NOW)
  else
    call('ZREM', LEASES, key)
  end
end

local reply, expiry = { NOW, MARK, 0, NOW + lease_ms }, text_of(NOW + lease_ms)
local record = { expiry = NOW + lease_ms, keys = {} }
-- A lane that was served goes behind every lane whose turn has come. Within one millisecond the
-- order is kept by fractions; at today's instants a double still tells 1/4096 ms apart.
local last = call('ZREVRANGEBYSCORE', LANES, NEXT_MS, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
local tail = math.max(NOW, tonumber(last[2] or 0))
while most > 0 and bytes_left > 0 do
  local lanes = call('ZRANGEBYSCORE', LANES, '-inf', NEXT_MS, 'LIMIT', 0, math.min(most, 64))
  if not lanes[1] then break end
  for _, lane in ipairs(lanes) do
    if most <= 0 or bytes_left <= 0 then break end
    local lane_key = LANE .. lane
    local room = math.min(visit, CAP - out_of(lane), most)
    local keys = {}
    if room > 0 then
      keys = call('ZRANGEBYSCORE', lane_key, '-inf', NOW_TEXT, 'LIMIT', 0, room)
    end
    local given = #keys
    if given > 0 then
      local envelopes = call('HMGET', JOBS, unpack(keys))
      local leases = {}
      for i = 1, #keys do
        local envelope = envelopes[i]
        if envelope then
          leases[#leases + 1] = expiry
          leases[#leases + 1] = keys[i]
          reply[#reply + 1] = keys[i]
          reply[#reply + 1] = envelope
          record.keys[#record.keys + 1] = keys[i]
          bytes_left = bytes_left - #envelope
        else
          given = given - 1
        end
      end
      if given > 0 then
        call('ZADD', LEASES, unpack(leases))
        call('HINCRBY', INFLIGHT, lane, given)
      end
      call('ZREM', lane_key, unpack(keys))
      most = most - given
    end
    tail = tail + 0.001
    place(lane, tail, true, string.format('%.3f', tail))
  end
end

if record.keys[1] then
  call('SET', RECORD, number .. ' ' .. cmsgpack.pack(record), 'PX', lease_ms)
end
reply[3] = next_claim()
return reply
