-- The priority of a notification within its lane: 'high' or 'low'; null is the usual one.
ALTER TABLE notifications ADD COLUMN priority TEXT COLLATE "C";
-- The place of a notification in the order of others of its lane: see docs/order.md. All three are null if it has none.
ALTER TABLE notifications ADD COLUMN order_key TEXT COLLATE "C";
ALTER TABLE notifications ADD COLUMN order_number BIGINT;
ALTER TABLE notifications ADD COLUMN order_mode TEXT COLLATE "C";
CREATE INDEX notifications_by_order ON notifications (lane, order_key, order_number) WHERE order_key IS NOT NULL;
-- The lower pending numbers of an order key are found with an index of this table, because the other one does not know
-- which notifications are pending. `order_group` is a hash of the lane and the order key.
ALTER TABLE statuses ADD COLUMN order_group BIGINT;
ALTER TABLE statuses ADD COLUMN order_number BIGINT;
CREATE INDEX statuses_ordered ON statuses (order_group, order_number)
WHERE state = 'scheduled' AND order_group IS NOT NULL;
-- True if it was cancelled because a higher number of its order key was registered. A check of this table allows a cause
-- for dead notifications only, so the cause `superseded` has this column.
ALTER TABLE statuses ADD COLUMN superseded BOOLEAN;
