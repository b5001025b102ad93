//! `ringback key`: make, list and revoke API keys.

use super::{print_text, text_of};
use crate::cli::client::{Client, ServerArguments};
use crate::cli::table::table;
use crate::cli::terminal::{Colours, clean, instant, now_ms};
use crate::cli::view::{ApiKeyDetails, ApiKeyPage};
use crate::cli::{CommandFailure, block_on};
use crate::domain::duration;
use crate::domain::timestamp::display_ms;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

#[derive(Subcommand)]
pub enum ApiKeyCommand {
    /// Make an API key. It is printed this once
    Add(AddApiKeyArguments),
    /// List the API keys; the keys themselves are not shown
    List(ListApiKeysArguments),
    /// Revoke an API key at once
    Revoke(RevokeApiKeyArguments),
}

#[derive(Args)]
pub struct AddApiKeyArguments {
    /// The name of the key; it is shown where something was done with it
    name: String,
    /// producer (registers, reads and cancels), support (retries, replays, runs jobs) or operator (everything)
    #[arg(long)]
    role: String,
    /// Bind a producer to a topic; repeatable
    #[arg(long, value_name = "TOPIC")]
    topic: Vec<String>,
    /// When the key ends, in RFC 3339; if not given, it is valid until it is revoked
    #[arg(long, value_name = "TIME", conflicts_with = "expires_in")]
    expires_at: Option<String>,
    /// After which time the key ends, for example 90d
    #[arg(long, value_name = "DURATION")]
    expires_in: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Args)]
pub struct ListApiKeysArguments {
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Args)]
pub struct RevokeApiKeyArguments {
    /// The name of the key
    name: String,
    #[command(flatten)]
    server: ServerArguments,
}

impl AddApiKeyArguments {
    fn body(&self, now_ms: i64) -> Result<Value, CommandFailure> {
        let mut body = json!({ "name": self.name, "role": self.role });
        if !self.topic.is_empty() {
            body["topics"] = json!(self.topic);
        }
        if let Some(expires_at) = &self.expires_at {
            body["expires_at"] = json!(expires_at);
        }
        if let Some(expires_in) = &self.expires_in {
            let expires_in = duration::parse_ms(expires_in)
                .map_err(|bad| CommandFailure::Usage(format!("--expires-in: {bad}")))?;
            body["expires_at"] = json!(display_ms(now_ms.saturating_add(expires_in)));
        }
        Ok(body)
    }
}

/// Sends the request and prints the answer.
pub fn run(command: ApiKeyCommand) -> Result<(), CommandFailure> {
    match command {
        ApiKeyCommand::Add(arguments) => {
            let body = arguments.body(now_ms())?;
            let server = arguments.server;
            let answer = request(&server, Method::POST, &[], Some(&body))?;
            print_text(answer, &server, |answer| {
                let key: ApiKeyDetails = serde_json::from_slice(answer)?;
                Ok(made_text(&key))
            })
        }
        ApiKeyCommand::List(ListApiKeysArguments { server }) => {
            let answer = request(&server, Method::GET, &[], None)?;
            print_text(answer, &server, |answer| {
                let page: ApiKeyPage = serde_json::from_slice(answer)?;
                Ok(list_text(&page, Colours::of_stdout(), now_ms()))
            })
        }
        ApiKeyCommand::Revoke(RevokeApiKeyArguments { name, server }) => {
            request(&server, Method::DELETE, &[&name], None)?;
            let text = if server.json { "null\n" } else { "revoked\n" };
            text_of(text.as_bytes())
        }
    }
}

fn request(
    server: &ServerArguments,
    method: Method,
    below: &[&str],
    body: Option<&Value>,
) -> Result<Vec<u8>, CommandFailure> {
    let client = Client::new(server)?;
    let mut segments = vec!["keys"];
    segments.extend(below);
    block_on(client.call(method, client.url(&segments), body))
}

/// The key itself is the first line. What follows from the first key of a server is said too.
fn made_text(key: &ApiKeyDetails) -> String {
    let mut text = format!(
        "{}\nthis is the key `{}` with the role {}; it is not shown again\n",
        key.key.as_deref().unwrap_or_default(),
        key.name,
        key.role.as_deref().unwrap_or("?"),
    );
    if let Some(warning) = &key.warning {
        text.push_str(&format!(
            "{}; these commands take it from RINGBACK_API_KEY or --api-key\n",
            clean(warning)
        ));
    }
    text
}

fn list_text(page: &ApiKeyPage, colours: Colours, now_ms: i64) -> String {
    if page.items.is_empty() {
        return "no API keys\n".to_string();
    }
    let rows = page.items.iter().map(|key| {
        let end = match (&key.expires_at, key.has_expired) {
            (None, _) => "never".to_string(),
            (Some(at), false) => instant(at, now_ms),
            (Some(at), true) => format!("{} (expired)", instant(at, now_ms)),
        };
        let role = match (&key.role, &key.unreadable) {
            (_, Some(problem)) => format!("unreadable: {problem}"),
            (Some(role), None) => role.clone(),
            (None, None) => String::new(),
        };
        let topics = key
            .topics
            .as_ref()
            .map_or("all".to_string(), |topics| topics.join(" "));
        let made = format!("{} by {}", instant(&key.created_at, now_ms), key.created_by);
        vec![key.name.clone(), role, topics, made, end]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    table(
        colours,
        &["name", "role", "topics", "made", "expires"],
        &rows,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_says_that_all_requests_need_one_now() {
        let made = |warning: Option<&str>| {
            let key =
                json!({ "name": "admin", "role": "operator", "key": "rbk_1", "warning": warning });
            made_text(&serde_json::from_value(key).expect("a key"))
        };
        let one = "rbk_1\nthis is the key `admin` with the role operator; it is not shown again\n";
        assert_eq!(made(None), one);
        let first = made(Some("from now on"));
        assert!(first.starts_with(one), "{first}");
        assert!(
            first.contains("\nfrom now on; these commands take it from"),
            "{first}"
        );
    }

    #[test]
    fn a_list_says_what_each_key_permits_and_until_when() {
        let page: ApiKeyPage = serde_json::from_value(json!({ "items": [
            { "name": "orders", "role": "producer", "topics": ["a", "b"], "created_at": "2026-11-20T08:00:00.000Z",
              "created_by": "api", "expires_at": null, "has_expired": false },
            { "name": "desk", "role": "support", "topics": null, "created_at": "2026-11-20T08:00:00.000Z",
              "created_by": "admin", "expires_at": "2026-11-21T08:00:00.000Z", "has_expired": true },
        ]}))
        .expect("a page");
        let text = list_text(&page, Colours::never(), 0);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].starts_with("orders")
                && lines[1].contains("a b")
                && lines[1].ends_with("never")
        );
        assert!(
            lines[2].contains("support")
                && lines[2].contains(" all ")
                && lines[2].ends_with("(expired)")
        );
        assert_eq!(
            list_text(&ApiKeyPage::default(), Colours::never(), 0),
            "no API keys\n"
        );
    }
}
