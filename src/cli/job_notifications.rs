//! Prints what has become of the notifications of a job: a line each, and how many there are by reason.

use super::table::table;
use super::terminal::{Colours, clean, instant, start_of};
use serde::Deserialize;

/// The longest part of a reason that is shown, in columns.
const LONGEST_REASON: usize = 60;

/// A page in an answer of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobNotificationsDetails {
    items: Vec<ItemDetails>,
    next_cursor: Option<String>,
    reasons: Vec<ReasonDetails>,
    unlisted: u64,
    replayed: Option<ReplayedDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ItemDetails {
    topic: String,
    id: String,
    reason: Option<String>,
    detail: Option<String>,
    at: Option<String>,
    notification: Option<PresentDetails>,
}

/// A notification as it is now.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PresentDetails {
    state: String,
    last_attempt: Option<LastDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LastDetails {
    outcome: String,
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReasonDetails {
    result: String,
    reason: String,
    count: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReplayedDetails {
    counted: u64,
    delivered: u64,
    dead: u64,
    cancelled: u64,
    pending: u64,
}

/// The text for a page.
pub fn list(page: &JobNotificationsDetails, colours: Colours, now_ms: i64) -> String {
    let rows: Vec<Vec<String>> = page.items.iter().map(|item| row(item, now_ms)).collect();
    let heading = ["topic", "id", "why", "at", "state now", "last attempt"];
    let mut text = match rows.is_empty() {
        true => "none\n".to_string(),
        false => table(colours, &heading, &rows),
    };
    if page.unlisted > 0 {
        text.push_str(&format!("counted and not listed: {}\n", page.unlisted));
    }
    if let Some(replayed) = &page.replayed {
        text.push_str(&format!(
            "now, of the first {} replayed: {} delivered, {} dead again, {} pending, {} cancelled\n",
            replayed.counted,
            replayed.delivered,
            replayed.dead,
            replayed.pending,
            replayed.cancelled
        ));
    }
    let reasons = page.reasons.iter().map(|one| {
        let (result, reason) = (clean(&one.result), clean(&one.reason));
        format!("{result}, {reason}: {}\n", one.count)
    });
    text.extend(reasons);
    if let Some(cursor) = &page.next_cursor {
        text.push_str(&format!("next page: --cursor '{}'\n", clean(cursor)));
    }
    text
}

fn row(item: &ItemDetails, now_ms: i64) -> Vec<String> {
    let why = match (&item.reason, &item.detail) {
        (None, _) => "-".to_string(),
        (Some(reason), None) => reason.clone(),
        (Some(reason), Some(detail)) => start_of(&format!("{reason}: {detail}"), LONGEST_REASON),
    };
    let at = item.at.as_deref();
    let present = item.notification.as_ref();
    let last = present.and_then(|present| present.last_attempt.as_ref());
    vec![
        item.topic.clone(),
        item.id.clone(),
        why,
        at.map_or("-".to_string(), |at| instant(at, now_ms)),
        present.map_or("not kept".to_string(), |present| present.state.clone()),
        last.map_or("-".to_string(), |last| match &last.reason {
            Some(reason) => start_of(reason, LONGEST_REASON),
            None => last.outcome.clone(),
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW_MS: i64 = 1_795_163_400_000;

    #[test]
    fn each_notification_has_a_line_and_each_reason_a_number() {
        let page = serde_json::from_value(json!({
            "items": [
                { "topic": "t", "id": "1", "result": "failed", "reason": "unreadable", "detail": "a row is damaged\u{1b}",
                  "at": "2026-11-20T08:28:00.000Z", "notification": null },
                { "topic": "t", "id": "2", "result": "failed", "reason": "leased", "detail": null,
                  "at": "2026-11-20T08:28:00.000Z",
                  "notification": { "state": "dead", "last_attempt": { "outcome": "timeout", "reason": null } } },
            ],
            "next_cursor": "1-2", "reasons": [{ "result": "failed", "reason": "leased", "count": 7 }], "unlisted": 5,
            "replayed": null,
        }))
        .expect("a page");
        let text = list(&page, Colours::never(), NOW_MS);
        for expected in [
            "unreadable: a row is damaged",
            "not kept",
            "leased",
            "dead",
            "timeout",
            "counted and not listed: 5\n",
            "failed, leased: 7\n",
            "next page: --cursor '1-2'\n",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
        let empty = list(
            &JobNotificationsDetails::default(),
            Colours::never(),
            NOW_MS,
        );
        assert_eq!(empty, "none\n");
    }

    #[test]
    fn a_replay_says_how_those_are_now_that_it_has_replayed() {
        let page = serde_json::from_value(json!({
            "items": [], "replayed": { "counted": 9, "delivered": 4, "dead": 3, "cancelled": 0, "pending": 2 },
        }))
        .expect("a page");
        let expected = "none\nnow, of the first 9 replayed: 4 delivered, 3 dead again, 2 pending, 0 cancelled\n";
        assert_eq!(list(&page, Colours::never(), NOW_MS), expected);
    }
}
