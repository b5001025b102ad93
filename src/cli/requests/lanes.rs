//! The commands about lanes.

use super::endpoint_lane::lacks_endpoint;
use super::jobs::{print_job, print_preview};
use super::{NOT_OURS, as_it_is, print_text};
use crate::cli::client::{Client, ServerArguments};
use crate::cli::lanes;
use crate::cli::terminal::{Colours, now_ms};
use crate::cli::{CommandFailure, block_on};
use crate::domain::lane::Lane;
use anyhow::Context as _;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};
use std::io::{self, Write as _};

#[derive(Args)]
pub struct LanesArguments {
    /// Only this state: open, probing or held
    #[arg(long)]
    state: Option<String>,
    /// Maximum number of lanes
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// The cursor that the previous page printed, to show the next page
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Args)]
pub struct LaneArguments {
    #[command(subcommand)]
    command: LaneCommand,
}

#[derive(Subcommand)]
enum LaneCommand {
    /// Show one lane
    Show(OneLaneArguments),
    /// Hold a lane: make no calls to its destination; what is pending waits
    Hold(LaneReasonArguments),
    /// Release a lane that is held
    Release(LaneReasonArguments),
    /// Send now what is pending for a lane, oldest first, as a job
    Retry(LaneRetryArguments),
}

#[derive(Args)]
struct OneLaneArguments {
    /// `endpoint:` and the name of an endpoint, an origin such as `https://shop.example`, or any URL with that origin
    lane: String,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Args)]
struct LaneReasonArguments {
    #[command(flatten)]
    one: OneLaneArguments,
    /// The reason, which is shown with the lane
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

#[derive(Args)]
struct LaneRetryArguments {
    #[command(flatten)]
    one: OneLaneArguments,
    /// The reason, which is shown with the job and in the history of each notification
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// How many notifications are made due per second, at most 1000; 100 if it is not given
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Only show how many notifications match, and some of them
    #[arg(long)]
    dry_run: bool,
}

/// Sends the request for a list of lanes and prints the answer.
pub fn list(arguments: &LanesArguments) -> Result<(), CommandFailure> {
    let client = Client::new(&arguments.server)?;
    let mut url = client.url(&["lanes"]);
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
    let text = if arguments.server.json {
        as_it_is(answer)
    } else {
        let page = serde_json::from_slice(&answer).context(NOT_OURS)?;
        lanes::list(&page, Colours::of_stdout(), now_ms()).into_bytes()
    };
    io::stdout().write_all(&text)?;
    Ok(())
}

/// Sends a request about one lane and prints the answer.
pub fn run(arguments: &LaneArguments) -> Result<(), CommandFailure> {
    match &arguments.command {
        LaneCommand::Show(one) => {
            let (client, lane) = (Client::new(&one.server)?, parse(one)?);
            let url = client.url(&["lanes", lane.as_str()]);
            print_lane(block_on(client.call(Method::GET, url, None))?, &one.server)?;
            if let Some(lacks) = lacks_endpoint(&client, &lane) {
                eprintln!("note: {lacks}");
            }
            Ok(())
        }
        LaneCommand::Hold(LaneReasonArguments { one, reason }) => {
            let (lane, client) = (parse(one)?, Client::new(&one.server)?);
            let answer = ask(&client, &lane, "hold", &json!({ "reason": reason }))?;
            let held = serde_json::from_slice(&answer).context(NOT_OURS)?;
            print_lane(answer, &one.server)?;
            // It may be held before its first notification, and after its endpoint was removed, so this is no error.
            if let Some(lacks) = lacks_endpoint(&client, &lane) {
                eprintln!("note: {lacks}");
            } else if is_unknown(&held) {
                eprintln!(
                    "note: nothing is pending for this destination, and no call to it has ended yet; is it spelt as in the \
                     registrations?"
                );
            }
            Ok(())
        }
        LaneCommand::Release(LaneReasonArguments { one, reason }) => {
            let (lane, client) = (parse(one)?, Client::new(&one.server)?);
            let answer = ask(&client, &lane, "release", &json!({ "reason": reason }))?;
            print_job(answer, &one.server)
        }
        LaneCommand::Retry(retry) => {
            let LaneRetryArguments {
                one,
                reason,
                rate,
                dry_run,
            } = retry;
            let body = json!({ "reason": reason, "rate": rate, "dry_run": dry_run });
            let (lane, client) = (parse(one)?, Client::new(&one.server)?);
            let answer = ask(&client, &lane, "retry", &body)?;
            match dry_run {
                true => print_preview(answer, &one.server),
                false => print_job(answer, &one.server),
            }
        }
    }
}

/// Whether a server knows nothing of a lane but what people have set.
fn is_unknown(lane: &Value) -> bool {
    lane["pending"] == 0 && lane["in_flight"] == 0 && lane["last_outcome"].is_null()
}

fn parse(one: &OneLaneArguments) -> Result<Lane, CommandFailure> {
    Lane::parse(&one.lane).map_err(|bad| CommandFailure::Usage(bad.to_string()))
}

fn ask(client: &Client, lane: &Lane, verb: &str, body: &Value) -> Result<Vec<u8>, CommandFailure> {
    let url = client.url(&["lanes", lane.as_str(), verb]);
    block_on(client.call(Method::POST, url, Some(body)))
}

fn print_lane(answer: Vec<u8>, server: &ServerArguments) -> Result<(), CommandFailure> {
    print_text(answer, server, |answer| {
        let lane = serde_json::from_slice(answer)?;
        Ok(lanes::one(&lane, Colours::of_stdout(), now_ms()))
    })
}
