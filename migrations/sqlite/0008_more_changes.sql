-- Two more kinds of changes by hand: a delivered notification is sent again, and a pending one is moved. The index
-- that finds the changes by hand of the last minute must contain them too.

CREATE INDEX changed_by_hand ON transitions (at_ms)
WHERE kind IN ('cancelled', 'discarded', 'replayed', 'resent', 'retried', 'rescheduled');
DROP INDEX changed;
