-- What the attempts of each minute did, by server, for plots over time. Minutes are numbered from 1970 on, UTC. A server
-- that is at work has a row for the minute even if it made no attempt; a minute without a row is one of which nothing is known.
-- A row is rewritten several times in its minute.
CREATE TABLE activity (
    minute        BIGINT NOT NULL,
    -- A process: no other one has this name.
    server        TEXT COLLATE "C" NOT NULL,
    -- Attempts by their outcome.
    acknowledged  BIGINT NOT NULL,
    wrong_answer  BIGINT NOT NULL,
    http_status   BIGINT NOT NULL,
    timeout       BIGINT NOT NULL,
    connect       BIGINT NOT NULL,
    tls           BIGINT NOT NULL,
    dns           BIGINT NOT NULL,
    blocked       BIGINT NOT NULL,
    protocol      BIGINT NOT NULL,
    interrupted   BIGINT NOT NULL,
    -- Notifications that an attempt made dead letters.
    dead          BIGINT NOT NULL,
    -- Attempts by how late they began: later than the bound before, and no later than this one, in milliseconds.
    late_5        BIGINT NOT NULL,
    late_10       BIGINT NOT NULL,
    late_20       BIGINT NOT NULL,
    late_50       BIGINT NOT NULL,
    late_100      BIGINT NOT NULL,
    late_200      BIGINT NOT NULL,
    late_500      BIGINT NOT NULL,
    late_1000     BIGINT NOT NULL,
    late_2000     BIGINT NOT NULL,
    late_5000     BIGINT NOT NULL,
    late_10000    BIGINT NOT NULL,
    late_30000    BIGINT NOT NULL,
    late_60000    BIGINT NOT NULL,
    late_300000   BIGINT NOT NULL,
    late_600000   BIGINT NOT NULL,
    late_1800000  BIGINT NOT NULL,
    late_3600000  BIGINT NOT NULL,
    late_7200000  BIGINT NOT NULL,
    late_14400000 BIGINT NOT NULL,
    late_28800000 BIGINT NOT NULL,
    late_43200000 BIGINT NOT NULL,
    late_86400000 BIGINT NOT NULL,
    PRIMARY KEY (minute, server)
) WITH (fillfactor = 50);
