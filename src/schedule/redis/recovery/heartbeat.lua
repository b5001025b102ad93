-- heartbeat: notes that an instance is alive, whether it claims, and, if it has a horizon, that it may leave notifications
-- to the journal; and says which instances claim. An instance claims nothing while it has as many attempts in flight as it
-- may have.
--
-- KEYS   meta of each of some partitions
-- ARGV   1 now in ms, or '' for this server's own clock
--        2 the instance
--        3 '1' if it claims
--        4 for how long after its heartbeat an instance counts as one that claims, ms
-- Reply  the names of the instances that claim, as the first of these partitions has them in which this one is entered
-- Keeps  an instance that must call inspect.lua first is not entered here.

local now, instance, claims, claims_for = ARGV[1], ARGV[2], ARGV[3] == '1', tonumber(ARGV[4])
local call = redis.call

if now == '' then
  local time = call('TIME')
  now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
end

local function claiming_in(META)
  local fields, names = call('HGETALL', META), {}
  for i = 1, #fields, 2 do
    local at = string.sub(fields[i], 1, 7) == 'claims:' and tonumber(fields[i + 1])
    -- A time ahead is of a clock that was set back since.
    if at and math.abs(tonumber(now) - at) < claims_for then names[#names + 1] = string.sub(fields[i], 8) end
  end
  return names
end

local names
for _, META in ipairs(KEYS) do
  call('HDEL', META, '') -- a full server refuses nothing after this
  if call('HEXISTS', META, instance) == 1 then
    call('HSET', META, 'at:' .. instance, now)
    local horizon = tonumber(call('HGET', META, 'horizon:' .. instance) or nil)
    if (horizon or 0) > 0 then call('HSET', META, 'leaves', now) end
    if claims then call('HSET', META, 'claims:' .. instance, now) else call('HDEL', META, 'claims:' .. instance) end
    names = names or claiming_in(META)
  end
end
return names or {}
