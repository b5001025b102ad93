-- Changing the settings of lanes. Put behind lane_turns.lua in front of the scripts that do.

-- Changes the settings of a lane: its limits and its hold, as configure_lanes.lua gets them. An empty text changes
-- nothing. The result is since when it was held, if that ends.
local function change_settings(lane, limits, hold)
  any_settings = nil
  local before = call('HGET', SETTINGS, lane) or '  0'
  if limits == '' then limits = string.match(before, '^(%d* %d*) ') or ' ' end
  if hold == '' then hold = string.match(before, '^%d* %d* (.*)$') or '0' end
  if limits == ' ' and hold == '0' then
    call('HDEL', SETTINGS, lane)
  else
    call('HSET', SETTINGS, lane, limits .. ' ' .. hold)
  end
  return hold == '0' and tonumber(string.match(before, '^%d* %d* 1 (%d+)') or nil)
end

-- Gives lanes whose settings have changed their turn. `held_from` has those that were held until now: since when.
local function place_changed(lanes, held_from)
  local fields = lanes[1] and health_fields(lanes)
  for n, lane in ipairs(lanes) do
    local health = state_of(lane, fields[n])
    -- A slower rate of before may have moved it far ahead.
    local furthest = health.interval and NOW_US + health.tolerance + health.interval
    local from = held_from and held_from[lane]
    if from then
      health.pauses, health[USED] = pauses_with(health.pauses, from), NOW
    end
    local is_ahead = furthest and health[ARRIVAL] > furthest
    if is_ahead then health[ARRIVAL] = furthest end
    if from or is_ahead then call('HSET', HEALTH, lane, health_field(health)) end
    -- If its limits have changed, it may have been full until now, or not: see `plan_turn`.
    place_lane(lane, from and 0 or NOW_US + 1, 'configured', health)
  end
end
