-- Two more kinds of changes by hand: a delivered notification is sent again, and a pending one is moved. The index
-- that finds the changes by hand of the last minute must contain them too. Servers of the version before search
-- for fewer kinds, so they can use it as well.

CREATE INDEX transitions_changed_by_hand ON transitions (at_ms, row_id)
WHERE kind IN ('cancelled', 'discarded', 'replayed', 'resent', 'retried', 'rescheduled');
DROP INDEX transitions_changed;
