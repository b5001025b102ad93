-- What the attempts of each minute did, by server, for plots over time. Minutes are numbered from 1970 on, UTC. A server
-- that is at work has a row for the minute even if it made no attempt; a minute without a row is one of which nothing is known.
CREATE TABLE activity (
    minute        INTEGER NOT NULL,
    -- A process: no other one has this name.
    server        TEXT NOT NULL,
    -- Attempts by their outcome.
    acknowledged  INTEGER NOT NULL,
    wrong_answer  INTEGER NOT NULL,
    http_status   INTEGER NOT NULL,
    timeout       INTEGER NOT NULL,
    connect       INTEGER NOT NULL,
    tls           INTEGER NOT NULL,
    dns           INTEGER NOT NULL,
    blocked       INTEGER NOT NULL,
    protocol      INTEGER NOT NULL,
    interrupted   INTEGER NOT NULL,
    -- Notifications that an attempt made dead letters.
    dead          INTEGER NOT NULL,
    -- Attempts by how late they began: later than the bound before, and no later than this one, in milliseconds.
    late_5        INTEGER NOT NULL,
    late_10       INTEGER NOT NULL,
    late_20       INTEGER NOT NULL,
    late_50       INTEGER NOT NULL,
    late_100      INTEGER NOT NULL,
    late_200      INTEGER NOT NULL,
    late_500      INTEGER NOT NULL,
    late_1000     INTEGER NOT NULL,
    late_2000     INTEGER NOT NULL,
    late_5000     INTEGER NOT NULL,
    late_10000    INTEGER NOT NULL,
    late_30000    INTEGER NOT NULL,
    late_60000    INTEGER NOT NULL,
    late_300000   INTEGER NOT NULL,
    late_600000   INTEGER NOT NULL,
    late_1800000  INTEGER NOT NULL,
    late_3600000  INTEGER NOT NULL,
    late_7200000  INTEGER NOT NULL,
    late_14400000 INTEGER NOT NULL,
    late_28800000 INTEGER NOT NULL,
    late_43200000 INTEGER NOT NULL,
    late_86400000 INTEGER NOT NULL,
    PRIMARY KEY (minute, server)
) STRICT, WITHOUT ROWID;
