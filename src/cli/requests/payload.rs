//! `ringback show --payload`: prints what a notification sends.

use super::{OneArguments, key, print_text};
use crate::cli::client::Client;
use crate::cli::terminal::{Colours, clean};
use crate::cli::{CommandFailure, block_on};
use reqwest::Method;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a notification sends, in an answer of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PayloadDetails {
    content_type: String,
    headers: BTreeMap<String, String>,
    body: Option<String>,
    body_base64: Option<String>,
    body_bytes: u64,
    sha256: String,
}

/// Asks for what a notification sends, and prints it.
pub fn show(one: &OneArguments) -> Result<(), CommandFailure> {
    let key = key(&one.topic, &one.id)?;
    let client = Client::new(&one.server)?;
    let url = client.notification_url("notifications", &key, &["payload"]);
    let answer = block_on(client.call(Method::GET, url, None))?;
    print_text(answer, &one.server, |answer| {
        let payload = serde_json::from_slice(answer)?;
        Ok(text_of_payload(&payload, Colours::of_stdout()))
    })
}

/// First the headers, then the body. The body takes one line: its control characters are printed as escapes.
fn text_of_payload(payload: &PayloadDetails, colours: Colours) -> String {
    let line = |name: &str, value: &str| {
        let name = colours.faint(&format!("{name:<14}"));
        format!("{name} {}\n", clean(value))
    };
    let mut text = line("content-type", &payload.content_type);
    for (name, value) in &payload.headers {
        text.push_str(&line(&clean(name), value));
    }
    let bytes = format!("{} bytes", payload.body_bytes);
    text.push_str(&line("body", &bytes));
    text.push_str(&line("sha256", &payload.sha256));
    text.push('\n');
    match (&payload.body, &payload.body_base64) {
        (Some(body), _) => text.push_str(&clean(body)),
        (None, Some(encoded)) => {
            text.push_str(&colours.faint("not UTF-8, so in base64: "));
            text.push_str(&clean(encoded));
        }
        (None, None) => {}
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn control_characters_of_a_body_are_printed_as_escapes() {
        let payload = json!({
            "content_type": "text/plain", "headers": { "x-a": "1\u{1b}" }, "body_bytes": 9,
            "body": "a\r\nb\u{1b}[2J\"\\", "sha256": "00",
        });
        let payload = serde_json::from_value(payload).expect("a payload");
        let expected = "content-type   text/plain\nx-a            1\\u{1b}\nbody           9 bytes\nsha256         00\n\n\
                        a\\r\\nb\\u{1b}[2J\"\\\n";
        assert_eq!(text_of_payload(&payload, Colours::never()), expected);
        let binary = json!({ "content_type": "x", "body_base64": "/wA=", "body_bytes": 2 });
        let binary = serde_json::from_value(binary).expect("a payload");
        let text = text_of_payload(&binary, Colours::never());
        assert!(
            text.ends_with("\n\nnot UTF-8, so in base64: /wA=\n"),
            "{text}"
        );
    }
}
