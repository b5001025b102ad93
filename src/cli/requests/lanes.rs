//! The commands about lanes.

use super::{NOT_OURS, as_it_is};
use crate::cli::client::{Client, ServerArguments};
use crate::cli::lanes;
use crate::cli::terminal::{Colours, now_ms};
use crate::cli::{CommandFailure, block_on};
use crate::domain::lane::Lane;
use anyhow::Context as _;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;
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
}

#[derive(Args)]
struct OneLaneArguments {
    /// An origin such as `https://shop.example`, or any URL with that origin
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
        LaneCommand::Show(one) => call(one, None),
        LaneCommand::Hold(LaneReasonArguments { one, reason }) => call(one, Some(("hold", reason))),
        LaneCommand::Release(LaneReasonArguments { one, reason }) => {
            call(one, Some(("release", reason)))
        }
    }
}

fn call(one: &OneLaneArguments, change: Option<(&str, &String)>) -> Result<(), CommandFailure> {
    let lane = Lane::parse(&one.lane).map_err(|bad| CommandFailure::Usage(bad.to_string()))?;
    let client = Client::new(&one.server)?;
    let answer = match change {
        None => {
            let url = client.url(&["lanes", lane.as_str()]);
            block_on(client.call(Method::GET, url, None))?
        }
        Some((verb, reason)) => {
            let url = client.url(&["lanes", lane.as_str(), verb]);
            let body = json!({ "reason": reason });
            block_on(client.call(Method::POST, url, Some(&body)))?
        }
    };
    let text = if one.server.json {
        as_it_is(answer)
    } else {
        let lane = serde_json::from_slice(&answer).context(NOT_OURS)?;
        lanes::one(&lane, Colours::of_stdout(), now_ms()).into_bytes()
    };
    io::stdout().write_all(&text)?;
    Ok(())
}
