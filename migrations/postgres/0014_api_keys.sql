-- The API keys that were made while servers ran. The keys themselves are not kept: see src/domain/api_key.rs.
CREATE TABLE api_keys (
    name       TEXT COLLATE "C" PRIMARY KEY,
    -- 'producer', 'support' or 'operator'.
    role       TEXT NOT NULL,
    -- The topics to which it is bound, with a blank between two; NULL for all.
    topics     TEXT,
    -- The SHA-256 digest of the key.
    digest     BYTEA NOT NULL,
    -- Who made it, when, and which instance accepted it.
    created_by TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    -- From when on it is refused; NULL: it is valid until it is revoked.
    expires_ms BIGINT,
    instance   TEXT NOT NULL
);
