-- Jobs: requests that concern many notifications and are done step by step. A step changes notifications and the
-- place of the job in one transaction, so after a crash no step is done twice and none is left out.

CREATE TABLE jobs (
    id              TEXT COLLATE "C" PRIMARY KEY,
    kind            TEXT NOT NULL,
    state           TEXT NOT NULL,
    lane            TEXT,
    failed_since_ms BIGINT,
    matched         BIGINT NOT NULL,
    done            BIGINT NOT NULL,
    skipped         BIGINT NOT NULL,
    failed          BIGINT NOT NULL,
    -- Notifications per 1,000 seconds.
    rate            BIGINT NOT NULL,
    actor           TEXT NOT NULL,
    reason          TEXT NOT NULL,
    problem         TEXT,
    created_ms      BIGINT NOT NULL,
    ended_ms        BIGINT,
    -- The instance that made it.
    instance        TEXT NOT NULL,
    -- Up to which notification it has come: its registration and its row number. Null if it has not begun.
    place_ms        BIGINT,
    place_row       BIGINT,
    -- Raised whenever a server takes the job, so that the server before can write no more steps.
    fence           BIGINT NOT NULL DEFAULT 0,
    -- Until when the server has it, by the clock of the database.
    leased_until_ms BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX jobs_open ON jobs (id) WHERE ended_ms IS NULL;
CREATE INDEX jobs_ended ON jobs (ended_ms) WHERE ended_ms IS NOT NULL;
-- At most one job of a lane at a time.
CREATE UNIQUE INDEX jobs_of_lane ON jobs (lane) WHERE ended_ms IS NULL;
