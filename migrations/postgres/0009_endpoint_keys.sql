-- The signing keys of an endpoint, encrypted: see src/domain/endpoint_keys.rs and src/domain/master_key.rs. Empty: the
-- endpoint has none.
ALTER TABLE endpoints ADD COLUMN keys TEXT NOT NULL DEFAULT '';
