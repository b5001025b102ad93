-- For the lists of the dead letters of a destination, and of those with a cause. Few notifications are dead.
CREATE INDEX dead_of_lane ON notifications (lane, ended_ms) WHERE state = 'dead';
CREATE INDEX dead_of_cause ON notifications (cause, ended_ms) WHERE state = 'dead';
