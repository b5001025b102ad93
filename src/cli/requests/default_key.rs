//! `ringback default-key`: add, remove and list the default signing keys.

use super::endpoint_key::{added_text, key_text, new_key};
use super::{print_text, text_of};
use crate::cli::client::{Client, ServerArguments};
use crate::cli::terminal::{clean, now_ms};
use crate::cli::view::{DefaultKeyPage, KeyDetails};
use crate::cli::{CommandFailure, block_on};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::Value;

#[derive(Subcommand)]
pub enum DefaultKeyCommand {
    /// Add a default key; the others sign along for the overlap. A secret that the server makes is printed this once
    Add(AddDefaultKeyArguments),
    /// Remove a default key at once; refused for the last one that signs for good
    Remove(RemoveDefaultKeyArguments),
    /// List the default keys, the newest first; secrets are not shown
    List(ListDefaultKeysArguments),
}

#[derive(Args)]
pub struct AddDefaultKeyArguments {
    /// The secret, whsec_... or whsk_...; `-` reads it from standard input; if not given, the server makes one
    #[arg(long, value_name = "SECRET|-")]
    secret: Option<String>,
    /// The kind of a key that the server makes: symmetric or ed25519
    #[arg(long)]
    kind: Option<String>,
    /// How long the other keys sign along, from 0s to 30d; 24h if not given
    #[arg(long, value_name = "DURATION")]
    overlap: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Args)]
pub struct RemoveDefaultKeyArguments {
    /// The id of the key, `default_...`
    id: String,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Args)]
pub struct ListDefaultKeysArguments {
    #[command(flatten)]
    server: ServerArguments,
}

/// Sends the request and prints the answer.
pub fn run(command: DefaultKeyCommand) -> Result<(), CommandFailure> {
    match command {
        DefaultKeyCommand::Add(AddDefaultKeyArguments {
            secret,
            kind,
            overlap,
            server,
        }) => {
            let body = new_key(secret, kind, overlap)?;
            let answer = request(&server, Method::POST, &[], Some(&body))?;
            print_text(answer, &server, |answer| {
                let key: KeyDetails = serde_json::from_slice(answer)?;
                let warning = warning_text(key.warning.as_deref());
                Ok(format!("{}{warning}", added_text(&key, now_ms())))
            })
        }
        DefaultKeyCommand::Remove(RemoveDefaultKeyArguments { id, server }) => {
            request(&server, Method::DELETE, &[&id], None)?;
            let text = if server.json { "null\n" } else { "removed\n" };
            text_of(text.as_bytes())
        }
        DefaultKeyCommand::List(ListDefaultKeysArguments { server }) => {
            let answer = request(&server, Method::GET, &[], None)?;
            print_text(answer, &server, |answer| {
                let page: DefaultKeyPage = serde_json::from_slice(answer)?;
                Ok(list_text(&page, now_ms()))
            })
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
    let mut segments = vec!["default-keys"];
    segments.extend(below);
    block_on(client.call(method, client.url(&segments), body))
}

fn list_text(page: &DefaultKeyPage, now_ms: i64) -> String {
    let mut text = String::new();
    for key in &page.items {
        text.push_str(&format!("{}\n", key_text(key, now_ms)));
    }
    if page.items.is_empty() {
        text.push_str(
            "none: every server signs with its own --signing-secret, since it has no master key\n",
        );
    }
    text + &warning_text(page.warning.as_deref())
}

/// What the server says against default keys, and the command that adds another key.
fn warning_text(warning: Option<&str>) -> String {
    warning.map_or(String::new(), |warning| {
        let command = "`ringback endpoint key add NAME` adds one";
        format!("note: {}; {command}\n", clean(warning))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_listed_with_the_warning() {
        let page: DefaultKeyPage = serde_json::from_value(json!({
            "items": [
                {"id": "default_3", "kind": "unreadable", "signs_until": null, "unreadable": "bad kind"},
                {"id": "default_2", "kind": "symmetric", "signs_until": null},
                {"id": "default_1", "kind": "symmetric", "signs_until": "2026-11-20T08:31:00.000Z"},
            ],
            "warning": "they are shared",
        }))
        .expect("a list");
        let expected = "default_3, unreadable by this server: bad kind\n\
            default_2, symmetric\n\
            default_1, symmetric, until 2026-11-20T08:31:00.000Z (in 1m)\n\
            note: they are shared; `ringback endpoint key add NAME` adds one\n";
        assert_eq!(list_text(&page, 1_795_163_400_000), expected);
        let none = list_text(&DefaultKeyPage::default(), 0);
        assert!(none.starts_with("none: "), "{none}");
    }
}
