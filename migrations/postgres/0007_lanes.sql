-- The settings of lanes: who holds a lane, and how many calls it makes. A lane without a row has none.

-- The number of the last change of any lane. Its row is locked by the transaction that makes a change, so the
-- numbers follow the order of the commits: whoever reads all changes up to a number has missed none.
CREATE TABLE lane_changes (
    one    BOOLEAN PRIMARY KEY CHECK (one),
    number BIGINT NOT NULL
);
INSERT INTO lane_changes (one, number) VALUES (TRUE, 0);

CREATE TABLE lanes (
    lane        TEXT COLLATE "C" PRIMARY KEY,
    number      BIGINT NOT NULL UNIQUE,
    concurrency BIGINT,
    -- Calls per 1,000 seconds.
    rate        BIGINT,
    held_ms     BIGINT,
    held_by     TEXT,
    held_reason TEXT,
    -- The last change, of whatever kind.
    changed_ms  BIGINT NOT NULL,
    changed_by  TEXT NOT NULL,
    reason      TEXT NOT NULL,
    instance    TEXT NOT NULL
);
