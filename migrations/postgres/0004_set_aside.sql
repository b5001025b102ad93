-- Notifications whose outcome the journal refused to record. They are not sent until a change by hand
-- releases them. This is a table of its own, so that a row can be added even if the journal refuses writes
-- to the notification's other rows.

CREATE TABLE set_aside (
    topic    TEXT COLLATE "C" NOT NULL,
    id       TEXT COLLATE "C" NOT NULL,
    at_ms    BIGINT NOT NULL,
    reason   TEXT NOT NULL,
    instance TEXT NOT NULL,
    PRIMARY KEY (topic, id)
);
