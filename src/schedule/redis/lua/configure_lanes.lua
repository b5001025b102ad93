-- configure_lanes: takes changes of the settings of lanes.
--
-- ARGV   6 channel that wakes the other instances
--        7 the number of the change after which these come; '' without a journal: then they are always taken
--        8 the number of the last change that is brought, also to other partitions
--        9 '' unless these are all that the journal had; otherwise the generation that the data here had before the
--        journal was read, 0 if that is not known
--        then for each: lane, number of the change, the largest number of leases and the calls per 1,000 seconds
--        with a blank between (either may be empty), 1 or 0 for held or not and what is kept beside that; either of
--        the last two may be '': then it does not change
-- Reply  now, writes, 1 if they are taken, 0 if changes before them are missing here
-- Keeps  a change that is here already, or is older than one that is here, changes nothing.

allow_when_full()
local lost = check_in()
if lost then return lost end

local after, last = tonumber(ARGV[7]), tonumber(ARGV[8])
local number, is_complete, is_confirmed = settings_number()
local reached = number or 0
if after and after > reached then return { NOW, WRITES, 0 } end

local changed, held_from = {}, {}
for i = 10, #ARGV, 4 do
  local lane, limits, hold = ARGV[i], ARGV[i + 2], ARGV[i + 3]
  if not after or tonumber(ARGV[i + 1]) > reached then
    held_from[lane] = change_settings(lane, limits, hold) or held_from[lane]
    changed[#changed + 1] = lane
  end
end
local until_now = text_of(math.max(reached, last))
if after and not is_complete and ARGV[9] == '' then until_now = until_now .. ' loading' end
call('HSET', SETTINGS, 'number', until_now)
-- Of data that came back since then, the changes may be missing that were brought meanwhile.
if after and ARGV[9] == call('HGET', META, 'generation') then call('HSET', META, 'settings', ARGV[9]) end

place_changed(changed, held_from)
-- Lanes that were due are no earlier than before, and may be claimed only now.
if changed[1] or not is_confirmed then call('PUBLISH', ARGV[6], NOW_TEXT) end
return { NOW, WRITES, 1 }
