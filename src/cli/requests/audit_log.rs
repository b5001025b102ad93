//! The command `audit-log`: what people did. The command `audit` is another one: it compares the stores.

use super::{add_query, print_text};
use crate::cli::client::{Client, ServerArguments};
use crate::cli::table::table;
use crate::cli::terminal::{Colours, clean, instant, now_ms};
use crate::cli::{CommandFailure, block_on, time_argument};
use clap::Args;
use reqwest::Method;
use serde::Deserialize;

#[derive(Args)]
pub struct AuditLogArguments {
    /// Only acts of this person or API key
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Only from this time on: 2h (so long ago), 2026-11-20 or '2026-11-20 14:30' (local time), or RFC 3339
    #[arg(long, value_name = "TIME", value_parser = time_argument::parse)]
    from: Option<String>,
    /// Only before this time, which is not included; written like --from
    #[arg(long, value_name = "TIME", value_parser = time_argument::parse)]
    to: Option<String>,
    /// Maximum number of acts
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// The cursor that the previous page printed, to show the next page
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
}

/// A page of the audit log in an answer of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AuditLogPage {
    items: Vec<ActDetails>,
    next_cursor: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ActDetails {
    at: String,
    actor: String,
    act: String,
    subject: ActSubjectDetails,
    reason: Option<String>,
    detail: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ActSubjectDetails {
    kind: String,
    name: Option<String>,
}

/// Sends the request for a page of the audit log and prints the answer.
pub fn list(arguments: &AuditLogArguments) -> Result<(), CommandFailure> {
    let client = Client::new(&arguments.server)?;
    let mut url = client.url(&["audit-log"]);
    let limit = arguments.limit.map(|limit| limit.to_string());
    let query = [
        ("actor", &arguments.actor),
        ("from", &arguments.from),
        ("to", &arguments.to),
        ("limit", &limit),
        ("cursor", &arguments.cursor),
    ];
    let query = query.map(|(name, value)| (name, value.as_deref()));
    add_query(&mut url, query);
    let answer = block_on(client.call(Method::GET, url, None))?;
    print_text(answer, &arguments.server, |answer| {
        let page = serde_json::from_slice(answer)?;
        Ok(text_of(&page, Colours::of_stdout(), now_ms()))
    })
}

fn text_of(page: &AuditLogPage, colours: Colours, now_ms: i64) -> String {
    let rows = page.items.iter().map(|act| {
        let texts = [&act.reason, &act.detail];
        let given: Vec<&str> = texts.into_iter().flatten().map(String::as_str).collect();
        vec![
            instant(&act.at, now_ms),
            act.actor.clone(),
            act.act.clone(),
            // The act says of which kind it is.
            (act.subject.name.clone()).unwrap_or_else(|| act.subject.kind.clone()),
            given.join("; "),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let mut text = if rows.is_empty() {
        "none\n".to_string()
    } else {
        table(colours, &["when", "who", "what", "on what", "why"], &rows)
    };
    if let Some(cursor) = &page.next_cursor {
        text.push_str(&format!("next page: --cursor '{}'\n", clean(cursor)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_says_who_did_what_on_what_and_why() {
        let page = serde_json::from_value(json!({
            "items": [
                { "id": "2", "at": "2026-11-20T08:28:00.000Z", "actor": "desk/li.lei", "act": "lane.hold",
                  "subject": { "kind": "lane", "name": "https://shop.example" }, "reason": "down\u{1b}",
                  "detail": null, "instance": "a" },
                { "id": "1", "at": "2026-11-20T08:27:00.000Z", "actor": "root", "act": "master_key.change",
                  "subject": { "kind": "master_key", "name": null }, "reason": null, "detail": null,
                  "instance": "a" },
            ],
            "next_cursor": "1-1",
        }))
        .expect("a page");
        let text = text_of(&page, Colours::never(), 1_795_163_400_000);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("when"), "{text}");
        for word in [
            "2026-11-20T08:28:00.000Z (2m ago)",
            "desk/li.lei",
            "lane.hold",
            "https://shop.example",
            "down\\u{1b}",
        ] {
            assert!(lines[1].contains(word), "{word}: {text}");
        }
        assert!(lines[2].contains("master_key.change"), "{text}");
        assert_eq!(lines[3], "next page: --cursor '1-1'");
        let empty = text_of(&AuditLogPage::default(), Colours::never(), 0);
        assert_eq!(empty, "none\n");
    }
}
