-- The tables of the journal. Instants are in milliseconds since 1970, UTC. States, causes and outcomes have
-- the same names as in the API.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The columns that lists show and attempts rewrite. An update rewrites the whole row, and a list reads
-- whole rows. So headers and bodies, which can be large and never change, are in `payloads`.
CREATE TABLE notifications (
    row_id        INTEGER PRIMARY KEY,
    topic         TEXT NOT NULL,
    id            TEXT NOT NULL,
    webhook_id    BLOB NOT NULL,
    lane          TEXT NOT NULL,
    url           TEXT NOT NULL,
    ladder        TEXT NOT NULL,
    ack           TEXT NOT NULL,
    content_type  TEXT NOT NULL,
    fingerprint   BLOB NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('scheduled', 'delivered', 'dead', 'cancelled')),
    cause         TEXT,
    series        INTEGER NOT NULL,
    step          INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    first_due_ms  INTEGER NOT NULL,
    deadline_ms   INTEGER NOT NULL,
    due_ms        INTEGER NOT NULL,
    retry_at_ms   INTEGER,
    clamped       INTEGER NOT NULL,
    registered_ms INTEGER NOT NULL,
    ended_ms      INTEGER,
    -- Generated, so it always agrees with due_ms and retry_at_ms.
    next_due_ms   INTEGER GENERATED ALWAYS AS (min(due_ms, ifnull(retry_at_ms, due_ms))) VIRTUAL,
    UNIQUE (topic, id),
    CHECK ((state = 'scheduled') = (ended_ms IS NULL)),
    CHECK (state = 'scheduled' OR retry_at_ms IS NULL),
    CHECK (state = 'dead' OR cause IS NULL)
) STRICT;

-- SQLite adds the row number to the end of every index. The row number orders rows with the same instant.
--
-- Few notifications are scheduled, dead or cancelled, so each of these states has its own indexes. Nearly
-- all notifications are delivered, so they are found with the indexes over all rows.
CREATE INDEX pending ON notifications (next_due_ms) WHERE state = 'scheduled';
CREATE INDEX registered ON notifications (registered_ms);
CREATE INDEX registered_by_lane ON notifications (lane, registered_ms);
CREATE INDEX registered_by_topic ON notifications (topic, registered_ms);
CREATE INDEX registered_scheduled ON notifications (registered_ms) WHERE state = 'scheduled';
CREATE INDEX registered_dead ON notifications (registered_ms) WHERE state = 'dead';
CREATE INDEX registered_cancelled ON notifications (registered_ms) WHERE state = 'cancelled';
CREATE INDEX ended ON notifications (ended_ms) WHERE ended_ms IS NOT NULL;
CREATE INDEX ended_dead ON notifications (ended_ms) WHERE state = 'dead';
CREATE INDEX ended_cancelled ON notifications (ended_ms) WHERE state = 'cancelled';

-- Headers and bodies, which only deliveries and rebuilds of the schedule need. A body over about 4 KB is
-- stored in pages of its own, linked to its row. Because bodies have their own table, other calls do not
-- read these pages, and old bodies can be deleted without a change to the history.
CREATE TABLE payloads (
    notification INTEGER PRIMARY KEY REFERENCES notifications (row_id) ON DELETE CASCADE,
    headers      TEXT NOT NULL,
    body         BLOB NOT NULL
) STRICT;

-- The history is two tables, `attempts` and `transitions`. New rows go to the end of the table. The index
-- finds the rows of one notification.
CREATE TABLE attempts (
    row_id       INTEGER PRIMARY KEY,
    notification INTEGER NOT NULL REFERENCES notifications (row_id) ON DELETE CASCADE,
    series       INTEGER NOT NULL,
    number       INTEGER NOT NULL,
    due_ms       INTEGER NOT NULL,
    started_ms   INTEGER NOT NULL,
    duration_ms  INTEGER NOT NULL,
    outcome      TEXT NOT NULL,
    status       INTEGER,
    answer       BLOB NOT NULL,
    reason       TEXT NOT NULL,
    instance     TEXT NOT NULL,
    at_ms        INTEGER NOT NULL
) STRICT;
CREATE INDEX attempts_by_notification ON attempts (notification);

CREATE TABLE transitions (
    row_id       INTEGER PRIMARY KEY,
    notification INTEGER NOT NULL REFERENCES notifications (row_id) ON DELETE CASCADE,
    at_ms        INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    actor        TEXT NOT NULL,
    instance     TEXT NOT NULL,
    detail       TEXT NOT NULL
) STRICT;
CREATE INDEX transitions_by_notification ON transitions (notification);

-- The numbers of notifications by state. Counting millions of rows takes seconds, so triggers update these
-- numbers in the transaction of each change, and the numbers are always exact.
CREATE TABLE counts (
    name TEXT PRIMARY KEY,
    many INTEGER NOT NULL CHECK (many >= 0)
) STRICT, WITHOUT ROWID;
INSERT INTO counts (name, many)
VALUES ('registered', 0), ('scheduled', 0), ('delivered', 0), ('dead', 0), ('cancelled', 0);

CREATE TRIGGER count_registered AFTER INSERT ON notifications
BEGIN
    UPDATE counts SET many = many + 1 WHERE name IN ('registered', NEW.state);
END;
CREATE TRIGGER count_changed AFTER UPDATE OF state ON notifications WHEN OLD.state <> NEW.state
BEGIN
    UPDATE counts SET many = many - 1 WHERE name = OLD.state;
    UPDATE counts SET many = many + 1 WHERE name = NEW.state;
END;
CREATE TRIGGER count_pruned AFTER DELETE ON notifications
BEGIN
    UPDATE counts SET many = many - 1 WHERE name IN ('registered', OLD.state);
END;
