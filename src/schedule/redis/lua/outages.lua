-- outages: forgets outages that were dealt with, and returns others that have ended. settle.lua notes them.
--
-- ARGV   6 maximum number of outages to return
--        then for each that was dealt with: lane, its text as it was returned
-- Reply  now, writes (0 if nothing was dealt with), then for each other one: lane, its text (from, until, in ms)
-- Keeps  an outage whose text is another one by now is not forgotten: there was another one since.

local OUTAGES = ARGV[2] .. 'outages'
if ARGV[7] then
  allow_when_full()
  local lost = check_in()
  if lost then return lost end
  for i = 7, #ARGV, 2 do
    if call_on_lane('HGET', OUTAGES, ARGV[i]) == ARGV[i + 1] then call('HDEL', OUTAGES, ARGV[i]) end
  end
end

local reply = { NOW, WRITES or 0 }
local some = redis.pcall('HRANDFIELD', OUTAGES, ARGV[6], 'WITHVALUES')
if not some.err then
  for i = 1, #some do reply[#reply + 1] = some[i] end
end
return reply
