//! A call as a command for a shell, so that it can be repeated by hand.
//!
//! `--globoff`: curl would take brackets and braces in the URL for lists of URLs, and call each.
//!
//! The signature is left out: it is that of the moment of each attempt, and whoever repeats the call does not have the key.

use crate::domain::destination::Destination;
use crate::domain::snapshot::Snapshot;
use crate::service::SentPayload;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The command. `None` if the URL is not known.
pub fn command(snapshot: &Snapshot, payload: &SentPayload) -> Option<String> {
    let url = snapshot.destination.as_ref().map(Destination::as_str)?;
    let mut words = vec![format!("curl --globoff --request POST {}", quoted(url))];
    let own = [
        ("content-type".to_string(), payload.content_type.clone()),
        ("webhook-id".to_string(), snapshot.webhook_id.to_string()),
        (
            "ringback-topic".to_string(),
            snapshot.key.topic().to_string(),
        ),
    ];
    for (name, value) in own.iter().chain(payload.headers.pairs()) {
        words.push(format!("--header {}", quoted(&header(name, value))));
    }
    let text = std::str::from_utf8(&payload.body).ok();
    let text = text.filter(|text| !text.contains('\0'));
    Some(match text {
        Some(text) => {
            // `--data-raw` takes a text that begins with `@` as it is.
            words.push(format!("--data-raw {}", quoted(text)));
            words.join(" \\\n  ")
        }
        None => {
            words.push("--data-binary @-".to_string());
            let body = STANDARD.encode(&payload.body);
            format!("printf %s {body} | base64 -d | {}", words.join(" \\\n  "))
        }
    })
}

/// A header as curl takes it: with a colon and nothing behind it, it would leave the header out.
fn header(name: &str, value: &str) -> String {
    match value {
        "" => format!("{name};"),
        value => format!("{name}: {value}"),
    }
}

/// A text in single quotes, as a POSIX shell reads it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_quotes() {
        assert_eq!(quoted("a'b$(c)"), "'a'\\''b$(c)'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn an_empty_header_is_sent() {
        assert_eq!(header("x-a", ""), "x-a;");
        assert_eq!(header("x-a", "b"), "x-a: b");
    }
}
