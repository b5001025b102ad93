//! Prints notifications for support staff: first the state, then the next attempt, then the history
//! (`timeline`).
//!
//! Everything that the server sends is shown. If a member is missing in the answer, its line is left out.

use super::table::table;
use super::terminal::{Colours, clean, instant};
use super::timeline::timeline;
use super::view::{NotificationDetails, NotificationPage};
use serde_json::Value;

/// The text for one notification. With `all`, the whole history is shown.
pub fn one(one: &NotificationDetails, colours: Colours, now_ms: i64, all: bool) -> String {
    let more = more_of_state(one).map_or(String::new(), |more| format!(" ({})", clean(more)));
    let mut text = format!(
        "{}{more}  {} {}\n",
        colours.state(&one.state),
        clean(&one.topic),
        clean(&one.id)
    );
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            text.push_str(&format!(
                "  {} {value}\n",
                colours.faint(&format!("{name:<14}"))
            ));
        }
    };
    let at = |instant_text: &Option<String>| {
        let text = instant_text.as_deref();
        text.map_or(String::new(), |text| instant(text, now_ms))
    };
    match &one.set_aside {
        Some(set_aside) => {
            line("set aside", at(&set_aside.at));
            line("reason", clean(&set_aside.reason));
            line(
                "next attempt",
                "none; `ringback retry` releases the notification".to_string(),
            );
        }
        None => line("next attempt", at(&one.next_attempt_at)),
    }
    line("note", one.warning.as_deref().map_or(String::new(), clean));
    if let (Some(waiting_for), Some(because)) = (&one.waiting_for, &one.waiting_because) {
        line(
            "waits for",
            format!("{}: {}", clean(waiting_for), clean(because)),
        );
    }
    // After a notification has ended, its deadline has no meaning.
    if one.ended_at.is_none() {
        let deadline = at(&one.deadline_at);
        // What waits because of its destination loses nothing of its window.
        line(
            "deadline",
            match &one.waiting_for {
                Some(_) if !deadline.is_empty() => {
                    format!("{deadline}; moves by the time it waits")
                }
                _ => deadline,
            },
        );
    }
    line("ended", at(&one.ended_at));
    line(
        "attempts",
        format!("{} made, {} left", one.attempts_made, one.attempts_left),
    );
    if one.series > 1 {
        line("series", one.series.to_string());
    }
    line("url", one.url.as_deref().map_or(String::new(), clean));
    line("lane", clean(&one.lane));
    line("ladder", name_or_object(&one.ladder));
    line("ack", name_or_object(&one.ack));
    let content_type = one.content_type.as_deref();
    line("content type", content_type.map_or(String::new(), clean));
    let header_names = one.header_names.as_deref().unwrap_or_default();
    line("headers", clean(&header_names.join(", ")));
    line("body", body_length(one));
    line(
        "trace",
        one.trace_id.as_deref().map_or(String::new(), clean),
    );
    if one.priority != "normal" {
        line("priority", clean(&one.priority));
    }
    if let Some(order) = &one.order {
        let (key, mode) = (clean(&order.key), clean(&order.mode));
        line("order", format!("number {} of {key}, {mode}", order.number));
    }
    line("webhook id", clean(&one.webhook_id));
    line("registered", at(&one.registered_at));
    let happened = timeline(one, colours, now_ms, all);
    if !happened.is_empty() {
        text.push('\n');
        text.push_str(&happened);
    }
    text
}

/// The text for a page of a list, one line for each notification.
pub fn list(page: &NotificationPage, colours: Colours, now_ms: i64) -> String {
    if page.items.is_empty() {
        return "none\n".to_string();
    }
    let rows: Vec<Vec<String>> = page.items.iter().map(|item| row(item, now_ms)).collect();
    let heading = ["state", "topic", "id", "attempts", "next or ended", "lane"];
    let mut text = table(colours, &heading, &rows);
    if let Some(cursor) = &page.next_cursor {
        text.push_str(&format!("next page: --cursor {}\n", clean(cursor)));
    }
    text
}

/// The text for a page of dead letters, one line for each, and how many there are.
pub fn dead(page: &NotificationPage, colours: Colours, now_ms: i64) -> String {
    let rows = page.items.iter().map(|item| dead_row(item, now_ms));
    let rows: Vec<Vec<String>> = rows.collect();
    let heading = [
        "cause",
        "topic",
        "id",
        "attempts",
        "ended",
        "lane",
        "last attempt",
        "reason",
    ];
    let mut text = match rows.is_empty() {
        true => "none\n".to_string(),
        false => table(colours, &heading, &rows),
    };
    match page.total {
        Some(total) if total > 0 => text.push_str(&format!("total: {total}\n")),
        Some(_) | None => {}
    }
    if let Some(cursor) = &page.next_cursor {
        text.push_str(&format!("next page: --cursor {}\n", clean(cursor)));
    }
    text
}

fn dead_row(item: &NotificationDetails, now_ms: i64) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_string());
    let last = item.last_attempt.as_ref();
    let how = last.map(|last| match last.status {
        Some(status) => format!("{} {status}", last.outcome),
        None => last.outcome.clone(),
    });
    let ended = item.ended_at.as_ref();
    vec![
        or_dash(item.cause.clone()),
        item.topic.clone(),
        item.id.clone(),
        item.attempts_made.to_string(),
        or_dash(ended.map(|at| instant(at, now_ms))),
        item.lane.clone(),
        or_dash(how),
        or_dash(last.and_then(|last| last.reason.clone())),
    ]
}

fn row(item: &NotificationDetails, now_ms: i64) -> Vec<String> {
    let state = match more_of_state(item) {
        Some(more) => format!("{} ({more})", item.state),
        None => item.state.clone(),
    };
    let when = item.next_attempt_at.as_ref().or(item.ended_at.as_ref());
    vec![
        state,
        item.topic.clone(),
        item.id.clone(),
        format!("{} made, {} left", item.attempts_made, item.attempts_left),
        when.map_or("-".to_string(), |when| instant(when, now_ms)),
        item.lane.clone(),
    ]
}

/// A text to show after the state: the cause, or that an attempt may be in flight.
fn more_of_state(one: &NotificationDetails) -> Option<&str> {
    let doubt = one.may_be_in_flight.then_some("may be in flight");
    one.cause.as_deref().or(doubt)
}

/// The length of the body, or that it is not kept any more. Empty if the server does not say that.
fn body_length(one: &NotificationDetails) -> String {
    match (one.body_bytes, &one.content_type) {
        (Some(bytes), _) => format!("{bytes} bytes"),
        (None, Some(_)) => "not kept any more, nor the headers".to_string(),
        (None, None) => String::new(),
    }
}

/// The name of a ladder or a rule, or the JSON of a custom one.
fn name_or_object(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(name) => clean(name),
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
    fn the_state_comes_first_and_then_what_is_next() {
        let shown = serde_json::from_value(json!({
            "topic": "payment.succeeded", "id": "order-1", "state": "scheduled",
            "next_attempt_at": "2026-11-20T08:33:58.000Z",
            "deadline_at": "2026-11-21T08:52:00.000Z",
            "attempts_made": 1, "attempts_left": 7, "ladder": "alipay",
            "attempts": [{
                "series": 1, "number": 1, "due_at": "2026-11-20T08:29:58.000Z",
                "started_at": "2026-11-20T08:29:58.001Z", "duration_ms": 12,
                "outcome": "wrong_answer", "status": 200, "answer": "\u{1b}[2J<html>",
                "reason": "answered 200, but",
            }],
        }))
        .expect("a notification");
        let text = one(&shown, Colours::never(), NOW_MS, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "scheduled  payment.succeeded order-1");
        assert_eq!(
            lines[1],
            "  next attempt   2026-11-20T08:33:58.000Z (in 3m58s)"
        );
        assert_eq!(
            lines[2],
            "  deadline       2026-11-21T08:52:00.000Z (in 24h22m)"
        );
        assert_eq!(lines[3], "  attempts       1 made, 7 left");
        assert!(text.contains("`\\u{1b}[2J<html>`\n"), "{text}");
    }

    #[test]
    fn one_that_is_held_or_set_aside_says_so() {
        let held = json!({
            "topic": "t", "id": "i", "state": "scheduled", "waiting_for": "held",
            "waiting_because": "its lane is held by anna since 2026-11-20T08:28:00.000Z: moves\u{1b}",
        });
        let held = serde_json::from_value(held).expect("a notification");
        let text = one(&held, Colours::never(), NOW_MS, false);
        let expected = "  waits for      held: its lane is held by anna since 2026-11-20T08:28:00.000Z: moves\\u{1b}\n";
        assert!(text.contains(expected), "{text}");
        let shown = serde_json::from_value(json!({
            "topic": "t", "id": "i", "state": "scheduled",
            "next_attempt_at": "2026-11-20T08:33:58.000Z",
            "set_aside": { "at": "2026-11-20T08:29:58.000Z", "reason": "a constraint\n" },
        }))
        .expect("a notification");
        let text = one(&shown, Colours::never(), NOW_MS, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1..4],
            [
                "  set aside      2026-11-20T08:29:58.000Z (2s ago)",
                "  reason         a constraint\\n",
                "  next attempt   none; `ringback retry` releases the notification",
            ]
        );
    }

    #[test]
    fn dead_letters_say_how_the_last_attempt_ended_and_how_many_there_are() {
        let page = json!({
            "items": [
                {
                    "topic": "t", "id": "1", "state": "dead", "cause": "ladder_exhausted", "attempts_made": 8,
                    "ended_at": "2026-11-20T08:29:58.000Z", "lane": "https://a.example",
                    "last_attempt": { "outcome": "http_status", "status": 500, "reason": "answered 500\u{1b}" },
                },
                {
                    "topic": "t", "id": "2", "state": "dead", "cause": "blocked", "attempts_made": 1,
                    "ended_at": "2026-11-20T08:29:58.000Z", "lane": "https://b.example",
                    "last_attempt": { "outcome": "dns", "status": null, "reason": "no address" },
                },
                { "topic": "t", "id": "3", "state": "dead", "lane": "https://c.example" },
            ],
            "total": 12, "next_cursor": "1-2",
        });
        let page = serde_json::from_value(page).expect("a page");
        let text = dead(&page, Colours::never(), NOW_MS);
        let ended = "2026-11-20T08:29:58.000Z (2s ago)";
        let gap = " ".repeat(ended.len() - 1);
        let expected = format!(
            "cause             topic  id  attempts  ended{}  lane               last attempt     reason
ladder_exhausted  t      1   8         {ended}  https://a.example  http_status 500  answered 500\\u{{1b}}
blocked           t      2   1         {ended}  https://b.example  dns              no address
-                 t      3   0         -{gap}  https://c.example  -                -
total: 12
next page: --cursor 1-2
",
            " ".repeat(ended.len() - 5)
        );
        assert_eq!(text, expected);
        let empty = serde_json::from_value(json!({ "items": [], "total": 0 })).expect("a page");
        assert_eq!(dead(&empty, Colours::never(), NOW_MS), "none\n");
    }

    #[test]
    fn a_page_says_how_to_go_on() {
        let page = serde_json::from_value(json!({
            "items": [{ "topic": "t", "id": "i", "state": "dead", "cause": "refused" }],
            "next_cursor": "1-2",
        }))
        .expect("a page");
        let text = list(&page, Colours::of_stdout(), NOW_MS);
        assert!(text.contains("\ndead (refused)  t"), "{text}");
        assert!(text.ends_with("next page: --cursor 1-2\n"), "{text}");
        let unsure =
            json!({ "topic": "t", "id": "i", "state": "scheduled", "may_be_in_flight": true });
        let page = json!({ "items": [unsure], "next_cursor": null });
        let page = serde_json::from_value(page).expect("a page");
        let text = list(&page, Colours::of_stdout(), NOW_MS);
        assert!(text.contains("\nscheduled (may be in flight)  t"), "{text}");
        assert_eq!(
            list(&NotificationPage::default(), Colours::of_stdout(), NOW_MS),
            "none\n"
        );
    }
}
