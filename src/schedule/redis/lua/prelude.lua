-- What all scripts share; put in front of each when it is loaded.
--
-- KEYS  1 jobs      HASH  key -> envelope
--       2 lanes     ZSET  lane -> when it next has something to do
--       3 leases    ZSET  key -> lease expiry
--       4 inflight  HASH  lane -> leases out
--       5 dead      ZSET  key -> parked at      (only where ended entries are remembered)
--       6 ended     ZSET  key -> ended at       (likewise)
--       7 marks     HASH  instance -> how many changes it has made here
-- ARGV  1 now in ms, or '' for this server's own clock
--       2 prefix of the lanes' own ZSETs (key -> due)
--       3 most leases out for one lane
--       4 the instance that calls
--       5 the highest mark of its own that it has seen
-- All instants are milliseconds since 1970. The lanes' ZSETs are not among KEYS, because a claim
-- cannot know them beforehand; they carry the same hash tag and so lie in the same slot.
--
-- A script is not rolled back when a command in it fails. The one failure to be expected is a full
-- server, which refuses commands that may take memory until the script has written something. So
-- each step first writes what may be refused and removes last: a refused step has changed nothing.
-- Scripts that only move and remove what is here begin with `go_ahead_when_full`: refusing them
-- would keep a full server full for ever.
--
-- Every script that changes something then calls `check_in`, which counts the changes of each
-- instance. An instance knows how many of its own were answered: a server that counts fewer has
-- been flushed, replaced or set back to an older copy, and must not be worked with until it has
-- been filled from the journal again.

local JOBS, LANES, LEASES, INFLIGHT, DEAD, ENDED, MARKS =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local LANE, CAP, INSTANCE, SEEN = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local call = redis.call

local NOW = tonumber(ARGV[1])
if not NOW then
  local time = call('TIME')
  NOW = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Instants go to Redis as text made here: it writes Lua's numbers with 17 digits, which is slow.
local function text_of(instant)
  return string.format('%d', instant)
end

local NOW_TEXT, NEXT_MS = text_of(NOW), '(' .. text_of(NOW + 1)

-- Envelope offsets, one higher than in envelope.rs.
local HEADER_BYTES, STATE, FLAGS, SERIES, DUE = 56, 2, 4, 5, 33
local RETRY_AT, ENDED_AT, LANE_LEN = 41, 49, 57
local VERIFY, INTERRUPTED = 1, 4

local function lane_of(envelope)
  local length = struct.unpack('>I2', envelope, LANE_LEN)
  return string.sub(envelope, LANE_LEN + 2, LANE_LEN + 1 + length)
end

local function next_due(envelope)
  local due = struct.unpack('>i8', envelope, DUE)
  local retry_at = struct.unpack('>i8', envelope, RETRY_AT)
  if retry_at ~= 0 and retry_at < due then return retry_at end
  return due
end

local function out_of(lane)
  return tonumber(call('HGET', INFLIGHT, lane) or 0)
end

local function give_back(lane, many)
  if call('HINCRBY', INFLIGHT, lane, -many) <= 0 then
    call('HDEL', INFLIGHT, lane)
  end
end

-- Puts a lane where it belongs in the order after its entries or leases changed. One whose turn has
-- come keeps its place, unless it was `served`; any other stands at its earliest due time, but not
-- before `floor`. A full lane and an empty one stand nowhere.
local function place(lane, floor, served, floor_text)
  local head = call('ZRANGE', LANE .. lane, 0, 0, 'WITHSCORES')
  if not head[1] or out_of(lane) >= CAP then
    call('ZREM', LANES, lane)
    return
  end
  local due = tonumber(head[2])
  if not served then
    local stands = tonumber(call('ZSCORE', LANES, lane) or nil)
    if stands and stands < NOW + 1 and due <= NOW then return end
  end
  call('ZADD', LANES, due >= floor and head[2] or floor_text or text_of(floor), lane)
end

-- Whether an entry that waits will be claimed one day: it is in its lane, and the lane stands in the
-- order or is full. Where whole keys are lost, as to a policy that evicts them, it need not be.
local function comes_up(key, lane)
  return call('ZSCORE', LANE .. lane, key)
    and (call('ZSCORE', LANES, lane) or out_of(lane) >= CAP)
end

local function go_ahead_when_full()
  call('ZREM', LEASES, '')
end

-- The mark of this change, and what to answer instead if this server has lost what it held.
local MARK
local function check_in()
  MARK = call('HINCRBY', MARKS, INSTANCE, 1)
  if MARK <= SEEN then
    call('HDEL', MARKS, INSTANCE) -- or refused calls would count it up to where it was
    return redis.error_reply('REBUILDING this schedule has lost what it held')
  end
end

-- When the first lane's turn comes, or nil.
local function earliest()
  return tonumber(call('ZRANGE', LANES, 0, 0, 'WITHSCORES')[2] or nil)
end

-- Wakes the other instances if something is to be done earlier than `before` said.
local function publish_if_earlier(before, channel)
  local after = earliest()
  if after and (not before or after < before) then
    call('PUBLISH', channel, math.floor(after))
  end
end

-- When there is next something to claim: a lane's turn, or a lease that runs out. -1 for never.
local function next_claim()
  local lane = call('ZRANGE', LANES, 0, 0, 'WITHSCORES')
  local lease = call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')
  local at = tonumber(lane[2] or lease[2] or -1)
  if lease[2] and tonumber(lease[2]) < at then at = tonumber(lease[2]) end
  return math.floor(at)
end
