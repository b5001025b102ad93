-- The settings of lanes: who holds a lane, and how many calls it makes. A lane without a row has none.

-- The number of the last change of any lane. It is raised in the transaction that makes the change, so the
-- numbers follow the order of the commits: whoever reads all changes up to a number has missed none.
CREATE TABLE lane_changes (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    number INTEGER NOT NULL
) STRICT;
INSERT INTO lane_changes (one, number) VALUES (1, 0);

CREATE TABLE lanes (
    lane        TEXT PRIMARY KEY NOT NULL,
    number      INTEGER NOT NULL UNIQUE,
    concurrency INTEGER,
    -- Calls per 1,000 seconds.
    rate        INTEGER,
    held_ms     INTEGER,
    held_by     TEXT,
    held_reason TEXT,
    -- The last change, of whatever kind.
    changed_ms  INTEGER NOT NULL,
    changed_by  TEXT NOT NULL,
    reason      TEXT NOT NULL,
    instance    TEXT NOT NULL
) STRICT;
