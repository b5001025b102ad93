-- How the call of an attempt went on the network: its address, its version of TLS, and how long each phase took.
-- The text is described in src/domain/call_trace.rs. Attempts from before have an empty text.

ALTER TABLE attempts ADD COLUMN trace TEXT NOT NULL DEFAULT '';
