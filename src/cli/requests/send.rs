//! `ringback send`: what is registered, from the arguments.
//!
//! Leaves the checking to the server, except for what could not be written as JSON at all.

use crate::cli::CommandFailure;
use crate::cli::client::ServerArguments;
use crate::domain::key::{check_id, check_topic};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{self, Read as _};

/// Largest body that is read from a file; servers refuse less.
const LARGEST_BODY: u64 = 8 * 1024 * 1024;

const NO_BODY: &str = "no body is given: give BODY or --body-file FILE, and an empty one as ''";

#[derive(Args)]
pub struct SendArguments {
    /// Its topic, such as payment.succeeded
    topic: String,
    /// Where to deliver it
    url: String,
    /// Its body, unless --body-file names it; '' is an empty one
    #[arg(allow_hyphen_values = true)]
    body: Option<String>,
    /// A file that holds its body; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "body")]
    body_file: Option<String>,
    /// Its id, unique within the topic; left out, the server makes one
    #[arg(long)]
    id: Option<String>,
    /// The body's type; left out, application/json for a JSON object or array
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// A header of your own; repeatable
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
    /// Wait so long before the first attempt
    #[arg(long, value_name = "DURATION", conflicts_with = "deliver_at")]
    delay: Option<String>,
    /// Make the first attempt then, as 2026-11-20T08:30:00Z
    #[arg(long, value_name = "TIME")]
    deliver_at: Option<String>,
    /// A named ladder, or one's own as JSON
    #[arg(long, value_name = "NAME|JSON")]
    ladder: Option<String>,
    /// Which answers acknowledge it: a rule's name, or one's own as JSON
    #[arg(long, value_name = "NAME|JSON")]
    ack: Option<String>,
    #[command(flatten)]
    pub server: ServerArguments,
}

impl SendArguments {
    /// The JSON of the registration that the arguments describe.
    pub fn registration(&self) -> Result<Value, CommandFailure> {
        check_topic(&self.topic).map_err(|error| CommandFailure::Usage(error.to_string()))?;
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| members.insert(name.to_string(), value);
        put("topic", json!(self.topic));
        put("url", json!(self.url));
        if let Some(id) = &self.id {
            check_id(id).map_err(|error| CommandFailure::Usage(format!("--id: {error}")))?;
            put("id", json!(id));
        }
        // As a string or as base64, so that the bytes arrive as they are.
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
        for header in &self.headers {
            let (name, value) = header.split_once('=').ok_or_else(|| {
                CommandFailure::Usage("--header: a header is written NAME=VALUE".to_string())
            })?;
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
        Ok(Value::Object(members))
    }

    fn body(&self) -> Result<Vec<u8>, CommandFailure> {
        let name = match (&self.body, &self.body_file) {
            (Some(body), _) => return Ok(body.clone().into_bytes()),
            (None, Some(name)) => name,
            // A body that was forgotten would be delivered as an empty one.
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

fn name_or_json(flag: &str, text: &str) -> Result<Value, CommandFailure> {
    if !text.trim_start().starts_with('{') {
        return Ok(json!(text));
    }
    serde_json::from_str(text).map_err(|error| CommandFailure::Usage(format!("{flag}: {error}")))
}
