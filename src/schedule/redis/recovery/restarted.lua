-- restarted: notes that the server was restarted, or is another one, since its data was last compared
-- with the journal. It may have lost its last changes, and the instance that made them may have ended.
--
-- KEYS   1 meta
-- ARGV   1 now in ms, or '' for this server's own clock
--        2 the id of this run of the server; '' if the server does not say
-- Reply  {1} if that was new

local META, run = KEYS[1], ARGV[2]
local call = redis.call

call('HDEL', META, '') -- a full server refuses nothing after this
if call('EXISTS', META) == 0 or (run ~= '' and call('HGET', META, 'run') == run) then return { 0 } end
local now = ARGV[1]
if now == '' then
  local time = call('TIME')
  now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
end
call('HSET', META, 'state', 'restarted', 'lost', now, 'run', run)
return { 1 }
