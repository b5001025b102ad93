//! The commands about jobs.

use super::print_text;
use crate::cli::client::{Client, ServerArguments};
use crate::cli::job_notifications;
use crate::cli::jobs;
use crate::cli::terminal::{Colours, now_ms};
use crate::cli::{CommandFailure, block_on};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;

#[derive(Args)]
pub struct JobsArguments {
    /// Only this state: running, paused, done, stopped or failed
    #[arg(long)]
    state: Option<String>,
    /// Maximum number of jobs
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// The cursor that the previous page printed, to show the next page
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Args)]
pub struct JobArguments {
    #[command(subcommand)]
    command: JobCommand,
}

#[derive(Subcommand)]
enum JobCommand {
    /// Show one job
    Show(OneJobArguments),
    /// List the notifications of a job that have the same result, with the reasons
    Notifications(JobNotificationsArguments),
    /// Pause a job: nothing more is done until it is resumed
    Pause(JobOrderArguments),
    /// Resume a job that is paused
    Resume(JobOrderArguments),
    /// Stop a job; what it has done stays
    Stop(JobOrderArguments),
}

#[derive(Args)]
struct OneJobArguments {
    /// The job's id
    id: String,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Args)]
struct JobNotificationsArguments {
    #[command(flatten)]
    one: OneJobArguments,
    /// Those that are done, skipped or failed
    #[arg(long, default_value = "done")]
    result: String,
    /// Maximum number of notifications
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// The cursor that the previous page printed, to show the next page
    #[arg(long)]
    cursor: Option<String>,
}

#[derive(Args)]
struct JobOrderArguments {
    #[command(flatten)]
    one: OneJobArguments,
    /// Why; kept in the audit log
    #[arg(long)]
    reason: Option<String>,
}

/// Sends the request for a list of jobs and prints the answer.
pub fn list(arguments: &JobsArguments) -> Result<(), CommandFailure> {
    let client = Client::new(&arguments.server)?;
    let mut url = client.url(&["jobs"]);
    let limit = arguments.limit.map(|limit| limit.to_string());
    let query = [
        ("state", &arguments.state),
        ("limit", &limit),
        ("cursor", &arguments.cursor),
    ];
    for (name, value) in query {
        if let Some(value) = value {
            url.query_pairs_mut().append_pair(name, value);
        }
    }
    let answer = block_on(client.call(Method::GET, url, None))?;
    print_text(answer, &arguments.server, |answer| {
        let page = serde_json::from_slice(answer)?;
        Ok(jobs::list(&page, Colours::of_stdout(), now_ms()))
    })
}

/// Sends a request about one job and prints the answer.
pub fn run(arguments: &JobArguments) -> Result<(), CommandFailure> {
    let (one, order) = match &arguments.command {
        JobCommand::Show(one) => (one, None),
        JobCommand::Notifications(asked) => return notifications(asked),
        JobCommand::Pause(order) => (&order.one, Some(("pause", &order.reason))),
        JobCommand::Resume(order) => (&order.one, Some(("resume", &order.reason))),
        JobCommand::Stop(order) => (&order.one, Some(("stop", &order.reason))),
    };
    let client = Client::new(&one.server)?;
    let answer = match order {
        None => block_on(client.call(Method::GET, client.url(&["jobs", &one.id]), None))?,
        Some((order, reason)) => {
            let url = client.url(&["jobs", &one.id, order]);
            let body = reason.as_ref().map(|reason| json!({ "reason": reason }));
            block_on(client.call(Method::POST, url, body.as_ref()))?
        }
    };
    print_job(answer, &one.server)
}

/// Sends the request for the notifications of a job and prints the answer.
fn notifications(asked: &JobNotificationsArguments) -> Result<(), CommandFailure> {
    let server = &asked.one.server;
    let client = Client::new(server)?;
    let mut url = client.url(&["jobs", &asked.one.id, "notifications"]);
    let limit = asked.limit.map(|limit| limit.to_string());
    let query = [
        ("result", Some(&asked.result)),
        ("limit", limit.as_ref()),
        ("cursor", asked.cursor.as_ref()),
    ];
    for (name, value) in query {
        if let Some(value) = value {
            url.query_pairs_mut().append_pair(name, value);
        }
    }
    let answer = block_on(client.call(Method::GET, url, None))?;
    print_text(answer, server, |answer| {
        let page = serde_json::from_slice(answer)?;
        Ok(job_notifications::list(
            &page,
            Colours::of_stdout(),
            now_ms(),
        ))
    })
}

/// Prints a job.
pub fn print_job(answer: Vec<u8>, server: &ServerArguments) -> Result<(), CommandFailure> {
    print_text(answer, server, |answer| {
        let job = serde_json::from_slice(answer)?;
        Ok(jobs::one(&job, Colours::of_stdout(), now_ms()))
    })
}

/// Prints the answer to a dry run.
pub fn print_preview(answer: Vec<u8>, server: &ServerArguments) -> Result<(), CommandFailure> {
    print_text(answer, server, |answer| {
        let preview = serde_json::from_slice(answer)?;
        Ok(jobs::preview(&preview, Colours::of_stdout(), now_ms()))
    })
}
