-- The length of the body of a notification that has no headers of its own, in bytes. With it, the schedule is loaded without
-- reading `payloads`, by far the largest table. It is NULL if there are headers, and in rows of earlier versions: of those,
-- the payload is read.
ALTER TABLE notifications ADD COLUMN body_bytes INTEGER;
