-- Jobs for a filter: dead letters to replay, or pending notifications to cancel. The filter is JSON; null if the job is
-- about a lane.
ALTER TABLE jobs ADD COLUMN filter TEXT COLLATE "C";
-- The same request sent twice is one job, as long as that has not ended.
CREATE UNIQUE INDEX jobs_of_filter ON jobs (kind, filter) WHERE ended_ms IS NULL AND filter IS NOT NULL;
-- The priority of a series that a job began; null if the notification has its own.
ALTER TABLE statuses ADD COLUMN series_priority TEXT COLLATE "C";
