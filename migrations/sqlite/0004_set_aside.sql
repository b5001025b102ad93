-- Notifications whose outcome the journal refused to record. They are not sent until somebody releases
-- them. A table of its own, so that writing here touches nothing of a notification that cannot be written.

CREATE TABLE set_aside (
    topic    TEXT NOT NULL,
    id       TEXT NOT NULL,
    at_ms    INTEGER NOT NULL,
    reason   TEXT NOT NULL,
    instance TEXT NOT NULL,
    PRIMARY KEY (topic, id)
) STRICT, WITHOUT ROWID;

-- A key that is registered again after it was pruned must not begin set aside.
CREATE TRIGGER set_aside_pruned AFTER DELETE ON notifications
BEGIN
    DELETE FROM set_aside WHERE topic = OLD.topic AND id = OLD.id;
END;
