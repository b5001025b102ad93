//! The requests about destinations and jobs.

use super::examples;
use super::route::{LOCATION, Route};
use crate::api::bulk_jobs::{BulkCancelDocument, BulkReplayDocument};
use crate::api::job_notifications::JobNotificationsView;
use crate::api::job_view::{JobListView, JobView, PreviewView};
use crate::api::jobs::JobRequestDocument;
use crate::api::lanes::{HoldView, LaneListView, LaneView};
use crate::api::problem::ProblemKind::{
    JobEnded, JobRuns, Missing, MissingJob, MissingLane, NoJournal, TooManyJobs,
};
use crate::api::query::{job_notifications_parameters, jobs_parameters, lanes_parameters};
use crate::api::reason::ReasonDocument;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::path::HttpMethod::{Get, Post};

const DESTINATIONS: &str = "destinations";
const JOBS: &str = "jobs";

/// All of them.
pub(super) fn routes() -> Vec<Route> {
    let job = || Some(examples::job());
    let order = |path, id, summary, description| {
        Route::new(Post, path, id)
            .says(JOBS, summary, description)
            .optional_body::<ReasonDocument>(examples::reason())
            .answer::<JobView<'_>>(200, "The job.", &[], job())
            .problems(&[MissingJob, JobEnded, NoJournal])
    };
    vec![
        Route::new(Get, "/v1/lanes", "listLanes")
            .says(
                DESTINATIONS,
                "Lists the destinations that have something pending or are held",
                "In no order. A page may be short, or even empty, while `next_cursor` is not `null`. While the journal is away, the \
                 list has what the schedule knows, with `pending_is_at_least`; then the destinations of which everything waits in \
                 the journal are asked for with the cursor, which is answered 503 until the journal is back.",
            )
            .query(lanes_parameters())
            .answer::<LaneListView<'_>>(200, "A page.", &[], None),
        Route::new(Get, "/v1/lanes/{lane}", "getLane")
            .says(DESTINATIONS, "How a destination is doing", "One of which nothing is known is `open` and empty.")
            .answer::<LaneView<'_>>(200, "The lane.", &[], Some(examples::lane()))
            .problems(&[Missing]),
        Route::new(Post, "/v1/lanes/{lane}/hold", "holdLane")
            .says(
                DESTINATIONS,
                "Makes no calls to a destination until it is released",
                "What is pending waits, spends no attempt, and nothing of it is dropped.",
            )
            .optional_body::<ReasonDocument>(examples::reason())
            .answer::<HoldView<'_>>(200, "It is held.", &[], None)
            .problems(&[Missing]),
        Route::new(Post, "/v1/lanes/{lane}/release", "releaseLane")
            .says(
                DESTINATIONS,
                "Makes calls to a destination again",
                "Answered with a job that is done already: its `matched` says how much was due. Without a journal its `id` is \
                 `null`, and there is no `Location`.",
            )
            .optional_body::<ReasonDocument>(examples::reason())
            .answer::<JobView<'_>>(202, "It is released.", &[], None)
            .problems(&[Missing]),
        Route::new(Post, "/v1/lanes/{lane}/retry", "retryLane")
            .says(
                DESTINATIONS,
                "Sends now what is pending for a destination",
                "As a job, oldest registration first. With `dry_run`, it only says how many match.",
            )
            .optional_body::<JobRequestDocument>(examples::job_request())
            .answer::<JobView<'_>>(202, "The job.", &[LOCATION], job())
            .answer::<PreviewView<'_>>(200, "What a job would do.", &[], None)
            .problems(&[Missing, MissingLane, JobRuns, TooManyJobs, NoJournal]),
        bulk::<BulkReplayDocument>(
            Route::new(Post, "/v1/dead-letters/replay", "replayDeadLetters").says(
                "dead letters",
                "Replays the dead letters that pass a filter",
                "As a job. As long as it has not ended, the same filter is answered with that job. After its first 20 replays \
                 the job waits for their attempts, and fails if more than half of those failed again.",
            ),
            examples::bulk_replay(),
        ),
        bulk::<BulkCancelDocument>(
            Route::new(Post, "/v1/notifications/cancel", "cancelNotifications").says(
                "notifications",
                "Cancels the pending notifications that pass a filter",
                "As a job. As long as it has not ended, the same filter is answered with that job.",
            ),
            examples::bulk_cancel(),
        ),
        Route::new(Get, "/v1/jobs", "listJobs")
            .says(JOBS, "Lists jobs, newest first", "")
            .query(jobs_parameters())
            .answer::<JobListView<'_>>(200, "A page.", &[], None)
            .problems(&[NoJournal]),
        Route::new(Get, "/v1/jobs/{id}", "getJob")
            .says(JOBS, "Looks a job up", "")
            .answer::<JobView<'_>>(200, "The job.", &[], job())
            .problems(&[MissingJob, NoJournal]),
        Route::new(Get, "/v1/jobs/{id}/notifications", "listJobNotifications")
            .says(
                JOBS,
                "Lists the notifications of a job that have the same result",
                "In the order of their turns, as they are now. The first 100,000 that were skipped and the first 100,000 that \
                 failed are listed; all are counted by their reasons. A page may be short, or even empty, while `next_cursor` \
                 is not `null`.",
            )
            .query(job_notifications_parameters())
            .answer::<JobNotificationsView<'_>>(200, "A page.", &[], Some(examples::job_notifications()))
            .problems(&[MissingJob, NoJournal]),
        order(
            "/v1/jobs/{id}/pause",
            "pauseJob",
            "Pauses a job",
            "Nothing more is done until it is resumed.",
        ),
        order("/v1/jobs/{id}/resume", "resumeJob", "Lets a job go on", ""),
        order("/v1/jobs/{id}/stop", "stopJob", "Ends a job", "What it has done stays."),
    ]
}

/// A request that makes a job of a filter.
fn bulk<T: ToSchema>(route: Route, example: Value) -> Route {
    route
        .body::<T>(example)
        .answer::<JobView<'_>>(202, "The job.", &[LOCATION], None)
        .answer_either::<PreviewView<'_>, JobView<'_>>(
            200,
            "With `dry_run`, what a job would do; else the job of the same filter that has not ended.",
        )
        .problems(&[MissingLane, TooManyJobs, NoJournal])
}
