-- The fence of a notification is a counter. A server that leases a notification whose earlier lease expired
-- raises the fence first. A change by hand contains the fence on which it was decided, and is refused if
-- the fence is different by then. So a server that has lost its lease changes nothing.

ALTER TABLE statuses ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
