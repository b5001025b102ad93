//! Tests of the printed timelines.

use super::*;
use serde_json::{Value, json};

const NOW_MS: i64 = 1_795_163_400_000;

fn shown(one: Value, colours: Colours, all: bool) -> String {
    let one: NotificationDetails = serde_json::from_value(one).expect("a notification");
    timeline(&one, colours, NOW_MS, all)
}

fn plain(one: Value) -> String {
    shown(one, Colours::never(), false)
}

fn attempt(number: u32, outcome: &str, more: Value) -> Value {
    let mut attempt = json!({
        "series": 1, "number": number, "due_at": "2026-11-20T08:20:00.000Z",
        "started_at": "2026-11-20T08:20:00.001Z", "duration_ms": 12, "outcome": outcome,
    });
    let members = more.as_object().expect("an object").clone();
    attempt.as_object_mut().expect("an object").extend(members);
    attempt
}

#[test]
fn everything_comes_in_one_order_and_what_is_next_comes_last() {
    let text = plain(json!({
        "state": "scheduled",
        "next_attempt_at": "2026-11-20T08:33:58.000Z",
        "deadline_at": "2026-11-21T08:52:00.000Z",
        "attempts": [
            attempt(1, "http_status", json!({
                "status": 500, "answer": "fail", "reason": "answered 500",
                "address": "192.0.2.1:443", "connection": "kept", "tls": "1.3", "http": "2",
                "phases": { "first_byte_ms": 11.96, "body_ms": 0.02 },
            })),
            attempt(2, "interrupted", json!({ "duration_ms": 0, "reason": "the instance that made this attempt ended before it recorded an outcome; the receiver may have received the call" })),
            attempt(2, "wrong_answer", json!({
                "series": 2, "status": 200, "answer": "\\u{feff}success\\r\\n", "reason": "not the text",
                "started_at": "2026-11-20T08:20:04.001Z",
            })),
            attempt(3, "wrong_answer", json!({
                "series": 2, "status": 200, "answer": "", "deferred_ms": 5_430_500, "deferred_by": "held",
            })),
        ],
        "timeline": [
            { "kind": "registered", "at": "2026-11-20T08:20:00.000Z", "actor": "api" },
            { "kind": "attempt", "at": "", "index": 0 },
            { "kind": "parked", "at": "2026-11-20T08:20:00.010Z", "actor": "dispatcher", "detail": "ladder_exhausted" },
            { "kind": "replayed", "at": "2026-11-20T08:20:01.000Z", "actor": "li.lei", "detail": "the shop is back" },
            { "kind": "attempt", "at": "", "index": 1 },
            { "kind": "restored", "at": "2026-11-20T08:20:02.000Z", "actor": "maintenance", "detail": "the schedule had lost data" },
            { "kind": "attempt", "at": "", "index": 2 },
            { "kind": "attempt", "at": "", "index": 3 },
        ],
    }));
    let expected = r"
2026-11-20T08:20:00.000Z  registered    by api
2026-11-20T08:20:00.001Z  attempt 1     http_status 500 in 12ms
                                        `fail`
                                        answered 500
                                        to 192.0.2.1:443 over a kept connection, TLS 1.3, HTTP/2,
                                        answer 12.0ms, body 0.0ms
2026-11-20T08:20:00.010Z  parked        ladder_exhausted
2026-11-20T08:20:01.000Z  replayed      by li.lei: the shop is back
2026-11-20T08:20:00.001Z  attempt 2     interrupted
                                        the instance that made this attempt ended before it recorded
                                        an outcome; the receiver may have received the call
2026-11-20T08:20:02.000Z  restored      by maintenance: the schedule had lost data
2026-11-20T08:20:04.001Z  attempt 2     wrong_answer 200 in 12ms (4s late) series 2
                                        `\u{feff}success\r\n`
                                        not the text
2026-11-20T08:20:00.001Z  attempt 3     wrong_answer 200 in 12ms series 2
                                        deferred for 1h30m30s: its lane was held
                                        (an empty answer)
2026-11-20T08:33:58.000Z  next attempt  in 3m58s
2026-11-21T08:52:00.000Z  deadline      in 24h22m
";
    assert_eq!(text.trim_end(), expected.trim());
    let ended =
        json!({ "state": "dead", "ended_at": "x", "deadline_at": "2026-11-21T08:52:00.000Z" });
    assert_eq!(plain(ended), "");
}

#[test]
fn of_an_attempt_in_flight_it_is_said_when_it_was_due() {
    let text = plain(json!({
        "state": "in_flight",
        "next_attempt_at": "2026-11-20T08:29:48.000Z",
        "deadline_at": "2026-11-21T08:52:00.000Z",
        "timeline": [{ "kind": "registered", "at": "2026-11-20T08:20:00.000Z", "actor": "api" }],
    }));
    let expected = "
2026-11-20T08:20:00.000Z  registered    by api
2026-11-20T08:29:48.000Z  in flight     due 12s ago
2026-11-21T08:52:00.000Z  deadline      in 24h22m
";
    assert_eq!(text.trim_end(), expected.trim());
}

#[test]
fn no_line_is_longer_than_a_hundred_columns_or_steers_the_terminal() {
    let long = "\u{1b}[2J\u{202e}<html> ".repeat(200);
    let word = "失x".repeat(1_000);
    let text = plain(json!({
        "state": long, "next_attempt_at": long, "deadline_at": "2026-11-21T08:52:00.000Z",
        "attempts": [attempt(1, &long, json!({ "answer": long, "reason": word, "started_at": long }))],
        "timeline": [
            { "kind": long, "at": long, "actor": long, "detail": word },
            { "kind": "attempt", "at": "", "index": 0 },
            { "kind": "attempt", "at": "", "index": 7 },
        ],
    }));
    for line in text.lines() {
        assert!(columns(line) <= 100, "{line}");
        assert!(!line.contains(['\u{1b}', '\u{202e}']), "{line}");
    }
    // At most four texts of the most lines.
    assert!(text.lines().count() <= 4 * MOST_LINES, "{text}");
    assert!(text.contains("...\n"), "{text}");
}

#[test]
fn of_a_long_history_the_end_is_shown() {
    let attempts: Vec<Value> = (21..=120)
        .map(|number| attempt(number, "timeout", json!({})))
        .collect();
    let one = || json!({ "state": "scheduled", "attempts": attempts });
    let text = plain(one());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + MOST_EVENTS);
    assert_eq!(lines[0], "... 70 earlier lines; --all shows them");
    assert!(lines[1].contains("attempt 91 "), "{}", lines[1]);
    let text = shown(one(), Colours::never(), true);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 100);
    assert_eq!(
        lines[0],
        "... 20 earlier attempts that the server does not show"
    );
}

#[test]
fn escapes_stand_out_where_there_are_colours() {
    fn check(answer: &str, expected: &str) {
        let colours = Colours::always();
        let marked = highlight(answer, colours)
            .replace("\u{1b}[30;43m", "[")
            .replace("\u{1b}[0m", "]");
        assert_eq!(marked, expected);
        assert_eq!(highlight(answer, Colours::never()), answer);
    }
    check("success", "success");
    check(r"\u{feff}success\r\n", r"[\u{feff}]success[\r][\n]");
    check(r"\xff\\x", r"[\xff][\\]x");
    check(r"cut \u{fe...", r"cut [\u{fe...]");
    check(r"\", r"[\]");
    check(r"\é", r"[\é]");
}

#[test]
fn the_longest_reason_for_a_delay_is_shown_whole() {
    let reason = "answered 503; the receiver asks to wait until 2026-11-24T12:00:00.000Z (Retry-After), so the next \
        attempt is at 2026-11-23T12:05:05.000Z, when the window closes, and not at 2026-11-21T08:35:00.000Z";
    let text = plain(json!({
        "state": "scheduled",
        "attempts": [attempt(1, "http_status", json!({ "status": 503, "answer": "", "reason": reason }))],
    }));
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains(reason), "{text}");
}
