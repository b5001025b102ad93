-- For maintenance: an index that finds the changes by hand of the last minute, and a table of the rebuilds
-- of the schedule.

CREATE INDEX changed ON transitions (at_ms)
WHERE kind IN ('cancelled', 'discarded', 'replayed', 'retried');

-- One row per rebuild, not one row per restored notification: there may be millions of them.
CREATE TABLE rebuilds (
    row_id   INTEGER PRIMARY KEY,
    at_ms    INTEGER NOT NULL,
    actor    TEXT NOT NULL,
    instance TEXT NOT NULL,
    reason   TEXT NOT NULL
) STRICT;
