-- The tables of the journal. Instants are in milliseconds since 1970, UTC. States, causes and outcomes have
-- the same names as in the API. Texts are compared byte by byte, so the database's locale has no effect.
--
-- A notification has one row in each of three tables. The row in `notifications` is written once. The row in
-- `statuses` is rewritten at every attempt. The row in `payloads` is written once and deleted early. There
-- are no foreign keys: only this program writes here, and each check would cost a look-up per row.

CREATE TABLE meta (
    name  TEXT COLLATE "C" PRIMARY KEY,
    value TEXT NOT NULL
);

-- The sequence that gives the lower 21 bits of row numbers.
CREATE SEQUENCE arrivals;

-- The columns that never change. This table has the indexes for lists. A row number consists of the instant
-- of registration and, in its lower 21 bits, an arrival number. So rows that are sorted by their number are
-- also sorted by the instant of registration, and lists need no index for this instant.
CREATE TABLE notifications (
    row_id        BIGINT PRIMARY KEY,
    topic         TEXT COLLATE "C" NOT NULL,
    id            TEXT COLLATE "C" NOT NULL,
    webhook_id    BYTEA NOT NULL,
    lane          TEXT COLLATE "C" NOT NULL,
    url           TEXT COLLATE "C" NOT NULL,
    ladder        TEXT COLLATE "C" NOT NULL,
    ack           TEXT COLLATE "C" NOT NULL,
    content_type  TEXT COLLATE "C" NOT NULL,
    fingerprint   BYTEA NOT NULL,
    registered_ms BIGINT NOT NULL,
    -- Who registered it, and which instance accepted it: the first line of its history.
    actor         TEXT NOT NULL,
    instance      TEXT NOT NULL
);
CREATE UNIQUE INDEX notifications_by_key ON notifications (topic, id);
CREATE INDEX notifications_by_lane ON notifications (lane, row_id);
-- The collation "POSIX" compares byte by byte, like "C". Because its name differs from that of the column,
-- PostgreSQL never uses this index to look up a key. With the same name it might do so, as long as its
-- statistics say that the table is small.
CREATE INDEX notifications_by_topic ON notifications (topic COLLATE "POSIX", row_id);

-- The state and progress of each notification: the columns that attempts rewrite.
CREATE TABLE statuses (
    notification BIGINT PRIMARY KEY,
    state        TEXT COLLATE "C" NOT NULL,
    cause        TEXT COLLATE "C",
    series       INTEGER NOT NULL,
    step         INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    first_due_ms BIGINT NOT NULL,
    deadline_ms  BIGINT NOT NULL,
    due_ms       BIGINT NOT NULL,
    retry_at_ms  BIGINT,
    clamped      BOOLEAN NOT NULL,
    ended_ms     BIGINT,
    -- Generated, so it always agrees with due_ms and retry_at_ms.
    next_due_ms  BIGINT NOT NULL GENERATED ALWAYS AS (LEAST(due_ms, retry_at_ms)) STORED,
    CHECK (CASE state
        WHEN 'scheduled' THEN ended_ms IS NULL AND cause IS NULL
        WHEN 'delivered' THEN ended_ms IS NOT NULL AND cause IS NULL AND retry_at_ms IS NULL
        WHEN 'cancelled' THEN ended_ms IS NOT NULL AND cause IS NULL AND retry_at_ms IS NULL
        WHEN 'dead' THEN ended_ms IS NOT NULL AND cause IS NOT NULL AND retry_at_ms IS NULL
        ELSE FALSE
    END)
) WITH (
    -- Every row is rewritten at least once, most rows soon after they were inserted. So pages keep room for
    -- new versions of rows, and autovacuum starts earlier than by default (a fifth of the table is dead
    -- rows).
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05
);
-- Few notifications are scheduled, dead or cancelled, so each of these states has its own indexes. Nearly
-- all notifications are delivered, so they are found with the indexes over all rows.
CREATE INDEX statuses_pending ON statuses (next_due_ms, notification) WHERE state = 'scheduled';
CREATE INDEX statuses_scheduled ON statuses (notification) WHERE state = 'scheduled';
CREATE INDEX statuses_dead ON statuses (notification) WHERE state = 'dead';
CREATE INDEX statuses_cancelled ON statuses (notification) WHERE state = 'cancelled';
CREATE INDEX statuses_ended ON statuses (ended_ms, notification) WHERE ended_ms IS NOT NULL;
CREATE INDEX statuses_ended_dead ON statuses (ended_ms, notification) WHERE state = 'dead';
CREATE INDEX statuses_ended_cancelled ON statuses (ended_ms, notification)
WHERE state = 'cancelled';

-- Headers and bodies, which are needed only for deliveries. They are deleted long before the history.
CREATE TABLE payloads (
    notification BIGINT PRIMARY KEY,
    headers      TEXT NOT NULL,
    body         BYTEA NOT NULL
);
-- Bodies are not compressed: compression would take longer than all other steps of an insertion.
ALTER TABLE payloads ALTER COLUMN body SET STORAGE EXTERNAL;

-- Two recordings with the same primary key are the same attempt. `row_id` gives the order of attempts.
CREATE TABLE attempts (
    notification BIGINT NOT NULL,
    series       INTEGER NOT NULL,
    number       INTEGER NOT NULL,
    started_ms   BIGINT NOT NULL,
    outcome      TEXT COLLATE "C" NOT NULL,
    row_id       BIGINT NOT NULL GENERATED BY DEFAULT AS IDENTITY,
    due_ms       BIGINT NOT NULL,
    duration_ms  BIGINT NOT NULL,
    status       INTEGER,
    answer       BYTEA NOT NULL,
    reason       TEXT NOT NULL,
    instance     TEXT NOT NULL,
    at_ms        BIGINT NOT NULL,
    PRIMARY KEY (notification, series, number, started_ms, outcome)
);

-- The history of notifications, except two kinds of lines that follow from other tables: `registered`
-- follows from the row in `notifications`, `delivered` from the attempt that was acknowledged.
CREATE TABLE transitions (
    notification BIGINT NOT NULL,
    row_id       BIGINT NOT NULL GENERATED BY DEFAULT AS IDENTITY,
    at_ms        BIGINT NOT NULL,
    kind         TEXT COLLATE "C" NOT NULL,
    actor        TEXT NOT NULL,
    instance     TEXT NOT NULL,
    detail       TEXT NOT NULL,
    PRIMARY KEY (notification, row_id)
);

-- The numbers of notifications by state. Counting millions of rows takes seconds, so triggers update these
-- numbers in the transaction of each change, and the numbers are always exact. A session that updates a
-- row makes other sessions wait for this row until it commits. So there are 64 rows (slots), and a session
-- uses the slot that its process id gives. Only the sum over all slots has a meaning.
CREATE TABLE counts (
    slot       INTEGER PRIMARY KEY,
    registered BIGINT NOT NULL DEFAULT 0,
    scheduled  BIGINT NOT NULL DEFAULT 0,
    delivered  BIGINT NOT NULL DEFAULT 0,
    dead       BIGINT NOT NULL DEFAULT 0,
    cancelled  BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
INSERT INTO counts (slot) SELECT generate_series(0, 63);

-- The text of the function contains the schema of `counts`, because a user who changes a row by hand may have
-- another search path.
DO $do$
BEGIN
    EXECUTE format($sql$
        CREATE FUNCTION count_standings() RETURNS TRIGGER LANGUAGE plpgsql AS $body$
        BEGIN
            -- An INSERT has only the table `arrived` and a DELETE only `departed`, so each operation has
            -- its own statement.
            CASE TG_OP
            WHEN 'INSERT' THEN
                UPDATE %1$I.counts AS c SET
                    registered = c.registered + d.registered,
                    scheduled = c.scheduled + d.scheduled,
                    delivered = c.delivered + d.delivered,
                    dead = c.dead + d.dead,
                    cancelled = c.cancelled + d.cancelled
                FROM (
                    SELECT
                        count(*) AS registered,
                        count(*) FILTER (WHERE state = 'scheduled') AS scheduled,
                        count(*) FILTER (WHERE state = 'delivered') AS delivered,
                        count(*) FILTER (WHERE state = 'dead') AS dead,
                        count(*) FILTER (WHERE state = 'cancelled') AS cancelled
                    FROM arrived
                ) AS d
                WHERE c.slot = pg_backend_pid() %% 64 AND d.registered > 0;
            WHEN 'UPDATE' THEN
                UPDATE %1$I.counts AS c SET
                    scheduled = c.scheduled + d.scheduled,
                    delivered = c.delivered + d.delivered,
                    dead = c.dead + d.dead,
                    cancelled = c.cancelled + d.cancelled
                FROM (
                    SELECT
                        coalesce(sum(n) FILTER (WHERE state = 'scheduled'), 0) AS scheduled,
                        coalesce(sum(n) FILTER (WHERE state = 'delivered'), 0) AS delivered,
                        coalesce(sum(n) FILTER (WHERE state = 'dead'), 0) AS dead,
                        coalesce(sum(n) FILTER (WHERE state = 'cancelled'), 0) AS cancelled
                    FROM (
                        SELECT state, 1 AS n FROM arrived
                        UNION ALL
                        SELECT state, -1 FROM departed
                    ) AS moved
                ) AS d
                WHERE c.slot = pg_backend_pid() %% 64
                    AND (d.scheduled, d.delivered, d.dead, d.cancelled) <> (0, 0, 0, 0);
            WHEN 'DELETE' THEN
                UPDATE %1$I.counts AS c SET
                    registered = c.registered - d.registered,
                    scheduled = c.scheduled - d.scheduled,
                    delivered = c.delivered - d.delivered,
                    dead = c.dead - d.dead,
                    cancelled = c.cancelled - d.cancelled
                FROM (
                    SELECT
                        count(*) AS registered,
                        count(*) FILTER (WHERE state = 'scheduled') AS scheduled,
                        count(*) FILTER (WHERE state = 'delivered') AS delivered,
                        count(*) FILTER (WHERE state = 'dead') AS dead,
                        count(*) FILTER (WHERE state = 'cancelled') AS cancelled
                    FROM departed
                ) AS d
                WHERE c.slot = pg_backend_pid() %% 64 AND d.registered > 0;
            END CASE;
            RETURN NULL;
        END
        $body$
    $sql$, current_schema());
END
$do$;
CREATE TRIGGER count_inserted AFTER INSERT ON statuses
REFERENCING NEW TABLE AS arrived
FOR EACH STATEMENT EXECUTE FUNCTION count_standings();
CREATE TRIGGER count_updated AFTER UPDATE ON statuses
REFERENCING OLD TABLE AS departed NEW TABLE AS arrived
FOR EACH STATEMENT EXECUTE FUNCTION count_standings();
CREATE TRIGGER count_deleted AFTER DELETE ON statuses
REFERENCING OLD TABLE AS departed
FOR EACH STATEMENT EXECUTE FUNCTION count_standings();
