-- For the list of the dead letters with a cause. Few notifications are dead. The destination is in another table, so there is
-- no such index for it.
CREATE INDEX statuses_dead_of_cause ON statuses (cause, ended_ms, notification) WHERE state = 'dead';
