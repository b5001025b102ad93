-- Endpoints, where there is no journal. Put behind settings.lua in front of the scripts that read or write them.
--
-- An endpoint is in the partition of its lane, so that a script changes both in one step. Two keys, which are not among
-- KEYS:
--       endpoints         HASH  name -> record, `:number` -> the number of the last change, and `:since` -> a text
--                               that is another one after a record was found missing
--       endpoint_changes  ZSET  name -> the number of its last change, negative if the endpoint was removed
-- A record is a text: the number of its change, 1 if the endpoint was removed, else 0, the limits of its lane as in
-- `settings`, and what only the servers read, with blanks between. A removed endpoint keeps its record.
--
-- Numbers follow the order of the changes, and none is below the time of its change. So an older copy of the data does
-- not give the same number to another change. `endpoint_changes` is an index: where it differs from `endpoints`,
-- endpoint_page.lua writes it again.

local ENDPOINTS, CHANGES = ARGV[2] .. 'endpoints', ARGV[2] .. 'endpoint_changes'

-- The number of a record's change, whether it was removed ('1' or '0'), the limits and the rest; nil if it is no
-- record.
local function parts_of(record)
  return string.match(record, '^(%d+) ([01]) (%d* %d*) (.*)$')
end

-- Since when the data is here: another text after any loss that was found, so that every server that has read the data
-- before it reads everything again.
local function generation_of(since)
  return (call('HGET', META, 'generation') or '') .. ' ' .. (since or '')
end

-- A new text for `:since`. `check_in` was called before.
local function new_since()
  return NOW_TEXT .. ' ' .. INSTANCE .. ' ' .. text_of(WRITES)
end

-- These fields of `endpoints`. If another client has overwritten that with another type, it is removed; then it
-- counts as lost.
local function endpoint_fields(...)
  local fields = redis.pcall('HMGET', ENDPOINTS, ...)
  if not fields.err then return fields end
  call('UNLINK', ENDPOINTS)
  return call('HMGET', ENDPOINTS, ...)
end

-- By how many the index has more endpoints than there are records.
local function index_surplus()
  local indexed = redis.pcall('ZCARD', CHANGES)
  if type(indexed) == 'table' then
    call('UNLINK', CHANGES)
    indexed = 0
  end
  return indexed - math.max(call('HLEN', ENDPOINTS) - 2, 0)
end

-- How many notifications that are pending wait in the lane of an endpoint, or are leased.
local function pending_of(name)
  local lane = 'endpoint:' .. name
  return call_on_lane('ZCARD', LANE .. lane) + call_on_lane('ZCARD', LEASED .. lane)
end

-- Gives the lanes of these endpoints their limits, and wakes the other instances. `limits`: lane -> limits.
local function change_limits(limits, channel)
  if not settings_number() then call('HSET', SETTINGS, 'number', 0) end
  local lanes = {}
  for lane, text in pairs(limits) do
    change_settings(lane, text, '')
    lanes[#lanes + 1] = lane
  end
  place_changed(lanes)
  call('PUBLISH', channel, NOW_TEXT)
end
