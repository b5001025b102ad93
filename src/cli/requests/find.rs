//! The command `find`: looks for notifications by what support staff are told on the phone.

use super::{FilterArguments, NOT_OURS, key, list_url, print_one, print_text};
use crate::cli::client::Client;
use crate::cli::refusal::Refusal;
use crate::cli::show;
use crate::cli::terminal::{Colours, now_ms};
use crate::cli::{CommandFailure, block_on};
use crate::domain::key::{BadKey, check_id};
use crate::domain::webhook_id::WebhookId;
use anyhow::Context as _;
use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

/// Maximum number of pages that are read. A page can be empty although there are more.
const MOST_PAGES: usize = 20;

#[derive(Args)]
pub struct FindArguments {
    /// An id, the beginning of one, or a webhook id (`msg_...`). If it is a whole id, those that only begin with it are
    /// not shown
    #[arg(value_name = "TEXT", required_unless_present = "url")]
    text: Option<String>,
    /// Only notifications to a URL that contains this text
    #[arg(long, value_name = "TEXT")]
    url: Option<String>,
    #[command(flatten)]
    filter: FilterArguments,
}

/// Notifications, as the server has sent them.
#[derive(Default)]
struct Findings {
    items: Vec<Value>,
    next_cursor: Option<String>,
}

/// Looks for notifications: prints one as `show` does, and several as `list` does.
pub fn run(arguments: &FindArguments) -> Result<(), CommandFailure> {
    let parameters = parameters(arguments.text.as_deref())?;
    if arguments.url.as_deref() == Some("") {
        return Err(CommandFailure::Usage(
            "--url: give a part of the URL".into(),
        ));
    }
    let server = &arguments.filter.server;
    let client = Client::new(server)?;
    let found = block_on(find(&client, arguments, &parameters))?;
    let is_whole = found.next_cursor.is_none() && arguments.filter.cursor.is_none();
    if let ([one], true) = (found.items.as_slice(), is_whole) {
        let text = |name: &str| one[name].as_str().unwrap_or_default();
        let key = key(text("topic"), text("id"))?;
        let url = client.notification_url("notifications", &key, &[]);
        let answer = block_on(client.call(Method::GET, url, None))?;
        return print_one(answer, server, false);
    }
    let page = json!({ "items": found.items, "next_cursor": found.next_cursor });
    if let (true, Value::Object(page)) = (found.items.is_empty(), &page) {
        let mut lines = vec!["nothing was found".to_string()];
        if let Some(cursor) = &found.next_cursor {
            lines[0].push_str(" so far");
            lines.push(format!("  to look on: --cursor {cursor}"));
            lines.push("  to look faster: --topic, --lane, --from".to_string());
        } else if arguments.url.is_none() && !text_is_webhook_id(arguments) {
            lines.push(
                "  upper and lower case differ in ids; to look in URLs: --url TEXT".to_string(),
            );
        }
        let refusal = Refusal::nothing_found(lines, page.clone());
        return Err(CommandFailure::Refused(Box::new(refusal)));
    }
    print_text(page.to_string().into_bytes(), server, |page| {
        let page = serde_json::from_slice(page)?;
        Ok(show::list(&page, Colours::of_stdout(), now_ms()))
    })
}

/// Whether a webhook id is looked for.
fn text_is_webhook_id(arguments: &FindArguments) -> bool {
    let text = arguments.text.as_deref();
    text.is_some_and(|text| text.starts_with("msg_"))
}

/// The parameters of a list by which a text is looked for, one after the other until something is found.
fn parameters(text: Option<&str>) -> Result<Vec<(&'static str, Option<&str>)>, CommandFailure> {
    let Some(text) = text else {
        // Only by the URL.
        return Ok(vec![("id", None)]);
    };
    let mut parameters = Vec::new();
    if WebhookId::parse(text).is_some() {
        parameters.push(("webhook_id", Some(text)));
    }
    match check_id(text) {
        Ok(()) => parameters.push(("id", Some(text))),
        Err(BadKey::Dots) => {}
        Err(bad @ (BadKey::Id | BadKey::Topic)) => {
            return Err(CommandFailure::Usage(bad.to_string()));
        }
    }
    parameters.push(("id_prefix", Some(text)));
    Ok(parameters)
}

async fn find(
    client: &Client,
    arguments: &FindArguments,
    parameters: &[(&'static str, Option<&str>)],
) -> Result<Findings, CommandFailure> {
    let mut found = Findings::default();
    for parameter in parameters {
        found = find_by(client, arguments, *parameter).await?;
        if !found.items.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// Reads pages until there is more than one notification, which is enough to know that there are several.
async fn find_by(
    client: &Client,
    arguments: &FindArguments,
    parameter: (&'static str, Option<&str>),
) -> Result<Findings, CommandFailure> {
    let filter = &arguments.filter;
    let enough = if filter.limit == Some(1) { 1 } else { 2 };
    let named = [parameter, ("url_contains", arguments.url.as_deref())];
    let mut found = Findings {
        next_cursor: filter.cursor.clone(),
        ..Findings::default()
    };
    for _ in 0..MOST_PAGES {
        let cursor = found.next_cursor.as_deref();
        let url = list_url(client, "notifications", &named, filter, cursor);
        let answer = client.call(Method::GET, url, None).await?;
        let mut page: Value = serde_json::from_slice(&answer).context(NOT_OURS)?;
        if let Value::Array(items) = page["items"].take() {
            found.items.extend(items);
        }
        found.next_cursor = page["next_cursor"].as_str().map(str::to_string);
        if found.next_cursor.is_none() || found.items.len() >= enough {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_looked_for_as_whole_ids_first() {
        fn check(text: Option<&str>, expected: &[&str]) {
            let found = parameters(text).ok();
            let names = found.map(|found| found.iter().map(|one| one.0).collect::<Vec<_>>());
            assert_eq!(names.unwrap_or_default(), expected, "{text:?}");
        }
        check(None, &["id"]);
        check(Some("order-1"), &["id", "id_prefix"]);
        check(Some("msg_0192"), &["id", "id_prefix"]);
        let webhook_id = "msg_0192f0d2c3a87b1f9c4d5e6f70819203";
        check(Some(webhook_id), &["webhook_id", "id", "id_prefix"]);
        check(Some("."), &["id_prefix"]);
        check(Some(""), &[]);
        check(Some("ä"), &[]);
    }
}
