-- The audit log: what people have done. A change and its entry are written in one transaction.
CREATE TABLE audit_log (
    id           INTEGER PRIMARY KEY,
    at_ms        INTEGER NOT NULL,
    actor        TEXT NOT NULL,
    -- What was done, and on what: the names are in src/domain/act.rs.
    act          TEXT NOT NULL,
    subject_kind TEXT NOT NULL,
    subject      TEXT NOT NULL,
    -- What the person gave as the reason, and what else is to be known of it; may be empty.
    reason       TEXT NOT NULL,
    detail       TEXT NOT NULL,
    -- The instance that was asked.
    instance     TEXT NOT NULL
) STRICT;
-- For the list, newest first, and for the pruning of what is old.
CREATE INDEX audit_log_by_time ON audit_log (at_ms);
