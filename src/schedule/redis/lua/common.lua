-- What all scripts share. It is put in front of each script when that is loaded.
--
-- KEYS  1 jobs      HASH    key -> envelope
--       2 lanes     ZSET    lane -> its turn: when a claim next has something to do there
--       3 leases    ZSET    key -> lease expiry
--       4 changing  HASH    key -> the request that leased it for a change by hand. If the lease of a
--                           missing entry ended and it is not known whether the change was written
--                           (an unknown change): key -> when the lease ended
--       5 dead      ZSET    key -> parked at      (only where ended entries are remembered)
--       6 ended     ZSET    key -> ended at       (likewise)
--       7 meta      HASH    instance -> how many changes it has made here, and what inspect.lua lists
--       8 epoch     STRING  the owner of the data
--       9 health    HASH    lane -> how its destination is doing (lanes.lua)
--      10 settings  HASH    lane -> its settings, and number (lanes.lua)
-- ARGV  1 now in ms, or '' for this server's own clock
--       2 prefix of all keys of this partition
--       3 the smallest and the largest number of leases of a lane, and '1' if entries may be bare, else '0', with blanks
--         between
--       4 the instance that calls
--       5 the highest write count of its own that it has seen
-- `directory`, a HASH key -> the partition that has the key's lane, is used by directory.lua alone.
-- All instants are milliseconds since 1970, except the scores of `lanes`, `leases` and `leased:NAME`.
-- Those are microseconds (lane_turns.lua says how those of `lanes` are moved by class): the last three digits keep an order
-- within the millisecond. Redis handles whole numbers several times as fast as fractions. Two ZSETs of each lane are
-- not among KEYS, because a claim cannot know them beforehand. They have the same hash tag, so they are in the same
-- slot:
--       lane:NAME    key -> when it is claimed: the entries that wait. That is when they are due, or up to 20 ms before;
--                    moved by their priority, and if an attempt was requested by hand (`lane_score`)
--       turns:NAME   HASH order key -> the lease on one of its entries (`turn_text`); it may have ended
--       waits:NAME   entries that wait for another one of their order key: order key, number, key. They are in their
--                    lane as well, so whatever is lost or left here delays them only
--       contents     LIST what waits with its content and is not due soon, oldest first: contents.rs
--       outages      HASH lane -> since when and until when its destination was away, in ms: see outages.lua
--       leased:NAME  key -> lease expiry: the entries that are leased. The number of leases of a lane is
--                    counted here. So a lease that `leases` has lost counts until it expires.
--
-- An entry is in jobs and in exactly one of: its lane, leases (with leased:NAME, if it is pending),
-- dead, ended. One that waits may be bare: it is in its lane alone, and the journal has the rest (`bare_envelope`). A lane with waiting or leased entries is in `lanes`. Its turn is no later than its earliest
-- expiry (for a lane that answers well: its latest; until then its expired leases are found in `leases` alone). Unless
-- the lane is full, held, probing or at its rate, the turn is also no later than its earliest due time. A lease in
-- `leases` whose key is not in jobs reserves that key for a change by hand.
--
-- Redis does not roll a script back when a command in it fails. Two failures are expected.
-- A full server refuses commands that may take memory, until the script has written something. So each
-- step first writes what may be refused, and removes last: a refused step has changed nothing. Scripts
-- that only move and remove entries begin with `allow_when_full`: if they were refused, a full
-- server would stay full. And another client may have overwritten a lane's key with another type:
-- `call_on_lane` removes it.
--
-- Whole keys or fields may be missing, for example because of a policy that evicts. What `HGET` did not
-- find is `false`. An envelope is used only if it is `readable`. A script that finds something missing
-- continues with the rest, and calls `note_damage`: then the schedule is compared with the journal.
--
-- Every script that changes something calls `check_in` first, which counts the changes of each
-- instance. An instance knows how many of its changes were answered. A server that counts fewer has
-- been flushed, replaced or set back to an older copy. Its data must not be used before the instance
-- has inspected it.

local JOBS, LANES, LEASES, CHANGING, DEAD, ENDED, META, EPOCH, HEALTH, SETTINGS =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local LANE, LEASED = ARGV[2] .. 'lane:', ARGV[2] .. 'leased:'
local blank = string.find(ARGV[3], ' ', 1, true)
local START, CAP = tonumber(string.sub(ARGV[3], 1, blank - 1)), tonumber(string.sub(ARGV[3], blank + 1, -3))
local MAY_BE_BARE = string.sub(ARGV[3], -1) == '1'
local INSTANCE, SEEN = ARGV[4], tonumber(ARGV[5])
local call = redis.call
-- What is looked up for every entry: a local is found several times as fast as a global.
local ARGV, tonumber, byte = ARGV, tonumber, string.byte

local NOW_TEXT = ARGV[1]
if NOW_TEXT == '' then
  local time = call('TIME')
  NOW_TEXT = time[1] .. string.sub(1000 + math.floor(time[2] / 1000), 2)
end
local NOW = tonumber(NOW_TEXT)

-- Instants and counts are given to Redis as text. Redis formats a Lua number with 17 digits, which is slow. This is slow
-- as well, about as a call of a command, so it is not done before the text is needed. `tonumber` of a text is as slow.
local function text_of(instant)
  return string.format('%d', instant)
end

-- The text of a small number that a script gives to Redis many times.
local count_texts = {}

local function count_text(count)
  local text = count_texts[count]
  if not text then
    text = text_of(count)
    count_texts[count] = text
  end
  return text
end

-- NEXT_US is the start of the next millisecond.
local NOW_US, NEXT_US = NOW * 1000, (NOW + 1) * 1000

-- Envelope offsets, one higher than in envelope.rs.
local HEADER_BYTES, STATE, CAUSE, FLAGS, SERIES, DUE = 56, 2, 3, 4, 5, 33
local RETRY_AT, ENDED_AT, LANE_LEN = 41, 49, 57
local VERIFY, INTERRUPTED, FENCE, PUT_OFF = 1, 4, 8, 16
-- The first byte of the envelope of an entry of which the journal has the rest. Must equal VERSION_OF_BARE in envelope.rs.
local BARE = 4
-- An entry with neither of these flags has the usual priority.
local HIGH, LOW = 64, 128
-- An entry with neither this flag nor one of those before it has flags below 32.
local ORDERED = 32

-- By how much a priority moves the scores in `lane:NAME`, so that each priority has a range of its own. Must equal
-- PRIORITY_MS in lane_score.rs. HALF_MS is the border between two ranges.
local PRIORITY_MS = 1125899906842624 -- 2^50
local HALF_MS = PRIORITY_MS / 2
-- By how much the score of an entry is moved within that range if an attempt was requested by hand: it goes before the
-- others of its priority. Must equal BY_HAND_MS in lane_score.rs. Servers from before that serve such scores as well.
local BY_HAND_MS = 281474976710656 -- 2^48

-- Must equal UNKNOWN_CHANGE_MS in schedule/mod.rs.
local UNKNOWN_CHANGE_MS = 3600000

-- Whether a lease has expired: at the millisecond of its expiry. The last three digits, its number, do
-- not count.
local function is_over(expiry)
  return tonumber(expiry) < NEXT_US
end

-- Whether two expiries, as text, are the same. Equal texts, the usual case, need no `tonumber`.
local function is_same(expiry, other)
  return expiry == other or tonumber(expiry) == tonumber(other)
end

-- The millisecond of an instant in microseconds.
local function ms_of(instant)
  return (instant - instant % 1000) / 1000
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

-- By how much the clock must have been set back for instants ahead of it to count as set by the clock of before, in ms. Must equal
-- SET_BACK_MS in schedule/mod.rs.
local SET_BACK = 1000

-- When it was last found that something is or may be missing here, in ms, from the field `lost` of `meta`; nil if it never was.
-- If the clock was set back since, that is now, and it is written down: a lease may have been lost, and must not be waited for
-- until the clock shows the former time again.
local function loss_from(field)
  local lost = tonumber(field or nil)
  if lost and lost > NOW + SET_BACK then
    call('HSET', META, 'lost', NOW_TEXT)
    return NOW
  end
  return lost
end

-- Notes in `meta` that something is missing here, unless that is noted already.
local function note_damage()
  local state = call('HGET', META, 'state')
  if state == 'whole' then
    call('HSET', META, 'state', 'damaged', 'lost', NOW_TEXT)
  elseif state == 'loading' then
    call('HSET', META, 'again', 1, 'lost', NOW_TEXT)
  end
end

-- Calls a command on `lane:NAME` or `leased:NAME`. A key of another type is removed first.
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

-- Adds reminders to `contents`. It has a bound: what falls out at its old end keeps its content until it is sent.
local MOST_REMINDERS = 1000000
-- Removing more at once would block Redis.
local MOST_DROPPED = 1000

local function remind(reminders)
  if reminders[1] then
    local list = ARGV[2] .. 'contents'
    local length = call_on_lane('RPUSH', list, unpack(reminders))
    local too_many = math.min(length - MOST_REMINDERS, MOST_DROPPED)
    if too_many > 0 then call('LTRIM', list, too_many, '-1') end
  end
end

-- The expiry of the lease in force on an entry, as text, or nil. If `leases` has lost it, it is read
-- from the lane.
local function lease_of(key, lane)
  local expiry = call('ZSCORE', LEASES, key) or call_on_lane('ZSCORE', LEASED .. lane, key)
  if expiry and not is_over(expiry) then return expiry end
end

-- Whether a waiting entry will be claimed when it is due: it is in its lane, and the lane is in `lanes`.
local function is_claimable(key, lane)
  return call_on_lane('ZSCORE', LANE .. lane, key) and call('ZSCORE', LANES, lane)
end

-- Whether any entry here may have another than the usual priority: then `meta` has the field `ranked`, which is never
-- removed. nil if this script has not looked yet.
local ranked

local function is_ranked()
  if ranked == nil then ranked = call('HGET', META, 'ranked') end
  return ranked
end

local function note_ranked()
  if not is_ranked() then
    call('HSET', META, 'ranked', 1)
    ranked = '1'
  end
end

-- The score in `lane:NAME` of an entry that is due at an instant. A requested attempt that is put off does not go
-- first.
local function lane_score(envelope, due)
  local flags, retry_at = string.byte(envelope, FLAGS), struct.unpack('>i8', envelope, RETRY_AT)
  if retry_at ~= 0 and (due <= retry_at or due <= NOW) then due = due - BY_HAND_MS end
  if flags < HIGH then return due end
  note_ranked()
  return due + (flags < LOW and -PRIORITY_MS or PRIORITY_MS)
end

-- When an entry with this score in `lane:NAME` is due to be claimed.
local function due_of(score)
  if score < -HALF_MS then
    score = score + PRIORITY_MS
  elseif score >= HALF_MS then
    score = score - PRIORITY_MS
  end
  return score < 0 and score + BY_HAND_MS or score
end

-- The envelope of a bare entry with this score in its lane. It gets one when it is leased, or needs flags: they and when
-- it is due are all that is in it.
local function bare_envelope(lane, score)
  local flags, due = VERIFY, due_of(score)
  if score < -HALF_MS then
    flags, score = VERIFY + HIGH, score + PRIORITY_MS
  elseif score >= HALF_MS then
    flags, score = VERIFY + LOW, score - PRIORITY_MS
  end
  return struct.pack('>BBBBI4I4I4i8i8i8i8i8I2', BARE, 0, 0, flags, 0, 0, 0, 0, 0, due, score < 0 and due or 0, 0, #lane)
    .. lane
end

local function is_bare(envelope)
  return byte(envelope, 1) == BARE
end

-- How long before it is due what is bare is claimed, in ms. Must equal CLAIMED_EARLY_MS in schedule/mod.rs.
local BARE_EARLY = 20

-- When the attempt of an entry is due, in ms. That which a bare one has as its due time is when it is claimed.
local function attempt_due(envelope)
  return next_due(envelope) + (is_bare(envelope) and BARE_EARLY or 0)
end

-- The ranges of scores in `lane:NAME`, in the order in which entries are served: from, to, and the end of what is due.
local function priority_ranges()
  return {
    { '-inf', '(' .. text_of(-HALF_MS), text_of(NOW - PRIORITY_MS) },
    { text_of(-HALF_MS), '(' .. text_of(HALF_MS), NOW_TEXT },
    { text_of(HALF_MS), '+inf', text_of(NOW + PRIORITY_MS) },
  }
end

-- The order key, the number and whether the order is strict, of an entry that has the flag ORDERED; nil if its envelope
-- is cut short before their end.
local function order_of(envelope)
  local at = LANE_LEN + 2 + struct.unpack('>I2', envelope, LANE_LEN)
  if #envelope < at + 1 then return nil end
  local length = struct.unpack('>I2', envelope, at)
  if #envelope < at + 10 + length then return nil end
  return string.sub(envelope, at + 2, at + 1 + length), struct.unpack('>i8', envelope, at + 2 + length),
    string.byte(envelope, at + 10 + length) == 1
end

-- A lease in `turns:NAME`: its number, which stays the same when it is renewed, a mark, and the key. The mark is ' ',
-- or '!' if another entry of the order key has ended during the lease.
local function turn_text(expiry, key)
  return string.format('%03d ', tonumber(expiry) % 1000) .. key
end

-- Whether such a text is about this lease.
local function is_turn_of(turn, expiry, key)
  return string.sub(turn, 1, 3) == string.format('%03d', tonumber(expiry) % 1000) and string.sub(turn, 5) == key
end

-- Whether the entry of such a text has ended: it has no lease, not even one that is over, and does not wait in the lane.
local function is_turn_over(turn, lane)
  local key = string.sub(turn, 5)
  return not call('ZSCORE', LEASES, key) and not call_on_lane('ZSCORE', LEASED .. lane, key)
    and not call_on_lane('ZSCORE', LANE .. lane, key)
end

-- Adds an entry to the set for its state: its lane, `dead` or `ended`. The caller calls `place_lane`.
local function return_entry(key, envelope)
  local state = string.byte(envelope, STATE)
  if state == 0 then
    call_on_lane('ZADD', LANE .. lane_of(envelope), lane_score(envelope, next_due(envelope)), key)
  else
    local ended_at = struct.unpack('>i8', envelope, ENDED_AT)
    call('ZADD', state == 2 and DEAD or ENDED, ended_at, key)
  end
end

-- An envelope that is put in, with the flags that it needs besides its own. `change_is_unknown`: CHANGING
-- has its key, and it is not leased. So a lease ended with an unknown change, or was lost.
-- `held` is the envelope that it replaces, if there is one; its flags are kept.
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

-- Notes an unknown change of a key that has no entry here: the journal may still write it. So the
-- journal must refuse that change before an entry that is put in next is sent. No call to a journal lasts
-- longer than `UNKNOWN_CHANGE_MS`. Notes older than that are removed here, a few for each that is added.
local function note_unknown_change(key)
  call('HSET', CHANGING, key, NOW_TEXT)
  local some = call('HRANDFIELD', CHANGING, '4', 'WITHVALUES')
  for i = 1, #some, 2 do
    local since = tonumber(some[i + 1])
    if since and since < NOW - UNKNOWN_CHANGE_MS then call('HDEL', CHANGING, some[i]) end
  end
end

-- Makes a full server accept the writes of this script: it refuses none after the first write.
local function allow_when_full()
  call('ZREM', LEASES, '')
end

-- Adds 1 to a field of `meta`. Anything but a number there is removed first.
local function count_up(field)
  local count = redis.pcall('HINCRBY', META, field, '1')
  if type(count) == 'number' then return count end
  if string.find(count.err, 'not an integer', 1, true) or string.find(count.err, 'overflow', 1, true) then
    call('HDEL', META, field)
  end
  return call('HINCRBY', META, field, '1')
end

-- Counts this change into WRITES. The result is the reply for a server that has lost its data, else nil.
local WRITES
local function check_in()
  WRITES = count_up(INSTANCE)
  if WRITES <= SEEN then
    call('HDEL', META, INSTANCE) -- otherwise refused calls would raise the count to SEEN
    return redis.error_reply('REBUILDING this schedule has lost data')
  end
end

-- The expiry of leases that begin now and last `lease_ms`, as text, and its last three digits as a number. Two scripts
-- give different expiries within one millisecond, unless a thousand scripts run in it or a claim visits a thousand
-- lanes.
local function new_expiry(lease_ms)
  local number = count_up('number') % 1000
  return text_of((NOW + lease_ms) * 1000 + number), number
end
