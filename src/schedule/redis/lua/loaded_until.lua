-- loaded_until: notes up to which due time everything that is pending in the journal was put in here.
--
-- ARGV   6 that instant, in ms
--        7 when the reading of the journal began, in ms, if it was read without a horizon; else ''
--        8 for how long after it was last known to be at work a server with a horizon may have left something out, in ms
-- Reply  now, writes, the instant that was noted: an earlier one if a server with a horizon may have left something out
--        since the reading began

local lost = check_in()
if lost then return lost end

local noted, began = ARGV[6], tonumber(ARGV[7])
if began then
  local known = call('HMGET', META, 'leaves', 'least_horizon')
  local leaves, horizon = tonumber(known[1] or nil), tonumber(known[2] or nil) or 0
  -- What was left out is due after the whole horizon.
  local most = began + math.floor(horizon / 2)
  -- An instant that is ahead is from before the clock was set back.
  local lasts = tonumber(ARGV[8])
  local may_leave = leaves and leaves >= began - lasts and leaves <= NOW + lasts
  if may_leave and tonumber(noted) > most then noted = text_of(most) end
end
call('HSET', META, 'loaded_until', noted)
return { NOW, WRITES, noted }
