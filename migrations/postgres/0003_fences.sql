-- The fence of a notification is a counter. A server that leases a notification whose earlier lease expired
-- raises the fence before it does anything else. A change by hand contains the fence that its server has read
-- before. The change is refused if the fence has another value by then. So a server that has lost its lease
-- changes nothing.

ALTER TABLE statuses ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
