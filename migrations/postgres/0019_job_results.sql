-- What a job has not changed, with the reasons. It is written in the transaction that counts it.

-- How many, by reason. All are counted, also those that are not listed.
CREATE TABLE job_reasons (
    job    TEXT COLLATE "C" NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    result TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    many   BIGINT NOT NULL,
    PRIMARY KEY (job, result, reason)
);

-- The first ones of each result, in the order of their turns.
CREATE TABLE job_unchanged (
    job    TEXT COLLATE "C" NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    result TEXT COLLATE "C" NOT NULL,
    -- From 1 on.
    number BIGINT NOT NULL,
    topic  TEXT COLLATE "C" NOT NULL,
    id     TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    -- What else is known, such as the error of a store.
    detail TEXT,
    at_ms  BIGINT NOT NULL,
    PRIMARY KEY (job, result, number)
);

-- Notifications that had their turn while an attempt was in flight, and will have another one.
CREATE TABLE job_waiting (
    job       TEXT COLLATE "C" NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    place_ms  BIGINT NOT NULL,
    place_row BIGINT NOT NULL,
    topic     TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (job, place_ms, place_row)
);

-- Up to which notification the job has come with all except those that wait. `place_ms` and `place_row` stand before the
-- first one that waits: servers of the version before go on there.
ALTER TABLE jobs ADD COLUMN passed_ms BIGINT;
ALTER TABLE jobs ADD COLUMN passed_row BIGINT;
