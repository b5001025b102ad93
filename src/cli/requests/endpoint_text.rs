//! How the commands print an endpoint, and a page of endpoints.

use super::endpoint_key::key_text;
use crate::cli::table::table;
use crate::cli::terminal::{Colours, clean, instant};
use crate::cli::view::{EndpointDetails, EndpointDetailsPage};
use serde_json::Value;

/// One endpoint, and who holds its lane. What is not set is left out.
pub fn endpoint_text(
    endpoint: &EndpointDetails,
    hold: Option<&str>,
    colours: Colours,
    now_ms: i64,
) -> String {
    let mut text = format!("{}  version {}\n", clean(&endpoint.name), endpoint.version);
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            text.push_str(&format!(
                "  {} {value}\n",
                colours.faint(&format!("{name:<14}"))
            ));
        }
    };
    line("url", clean(&endpoint.url));
    line("lane", format!("endpoint:{}", clean(&endpoint.name)));
    line("held", hold.unwrap_or_default().to_string());
    line("ladder", shown(&endpoint.ladder));
    line("ack", shown(&endpoint.ack));
    line(
        "time-out",
        endpoint.timeout.as_deref().map_or(String::new(), clean),
    );
    line(
        "concurrency",
        endpoint
            .concurrency
            .map_or(String::new(), |most| most.to_string()),
    );
    line(
        "rate",
        endpoint
            .rate
            .map_or(String::new(), |rate| format!("{rate} calls/s")),
    );
    if let Some(follow) = endpoint.retry_after {
        line(
            "retry-after",
            if follow { "followed" } else { "not followed" }.to_string(),
        );
    }
    line(
        "gone",
        endpoint.gone.as_deref().map_or(String::new(), clean),
    );
    line(
        "after outage",
        endpoint
            .after_outage_rate
            .map_or(String::new(), |rate| format!("{rate} notifications/s")),
    );
    for (name, value) in &endpoint.headers {
        line("header", format!("{}: {}", clean(name), shown(value)));
    }
    line(
        "user agent",
        endpoint.user_agent.as_deref().map_or(String::new(), clean),
    );
    line(
        "http",
        endpoint.http.as_deref().map_or(String::new(), clean),
    );
    for which in ["id", "timestamp", "signature"] {
        let name = endpoint
            .signature_headers
            .get(which)
            .map_or(String::new(), shown);
        if name != format!("webhook-{which}") {
            line("signature", format!("{which} in {name}"));
        }
    }
    let expires = |at: &Option<String>| {
        let at = at.as_deref();
        at.map_or(String::new(), |at| {
            format!("expires {}", instant(at, now_ms))
        })
    };
    line("ca", expires(&endpoint.ca_expires_at));
    let certificate = &endpoint.client_certificate_expires_at;
    line("client cert.", expires(certificate));
    for key in &endpoint.keys {
        line("key", key_text(key, now_ms));
    }
    if endpoint.keys.is_empty() {
        let shared = "none: the default keys sign, with which others can forge calls; see `ringback endpoint key add`";
        line("key", shared.to_string());
    }
    if let Some(until) = &endpoint.default_secret_until {
        line("key", format!("default, until {}", instant(until, now_ms)));
    }
    line("metadata", shown(&endpoint.metadata));
    line("created", instant(&endpoint.created_at, now_ms));
    line("changed", instant(&endpoint.changed_at, now_ms));
    text
}

/// A page of endpoints, and the cursor of the next page.
pub fn list_text(page: &EndpointDetailsPage, colours: Colours, now_ms: i64) -> String {
    if page.items.is_empty() {
        return "none\n".to_string();
    }
    let rows: Vec<Vec<String>> = (page.items.iter())
        .map(|endpoint| {
            let or_dash = |text: String| {
                if text.is_empty() {
                    "-".to_string()
                } else {
                    text
                }
            };
            vec![
                endpoint.name.clone(),
                endpoint.version.to_string(),
                own_keys(endpoint),
                endpoint.url.clone(),
                or_dash(shown(&endpoint.ladder)),
                or_dash(shown(&endpoint.ack)),
                instant(&endpoint.changed_at, now_ms),
            ]
        })
        .collect();
    let heading = [
        "name", "version", "own keys", "url", "ladder", "ack", "changed",
    ];
    let mut text = table(colours, &heading, &rows);
    if let Some(cursor) = &page.next_cursor {
        text.push_str(&format!("next page: --cursor {}\n", clean(cursor)));
    }
    text
}

/// How many signing keys of its own an endpoint has. Without one, the default keys sign.
fn own_keys(endpoint: &EndpointDetails) -> String {
    match endpoint.keys.len() {
        0 => "none".to_string(),
        many => many.to_string(),
    }
}

/// A text as it is; another value as JSON; nothing for `null`.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => clean(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            clean(&value.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW_MS: i64 = 1_795_163_400_000;

    #[test]
    fn an_endpoint_is_shown_without_what_is_not_set() {
        let endpoint = serde_json::from_value(json!({
            "name": "shop-1", "version": 3, "url": "https://shop.example/n", "ladder": null,
            "ack": {"status": "2xx"}, "timeout": "5s", "headers": {"x-shop": "1"}, "user_agent": null,
            "signature_headers": {"id": "x-id", "timestamp": "webhook-timestamp", "signature": "webhook-signature"},
            "metadata": null, "created_at": "2026-11-20T08:29:58.000Z", "changed_at": "2026-11-20T08:29:59.000Z",
        }));
        let hold = Some("by anna: they move");
        let endpoint = endpoint.expect("an endpoint");
        let text = endpoint_text(&endpoint, hold, Colours::never(), NOW_MS);
        let expected = "shop-1  version 3
  url            https://shop.example/n
  lane           endpoint:shop-1
  held           by anna: they move
  ack            {\"status\":\"2xx\"}
  time-out       5s
  header         x-shop: 1
  signature      id in x-id
  key            none: the default keys sign, with which others can forge calls; see `ringback endpoint key add`
  created        2026-11-20T08:29:58.000Z (2s ago)
  changed        2026-11-20T08:29:59.000Z (1s ago)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_list_says_which_endpoints_have_keys_of_their_own() {
        let key = json!({ "id": "key_1", "kind": "symmetric" });
        let page = json!({ "items": [
            { "name": "shop-1", "version": 1, "url": "https://a.example/n", "keys": [key, key] },
            { "name": "shop-2", "version": 1, "url": "https://b.example/n", "keys": [] },
        ] });
        let page = serde_json::from_value(page).expect("a page");
        let text = list_text(&page, Colours::never(), NOW_MS);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("name    version  own keys  url"),
            "{text}"
        );
        assert!(
            lines[1].starts_with("shop-1  1        2         https"),
            "{text}"
        );
        assert!(
            lines[2].starts_with("shop-2  1        none      https"),
            "{text}"
        );
    }
}
