//! `ringback send`: makes a registration from the arguments of the command line, and sends it.
//!
//! Topic, id and the form of the arguments are checked here. The server checks everything else.

use super::{header_pairs, name_or_json, print_one};
use crate::cli::client::{Client, ServerArguments};
use crate::cli::view::NotificationDetails;
use crate::cli::{CommandFailure, block_on};
use crate::domain::endpoint::EndpointName;
use crate::domain::key::{check_id, check_topic};
use crate::domain::timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{self, Read as _};
use uuid::Uuid;

/// Maximum length of a body that is read from a file. The limit of a server is never higher.
const LARGEST_BODY: u64 = 8 * 1024 * 1024;

const NO_BODY: &str = "no body is given; use BODY or --body-file FILE, and '' for an empty body";

#[derive(Args)]
pub struct SendArguments {
    /// The notification's topic, such as payment.succeeded
    topic: String,
    /// The URL to call, or `endpoint:` and the name of an endpoint
    url: String,
    /// The body to deliver; '' is an empty body [or use --body-file]
    #[arg(allow_hyphen_values = true)]
    body: Option<String>,
    /// Send as this endpoint says, but to URL
    #[arg(long, value_name = "NAME")]
    endpoint: Option<String>,
    /// A file that contains the body; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "body")]
    body_file: Option<String>,
    /// The notification's id, unique within the topic [default: one is made and printed]
    #[arg(long)]
    id: Option<String>,
    /// The content type of the body [default for a JSON object or array: application/json]
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// An additional header of the delivery; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
    /// Wait this long before the first attempt
    #[arg(long, value_name = "DURATION", conflicts_with = "deliver_at")]
    delay: Option<String>,
    /// Make the first attempt at this time, such as 2026-11-20T08:30:00Z; one in the past means at once
    #[arg(long, value_name = "TIME")]
    deliver_at: Option<String>,
    /// A named ladder (retry schedule), or a custom ladder as JSON
    #[arg(long, value_name = "NAME|JSON")]
    ladder: Option<String>,
    /// The rule that says which answers acknowledge the notification: a name, or a custom rule as JSON
    #[arg(long, value_name = "NAME|JSON")]
    ack: Option<String>,
    /// Which of the notifications of its lane that are due is sent first: high, normal or low [default: normal]
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<String>,
    /// The key of the order that the notification has a place in
    #[arg(long, value_name = "KEY", requires_all = ["order_number", "order_mode"])]
    order_key: Option<String>,
    /// Its number in that order
    #[arg(long, value_name = "NUMBER", requires = "order_key")]
    order_number: Option<i64>,
    /// latest: a higher number ends lower ones that wait; strict: each number waits for the lower ones
    #[arg(long, value_name = "MODE", requires = "order_key")]
    order_mode: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
}

/// Sends the registration and prints the answer.
pub fn run(arguments: &SendArguments) -> Result<(), CommandFailure> {
    let registration = arguments.registration()?;
    let client = Client::new(&arguments.server)?;
    let url = client.url(&["notifications"]);
    let answer = block_on(client.call(Method::POST, url, Some(&registration)));
    // It may have been registered although no answer came, or one that says that it is not known.
    let is_uncertain = match &answer {
        Err(CommandFailure::Refused(refusal)) => refusal.is_uncertain(),
        Err(CommandFailure::Unreachable(_) | CommandFailure::Failed(_)) => true,
        Ok(_) | Err(_) => false,
    };
    let answer = match answer {
        Err(failure) if is_uncertain && arguments.id.is_none() => {
            let id = registration["id"].as_str().unwrap_or_default();
            return Err(CommandFailure::Uncertain {
                failure: Box::new(failure),
                id: id.to_string(),
            });
        }
        Err(CommandFailure::Refused(mut refusal))
            if refusal.http_status == StatusCode::UNPROCESSABLE_ENTITY =>
        {
            if let Some(name) = arguments.endpoint_as_url() {
                refusal.advise(&format!(
                    "if {name} is the name of an endpoint, write endpoint:{name}"
                ));
            }
            return Err(CommandFailure::Refused(refusal));
        }
        answer => answer?,
    };
    if !arguments.server.json && is_past(arguments, &answer) {
        eprintln!("ringback: --deliver-at is in the past, so the first attempt was due at once");
    }
    print_one(answer, &arguments.server, false)
}

/// Whether the first attempt was asked for at an instant before the registration.
fn is_past(arguments: &SendArguments, answer: &[u8]) -> bool {
    let registered: Option<NotificationDetails> = serde_json::from_slice(answer).ok();
    let registered_at = registered.and_then(|registered| registered.registered_at);
    let instant = |text: Option<&str>| timestamp::parse_ms(text?).ok();
    let asked_ms = instant(arguments.deliver_at.as_deref());
    let registered_ms = instant(registered_at.as_deref());
    asked_ms.is_some_and(|asked_ms| registered_ms.is_some_and(|at_ms| asked_ms < at_ms))
}

impl SendArguments {
    /// The JSON of the registration that the arguments describe.
    fn registration(&self) -> Result<Value, CommandFailure> {
        check_topic(&self.topic).map_err(|error| CommandFailure::Usage(error.to_string()))?;
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| members.insert(name.to_string(), value);
        put("topic", json!(self.topic));
        match self.url.strip_prefix("endpoint:") {
            Some(name) => put("endpoint", json!(name)),
            None => put("url", json!(self.url)),
        };
        if let Some(name) = &self.endpoint {
            put("endpoint", json!(name));
        }
        if let Some(id) = &self.id {
            check_id(id).map_err(|error| CommandFailure::Usage(format!("--id: {error}")))?;
        }
        // The server would make one too. But then nobody knows it if no answer comes, and a repetition would be another
        // notification.
        let id = self
            .id
            .clone()
            .unwrap_or_else(|| Uuid::now_v7().to_string());
        put("id", json!(id));
        // The body is sent as a string or as base64, so that its bytes do not change.
        let mut content_type = self.content_type.clone();
        match String::from_utf8(self.body()?) {
            Ok(text) => {
                let json = serde_json::from_str::<Value>(&text).ok();
                if json.is_some_and(|json| json.is_object() || json.is_array()) {
                    content_type.get_or_insert("application/json".to_string());
                }
                put("body", json!(text));
            }
            Err(bytes) => {
                put("body_base64", json!(STANDARD.encode(bytes.as_bytes())));
            }
        }
        if let Some(content_type) = content_type {
            put("content_type", json!(content_type));
        }
        let mut headers = Map::new();
        for (name, value) in header_pairs("--header", &self.headers)? {
            headers.insert(name.to_string(), json!(value));
        }
        if !headers.is_empty() {
            put("headers", Value::Object(headers));
        }
        if let Some(delay) = &self.delay {
            put("delay", json!(delay));
        }
        if let Some(deliver_at) = &self.deliver_at {
            put("deliver_at", json!(deliver_at));
        }
        if let Some(ladder) = &self.ladder {
            put("ladder", name_or_json("--ladder", ladder)?);
        }
        if let Some(ack) = &self.ack {
            put("ack", name_or_json("--ack", ack)?);
        }
        if let Some(priority) = &self.priority {
            put("priority", json!(priority));
        }
        if let Some(key) = &self.order_key {
            let (number, mode) = (self.order_number, &self.order_mode);
            put(
                "order",
                json!({ "key": key, "number": number, "mode": mode }),
            );
        }
        Ok(Value::Object(members))
    }

    /// The endpoint that was probably meant, if a name was given where a URL is expected. No URL can be a name: it has a
    /// colon.
    fn endpoint_as_url(&self) -> Option<EndpointName> {
        EndpointName::parse(&self.url).ok()
    }

    fn body(&self) -> Result<Vec<u8>, CommandFailure> {
        let name = match (&self.body, &self.body_file) {
            (Some(body), _) => return Ok(body.clone().into_bytes()),
            (None, Some(name)) => name,
            // Without this error, an empty body would be delivered if the user forgot the body.
            (None, None) => return Err(CommandFailure::Usage(NO_BODY.to_string())),
        };
        let mut body = Vec::new();
        let read = if name == "-" {
            io::stdin()
                .lock()
                .take(LARGEST_BODY + 1)
                .read_to_end(&mut body)
        } else {
            File::open(name).and_then(|file| file.take(LARGEST_BODY + 1).read_to_end(&mut body))
        };
        read.map_err(|error| CommandFailure::Usage(format!("--body-file: {name}: {error}")))?;
        if body.len() as u64 > LARGEST_BODY {
            return Err(CommandFailure::Usage(
                "--body-file: a body is at most 8 MiB".to_string(),
            ));
        }
        Ok(body)
    }
}
