-- Attempts and transitions are about to be forgotten by dropping partitions, as bodies are. As 0022: a new column with a constant
-- default rewrites nothing, and a constraint that is not yet valid reads nothing. Each table has a migration of its own, so that
-- none waits for one table while it locks the other one.
ALTER TABLE attempts ADD COLUMN kept BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE attempts ADD CONSTRAINT attempts_all_kept CHECK (kept) NOT VALID;
