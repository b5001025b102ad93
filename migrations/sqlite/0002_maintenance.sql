-- What maintenance needs: finding the changes by hand of the last minute, and writing down that the
-- schedule was rebuilt.

CREATE INDEX changed ON transitions (at_ms)
WHERE kind IN ('cancelled', 'discarded', 'replayed', 'retried');

-- One row per rebuild, not one per notification that was put back: that may be millions.
CREATE TABLE rebuilds (
    row_id   INTEGER PRIMARY KEY,
    at_ms    INTEGER NOT NULL,
    actor    TEXT NOT NULL,
    instance TEXT NOT NULL,
    reason   TEXT NOT NULL
) STRICT;
