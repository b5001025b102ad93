-- The keys that sign what names no endpoint with keys of its own. Their secrets are encrypted: see
-- src/domain/default_keys.rs and src/domain/master_key.rs. Changes replace all rows in one transaction.
CREATE TABLE default_keys (
    id             TEXT COLLATE "C" PRIMARY KEY,
    -- 0 is the newest.
    place          BIGINT NOT NULL UNIQUE,
    kind           TEXT NOT NULL,
    -- Empty: the key signs no more and its secret was deleted. It is remembered, so that a server that is still given
    -- this secret is told so.
    sealed         TEXT NOT NULL,
    public_key     TEXT,
    fingerprint    TEXT NOT NULL,
    created_ms     BIGINT NOT NULL,
    signs_until_ms BIGINT,
    -- Who made the last change of the keys, when, and which instance accepted it.
    changed_ms     BIGINT NOT NULL,
    actor          TEXT NOT NULL,
    instance       TEXT NOT NULL
);
