//! Receivers that break the rules of HTTP/2, frame by frame. Each ends its own call, with a reason in plain words.

use super::http2::{check, over_http2, set, start, start_on, tested};
use super::on_stores;
use crate::support::http2_frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, FrameReceiver, FrameScript, HEADERS, PING,
    PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, body, frame, go_away, head, interim,
    settings,
};
use crate::support::ringback::Stores;
use serde_json::{Value, json};

on_stores!(answers_that_break_the_rules_of_http2_are_described);

const CLOSED: &str = "the connection was closed before the answer was complete";
const TOO_MANY: &str = "the receiver sent too many HTTP/2 frames that belong to no answer, so the connection was closed";
const NOT_HTTP2: &str = "before a request was sent, the receiver sent something that is not HTTP/2; perhaps another \
    protocol is spoken on this port";
const RULES: &str = "the receiver broke the rules of HTTP/2 ";
const ANSWER_RULES: &str =
    "the answer breaks the rules of HTTP/2, or its headers are larger than 64 KiB";

fn answering(answer: impl IntoIterator<Item = Vec<u8>>) -> FrameScript {
    FrameScript {
        first: settings(),
        answer: answer.into_iter().flatten().collect(),
        answers_pings: true,
        ..FrameScript::default()
    }
}

fn flooding(answer: impl IntoIterator<Item = Vec<u8>>, flood: Vec<u8>) -> FrameScript {
    FrameScript {
        flood: flood.repeat(1_000),
        ..answering(answer)
    }
}

fn saying(first: &[u8], closes: bool) -> FrameScript {
    FrameScript {
        first: first.to_vec(),
        closes,
        ..FrameScript::default()
    }
}

fn success() -> FrameScript {
    answering([head(&[]), body(b"success")])
}

fn closing(script: FrameScript) -> FrameScript {
    FrameScript {
        closes: true,
        ..script
    }
}

/// Headers that take more than one frame.
fn large_head(bytes: usize) -> Vec<u8> {
    let value = "x".repeat(bytes / 8);
    let headers: Vec<(&str, &str)> = (0..8).map(|_| ("x-large", value.as_str())).collect();
    let block = block(&headers);
    let mut parts = block.chunks(16_384).peekable();
    let mut frames = Vec::new();
    let mut kind = HEADERS;
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        let flags = if last { END_HEADERS } else { 0 };
        frames.extend(frame(kind, flags, 1, part));
        kind = CONTINUATION;
    }
    frames
}

async fn answers_that_break_the_rules_of_http2_are_described(stores: Stores) {
    let server = start_on(stores, None).await;
    let no_window = [0, 4, 0, 0, 0, 0];
    let whole_window = (i32::MAX as u32).to_be_bytes();
    let cases: Vec<(&str, FrameScript, Value, &str)> = vec![
        (
            "close",
            closing(saying(&[], true)),
            Value::Null,
            "before a request was sent, the receiver closed the \
            connection and said nothing in HTTP/2; perhaps it speaks only HTTP/1.1",
        ),
        (
            "other",
            saying(b"SSH-2.0-OpenSSH_9.9\r\n", false),
            Value::Null,
            NOT_HTTP2,
        ),
        (
            "no-settings",
            saying(&frame(PING, 0, 0, &[0; 8]), false),
            Value::Null,
            NOT_HTTP2,
        ),
        (
            "settings-ack",
            saying(&frame(SETTINGS, 1, 0, &[]), false),
            Value::Null,
            NOT_HTTP2,
        ),
        (
            "bad-settings",
            saying(&frame(SETTINGS, 0, 0, &[0; 5]), false),
            Value::Null,
            RULES,
        ),
        (
            "push",
            answering([frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2, 0x82])]),
            Value::Null,
            RULES,
        ),
        (
            "data-first",
            answering([body(b"success")]),
            Value::Null,
            RULES,
        ),
        (
            "idle-stream",
            answering([frame(RST_STREAM, 0, 7, &[0; 4])]),
            Value::Null,
            RULES,
        ),
        (
            "length",
            answering([head(&[("content-length", "8")]), body(b"success")]),
            json!(200),
            RULES,
        ),
        (
            "frame-size",
            answering([head(&[]), frame(DATA, 0, 1, &vec![0; 16_385])]),
            json!(200),
            RULES,
        ),
        (
            "hpack",
            answering([frame(HEADERS, END_HEADERS, 1, &[0xff; 20])]),
            Value::Null,
            RULES,
        ),
        (
            "no-status",
            answering([frame(HEADERS, END_HEADERS | END_STREAM, 1, &[])]),
            Value::Null,
            RULES,
        ),
        (
            "window",
            answering([frame(WINDOW_UPDATE, 0, 0, &whole_window)]),
            Value::Null,
            RULES,
        ),
        (
            "headers",
            answering([large_head(80_000)]),
            Value::Null,
            ANSWER_RULES,
        ),
        (
            "pings",
            flooding([], frame(PING, 0, 0, &[0; 8])),
            Value::Null,
            TOO_MANY,
        ),
        (
            "pongs",
            flooding([], frame(PING, 1, 0, &[0; 8])),
            Value::Null,
            TOO_MANY,
        ),
        (
            "settings",
            flooding([], frame(SETTINGS, 0, 0, &no_window)),
            Value::Null,
            TOO_MANY,
        ),
        (
            "windows",
            flooding([], frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
            Value::Null,
            TOO_MANY,
        ),
        (
            "unknown",
            flooding([], frame(200, 0, 0, &[0; 8])),
            Value::Null,
            TOO_MANY,
        ),
        ("interim", flooding([], interim()), Value::Null, TOO_MANY),
        (
            "empty-data",
            flooding([head(&[])], frame(DATA, 0, 1, &[])),
            json!(200),
            "the receiver sent ",
        ),
        (
            "closed",
            closing(answering([head(&[])])),
            json!(200),
            CLOSED,
        ),
        // It processes the call, and then does not answer it.
        (
            "leaves",
            closing(answering([go_away(1, 0)])),
            Value::Null,
            CLOSED,
        ),
    ];
    for (name, script, status, reason) in cases {
        let receiver = FrameReceiver::start(vec![script]).await;
        set(&server, name, over_http2(&receiver.url())).await;
        let registration = json!({
            "topic": "t", "id": name, "endpoint": name, "body": "x", "ladder": { "intervals": [] },
        });
        server.register(registration).await;
        let view = server.until_state(name, "dead").await;
        assert_eq!(view["attempts_made"], 1, "{name}: {view}");
        assert_eq!(receiver.opened(), 1, "{name}");
        if stores == Stores::RedisOnly {
            continue;
        }
        let attempt = &view["attempts"][0];
        assert_eq!(attempt["outcome"], "protocol", "{name}: {attempt}");
        // What comes in one piece with a flood is not looked at.
        let is_flood = attempt["status"].is_null() && name == "empty-data";
        assert!(attempt["status"] == status || is_flood, "{name}: {attempt}");
        let found = attempt["reason"].as_str().expect("a reason");
        let is_known = found.starts_with(reason) || (reason == RULES && found == ANSWER_RULES);
        assert!(is_known, "{name}: {found}");
    }
    // All of them together have disturbed nobody else.
    let receiver = FrameReceiver::start(vec![success()]).await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    check(&tested(&server, "shop").await, "acknowledged", "2");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_headers_and_bodies_end_with_the_call() {
    let server = start().await;
    let endless_headers = FrameScript {
        flood: frame(CONTINUATION, 0, 1, &[]).repeat(1_000),
        ..answering([frame(HEADERS, 0, 1, &block(&[]))])
    };
    let endless_body = FrameScript {
        flood: frame(DATA, 0, 1, &[b'x'; 16_384]).repeat(10),
        ..answering([head(&[])])
    };
    for (script, outcomes) in [
        (endless_headers, &["protocol"][..]),
        (endless_body, &["protocol", "wrong_answer"]),
    ] {
        let receiver = FrameReceiver::start(vec![script]).await;
        set(&server, "shop", over_http2(&receiver.url())).await;
        let attempt = tested(&server, "shop").await;
        let outcome = attempt["outcome"].as_str().expect("an outcome");
        assert!(outcomes.contains(&outcome), "{attempt}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_with_interim_answers_and_trailers_count() {
    let server = start().await;
    let data = frame(DATA, 0, 1, b"success");
    // A trailer must not have a status.
    let trailers = frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &block(&[("x", "1")])[1..],
    );
    let receiver = FrameReceiver::start(vec![answering([
        interim(),
        interim(),
        head(&[]),
        data,
        trailers,
    ])])
    .await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    check(&tested(&server, "shop").await, "acknowledged", "2");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_may_answer_before_it_has_the_whole_body() {
    let server = start().await;
    // The window of a stream holds 64 KiB, and the receiver never opens it further.
    let no_error = frame(RST_STREAM, 0, 1, &[0; 4]);
    let script = answering([head(&[]), body(b"success"), no_error]);
    let receiver = FrameReceiver::start(vec![script]).await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    let registration =
        json!({ "topic": "t", "id": "a", "endpoint": "shop", "body": "x".repeat(200_000) });
    server.register(registration).await;
    let view = server.until_state("a", "delivered").await;
    check(&view["attempts"][0], "acknowledged", "2");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_came_too_late_for_a_receiver_that_leaves_is_sent_again() {
    let server = start().await;
    let leaving = closing(answering([go_away(0, 0)]));
    let receiver = FrameReceiver::start(vec![leaving.clone(), leaving.clone(), success()]).await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    check(&tested(&server, "shop").await, "acknowledged", "2");
    assert_eq!((receiver.opened(), receiver.calls()), (3, 3));
    // With an error, it did not process the call either.
    let receiver = FrameReceiver::start(vec![closing(answering([go_away(0, 2)]))]).await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    let attempt = tested(&server, "shop").await;
    check(&attempt, "protocol", "2");
    let reason = "the receiver ended the HTTP/2 connection with an error (INTERNAL_ERROR)";
    assert_eq!(attempt["reason"], reason, "{attempt}");
    assert_eq!((receiver.opened(), receiver.calls()), (3, 3));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_has_died_is_not_used_for_further_calls() {
    let server = start().await;
    let dead = FrameScript {
        answers_pings: false,
        ..answering([])
    };
    let receiver = FrameReceiver::start(vec![dead, success()]).await;
    let mut hasty = over_http2(&receiver.url());
    hasty["timeout"] = json!("500ms");
    set(&server, "shop", hasty).await;
    let attempt = tested(&server, "shop").await;
    check(&attempt, "timeout", "2");
    set(&server, "shop", over_http2(&receiver.url())).await;
    let attempt = tested(&server, "shop").await;
    check(&attempt, "acknowledged", "2");
    assert_eq!(attempt["connection"], "new", "{attempt}");
    assert_eq!(receiver.opened(), 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_an_answer_that_does_not_end_the_part_that_came_is_in_the_record() {
    let server = start().await;
    let part = frame(DATA, 0, 1, b"suc");
    let receiver = FrameReceiver::start(vec![answering([head(&[]), part])]).await;
    let mut hasty = over_http2(&receiver.url());
    hasty["timeout"] = json!("500ms");
    set(&server, "shop", hasty).await;
    let attempt = tested(&server, "shop").await;
    check(&attempt, "timeout", "2");
    assert_eq!(attempt["status"], 200, "{attempt}");
    assert_eq!(attempt["answer"], "suc", "{attempt}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_never_begins_http2_is_described() {
    let server = start().await;
    let receiver = FrameReceiver::start(vec![saying(&[], false)]).await;
    let mut hasty = over_http2(&receiver.url());
    hasty["timeout"] = json!("500ms");
    set(&server, "hasty", hasty).await;
    let attempt = tested(&server, "hasty").await;
    assert_eq!(attempt["outcome"], "timeout", "{attempt}");
    let reason = "no complete answer within 500ms; the time ran out while the HTTP/2 settings of the receiver were \
        awaited";
    assert_eq!(attempt["reason"], reason, "{attempt}");
    assert_eq!(attempt["http"], Value::Null, "nothing was sent");
    assert_eq!(receiver.calls(), 0);
    server.stop().await;
}
