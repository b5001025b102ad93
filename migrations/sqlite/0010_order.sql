-- The priority of a notification within its lane: 'high' or 'low'; null is the usual one.
ALTER TABLE notifications ADD COLUMN priority TEXT;
-- The place of a notification in the order of others of its lane: see docs/order.md. All three are null if it has none.
ALTER TABLE notifications ADD COLUMN order_key TEXT;
ALTER TABLE notifications ADD COLUMN order_number INTEGER;
ALTER TABLE notifications ADD COLUMN order_mode TEXT;
-- 1 if it was cancelled because a higher number of its order key was registered. A check of this table allows a cause
-- for dead notifications only, so the cause `superseded` has this column.
ALTER TABLE notifications ADD COLUMN superseded INTEGER;
CREATE INDEX ordered ON notifications (lane, order_key, order_number) WHERE order_key IS NOT NULL;
CREATE INDEX ordered_pending ON notifications (lane, order_key, order_number)
WHERE order_key IS NOT NULL AND state = 'scheduled';
