-- heartbeat: notes that an instance is alive. An instance claims nothing while it has as many attempts in
-- flight as it may have.
--
-- KEYS   1 meta
-- ARGV   1 now in ms, or '' for this server's own clock
--        2 the instance
-- Reply  {}
-- Keeps  an instance that must call inspect.lua first is not entered here.

local call = redis.call
call('HDEL', KEYS[1], '') -- a full server refuses nothing after this
if call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return {} end
local now = ARGV[1]
if now == '' then
  local time = call('TIME')
  now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
end
call('HSET', KEYS[1], 'at:' .. ARGV[2], now)
return {}
