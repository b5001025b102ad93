-- call_now: the next call to the destination of a lane is asked for now, and does not wait for the next probe.
--
-- ARGV   6 channel that wakes the other instances (`publish_if_first`)
--        7 lane
-- Reply  now, writes, when the lane now has something to do (ms), -1 if that is no earlier than before

local lost = check_in()
if lost then return lost end

local lane = ARGV[7]
local health = state_of(lane, health_fields({ lane })[1])
observe(health, 'now', NOW)
if health.is_changed then
  call('HSET', HEALTH, lane, health_field(health))
  place_lane(lane, NOW_US + 1, 'asked', health)
end
if not placed_us then return { NOW, WRITES, -1 } end
publish_if_first(earliest(), ARGV[6])
return { NOW, WRITES, ms_of(placed_us) }
