-- Notifications whose outcome the journal refused to record. They are not sent until somebody releases
-- them. A table of its own, so that writing here touches nothing of a notification that cannot be written.

CREATE TABLE set_aside (
    topic    TEXT COLLATE "C" NOT NULL,
    id       TEXT COLLATE "C" NOT NULL,
    at_ms    BIGINT NOT NULL,
    reason   TEXT NOT NULL,
    instance TEXT NOT NULL,
    PRIMARY KEY (topic, id)
);
