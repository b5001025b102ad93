-- restarted: notes that the server was restarted, or is another one, since the data of these partitions was last
-- compared with the journal. It may have lost its last changes, and the instance that made them may have ended.
--
-- KEYS   meta of each partition
-- ARGV   1 now in ms, or '' for this server's own clock
--        2 the id of this run of the server; '' if the server does not say
-- Reply  {1} if that was new in any of them

local now, run = ARGV[1], ARGV[2]
local call = redis.call

if now == '' then
  local time = call('TIME')
  now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
end
local is_new = 0
for _, META in ipairs(KEYS) do
  call('HDEL', META, '') -- a full server refuses nothing after this
  if call('EXISTS', META) == 1 and (run == '' or call('HGET', META, 'run') ~= run) then
    call('HSET', META, 'state', 'restarted', 'lost', now, 'run', run)
    is_new = 1
  end
end
return { is_new }
