//! `ringback endpoint`: list, show, set, test and remove endpoints.

use super::endpoint_key::{KeyCommand, key_text, run as run_key};
use super::{NOT_OURS, header_pairs, name_or_json, print_text, text_of};
use crate::cli::client::{Client, ServerArguments};
use crate::cli::terminal::{Colours, clean, instant, now_ms, table};
use crate::cli::timeline::attempt_text;
use crate::cli::view::{AttemptDetails, EndpointDetails, EndpointDetailsPage};
use crate::cli::{CommandFailure, block_on};
use crate::domain::attempt::Outcome;
use crate::domain::endpoint::EndpointName;
use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};

#[derive(Subcommand)]
pub enum EndpointCommand {
    /// List endpoints, in the order of their names
    List(EndpointListArguments),
    /// Show one endpoint
    Show(NameArguments),
    /// Make an endpoint, or change what the flags name; an empty value removes a setting
    Set(Box<SetArguments>),
    /// Make one signed test call to an endpoint; nothing of it is kept. Ends with status 1 if it is not acknowledged
    Test(NameArguments),
    /// Add, remove and list the signing keys of an endpoint
    #[command(subcommand)]
    Key(KeyCommand),
    /// Remove an endpoint; refused while notifications that name it are pending
    Remove(NameArguments),
}

#[derive(Args)]
pub struct NameArguments {
    /// The name of the endpoint
    name: String,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Args)]
pub struct EndpointListArguments {
    /// Maximum number of items
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// The cursor that the previous page printed, to show the next page
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Args)]
pub struct SetArguments {
    /// The name of the endpoint
    name: String,
    /// The URL to call; a new endpoint needs it
    #[arg(long)]
    url: Option<String>,
    /// The ladder (retry schedule) of notifications that choose none: a name, or a custom ladder as JSON
    #[arg(long, value_name = "NAME|JSON")]
    ladder: Option<String>,
    /// The ack rule of notifications that choose none: a name, or a custom rule as JSON
    #[arg(long, value_name = "NAME|JSON")]
    ack: Option<String>,
    /// The time limit of a call
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Maximum number of calls in flight, over all servers
    #[arg(long, value_name = "N")]
    concurrency: Option<String>,
    /// Maximum number of calls per second, over all servers, such as 0.5
    #[arg(long, value_name = "N")]
    rate: Option<String>,
    /// Whether Retry-After of a 429 or 503 may delay the next attempt
    #[arg(long, value_name = "true|false")]
    retry_after: Option<String>,
    /// What a 410 does: it parks the notification, or also holds the endpoint until it is released
    #[arg(long, value_name = "park|hold")]
    gone: Option<String>,
    /// How many notifications per second a job sends that failed during an outage, when a call is answered again
    #[arg(long, value_name = "N")]
    after_outage_rate: Option<String>,
    /// A header of every call; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
    /// The User-Agent of every call
    #[arg(long, value_name = "TEXT")]
    user_agent: Option<String>,
    /// The name of a header of the signature, such as signature=X-Shop-Signature; id, timestamp or signature
    #[arg(long = "signature-header", value_name = "WHICH=NAME")]
    signature_headers: Vec<String>,
    /// The version of HTTP that calls speak: 1.1, or 2 where the receiver speaks it
    #[arg(long, value_name = "1.1|2")]
    http: Option<String>,
    /// A PEM file with the authorities that TLS trusts for this endpoint, and no others
    #[arg(long, value_name = "FILE")]
    ca: Option<String>,
    /// A PEM file with the client certificate and its intermediate ones
    #[arg(long, value_name = "FILE")]
    client_certificate: Option<String>,
    /// A PEM file with the private key of the client certificate
    #[arg(long, value_name = "FILE")]
    client_key: Option<String>,
    /// A JSON object of your own, which is kept and returned; it is merged into the one that is there
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
}

/// Sends the request and prints the answer.
pub fn run(command: EndpointCommand) -> Result<(), CommandFailure> {
    match command {
        EndpointCommand::List(list) => print_list(&list),
        EndpointCommand::Show(NameArguments { name, server }) => {
            let answer = request(&server, Method::GET, &name, &[], None)?;
            print_endpoint(answer, &server)
        }
        EndpointCommand::Set(arguments) => set(&arguments),
        EndpointCommand::Test(NameArguments { name, server }) => {
            let answer = request(&server, Method::POST, &name, &["test"], None)?;
            let attempt: AttemptDetails = serde_json::from_slice(&answer).context(NOT_OURS)?;
            print_text(answer, &server, |_| {
                Ok(attempt_text(&attempt, Colours::of_stdout()))
            })?;
            match attempt.outcome == Outcome::Acknowledged.as_str() {
                true => Ok(()),
                false => Err(anyhow!("the call was not acknowledged").into()),
            }
        }
        EndpointCommand::Key(command) => run_key(command),
        EndpointCommand::Remove(NameArguments { name, server }) => {
            request(&server, Method::DELETE, &name, &[], None)?;
            let text = if server.json { "null\n" } else { "removed\n" };
            text_of(text.as_bytes())
        }
    }
}

fn request(
    server: &ServerArguments,
    method: Method,
    name: &str,
    below: &[&str],
    body: Option<&Value>,
) -> Result<Vec<u8>, CommandFailure> {
    let name = EndpointName::parse(name).map_err(|bad| CommandFailure::Usage(bad.to_string()))?;
    let client = Client::new(server)?;
    let mut segments = vec!["endpoints", name.as_str()];
    segments.extend(below);
    block_on(client.call(method, client.url(&segments), body))
}

/// Changes the endpoint. If there is none, makes it.
fn set(arguments: &SetArguments) -> Result<(), CommandFailure> {
    let SetArguments { name, server, .. } = arguments;
    let patch = arguments.patch()?;
    let changed = request(server, Method::PATCH, name, &[], Some(&patch));
    let answer = match changed {
        Err(CommandFailure::NotFound(_)) if arguments.url.is_some() => {
            request(server, Method::PUT, name, &[], Some(&without_nulls(&patch)))?
        }
        Err(CommandFailure::NotFound(mut lines)) => {
            lines.push("  --url: give it to make the endpoint".to_string());
            return Err(CommandFailure::NotFound(lines));
        }
        answer => answer?,
    };
    print_endpoint(answer, server)
}

impl SetArguments {
    /// The merge patch that the flags describe. An empty value removes a setting.
    fn patch(&self) -> Result<Value, CommandFailure> {
        let mut members = Map::new();
        let texts = [
            ("url", &self.url),
            ("timeout", &self.timeout),
            ("user_agent", &self.user_agent),
            ("gone", &self.gone),
            ("http", &self.http),
        ];
        for (name, value) in texts {
            if let Some(value) = value {
                members.insert(name.to_string(), text_or_null(value));
            }
        }
        let files = [
            ("ca", "--ca", &self.ca),
            (
                "client_certificate",
                "--client-certificate",
                &self.client_certificate,
            ),
            ("client_key", "--client-key", &self.client_key),
        ];
        for (name, flag, path) in files {
            if let Some(path) = path {
                let value = text_or_null(&file_text(flag, path)?);
                members.insert(name.to_string(), value);
            }
        }
        let plain = [
            (
                "concurrency",
                "--concurrency: a number is expected",
                &self.concurrency,
            ),
            ("rate", "--rate: a number is expected", &self.rate),
            (
                "retry_after",
                "--retry-after: true or false is expected",
                &self.retry_after,
            ),
            (
                "after_outage_rate",
                "--after-outage-rate: a number is expected",
                &self.after_outage_rate,
            ),
        ];
        for (name, bad, value) in plain {
            match value.as_deref() {
                None => {}
                Some("") => drop(members.insert(name.to_string(), Value::Null)),
                Some(text) => {
                    let value = serde_json::from_str::<Value>(text).ok();
                    let value = value.filter(|value| value.is_number() || value.is_boolean());
                    let value = value.ok_or_else(|| CommandFailure::Usage(bad.to_string()))?;
                    members.insert(name.to_string(), value);
                }
            }
        }
        let rules = [
            ("ladder", "--ladder", &self.ladder),
            ("ack", "--ack", &self.ack),
            ("metadata", "--metadata", &self.metadata),
        ];
        for (name, flag, value) in rules {
            match value.as_deref() {
                None => {}
                Some("") => drop(members.insert(name.to_string(), Value::Null)),
                Some(text) => {
                    let mut value = name_or_json(flag, text)?;
                    clear_others(name, &mut value);
                    members.insert(name.to_string(), value);
                }
            }
        }
        let pairs = [
            ("headers", "--header", &self.headers),
            (
                "signature_headers",
                "--signature-header",
                &self.signature_headers,
            ),
        ];
        for (name, flag, values) in pairs {
            let mut inner = Map::new();
            for (name, value) in header_pairs(flag, values)? {
                inner.insert(name.to_ascii_lowercase(), text_or_null(value));
            }
            if !inner.is_empty() {
                members.insert(name.to_string(), Value::Object(inner));
            }
        }
        Ok(Value::Object(members))
    }
}

/// Sets the members of a ladder or an ack rule that are not given to `null`, so that the patch replaces it as a whole.
fn clear_others(name: &str, value: &mut Value) {
    let known: &[&str] = match name {
        "ladder" => &["intervals", "window", "repeat_last", "jitter"],
        "ack" => &["text", "ignore_case", "exact", "status", "json", "xml"],
        _ => &[],
    };
    if let Value::Object(members) = value {
        for member in known {
            members.entry(*member).or_insert(Value::Null);
        }
    }
}

/// A document without the settings that are `null`, and without the members of settings that are. Deeper, `null` is a
/// value, such as one that an ack rule compares with.
fn without_nulls(document: &Value) -> Value {
    let kept = |value: &Value| match value {
        Value::Object(members) => {
            let given = members.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                given
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect(),
            )
        }
        other => other.clone(),
    };
    match kept(document) {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .map(|(name, value)| (name.clone(), kept(value)))
                .collect(),
        ),
        other => other,
    }
}

/// The text of a file that a flag names. An empty value stays empty.
fn file_text(flag: &str, path: &str) -> Result<String, CommandFailure> {
    if path.is_empty() {
        return Ok(String::new());
    }
    let bad = |why: String| CommandFailure::Usage(format!("{flag}: {path}: {why}"));
    let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
    match text.trim().is_empty() {
        true => Err(bad("the file is empty".to_string())),
        false => Ok(text),
    }
}

fn text_or_null(text: &str) -> Value {
    if text.is_empty() {
        Value::Null
    } else {
        json!(text)
    }
}

fn print_endpoint(answer: Vec<u8>, server: &ServerArguments) -> Result<(), CommandFailure> {
    print_text(answer, server, |answer| {
        let endpoint = serde_json::from_slice(answer)?;
        Ok(endpoint_text(&endpoint, Colours::of_stdout(), now_ms()))
    })
}

/// One endpoint. What is not set is left out.
fn endpoint_text(endpoint: &EndpointDetails, colours: Colours, now_ms: i64) -> String {
    let mut text = format!("{}  version {}\n", clean(&endpoint.name), endpoint.version);
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            text.push_str(&format!(
                "  {} {value}\n",
                colours.faint(&format!("{name:<14}"))
            ));
        }
    };
    line("url", clean(&endpoint.url));
    line("lane", format!("endpoint:{}", clean(&endpoint.name)));
    line("ladder", shown(&endpoint.ladder));
    line("ack", shown(&endpoint.ack));
    line(
        "time-out",
        endpoint.timeout.as_deref().map_or(String::new(), clean),
    );
    line(
        "concurrency",
        endpoint
            .concurrency
            .map_or(String::new(), |most| most.to_string()),
    );
    line(
        "rate",
        endpoint
            .rate
            .map_or(String::new(), |rate| format!("{rate} calls/s")),
    );
    if let Some(follow) = endpoint.retry_after {
        line(
            "retry-after",
            if follow { "followed" } else { "not followed" }.to_string(),
        );
    }
    line(
        "gone",
        endpoint.gone.as_deref().map_or(String::new(), clean),
    );
    line(
        "after outage",
        endpoint
            .after_outage_rate
            .map_or(String::new(), |rate| format!("{rate} notifications/s")),
    );
    for (name, value) in &endpoint.headers {
        line("header", format!("{}: {}", clean(name), shown(value)));
    }
    line(
        "user agent",
        endpoint.user_agent.as_deref().map_or(String::new(), clean),
    );
    line(
        "http",
        endpoint.http.as_deref().map_or(String::new(), clean),
    );
    for which in ["id", "timestamp", "signature"] {
        let name = endpoint
            .signature_headers
            .get(which)
            .map_or(String::new(), shown);
        if name != format!("webhook-{which}") {
            line("signature", format!("{which} in {name}"));
        }
    }
    let expires = |at: &Option<String>| {
        let at = at.as_deref();
        at.map_or(String::new(), |at| {
            format!("expires {}", instant(at, now_ms))
        })
    };
    line("ca", expires(&endpoint.ca_expires_at));
    let certificate = &endpoint.client_certificate_expires_at;
    line("client cert.", expires(certificate));
    for key in &endpoint.keys {
        line("key", key_text(key, now_ms));
    }
    if let Some(until) = &endpoint.default_secret_until {
        line("key", format!("default, until {}", instant(until, now_ms)));
    }
    line("metadata", shown(&endpoint.metadata));
    line("created", instant(&endpoint.created_at, now_ms));
    line("changed", instant(&endpoint.changed_at, now_ms));
    text
}

/// A text as it is; another value as JSON; nothing for `null`.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => clean(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            clean(&value.to_string())
        }
    }
}

fn print_list(list: &EndpointListArguments) -> Result<(), CommandFailure> {
    let client = Client::new(&list.server)?;
    let mut url = client.url(&["endpoints"]);
    let limit = list.limit.map(|limit| limit.to_string());
    for (name, value) in [("limit", &limit), ("cursor", &list.cursor)] {
        if let Some(value) = value {
            url.query_pairs_mut().append_pair(name, value);
        }
    }
    let answer = block_on(client.call(Method::GET, url, None))?;
    print_text(answer, &list.server, |answer| {
        let page = serde_json::from_slice(answer)?;
        Ok(list_text(&page, Colours::of_stdout(), now_ms()))
    })
}

fn list_text(page: &EndpointDetailsPage, colours: Colours, now_ms: i64) -> String {
    if page.items.is_empty() {
        return "none\n".to_string();
    }
    let rows: Vec<Vec<String>> = (page.items.iter())
        .map(|endpoint| {
            let or_dash = |text: String| {
                if text.is_empty() {
                    "-".to_string()
                } else {
                    text
                }
            };
            vec![
                endpoint.name.clone(),
                endpoint.version.to_string(),
                endpoint.url.clone(),
                or_dash(shown(&endpoint.ladder)),
                or_dash(shown(&endpoint.ack)),
                instant(&endpoint.changed_at, now_ms),
            ]
        })
        .collect();
    let heading = ["name", "version", "url", "ladder", "ack", "changed"];
    let mut text = table(colours, &heading, &rows);
    if let Some(cursor) = &page.next_cursor {
        text.push_str(&format!("next page: --cursor {}\n", clean(cursor)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_795_163_400_000;

    #[test]
    fn a_rule_replaces_another_as_a_whole() {
        let mut value = json!({ "text": "OK" });
        clear_others("ack", &mut value);
        assert_eq!(value["status"], Value::Null);
        assert_eq!(value.as_object().map(Map::len), Some(6));
        assert_eq!(
            without_nulls(&json!({ "ack": value })),
            json!({ "ack": { "text": "OK" } })
        );
        let compared = json!({ "ack": { "json": { "pointer": "/a", "equals": null } } });
        assert_eq!(without_nulls(&compared), compared);
        let mut value = json!({ "a": 1 });
        clear_others("metadata", &mut value);
        assert_eq!(value, json!({ "a": 1 }));
    }

    #[test]
    fn an_endpoint_is_shown_without_what_is_not_set() {
        let endpoint = serde_json::from_value(json!({
            "name": "shop-1", "version": 3, "url": "https://shop.example/n", "ladder": null,
            "ack": {"status": "2xx"}, "timeout": "5s", "headers": {"x-shop": "1"}, "user_agent": null,
            "signature_headers": {"id": "x-id", "timestamp": "webhook-timestamp", "signature": "webhook-signature"},
            "metadata": null, "created_at": "2026-11-20T08:29:58.000Z", "changed_at": "2026-11-20T08:29:59.000Z",
        }));
        let text = endpoint_text(&endpoint.expect("an endpoint"), Colours::never(), NOW_MS);
        let expected = "shop-1  version 3
  url            https://shop.example/n
  lane           endpoint:shop-1
  ack            {\"status\":\"2xx\"}
  time-out       5s
  header         x-shop: 1
  signature      id in x-id
  created        2026-11-20T08:29:58.000Z (2s ago)
  changed        2026-11-20T08:29:59.000Z (1s ago)
";
        assert_eq!(text, expected);
    }
}
