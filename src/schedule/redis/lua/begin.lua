-- begin: finds out whether this partition holds everything, and enters the instance in its books.
--
-- KEYS   1 epoch    STRING  whose data this is
--        2 marks    HASH    instance -> how many changes it has made here; and `generation`: since
--                           when the data has been here, in microseconds by this server's clock;
--                           and `state`: 'whole', 'clearing' or 'filling'; and, unless it was
--                           new, `lost`: when it was found that something is missing
--        3 rebuild  STRING  which instance fills it; expires, so that a dead one is replaced
-- ARGV   1 owner: whose data it should be
--        2 the instance that calls
--        3 the generation that it knew, 0 for none
--        4 an instance, and
--        5 how many changes of that one were answered in the known generation
--        6 how long an instance may fill it without a sign of life, ms
--        7 'fill' | 'keep': if something is lost, there is no journal to fill it from | 'force':
--          have it filled whatever it holds
-- Reply  'foreign', owner | 'wait': another instance is clearing it | 'new' or 'lost': to be cleared,
--        then filled. The others come with the generation, a mark, and how long ago, ms, something
--        was found to be lost (-1: never): 'whole' | 'kept': something is lost for good | 'theirs':
--        another instance is filling it | 'resume': to be filled by this instance, as an earlier one
--        did not come to its end
-- Keeps  an owner is never replaced; one instance at a time clears and fills.

local EPOCH, MARKS, REBUILD = KEYS[1], KEYS[2], KEYS[3]
local owner, instance, known = ARGV[1], ARGV[2], tonumber(ARGV[3])
local witness, seen, hold_ms, mode = ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]
local call = redis.call

call('HDEL', MARKS, '') -- a full server refuses nothing after this

local epoch = call('GET', EPOCH)
if epoch and epoch ~= owner then return { 'foreign', epoch } end
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local function text_of(number) return string.format('%d', number) end

local generation = tonumber(call('HGET', MARKS, 'generation') or 0)
local state = call('HGET', MARKS, 'state')

local function enter(verdict)
  local mark = math.max(now, seen + 1, tonumber(call('HGET', MARKS, instance) or 0))
  call('HSET', MARKS, instance, text_of(mark))
  local lost = tonumber(call('HGET', MARKS, 'lost') or nil)
  return { verdict, text_of(generation), text_of(mark),
    lost and text_of((now - lost) / 1000) or '-1' }
end

local intact = epoch and (generation > known
  or (generation > 0 and generation == known
    and tonumber(call('HGET', MARKS, witness) or 0) >= seen))
-- An earlier version kept no generation: what it left is taken as it is.
local earlier = epoch and generation == 0 and known == 0
if earlier or (mode == 'keep' and not intact) then
  generation, state = math.max(now, known + 1, generation + 1), 'whole'
  call('SET', EPOCH, owner)
  call('HSET', MARKS, 'generation', text_of(generation), 'state', state)
  if not earlier then return enter((epoch or known > 0) and 'kept' or 'new') end
  intact = true
end
if intact and state == 'whole' and mode ~= 'force' then return enter('whole') end

local filling = intact and state == 'filling'
local holder = call('GET', REBUILD)
if holder and holder ~= instance then
  return filling and enter('theirs') or { 'wait' }
end
call('SET', REBUILD, instance, 'PX', hold_ms)
if filling and mode ~= 'force' then return enter('resume') end
-- Without its marks, nobody can work with it any more.
call('DEL', MARKS)
call('SET', EPOCH, owner)
call('HSET', MARKS, 'state', 'clearing',
  'generation', text_of(math.max(now, known + 1, generation + 1)))
if not (epoch or known > 0) then return { 'new' } end
call('HSET', MARKS, 'lost', text_of(now))
return { 'lost' }
