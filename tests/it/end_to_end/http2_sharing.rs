//! Which connections over HTTP/2 calls share, when a receiver takes no bodies, allows no calls, or falls silent.

use super::http2::{check, over_http2, set, start, tested, tested_often};
use crate::support::http2_frames::{
    FrameReceiver, FrameScript, PING, RST_STREAM, body, frame, head, settings, settings_allowing,
};
use crate::support::{short_pause, within};
use serde_json::{Value, json};

const NO_CALLS: &str = "the receiver allows no calls on its HTTP/2 connections (SETTINGS_MAX_CONCURRENT_STREAMS is 0), so \
    nothing was sent";

/// It answers the calls that come whole. It never opens the window of a connection, which holds 65,535 bytes.
fn without_window() -> FrameScript {
    FrameScript {
        first: settings(),
        answers_pings: true,
        answers_whole_calls: true,
        ..FrameScript::default()
    }
}

fn allowing(calls: u32) -> FrameScript {
    FrameScript {
        first: settings_allowing(calls),
        ..FrameScript::default()
    }
}

fn with_timeout(receiver: &FrameReceiver, timeout: &str) -> Value {
    let mut endpoint = over_http2(&receiver.url());
    endpoint["timeout"] = json!(timeout);
    endpoint
}

fn large(id: &str, endpoint: &str) -> Value {
    json!({ "topic": "t", "id": id, "endpoint": endpoint, "body": "x".repeat(200_000) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_takes_no_body_of_one_endpoint_delays_no_other_endpoint() {
    let server = start().await;
    let receiver = FrameReceiver::start(vec![without_window()]).await;
    set(&server, "wa", with_timeout(&receiver, "5s")).await;
    set(&server, "wb", with_timeout(&receiver, "5s")).await;
    server.register(large("a", "wa")).await;
    within("the call to wa", async {
        while receiver.calls() == 0 {
            short_pause().await;
        }
    })
    .await;
    for id in ["b0", "b1", "b2", "b3", "b4"] {
        server
            .register(json!({ "topic": "t", "id": id, "endpoint": "wb", "body": id }))
            .await;
        let view = server.until_attempts(id, 1).await;
        check(&view["attempts"][0], "acknowledged", "2");
    }
    assert_eq!(receiver.opened(), 2, "one for each endpoint");
    let view = server.until_attempts("a", 1).await;
    check(&view["attempts"][0], "timeout", "2");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_window_is_used_up_gets_no_further_calls() {
    let server = start().await;
    let receiver = FrameReceiver::start(vec![without_window()]).await;
    set(&server, "shop", with_timeout(&receiver, "2s")).await;
    server.register(large("a", "shop")).await;
    let view = server.until_attempts("a", 1).await;
    check(&view["attempts"][0], "timeout", "2");
    set(&server, "shop", with_timeout(&receiver, "5s")).await;
    for kept in ["new", "kept", "kept"] {
        let attempt = tested(&server, "shop").await;
        check(&attempt, "acknowledged", "2");
        assert_eq!(attempt["connection"], kept, "{attempt}");
    }
    assert_eq!(receiver.opened(), 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_before_the_whole_body_does_not_stop_the_next_call() {
    let server = start().await;
    let no_error = frame(RST_STREAM, 0, 1, &[0; 4]);
    let hasty = FrameScript {
        answer: [head(&[]), body(b"success"), no_error].concat(),
        ..without_window()
    };
    // What comes whole is answered, and once the window is used up, nothing comes on the first connection.
    let receiver = FrameReceiver::start(vec![hasty, without_window()]).await;
    set(&server, "shop", with_timeout(&receiver, "5s")).await;
    server.register(large("a", "shop")).await;
    let view = server.until_state("a", "delivered").await;
    check(&view["attempts"][0], "acknowledged", "2");
    check(&tested(&server, "shop").await, "acknowledged", "2");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_allows_no_calls_gets_few_connections() {
    let server = start().await;
    // It closes a connection with two calls, so its calls get connections of their own. On these it allows none.
    let closing = FrameScript {
        ignored: 1,
        answer: frame(PING, 0, 0, &[0; 8]),
        closes: true,
        answers_whole_calls: false,
        ..without_window()
    };
    let receiver = FrameReceiver::start(vec![closing, allowing(0)]).await;
    set(&server, "shop", with_timeout(&receiver, "3s")).await;
    for attempt in tested_often(&server, "shop", 2).await {
        check(&attempt, "protocol", "2");
    }
    assert_eq!(receiver.opened(), 1);
    for opened in [2, 3] {
        let attempt = tested(&server, "shop").await;
        assert_eq!(attempt["outcome"], "protocol", "{attempt}");
        assert_eq!(attempt["reason"], NO_CALLS, "{attempt}");
        assert_eq!(attempt["http"], Value::Null, "nothing was sent");
        assert_eq!(receiver.opened(), opened);
    }
    // It allows none, and closes each connection.
    let closing = FrameScript {
        closes_early: true,
        ..allowing(0)
    };
    let receiver = FrameReceiver::start(vec![closing]).await;
    set(&server, "other", with_timeout(&receiver, "3s")).await;
    let attempt = tested(&server, "other").await;
    assert_eq!(attempt["outcome"], "protocol", "{attempt}");
    assert_eq!(receiver.calls(), 0);
    assert!(receiver.opened() <= 3, "{}", receiver.opened());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_for_a_place_is_told_when_all_connections_are_silent() {
    let server = start().await;
    // Eight connections are the most that an endpoint gets, unless they are in doubt.
    let mut scripts = vec![allowing(1); 8];
    scripts.push(without_window());
    let receiver = FrameReceiver::start(scripts).await;
    set(&server, "shop", with_timeout(&receiver, "12s")).await;
    let attempts = tested_often(&server, "shop", 9).await;
    let is_acknowledged = |attempt: &&Value| attempt["outcome"] == "acknowledged";
    let told: Vec<&Value> = attempts.iter().filter(is_acknowledged).collect();
    let [told] = told[..] else {
        panic!("one finds a place: {attempts:?}");
    };
    // They are in doubt after 5 s. The first place is free after 12 s.
    let duration_ms = told["duration_ms"].as_u64();
    assert!(duration_ms.is_some_and(|ms| ms < 11_000), "{told}");
    assert_eq!(receiver.opened(), 9);
    server.stop().await;
}
