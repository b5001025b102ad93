-- Which destinations have notifications that are pending and due later: these may wait in the journal alone, so a schedule
-- knows nothing of them. Only those are in it that are due more than ten seconds after they were registered. So what is
-- sent at once, as most is, costs nothing.
CREATE INDEX later_of_lane ON notifications (lane, next_due_ms)
WHERE state = 'scheduled' AND next_due_ms > registered_ms + 10000;
