-- inspect: checks whether this partition holds everything, and registers the instance in `meta`.
--
-- KEYS   1 epoch    STRING  the owner of the data
--        2 meta     HASH    instance -> how many changes it has made here, and
--                     at:INSTANCE  when it last claimed or sent a heartbeat
--                     claims:INSTANCE  when it last sent a heartbeat, if it was claiming then (heartbeat.lua)
--                     owner        the same as `epoch`, because either may be lost
--                     generation   since when the data has been here, in microseconds by this server's
--                                  clock; a new one each time a loss of data is found
--                     state        'whole' | 'clearing', 'loading': an instance is doing that |
--                                  'damaged', 'restarted': an instance must compare it with the journal
--                     again        something more was found missing during 'loading'
--                     lost         when it was last found that something is or may be missing
--                     run          the run of the server in which the data was compared
--                     horizon:INSTANCE  how far ahead an instance has in the schedule what is pending, in ms;
--                                  0: everything
--                     leaves       when an instance with a horizon was last known to be at work, whichever it was, in
--                                  ms: until then it may have left notifications to the journal (loaded_until.lua)
--                     least_horizon  the shortest horizon that an instance has had, in ms
--                     signing      a fingerprint of the secret that the instances sign with
--                     number       the number of the last lease
--                     loaded_until  up to which due time everything pending was put in, in ms
--                                  (loaded_until.lua); 0: that is not known, and some may be left out
--                     settings     the generation in which the settings of lanes were last compared with the journal
--                     claimed      when the last claim was made, whichever instance made it, in ms
--                     placing      how far the lanes have got their turns anew since the clock was set back; not there
--                                  if all have (claim.lua)
--                     ranked       set if any entry may have another than the usual priority (common.lua)
--                   The name of an instance has 32 characters.
--        3 rebuild  STRING  the instance that compares and loads it; expires, so that another replaces a
--                           dead instance
--        4 jobs     HASH
--        5 lanes    ZSET: entries may be in their lanes alone
-- ARGV   1 now in ms, or '' for this server's own clock
--        2 the owner that the data should have
--        3 the instance that calls
--        4 the generation that it knew, 0 for none
--        5 the instance whose write count is compared: this one, or an earlier one of the same server
--        6 how many changes of that instance were answered in the known generation
--        7 how long an instance may load it without a report, ms
--        8 'load' | 'keep': there is no journal | 'clear': empty it and load it, whatever it holds
--        9 the id of this run of the server; '' if the server does not say
--       10 a fingerprint of the secret that this instance signs with; '' if it signs nothing
--       11 how long after its last claim or heartbeat an instance counts as alive, ms
--       12 '1' if data without an owner may be taken over by this owner
--       13 the horizon of this instance; '' if it puts nothing in
--       14 '1' if it starts now: then its horizon must go with those of the others
-- Reply  'foreign', owner, generation | 'signing': others sign with another secret | 'horizon', that of another instance, with which
--        the own one does not go | 'unowned': the data has no owner | 'wait': another instance is clearing it | or one of the following, then the generation
--        and a write count: 'whole' | 'theirs': another instance is loading it | and the tasks for
--        this instance: 'resume': an earlier rebuild is not finished | 'clear' | 'new': nothing was
--        here | 'lost' | 'restarted' | 'damaged'
-- Keeps  an owner is never replaced; one instance at a time clears, compares and loads.

local EPOCH, META, REBUILD, JOBS, LANES = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, instance, known = ARGV[2], ARGV[3], tonumber(ARGV[4])
local earlier, seen, hold_ms, mode = ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[8]
local run, signing, alive_ms, may_take_over = ARGV[9], ARGV[10], tonumber(ARGV[11]), ARGV[12] == '1'
local horizon, starts = tonumber(ARGV[13]), ARGV[14] == '1'
local call = redis.call
local FORGET_MS = 7 * 86400000 -- an instance that has not claimed for this long has ended

call('HDEL', META, '') -- a full server refuses nothing after this

local epoch = call('GET', EPOCH) or call('HGET', META, 'owner')
if epoch and epoch ~= owner then return { 'foreign', epoch, call('HGET', META, 'generation') or '0' } end
local has_entries = call('EXISTS', JOBS, LANES) > 0
if not epoch and not may_take_over and has_entries then return { 'unowned' } end

local function text_of(number) return string.format('%d', number) end
local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
local NOW = tonumber(ARGV[1]) or math.floor(micros / 1000)

local fields, held = call('HGETALL', META), {}
for i = 1, #fields, 2 do held[fields[i]] = fields[i + 1] end

-- Whether instances with these horizons may not work side by side. What one leaves out must be read after that by the one
-- that loads, half of its own horizon ahead. One that leaves nothing out and is there already does not load; one that
-- starts beside others would, and note that everything is here.
local function are_apart(own, other)
  if own == 0 or other == 0 then return own == 0 and other ~= 0 end
  return math.max(own, other) >= 2 * math.min(own, other)
end

local alive, apart = false, nil
for name, at in pairs(held) do
  if string.sub(name, 1, 3) == 'at:' then
    local other = string.sub(name, 4)
    at = tonumber(at) or 0
    if at > NOW + alive_ms then
      -- The clock was set back since. An instance at work soon says so again.
      at = NOW
      call('HSET', META, name, text_of(at))
    end
    if at < NOW - FORGET_MS then
      -- Other instances that start now may compare the same write count, so it is kept.
      if other ~= earlier then
        call('HDEL', META, name, other, 'horizon:' .. other, 'claims:' .. other)
        held[other] = nil
      end
    elseif other ~= instance and at > NOW - alive_ms then
      alive = true
      local theirs = tonumber(held['horizon:' .. other] or nil)
      if starts and horizon and theirs and are_apart(horizon, theirs) then apart = theirs end
    end
  end
end
if apart then return { 'horizon', text_of(apart) } end
if signing ~= '' and held.signing ~= signing then
  if held.signing and alive then return { 'signing' } end
  call('HSET', META, 'signing', signing)
end

local generation = tonumber(held.generation or 0) or 0
local function enter(verdict)
  local writes = math.max(micros, seen + 1, tonumber(held[instance] or 0) or 0)
  call('HSET', META, instance, text_of(writes), 'at:' .. instance, text_of(NOW))
  if horizon then call('HSET', META, 'horizon:' .. instance, text_of(horizon)) end
  -- From now on this instance leaves out what is due after its horizon. If it ends before it has noted how far it loads, one
  -- without a horizon must not go on believing that everything is here, nor note that while it reads the journal.
  if (horizon or 0) > 0 then
    local least = math.min(tonumber(held.least_horizon or nil) or horizon, horizon)
    call('HSET', META, 'leaves', text_of(NOW), 'least_horizon', text_of(least))
    local loaded_until = tonumber(call('HGET', META, 'loaded_until') or nil)
    if not loaded_until and verdict ~= 'whole' then
      call('HSET', META, 'loaded_until', '0')
    elseif not loaded_until or loaded_until > NOW + horizon then
      -- Until now everything is here, also if nothing was noted. Those who load need not read again what is due now: some of
      -- it may be on its way from the journal.
      call('HSET', META, 'loaded_until', text_of(NOW + math.floor(horizon / 2)))
    end
  end
  if not epoch or call('EXISTS', EPOCH) == 0 then call('SET', EPOCH, owner) end
  if held.owner ~= owner then call('HSET', META, 'owner', owner) end
  return { verdict, text_of(generation), text_of(writes) }
end

-- A write count is comparable only within the same generation. A later one is what was found to be incomplete, and loaded
-- again; or everything was lost, and another instance that starts took it for new. Then this one reports the loss.
local is_later = generation > known and (known == 0 or held.lost)
local intact = is_later
  or (generation > 0 and generation == known and (tonumber(held[earlier] or 0) or 0) >= seen)

local holder = call('GET', REBUILD)
local theirs = holder and holder ~= instance and intact
local reason
if mode == 'clear' and not (theirs and held.state == 'loading') then
  reason = 'clear'
elseif not intact then
  reason = (epoch or known > 0 or has_entries) and 'lost' or 'new'
elseif held.state == 'damaged' or held.state == 'restarted' then
  reason = held.state
elseif held.run ~= run or (run == '' and not held['at:' .. instance]) then
  reason = 'restarted'
elseif held.state == 'whole' then
  return enter('whole')
else
  if theirs then
    if held.state == 'clearing' then return { 'wait' } end
    return enter('theirs')
  end
  reason = held.state == 'clearing' and 'clear' or 'resume'
end

call('HDEL', META, 'again', 'loaded_until')
if reason == 'new' and mode == 'keep' then
  generation = math.max(micros, known + 1)
  call('HSET', META, 'generation', text_of(generation), 'state', 'whole', 'run', run)
  return enter('whole')
end
call('SET', REBUILD, instance, 'PX', hold_ms)
if reason == 'resume' then return enter('resume') end
generation = math.max(micros, known + 1, generation + 1)
call('HSET', META, 'generation', text_of(generation), 'run', run,
  'state', reason == 'clear' and 'clearing' or 'loading')
if reason ~= 'new' then call('HSET', META, 'lost', text_of(NOW)) end
-- Without its count, an instance must inspect first. So what an instance writes into this generation, it writes after it has
-- learnt of it: a count that is too low later means that the data was set back again, and is not taken for what was lost
-- before this generation. While everything is removed, the reply is 'wait': otherwise entries that are put in or leased
-- meanwhile would be lost.
for name in pairs(held) do
  if #name == 32 then
    call('HDEL', META, name)
    held[name] = nil
  end
end
return enter(reason)
