-- Which destinations have notifications that are pending and due later: these may wait in the journal alone, so a schedule
-- knows nothing of them. A row has its destination here only while it is pending and due more than ten seconds after it was
-- registered. So what is sent at once, as most is, has no entry in the index. The time of the registration is in the row
-- number (`notification >> 21`).
--
-- `IF NOT EXISTS`: on a large table both may have been made before, without a lock that stops writers (docs/runbooks.md).
ALTER TABLE statuses ADD COLUMN IF NOT EXISTS later_lane TEXT COLLATE "C";
CREATE INDEX IF NOT EXISTS statuses_later ON statuses (later_lane, next_due_ms)
WHERE state = 'scheduled' AND later_lane IS NOT NULL;
