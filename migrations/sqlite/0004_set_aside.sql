-- Notifications whose outcome the journal refused to record. They are not sent until a change by hand
-- releases them. This is a table of its own, so that a row can be added even if the journal refuses writes
-- to the notification's other rows.

CREATE TABLE set_aside (
    topic    TEXT NOT NULL,
    id       TEXT NOT NULL,
    at_ms    INTEGER NOT NULL,
    reason   TEXT NOT NULL,
    instance TEXT NOT NULL,
    PRIMARY KEY (topic, id)
) STRICT, WITHOUT ROWID;

-- Deletes the row here when the notification is pruned. Otherwise, if the key were registered again, the new
-- notification would be set aside.
CREATE TRIGGER set_aside_pruned AFTER DELETE ON notifications
BEGIN
    DELETE FROM set_aside WHERE topic = OLD.topic AND id = OLD.id;
END;
