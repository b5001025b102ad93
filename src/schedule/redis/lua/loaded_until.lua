-- loaded_until: notes up to which due time everything that is pending in the journal was put in here.
--
-- ARGV   6 that instant, in ms
-- Reply  now, writes

local lost = check_in()
if lost then return lost end

call('HSET', META, 'loaded_until', ARGV[6])
return { NOW, WRITES }
