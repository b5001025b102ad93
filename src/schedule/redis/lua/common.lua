-- What all scripts share; put in front of each when it is loaded.
--
-- KEYS  1 jobs      HASH    key -> envelope
--       2 lanes     ZSET    lane -> when it next has something to do
--       3 leases    ZSET    key -> lease expiry
--       4 changing  HASH    key -> the request that leased it for a change by hand; once such a lease
--                           ended on a key of which nothing was here, and nobody knows what became of
--                           the change: when that was
--       5 dead      ZSET    key -> parked at      (only where ended entries are remembered)
--       6 ended     ZSET    key -> ended at       (likewise)
--       7 meta      HASH    instance -> how many changes it has made here, and what inspect.lua lists
--       8 epoch     STRING  whose data this is
-- ARGV  1 now in ms, or '' for this server's own clock
--       2 prefix of all keys of this partition
--       3 most leases out for one lane
--       4 the instance that calls
--       5 the highest write count of its own that it has seen
-- `directory`, a HASH key -> the partition where its lane lies, is only used by directory.lua.
-- All instants are milliseconds since 1970, except the scores of `lanes`, `leases` and `leased:NAME`,
-- which are microseconds: the last three digits keep an order within the millisecond. Redis handles whole
-- numbers several times as fast as fractions. Two ZSETs of each lane are not among KEYS, because a
-- claim cannot know them beforehand; they carry the same hash tag and so lie in the same slot:
--       lane:NAME    key -> due: what waits
--       leased:NAME  key -> lease expiry: what is leased. A lane has as many leases out as there are in
--                    force here, so one that was lost elsewhere counts until it expires and no longer.
--
-- An entry is in jobs and in exactly one of: its lane, leases (with leased:NAME, if it is pending),
-- dead, ended. A lane with something waiting or leased is in `lanes`: no later than its earliest
-- expiry and, unless it is full, its earliest due time. A lease in `leases` whose key is not in jobs reserves that key
-- for a change by hand.
--
-- A script is not rolled back when a command in it fails. Two failures are to be expected. A full
-- server refuses commands that may take memory until the script has written something. So each step
-- first writes what may be refused and removes last: a refused step has changed nothing. Scripts that
-- only move and remove what is here begin with `allow_when_full`: refusing them would keep a full
-- server full for ever. And a lane's key may hold another type, written by somebody else: `call_on_lane`
-- removes it.
--
-- Whole keys or fields may be gone, as with a policy that evicts. What `HGET` did not find is `false`;
-- an envelope is used only if it is `readable`. A script that finds something missing goes on with the
-- rest, and calls `note_damage`: then the schedule is compared with the journal.
--
-- Every script that changes something calls `check_in` first, which counts the changes of each
-- instance. An instance knows how many of its own were answered: a server that counts fewer has
-- been flushed, replaced or set back to an older copy, and must not be worked with until it has
-- been looked at.

local JOBS, LANES, LEASES, CHANGING, DEAD, ENDED, META, EPOCH =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local LANE, LEASED = ARGV[2] .. 'lane:', ARGV[2] .. 'leased:'
local CAP, INSTANCE, SEEN = tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
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

-- NEXT_US is where the next millisecond begins, BY_NOW ends a range of all microseconds before that.
local NOW_US, NEXT_US = NOW * 1000, (NOW + 1) * 1000
local NOW_TEXT, BY_NOW = text_of(NOW), '(' .. text_of(NEXT_US)

-- Envelope offsets, one higher than in envelope.rs.
local HEADER_BYTES, STATE, FLAGS, SERIES, DUE = 56, 2, 4, 5, 33
local RETRY_AT, ENDED_AT, LANE_LEN = 41, 49, 57
local VERIFY, INTERRUPTED, FENCE = 1, 4, 8

-- The same as UNKNOWN_CHANGE_MS in schedule/mod.rs.
local UNKNOWN_CHANGE_MS = 3600000

-- Whether a lease has expired: with the millisecond that its expiry names, whatever its number.
local function is_over(expiry)
  return tonumber(expiry) < NEXT_US
end

-- The millisecond of an instant in microseconds.
local function ms_of(instant)
  return math.floor(instant / 1000)
end

local function readable(envelope)
  return envelope and #envelope > LANE_LEN
end

local function is_pending(envelope)
  return string.byte(envelope, STATE) == 0
end

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

local function with_flags(envelope, ...)
  local flags = bit.bor(string.byte(envelope, FLAGS), ...)
  return string.sub(envelope, 1, FLAGS - 1) .. string.char(flags) .. string.sub(envelope, FLAGS + 1)
end

-- Notes that something is missing here, unless that is known.
local function note_damage()
  local state = call('HGET', META, 'state')
  if state == 'whole' then
    call('HSET', META, 'state', 'damaged', 'lost', NOW_TEXT)
  elseif state == 'loading' then
    call('HSET', META, 'again', 1, 'lost', NOW_TEXT)
  end
end

-- A command on a lane's own ZSET, which may turn out to be of another type.
local function call_on_lane(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) == 'table' and reply.err then
    if string.find(reply.err, 'WRONGTYPE', 1, true) then
      call('UNLINK', key)
      note_damage()
    end
    return call(command, key, ...)
  end
  return reply
end

-- Puts a lane where it belongs in the order after its entries or leases changed. One whose turn has
-- come keeps its place, unless it was served; any other stands at its earliest due time, but not
-- before `floor` (in microseconds), or where one of its leases expires, if that is earlier or the lane is
-- full. `how` says what was done: 'served' by a claim, 'settled' if leases of it have ended and none was
-- given. Where they are known, `out` is how many leases it has, and `expires` when the first of them ends.
local function place_lane(lane, floor, how, lease_count, expires)
  local head = call_on_lane('ZRANGE', LANE .. lane, 0, 0, 'WITHSCORES')
  lease_count = lease_count or call_on_lane('ZCARD', LEASED .. lane)
  local full = lease_count > 0 and lease_count >= CAP
  local at
  if head[1] and not full then
    at = tonumber(head[2]) * 1000
    if how ~= 'served' and at < NEXT_US then
      local current = tonumber(call('ZSCORE', LANES, lane) or nil)
      if current and current < NEXT_US then return end
    end
    if at < floor then at = floor end
  end
  -- Where the lane's turn has come, what has become of its leases is looked at then.
  if lease_count > 0 and not (at and at < NEXT_US) then
    -- It stands no later than where the first of its leases ended, so that needs not be looked up.
    if how == 'settled' and not at and call('ZSCORE', LANES, lane) then return end
    if not expires then
      local lease = call('ZRANGE', LEASED .. lane, 0, 0, 'WITHSCORES')
      expires = tonumber(lease[2] or nil)
    end
    expires = expires and ms_of(expires) * 1000
    if expires and not (at and at <= expires) then at = expires end
  end
  if at then
    call('ZADD', LANES, text_of(at), lane)
  else
    call('ZREM', LANES, lane)
  end
end

-- The expiry of the lease in force on an entry, as text, or nil. Where `leases` has lost it, the lane
-- still has it.
local function lease_of(key, lane)
  local expiry = call('ZSCORE', LEASES, key) or call_on_lane('ZSCORE', LEASED .. lane, key)
  if expiry and not is_over(expiry) then return expiry end
end

-- Whether an entry that waits will be claimed one day: it is in its lane, and the lane in the order.
local function is_claimable(key, lane)
  return call_on_lane('ZSCORE', LANE .. lane, key) and call('ZSCORE', LANES, lane)
end

-- Puts an entry back to where one of its state waits. The lane is not placed yet.
local function return_entry(key, envelope)
  local state = string.byte(envelope, STATE)
  if state == 0 then
    call_on_lane('ZADD', LANE .. lane_of(envelope), next_due(envelope), key)
  else
    local ended_at = struct.unpack('>i8', envelope, ENDED_AT)
    call('ZADD', state == 2 and DEAD or ENDED, ended_at, key)
  end
end

-- What an envelope that is put in has to be marked with, besides its own flags. `change_is_unknown`: CHANGING
-- names its key, and no lease is out on it. So one ended of which nobody knows what became of its change,
-- or was lost. `held` is the envelope that it replaces, if there is one.
local function with_required_checks(key, envelope, change_is_unknown, held)
  if change_is_unknown then
    call('HDEL', CHANGING, key)
    envelope = with_flags(envelope, VERIFY, FENCE)
  end
  local flags = held and bit.band(string.byte(held, FLAGS), VERIFY + FENCE + INTERRUPTED) or 0
  if flags ~= 0 then
    envelope = with_flags(envelope, VERIFY, flags)
    envelope = string.sub(envelope, 1, ENDED_AT - 1) .. string.sub(held, ENDED_AT, ENDED_AT + 7)
      .. string.sub(envelope, ENDED_AT + 8)
  end
  return envelope
end

-- Notes that nobody knows what became of a change of a key of which nothing is here: it may still be
-- written, so what is put in next has that refused first. After `UNKNOWN_CHANGE_MS` no call to a journal goes on.
-- Marks as old as that are removed here, a few for each that is added.
local function note_unknown_change(key)
  call('HSET', CHANGING, key, NOW_TEXT)
  local some = call('HRANDFIELD', CHANGING, 4, 'WITHVALUES')
  for i = 1, #some, 2 do
    local since = tonumber(some[i + 1])
    if since and since < NOW - UNKNOWN_CHANGE_MS then call('HDEL', CHANGING, some[i]) end
  end
end

-- Ends a lease that has expired. What was claimed for an attempt is marked with the start of its
-- lease, which lasted `lease_ms`. Says how many bytes the entry has.
local function return_lease(key, expiry, lease_ms)
  local envelope = call('HGET', JOBS, key)
  local by_hand = call('HDEL', CHANGING, key) == 1
  if not readable(envelope) then
    if by_hand then note_unknown_change(key) else note_damage() end
    call('ZREM', LEASES, key)
    return 0
  end
  local lane = lane_of(envelope)
  if is_pending(envelope) then
    if by_hand then
      envelope = with_flags(envelope, VERIFY, FENCE)
    else
      envelope = with_flags(envelope, VERIFY, INTERRUPTED)
      envelope = string.sub(envelope, 1, ENDED_AT - 1)
        .. struct.pack('>i8', ms_of(expiry) - lease_ms) .. string.sub(envelope, ENDED_AT + 8)
    end
    call('HSET', JOBS, key, envelope)
  end
  return_entry(key, envelope)
  call_on_lane('ZREM', LEASED .. lane, key)
  call('ZREM', LEASES, key)
  place_lane(lane, NOW_US)
  return #envelope
end

local function allow_when_full()
  call('ZREM', LEASES, '')
end

-- The write count of this change, and what to answer instead if this server has lost what it held.
local WRITES
local function check_in()
  WRITES = call('HINCRBY', META, INSTANCE, 1)
  if WRITES <= SEEN then
    call('HDEL', META, INSTANCE) -- or refused calls would count it up to where it was
    return redis.error_reply('REBUILDING this schedule has lost what it held')
  end
end

-- When leases given now end that last so long, as text: no two leases of one millisecond have the
-- same, unless a thousand scripts ran in it.
local function new_expiry(lease_ms)
  local number = call('HINCRBY', META, 'number', 1) % 1000
  return text_of((NOW + lease_ms) * 1000 + number)
end

-- When the first lane's turn comes, or nil.
local function earliest()
  local at = tonumber(call('ZRANGE', LANES, 0, 0, 'WITHSCORES')[2] or nil)
  return at and ms_of(at)
end

-- Wakes the other instances if something is to be done earlier than `before` said.
local function publish_if_earlier(before, channel)
  local after = earliest()
  if after and (not before or after < before) then
    call('PUBLISH', channel, after)
  end
end

-- When there is next something to claim: a lane's turn, or a lease that runs out. -1 for never.
local function next_claim()
  local lane = call('ZRANGE', LANES, 0, 0, 'WITHSCORES')
  local lease = call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')
  local at = tonumber(lane[2] or lease[2] or nil)
  if not at then return -1 end
  if lease[2] and tonumber(lease[2]) < at then at = tonumber(lease[2]) end
  return ms_of(at)
end
