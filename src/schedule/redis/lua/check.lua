-- check: whether changes can be made here, by making one that nobody minds.
--
-- Reply  now, mark

local lost = check_in()
if lost then return lost end

return { NOW, MARK }
