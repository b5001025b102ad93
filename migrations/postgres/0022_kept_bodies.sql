-- Bodies are about to be forgotten by dropping a partition of `payloads`. The table of before becomes the partition of the
-- bodies that outlive the partition of their time, and of those that were there before. This migration and the next
-- one prepare that without holding up servers that are at work, however large the table is: a new column with a constant
-- default rewrites nothing, and a constraint that is not yet valid reads nothing.
ALTER TABLE payloads ADD COLUMN kept BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE payloads ADD CONSTRAINT payloads_all_kept CHECK (kept) NOT VALID;
