//! The commands `replay` and `cancel`: of one notification, or of all that pass a filter, as a job.

use super::jobs::{print_job, print_preview};
use super::{NOT_OURS, key, print_one};
use crate::cli::client::{Client, ServerArguments};
use crate::cli::jobs::JobDetails;
use crate::cli::terminal::{ProgressDisplay, clean};
use crate::cli::{CommandFailure, block_on, time_argument};
use anyhow::Context as _;
use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How often it is asked how far the job is.
const ASK_EVERY: Duration = Duration::from_millis(500);

#[derive(Args)]
pub struct ReplayArguments {
    #[command(flatten)]
    which: WhichArguments,
    /// Only dead letters with this cause: `ladder_exhausted`, `window_closed`, refused or blocked
    #[arg(long, conflicts_with_all = ["one_topic", "all"])]
    cause: Option<String>,
    #[command(flatten)]
    how: HowArguments,
}

#[derive(Args)]
pub struct CancelArguments {
    #[command(flatten)]
    which: WhichArguments,
    #[command(flatten)]
    how: HowArguments,
}

#[derive(Args)]
struct WhichArguments {
    /// The topic of one notification
    #[arg(value_name = "TOPIC", requires = "one_id")]
    one_topic: Option<String>,
    /// The id of one notification
    #[arg(value_name = "ID")]
    one_id: Option<String>,
    /// All notifications of this topic
    #[arg(long, conflicts_with_all = ["one_topic", "all"])]
    topic: Option<String>,
    /// All of this destination: `endpoint:` and the name of an endpoint, an origin such as `https://shop.example`, or any
    /// URL with that origin
    #[arg(long, conflicts_with_all = ["one_topic", "all"])]
    lane: Option<String>,
    /// Only from this time on: when a dead letter died, when a pending notification was registered. 2h (so long ago),
    /// 2026-11-20 or '2026-11-20 14:30' (local time), or RFC 3339
    #[arg(long, value_name = "TIME", value_parser = time_argument::parse, conflicts_with_all = ["one_topic", "all"])]
    from: Option<String>,
    /// Only before this time, which is not included; written like --from
    #[arg(long, value_name = "TIME", value_parser = time_argument::parse, conflicts_with_all = ["one_topic", "all"])]
    to: Option<String>,
    /// Only notifications whose ids contain this text
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["one_topic", "all"])]
    id_contains: Option<String>,
    /// Everything, without a filter
    #[arg(long, conflicts_with = "one_topic")]
    all: bool,
}

#[derive(Args)]
struct HowArguments {
    /// The reason, which the history of each notification will show; not for the cancellation of one
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// How many per second, at most 1000; 100 if it is not given
    #[arg(long, value_name = "N", conflicts_with = "one_topic")]
    rate: Option<f64>,
    /// Only show how many match, and some of them
    #[arg(long, conflicts_with = "one_topic")]
    dry_run: bool,
    /// Do not wait for the end of the job
    #[arg(long, conflicts_with = "one_topic")]
    detach: bool,
    #[command(flatten)]
    server: ServerArguments,
}

/// Replays one dead letter, or all that pass the filter.
pub fn replay(arguments: &ReplayArguments) -> Result<(), CommandFailure> {
    let ReplayArguments { which, cause, how } = arguments;
    if let Some((topic, id)) = which.one() {
        let body = json!({ "reason": how.reason });
        return one(
            &how.server,
            (topic, id),
            Method::POST,
            "dead-letters",
            Some(body),
        );
    }
    let filter = which.filter(cause.as_deref())?;
    run(
        &["dead-letters", "replay"],
        "dead letters seen",
        filter,
        how,
    )
}

/// Cancels one notification, or all that pass the filter.
pub fn cancel(arguments: &CancelArguments) -> Result<(), CommandFailure> {
    let CancelArguments { which, how } = arguments;
    if let Some((topic, id)) = which.one() {
        if !how.reason.is_empty() {
            let usage = "--reason: this command takes none for one notification; the page does, and so does a cancellation by a \
                         filter (--topic, --id-contains)";
            return Err(CommandFailure::Usage(usage.into()));
        }
        return one(
            &how.server,
            (topic, id),
            Method::DELETE,
            "notifications",
            None,
        );
    }
    let filter = which.filter(None)?;
    run(
        &["notifications", "cancel"],
        "notifications seen",
        filter,
        how,
    )
}

impl WhichArguments {
    fn one(&self) -> Option<(&str, &str)> {
        self.one_topic.as_deref().zip(self.one_id.as_deref())
    }

    /// The filter as the API reads it. Whoever names nothing has forgotten it.
    fn filter(&self, cause: Option<&str>) -> Result<Value, CommandFailure> {
        let mut filter = Map::new();
        for (name, value) in [
            ("topic", self.topic.as_deref()),
            ("lane", self.lane.as_deref()),
            ("from", self.from.as_deref()),
            ("to", self.to.as_deref()),
            ("id_contains", self.id_contains.as_deref()),
            ("cause", cause),
        ] {
            if let Some(value) = value {
                filter.insert(name.to_string(), value.into());
            }
        }
        if filter.is_empty() && !self.all {
            let usage = "name one notification (TOPIC ID), or say which: --topic, --lane, --from, --to, --id-contains; \
                         --all means everything";
            return Err(CommandFailure::Usage(usage.into()));
        }
        Ok(filter.into())
    }
}

fn one(
    server: &ServerArguments,
    (topic, id): (&str, &str),
    method: Method,
    collection: &str,
    body: Option<Value>,
) -> Result<(), CommandFailure> {
    let key = key(topic, id)?;
    let client = Client::new(server)?;
    let below: &[&str] = match method {
        Method::DELETE => &[],
        _ => &["replay"],
    };
    let url = client.notification_url(collection, &key, below);
    print_one(
        block_on(client.call(method, url, body.as_ref()))?,
        server,
        false,
    )
}

fn run(
    path: &[&str],
    what: &'static str,
    filter: Value,
    how: &HowArguments,
) -> Result<(), CommandFailure> {
    let HowArguments {
        reason,
        rate,
        dry_run,
        detach,
        server,
    } = how;
    let client = Client::new(server)?;
    let body = json!({ "filter": filter, "reason": reason, "rate": rate, "dry_run": dry_run });
    let answer = block_on(client.call(Method::POST, client.url(path), Some(&body)))?;
    if *dry_run {
        return print_preview(answer, server);
    }
    if *detach {
        return print_job(answer, server);
    }
    let (answer, job) = block_on(follow(&client, answer, what, server.json))?;
    print_job(answer, server)?;
    job.check_end().map_err(CommandFailure::Printed)
}

/// Shows how far a job is until it has ended or is paused. Returns the last answer.
async fn follow(
    client: &Client,
    mut answer: Vec<u8>,
    what: &'static str,
    json: bool,
) -> Result<(Vec<u8>, JobDetails), CommandFailure> {
    let mut job: JobDetails = serde_json::from_slice(&answer).context(NOT_OURS)?;
    let Some(id) = job.id().map(str::to_string) else {
        return Ok((answer, job));
    };
    if !json {
        eprintln!(
            "ringback: job {}; it goes on if this command is interrupted",
            clean(&id)
        );
    }
    // The job as it is kept has no such note, so it is printed now. A job that does not run is printed as it is answered.
    if job.is_running()
        && let Some(hold) = job.hold()
    {
        eprintln!("note: {hold}");
    }
    let progress = ProgressDisplay::of(what, job.matched());
    while job.is_running() {
        progress.at(job.seen());
        tokio::time::sleep(ASK_EVERY).await;
        answer = client
            .call(Method::GET, client.url(&["jobs", &id]), None)
            .await?;
        job = serde_json::from_slice(&answer).context(NOT_OURS)?;
    }
    drop(progress);
    Ok((answer, job))
}
