//! `ringback endpoint key`: add, remove and list the signing keys of an endpoint.

use super::{print_text, text_of};
use crate::cli::client::{Client, ServerArguments};
use crate::cli::terminal::{clean, instant, now_ms};
use crate::cli::view::{EndpointDetails, KeyDetails};
use crate::cli::{CommandFailure, block_on};
use crate::domain::endpoint::EndpointName;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};
use std::io::Read as _;
use zeroize::Zeroizing;

/// Longest secret that is read from standard input.
const LONGEST_SECRET: u64 = 1_024;

#[derive(Subcommand)]
pub enum KeyCommand {
    /// Add a key; the others sign along for the overlap. A secret that the server makes is printed this once
    Add(AddKeyArguments),
    /// Remove a key at once; refused for the last one that signs for good
    Remove(RemoveKeyArguments),
    /// List the keys, the newest first; secrets are not shown
    List(ListKeysArguments),
}

#[derive(Args)]
pub struct AddKeyArguments {
    /// The name of the endpoint
    name: String,
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
pub struct RemoveKeyArguments {
    /// The name of the endpoint
    name: String,
    /// The id of the key, key_...; `default` ends the overlap of the default secret
    id: String,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Args)]
pub struct ListKeysArguments {
    /// The name of the endpoint
    name: String,
    #[command(flatten)]
    server: ServerArguments,
}

/// Sends the request and prints the answer.
pub fn run(command: KeyCommand) -> Result<(), CommandFailure> {
    match command {
        KeyCommand::Add(arguments) => add(arguments),
        KeyCommand::Remove(RemoveKeyArguments { name, id, server }) => {
            request(&server, Method::DELETE, &name, &["keys", &id], None)?;
            let text = if server.json { "null\n" } else { "removed\n" };
            text_of(text.as_bytes())
        }
        KeyCommand::List(ListKeysArguments { name, server }) => {
            let answer = request(&server, Method::GET, &name, &[], None)?;
            print_text(answer, &server, |answer| {
                let endpoint: EndpointDetails = serde_json::from_slice(answer)?;
                Ok(list_text(&endpoint, now_ms()))
            })
        }
    }
}

fn add(arguments: AddKeyArguments) -> Result<(), CommandFailure> {
    let body = new_key(arguments.secret, arguments.kind, arguments.overlap)?;
    let (server, name) = (&arguments.server, &arguments.name);
    let answer = request(server, Method::POST, name, &["keys"], Some(&body))?;
    print_text(answer, server, |answer| {
        let key: KeyDetails = serde_json::from_slice(answer)?;
        Ok(added_text(&key, now_ms()))
    })
}

/// The body of a request to add a key. The secret `-` is read from standard input.
pub fn new_key(
    secret: Option<String>,
    kind: Option<String>,
    overlap: Option<String>,
) -> Result<Value, CommandFailure> {
    let secret = match secret.as_deref() {
        Some("-") => {
            let mut text = Zeroizing::new(String::new());
            (std::io::stdin()
                .take(LONGEST_SECRET)
                .read_to_string(&mut text))
            .map_err(|error| {
                CommandFailure::Usage(format!("standard input cannot be read: {error}"))
            })?;
            Some(text.trim().to_string())
        }
        _ => secret,
    };
    let mut members = Map::new();
    let given = [("secret", secret), ("kind", kind), ("overlap", overlap)];
    for (name, value) in given {
        members.extend(value.map(|value| (name.to_string(), json!(value))));
    }
    Ok(Value::Object(members))
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

/// A key in one line.
pub fn key_text(key: &KeyDetails, now_ms: i64) -> String {
    let mut text = format!("{}, {}", clean(&key.id), clean(&key.kind));
    if let Some(until) = &key.signs_until {
        text.push_str(&format!(", until {}", instant(until, now_ms)));
    }
    if let Some(public) = &key.public_key {
        text.push_str(&format!(", {}", clean(public)));
    }
    if let Some(why) = &key.unreadable {
        text.push_str(&format!(" by this server: {}", clean(why)));
    }
    text
}

/// A key that was added, with its secret if it was made.
pub fn added_text(key: &KeyDetails, now_ms: i64) -> String {
    let mut text = format!("{}\n", key_text(key, now_ms));
    if let Some(secret) = &key.secret {
        let what = match key.public_key {
            Some(_) => {
                "the receivers get the public key above; nobody needs this private one, which is not shown again:"
            }
            None => "the secret, for the receivers that verify with this key, is not shown again:",
        };
        text.push_str(&format!("{what}\n{}\n", clean(secret)));
    }
    text
}

fn list_text(endpoint: &EndpointDetails, now_ms: i64) -> String {
    let mut text = String::new();
    for key in &endpoint.keys {
        text.push_str(&format!("{}\n", key_text(key, now_ms)));
    }
    let default = endpoint.default_secret_until.as_ref();
    if let Some(until) = default {
        text.push_str(&format!("default, until {}\n", instant(until, now_ms)));
    } else if endpoint.keys.is_empty() {
        text.push_str("none: the default keys sign, which all receivers without keys share; `ringback endpoint key add NAME` adds one\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_listed_with_the_end_of_those_that_end() {
        let now_ms = 1_795_163_400_000;
        let endpoint: EndpointDetails = serde_json::from_value(json!({
            "keys": [
                {"id": "key_2", "kind": "ed25519", "signs_until": null, "public_key": "whpk_x"},
                {"id": "key_1", "kind": "symmetric", "signs_until": "2026-11-20T08:31:00.000Z"},
            ],
            "default_secret_until": "2026-11-20T08:30:01.000Z",
        }))
        .expect("an endpoint");
        let expected = "key_2, ed25519, whpk_x\n\
            key_1, symmetric, until 2026-11-20T08:31:00.000Z (in 1m)\n\
            default, until 2026-11-20T08:30:01.000Z (in 1s)\n";
        assert_eq!(list_text(&endpoint, now_ms), expected);
        let none = EndpointDetails::default();
        assert!(list_text(&none, now_ms).starts_with("none: "));
        let added = KeyDetails {
            id: "key_3".to_string(),
            kind: "symmetric".to_string(),
            secret: Some("whsec_x".to_string()),
            ..KeyDetails::default()
        };
        let expected = "key_3, symmetric\n\
            the secret, for the receivers that verify with this key, is not shown again:\nwhsec_x\n";
        assert_eq!(added_text(&added, now_ms), expected);
        let asymmetric = KeyDetails {
            kind: "ed25519".to_string(),
            public_key: Some("whpk_x".to_string()),
            secret: Some("whsk_x".to_string()),
            ..added
        };
        let text = added_text(&asymmetric, now_ms);
        assert!(text.starts_with("key_3, ed25519, whpk_x\n"), "{text}");
        assert!(text.contains("nobody needs this private one"), "{text}");
        assert!(text.ends_with(":\nwhsk_x\n"), "{text}");
    }
}
