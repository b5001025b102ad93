-- What a job has not changed, with the reasons. It is written in the transaction that counts it.

-- How many, by reason. All are counted, also those that are not listed.
CREATE TABLE job_reasons (
    job    TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    result TEXT NOT NULL,
    reason TEXT NOT NULL,
    many   INTEGER NOT NULL,
    PRIMARY KEY (job, result, reason)
) STRICT, WITHOUT ROWID;

-- The first ones of each result, in the order of their turns.
CREATE TABLE job_unchanged (
    job    TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    result TEXT NOT NULL,
    -- From 1 on.
    number INTEGER NOT NULL,
    topic  TEXT NOT NULL,
    id     TEXT NOT NULL,
    reason TEXT NOT NULL,
    -- What else is known, such as the error of a store.
    detail TEXT,
    at_ms  INTEGER NOT NULL,
    PRIMARY KEY (job, result, number)
) STRICT, WITHOUT ROWID;

-- Notifications that had their turn while an attempt was in flight, and will have another one.
CREATE TABLE job_waiting (
    job       TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    place_ms  INTEGER NOT NULL,
    place_row INTEGER NOT NULL,
    topic     TEXT NOT NULL,
    id        TEXT NOT NULL,
    PRIMARY KEY (job, place_ms, place_row)
) STRICT, WITHOUT ROWID;

-- Up to which notification the job has come with all except those that wait. `place_ms` and `place_row` stand before the
-- first one that waits: servers of the version before go on there.
ALTER TABLE jobs ADD COLUMN passed_ms INTEGER;
ALTER TABLE jobs ADD COLUMN passed_row INTEGER;
