//! The commands that ask a running server.

mod api_key;
mod audit_log;
mod bulk;
mod default_key;
mod endpoint;
mod endpoint_key;
mod endpoint_lane;
mod endpoint_patch;
mod endpoint_text;
mod find;
mod jobs;
mod lanes;
mod payload;
mod send;

use super::client::{Client, ServerArguments};
use super::show;
use super::terminal::{Colours, now_ms};
use super::time_argument;
use super::view::NotificationPage;
use super::{CommandFailure, block_on};
use crate::domain::key::Key;
use anyhow::Context as _;
use api_key::ApiKeyCommand;
use audit_log::AuditLogArguments;
use bulk::{CancelArguments, ReplayArguments};
use clap::{Args, Subcommand};
use default_key::DefaultKeyCommand;
use endpoint::EndpointCommand;
use find::FindArguments;
use jobs::{JobArguments, JobsArguments};
use lanes::{LaneArguments, LanesArguments};
use reqwest::Method;
use send::SendArguments;
use serde_json::{Value, json};
use std::io::{self, Write as _};
use url::Url;

/// A command that sends a request to a server.
#[derive(Subcommand)]
pub enum Request {
    /// Register a notification
    Send(Box<SendArguments>),
    /// Show one notification and its history
    Show(ShowArguments),
    /// List notifications, newest first
    List(ListArguments),
    /// Find notifications by an id, the beginning of one, a webhook id or a part of the URL
    Find(FindArguments),
    /// Cancel a scheduled notification, or all that pass a filter, as a job
    Cancel(Box<CancelArguments>),
    /// Attempt a scheduled notification now; if this fails, its ladder continues
    Retry(OneArguments),
    /// Send a delivered notification again: start its ladder (retry schedule) again
    Resend(ReasonArguments),
    /// Move the first attempt of a scheduled notification, as long as its ladder has made none
    Reschedule(RescheduleArguments),
    /// List dead letters; the one that died last comes first
    Dead(DeadArguments),
    /// Start the ladder (retry schedule) of a dead letter again, or of all that pass a filter, as a job
    Replay(Box<ReplayArguments>),
    /// Discard a dead letter; it cannot be replayed after that
    Discard(OneArguments),
    /// List, show, set, test or remove endpoints: receivers that have a name
    #[command(subcommand)]
    Endpoint(EndpointCommand),
    /// List, add or remove the default keys, which sign what has no key of its own
    #[command(subcommand)]
    DefaultKey(DefaultKeyCommand),
    /// Make, list or revoke API keys, which say who may use the API
    #[command(subcommand)]
    Key(ApiKeyCommand),
    /// List the destinations that have pending notifications or are held
    Lanes(LanesArguments),
    /// Show, hold or release one destination, or send now what is pending for it
    Lane(LaneArguments),
    /// List jobs, newest first
    Jobs(JobsArguments),
    /// Show, pause, resume or stop one job
    Job(JobArguments),
    /// List what people did, newest first: who, when, what, on what and why
    AuditLog(AuditLogArguments),
}

#[derive(Args)]
pub struct OneArguments {
    /// The notification's topic
    topic: String,
    /// The notification's id
    id: String,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Args)]
pub struct ShowArguments {
    #[command(flatten)]
    one: OneArguments,
    /// Show the whole history, not only its end
    #[arg(long)]
    all: bool,
    /// Print what is sent instead: the headers and the body. The server's log says who asked
    #[arg(long, conflicts_with = "all")]
    payload: bool,
}

#[derive(Args)]
pub struct ReasonArguments {
    #[command(flatten)]
    one: OneArguments,
    /// The reason, which the history will show
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

#[derive(Args)]
pub struct RescheduleArguments {
    #[command(flatten)]
    one: OneArguments,
    /// Make the first attempt after this time, counted from now
    #[arg(
        long,
        value_name = "DURATION",
        required_unless_present = "at",
        conflicts_with = "at"
    )]
    delay: Option<String>,
    /// Make the first attempt at this time, such as 2026-11-20T08:30:00Z, or '2026-11-20 14:30' (local time); at once if it
    /// is over
    #[arg(long, value_name = "TIME", value_parser = time_argument::parse_instant)]
    at: Option<String>,
}

#[derive(Args)]
pub struct ListArguments {
    /// Only this state: scheduled, due (scheduled, and due now), in_flight, pending (scheduled or in flight), delivered, dead or
    /// cancelled
    #[arg(long)]
    state: Option<String>,
    #[command(flatten)]
    filter: FilterArguments,
}

#[derive(Args)]
pub struct DeadArguments {
    /// Only this cause: `ladder_exhausted`, `window_closed`, refused or blocked
    #[arg(long)]
    cause: Option<String>,
    #[command(flatten)]
    filter: FilterArguments,
}

#[derive(Args)]
struct FilterArguments {
    /// Only this topic
    #[arg(long)]
    topic: Option<String>,
    /// Only this destination: `endpoint:` and the name of an endpoint, an origin such as `https://shop.example`,
    /// or any URL with that origin
    #[arg(long)]
    lane: Option<String>,
    /// Only from this time on: 2h (so long ago), 2026-11-20 or '2026-11-20 14:30' (local time), or RFC 3339
    #[arg(long, value_name = "TIME", value_parser = time_argument::parse)]
    from: Option<String>,
    /// Only before this time, which is not included; written like --from
    #[arg(long, value_name = "TIME", value_parser = time_argument::parse)]
    to: Option<String>,
    /// Maximum number of items
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// The cursor that the previous page printed, to show the next page
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
}

/// Sends the request and prints the answer.
pub fn run(request: Request) -> Result<(), CommandFailure> {
    let ask = |one: &OneArguments, method, collection, below: &[&str], body: Option<Value>, all| {
        let key = key(&one.topic, &one.id)?;
        let client = Client::new(&one.server)?;
        let url = client.notification_url(collection, &key, below);
        let answer = block_on(client.call(method, url, body.as_ref()))?;
        print_one(answer, &one.server, all)
    };
    let under_key = |one: &OneArguments, method, collection, below: &[&str]| {
        ask(one, method, collection, below, None, false)
    };
    let with_body = |one: &OneArguments, method, collection, below: &[&str], body: Value| {
        ask(one, method, collection, below, Some(body), false)
    };
    match request {
        Request::Send(arguments) => send::run(&arguments),
        Request::Show(ShowArguments { one, all, payload }) => match payload {
            true => payload::show(&one),
            false => ask(&one, Method::GET, "notifications", &[], None, all),
        },
        Request::Cancel(arguments) => bulk::cancel(&arguments),
        Request::Retry(one) => under_key(&one, Method::POST, "notifications", &["retry"]),
        Request::Discard(one) => under_key(&one, Method::DELETE, "dead-letters", &[]),
        Request::Replay(arguments) => bulk::replay(&arguments),
        Request::Resend(ReasonArguments { one, reason }) => {
            let body = json!({ "reason": reason });
            with_body(&one, Method::POST, "notifications", &["resend"], body)
        }
        Request::Reschedule(RescheduleArguments { one, delay, at }) => {
            let body = match at {
                Some(at) => json!({ "deliver_at": at }),
                None => json!({ "delay": delay }),
            };
            with_body(&one, Method::PATCH, "notifications", &[], body)
        }
        Request::Endpoint(command) => endpoint::run(command),
        Request::DefaultKey(command) => default_key::run(command),
        Request::Find(arguments) => find::run(&arguments),
        Request::Key(command) => api_key::run(command),
        Request::List(list) => {
            let named = ("state", list.state);
            print_list("notifications", named, &list.filter, show::list)
        }
        Request::Lanes(arguments) => lanes::list(&arguments),
        Request::Lane(arguments) => lanes::run(&arguments),
        Request::Jobs(arguments) => jobs::list(&arguments),
        Request::AuditLog(arguments) => audit_log::list(&arguments),
        Request::Job(arguments) => jobs::run(&arguments),
        Request::Dead(dead) => {
            let named = ("cause", dead.cause);
            print_list("dead-letters", named, &dead.filter, show::dead)
        }
    }
}

fn key(topic: &str, id: &str) -> Result<Key, CommandFailure> {
    Key::new(topic, id).map_err(|error| CommandFailure::Usage(error.to_string()))
}

fn print_one(answer: Vec<u8>, server: &ServerArguments, all: bool) -> Result<(), CommandFailure> {
    print_text(answer, server, |answer| {
        let one = serde_json::from_slice(answer)?;
        Ok(show::one(&one, Colours::of_stdout(), now_ms(), all))
    })
}

/// Prints an answer: its JSON if the flags ask for it, else the text that `read` makes of it.
fn print_text(
    answer: Vec<u8>,
    server: &ServerArguments,
    read: impl FnOnce(&[u8]) -> serde_json::Result<String>,
) -> Result<(), CommandFailure> {
    if server.json {
        return text_of(&as_it_is(answer));
    }
    text_of(read(&answer).context(NOT_OURS)?.as_bytes())
}

/// Writes a text to standard output.
fn text_of(text: &[u8]) -> Result<(), CommandFailure> {
    io::stdout().write_all(text)?;
    Ok(())
}

/// Splits the values of a flag that are written `NAME=VALUE`.
fn header_pairs<'a>(
    flag: &str,
    values: &'a [String],
) -> Result<Vec<(&'a str, &'a str)>, CommandFailure> {
    let pairs = values.iter().map(|pair| {
        pair.split_once('=')
            .ok_or_else(|| CommandFailure::Usage(format!("{flag}: a header is written NAME=VALUE")))
    });
    pairs.collect()
}

/// The value of a flag that is a name or JSON.
fn name_or_json(flag: &str, text: &str) -> Result<Value, CommandFailure> {
    if !text.trim_start().starts_with('{') {
        return Ok(json!(text));
    }
    serde_json::from_str(text).map_err(|error| CommandFailure::Usage(format!("{flag}: {error}")))
}

fn print_list(
    collection: &str,
    (name, value): (&str, Option<String>),
    filter: &FilterArguments,
    text: fn(&NotificationPage, Colours, i64) -> String,
) -> Result<(), CommandFailure> {
    let client = Client::new(&filter.server)?;
    let named = [(name, value.as_deref())];
    let url = list_url(
        &client,
        collection,
        &named,
        filter,
        filter.cursor.as_deref(),
    );
    let answer = block_on(client.call(Method::GET, url, None))?;
    print_text(answer, &filter.server, |answer| {
        let page = serde_json::from_slice(answer)?;
        Ok(text(&page, Colours::of_stdout(), now_ms()))
    })
}

/// The URL of a page of a list: with these parameters and those of the filter.
fn list_url(
    client: &Client,
    collection: &str,
    named: &[(&str, Option<&str>)],
    filter: &FilterArguments,
    cursor: Option<&str>,
) -> Url {
    let mut url = client.url(&[collection]);
    let limit = filter.limit.map(|limit| limit.to_string());
    let of_filter = [
        ("topic", filter.topic.as_deref()),
        ("lane", filter.lane.as_deref()),
        ("from", filter.from.as_deref()),
        ("to", filter.to.as_deref()),
        ("limit", limit.as_deref()),
        ("cursor", cursor),
    ];
    let given = named.iter().chain(&of_filter);
    add_query(&mut url, given.copied());
    url
}

/// Adds those of these parameters to a URL that have a value.
fn add_query<'text>(
    url: &mut Url,
    parameters: impl IntoIterator<Item = (&'text str, Option<&'text str>)>,
) {
    for (name, value) in parameters {
        if let Some(value) = value {
            url.query_pairs_mut().append_pair(name, value);
        }
    }
    // A blank as `+`, as forms have it, would be read as a plus sign.
    let query = url.query().map(|query| query.replace('+', "%20"));
    url.set_query(query.as_deref());
}

const NOT_OURS: &str = "the answer does not come from a Ringback server";

/// The server's JSON with a newline at its end, so that the shell's prompt is on its own line.
fn as_it_is(mut answer: Vec<u8>) -> Vec<u8> {
    if !answer.ends_with(b"\n") {
        answer.push(b'\n');
    }
    answer
}
