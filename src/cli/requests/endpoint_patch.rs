//! The flags of `ringback endpoint set`, and the merge patch that they describe.
//!
//! The names, the forms of the values and the files are checked here. The server checks everything else.

use super::{header_pairs, name_or_json};
use crate::cli::CommandFailure;
use crate::cli::client::ServerArguments;
use clap::Args;
use serde_json::{Map, Value, json};

#[derive(Args)]
pub struct SetArguments {
    /// The name of the endpoint
    pub name: String,
    /// The URL to call; a new endpoint needs it
    #[arg(long)]
    pub url: Option<String>,
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
    pub server: ServerArguments,
}

impl SetArguments {
    /// The merge patch that the flags describe. An empty value removes a setting.
    pub fn patch(&self) -> Result<Value, CommandFailure> {
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
pub fn without_nulls(document: &Value) -> Value {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
