-- Whoever holds a lease on a notification that somebody else had leased before raises this number first.
-- A change by hand names the number it was decided on, so one whose lease was lost changes nothing.

ALTER TABLE statuses ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
