-- lease_one: leases one notification for a change by hand, even if it is not due or its lane is full.
--
-- ARGV   6 how long the lease lasts, ms
--        7 key
--        8 until when the caller waits: a call that runs later does nothing
--        9 how long the lease of an attempt lasts, ms
--       10 how long after it was accepted a notification may still be on its way here, ms
--       11 when it was accepted, by the journal; '' if the journal was not asked
--       12 when it is due, by the journal; '' if it has ended or is set aside
--       13 the number of this request
--       14 '1' for a repair: the entry gets the state in the journal, and the journal is not changed
--       15 by how much the clock of a Redis that takes over may be behind the one before, ms
--       16 lane
-- Reply  now, writes, then 'leased', expiry, envelope | 'reserved', expiry: there is no entry, and one
--        that is put in meanwhile waits for the lease; or the entry is bare, and waits again if the lease
--        expires | 'in_flight' | 'changing': another request has the lease | 'may_be_in_flight': the lease
--        of an attempt may have been lost | 'expected': the registration may be on its way, also if the
--        entry is here and bare | 'missing' | 'late'
-- Keeps  a request that has the lease already gets it again: its reply was lost. Before an entry that may
--        be in flight is sent, the journal is asked: the caller may know that it has ended, and cannot
--        remove it without the lease.

allow_when_full()
local lost = check_in()
if lost then return lost end

local key, lease_ms, request = ARGV[7], tonumber(ARGV[9]), INSTANCE .. ':' .. ARGV[13]
if NOW > tonumber(ARGV[8]) then return { NOW, WRITES, 'late' } end

local envelope = call('HGET', JOBS, key)
local expiry = call('ZSCORE', LEASES, key)
if envelope and not readable(envelope) then
  envelope = false
  note_damage()
elseif MAY_BE_BARE and not envelope and not expiry then
  local score = call_on_lane('ZSCORE', LANE .. ARGV[16], key)
  if score then
    envelope = with_required_checks(key, bare_envelope(ARGV[16], tonumber(score)), call('HEXISTS', CHANGING, key) == 1)
    call('HSET', JOBS, key, envelope)
  end
end
if envelope and not expiry then
  expiry = call_on_lane('ZSCORE', LEASED .. lane_of(envelope), key)
  if expiry then note_damage() end
end
if expiry and is_over(expiry) then
  return_lease(key, tonumber(expiry), lease_ms)
  expiry, envelope = false, call('HGET', JOBS, key)
elseif expiry then
  local holder = call('HGET', CHANGING, key)
  if not holder then return { NOW, WRITES, 'in_flight' } end
  if holder ~= request then return { NOW, WRITES, 'changing' } end
end

if envelope and not expiry and is_pending(envelope)
    and not call_on_lane('ZSCORE', LANE .. lane_of(envelope), key) then
  note_damage() -- its lease is missing, or its lane is
end

local data_lost = loss_from(call('HGET', META, 'lost'))
if ARGV[14] ~= '1' and data_lost and not expiry and NOW < data_lost + lease_ms then
  local due = tonumber(ARGV[12])
  if envelope and is_pending(envelope) then
    -- Redis may have been set back to an older copy, so either time may be the older one.
    due = math.min(due or math.huge, next_due(envelope))
  elseif envelope then
    due = nil
  end
  if due and due <= data_lost + tonumber(ARGV[15]) then
    if envelope then call('HSET', JOBS, key, with_flags(envelope, VERIFY, FENCE)) end
    return { NOW, WRITES, 'may_be_in_flight' }
  end
end

if not envelope or is_bare(envelope) then
  local accepted = tonumber(ARGV[11])
  if not envelope and not accepted then return { NOW, WRITES, 'missing' } end
  if accepted and NOW <= accepted + tonumber(ARGV[10]) then return { NOW, WRITES, 'expected' } end
end
expiry = new_expiry(tonumber(ARGV[6]))
call('HSET', CHANGING, key, request)
call('ZADD', LEASES, expiry, key)
if not envelope then return { NOW, WRITES, 'reserved', expiry } end
local lane = lane_of(envelope)
if is_pending(envelope) then
  call_on_lane('ZADD', LEASED .. lane, expiry, key)
  call_on_lane('ZREM', LANE .. lane, key)
  place_lane(lane, 0)
else
  call('ZREM', DEAD, key)
  call('ZREM', ENDED, key)
end
if is_bare(envelope) then return { NOW, WRITES, 'reserved', expiry } end
return { NOW, WRITES, 'leased', expiry, envelope }
