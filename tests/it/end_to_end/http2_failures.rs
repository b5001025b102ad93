//! Receivers that fail over HTTP/2, refuse a call, or give a wrong answer: when it is sent again, and what support staff read.

use super::http2::{check, over_http2, set, start, tested, tested_often};
use crate::support::http2::{Http2Call, Http2Receiver, connections};
use crate::support::http2_frames::{
    DATA, FrameReceiver, FrameScript, body, frame, go_away, head, settings,
};
use h2::Reason;
use serde_json::json;

const CLOSED: &str = "the connection was closed before the answer was complete";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_not_processed_is_sent_again() {
    let mut receiver = Http2Receiver::start(None).await;
    let server = start().await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    let (attempt, ()) = tokio::join!(tested(&server, "shop"), async {
        for _ in 0..2 {
            receiver.call().await.reset(Reason::REFUSED_STREAM);
        }
        let last = receiver.call().await;
        assert_eq!(last.header("ringback-attempt"), Some("1"));
        last.acknowledge();
    });
    check(&attempt, "acknowledged", "2");
    let (attempt, ()) = tokio::join!(tested(&server, "shop"), async {
        for _ in 0..3 {
            receiver.call().await.reset(Reason::REFUSED_STREAM);
        }
    });
    let reason = "the receiver refused the call again and again without processing it (REFUSED_STREAM); perhaps it is \
        overloaded or restarting";
    check(&attempt, "protocol", "2");
    assert_eq!(attempt["reason"], reason, "{attempt}");
    assert!(receiver.arrived().is_none());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_may_have_been_processed_is_not_sent_again() {
    let mut receiver = Http2Receiver::start(None).await;
    let server = start().await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    // A call that is dropped is reset.
    type Act = fn(Http2Call) -> Option<Http2Call>;
    let cases: [(&str, Act, &str); 6] = [
        (
            "reset",
            |call| {
                call.reset(Reason::INTERNAL_ERROR);
                None
            },
            "the receiver broke off the call before the answer was complete (INTERNAL_ERROR)",
        ),
        (
            "calm",
            |call| {
                call.reset(Reason::ENHANCE_YOUR_CALM);
                None
            },
            "the receiver broke off the call before the answer was complete (ENHANCE_YOUR_CALM)",
        ),
        (
            "http/1.1",
            |call| {
                call.reset(Reason::HTTP_1_1_REQUIRED);
                None
            },
            "the receiver takes this call over HTTP/1.1 only (HTTP_1_1_REQUIRED); set `http` of the endpoint to 1.1",
        ),
        (
            "goaway",
            |call| {
                call.abort_connection(Reason::INTERNAL_ERROR);
                Some(call)
            },
            "the receiver ended the HTTP/2 connection with an error (INTERNAL_ERROR)",
        ),
        (
            "answer",
            |mut call| {
                let mut stream = call.begin_answer();
                stream.send_data("succ".into(), false).expect("sent");
                stream.send_reset(Reason::INTERNAL_ERROR);
                None
            },
            "the receiver broke off the call before the answer was complete (INTERNAL_ERROR)",
        ),
        // A new connection with one call: whatever closes it says nothing of connections that are shared.
        (
            "close",
            |call| {
                call.close_connection();
                Some(call)
            },
            CLOSED,
        ),
    ];
    for (name, act, reason) in cases {
        // A connection without a call before: those of other cases may still be open.
        let endpoint = json!({ "url": receiver.url(), "http": "2", "metadata": { "case": name } });
        set(&server, "shop", endpoint).await;
        let (attempt, _call) = tokio::join!(tested(&server, "shop"), async {
            act(receiver.call().await)
        });
        let found = attempt["reason"].as_str().unwrap_or_default();
        let shared = found.starts_with("several calls used the connection");
        assert!(
            found == reason || (name == "close" && shared),
            "{name}: {attempt}"
        );
        assert_eq!(attempt["outcome"], "protocol", "{name}: {attempt}");
        assert!(receiver.arrived().is_none(), "{name}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_leaves_ends_what_it_has_and_gets_the_rest_on_a_new_connection() {
    let mut receiver = Http2Receiver::start(None).await;
    let server = start().await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    let (attempts, ()) = tokio::join!(tested_often(&server, "shop", 3), async {
        let calls = receiver.calls(3).await;
        assert_eq!(connections(&calls).len(), 1);
        calls[0].leave();
        // Until it has read the GOAWAY, the caller uses the old connection, whose calls are then not processed.
        loop {
            let (attempt, connection) = tokio::join!(tested(&server, "shop"), async {
                let call = receiver.call().await;
                let connection = call.connection;
                call.acknowledge();
                connection
            });
            check(&attempt, "acknowledged", "2");
            if connection == 1 {
                break;
            }
        }
        calls.into_iter().for_each(Http2Call::acknowledge);
    });
    for attempt in &attempts {
        check(attempt, "acknowledged", "2");
    }
    assert_eq!(receiver.opened(), 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_connection_that_is_closed_without_goaway_is_not_shared_again() {
    not_shared_after(Http2Receiver::start(None).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_connection_that_is_reset_is_not_shared_again() {
    not_shared_after(Http2Receiver::start_resetting().await).await;
}

async fn not_shared_after(mut receiver: Http2Receiver) {
    let server = start().await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    let (attempts, _calls) = tokio::join!(tested_often(&server, "shop", 3), async {
        let calls = receiver.calls(3).await;
        assert_eq!(connections(&calls).len(), 1);
        calls[0].close_connection();
        // A call that is dropped is reset.
        calls
    });
    let reason = "several calls used the connection, and the receiver closed it before an answer began, without saying \
        which calls it had read (no GOAWAY); it may have read this one";
    for attempt in &attempts {
        check(attempt, "protocol", "2");
        assert_eq!(attempt["reason"], reason, "{attempt}");
    }
    let (attempts, ()) = tokio::join!(tested_often(&server, "shop", 3), async {
        let calls = receiver.calls(3).await;
        assert_eq!(connections(&calls).len(), 3);
        calls.into_iter().for_each(Http2Call::acknowledge);
    });
    for attempt in &attempts {
        check(attempt, "acknowledged", "2");
        assert_eq!(attempt["connection"], "new", "{attempt}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_never_ends_ends_with_its_call() {
    let mut receiver = Http2Receiver::start(None).await;
    let server = start().await;
    let mut hasty = over_http2(&receiver.url());
    hasty["timeout"] = json!("500ms");
    set(&server, "hasty", hasty).await;
    let (attempt, reset) = tokio::join!(tested(&server, "hasty"), async {
        receiver.call().await.was_reset_after_beginning().await
    });
    assert_eq!(reset, Reason::CANCEL);
    check(&attempt, "timeout", "2");
    let reason =
        "no complete answer within 500ms; the time ran out while the body of the answer was read";
    assert_eq!(attempt["reason"], reason);
    // A status that acknowledges alone counts, as over HTTP/1.1.
    let mut hasty = over_http2(&receiver.url());
    hasty["timeout"] = json!("500ms");
    hasty["ack"] = json!({ "status": "2xx" });
    set(&server, "hasty", hasty).await;
    let (attempt, reset) = tokio::join!(tested(&server, "hasty"), async {
        receiver.call().await.was_reset_after_beginning().await
    });
    assert_eq!(reset, Reason::CANCEL);
    check(&attempt, "acknowledged", "2");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_may_close_the_connection_after_an_answer_to_a_part_of_the_body() {
    let server = start().await;
    let part = || frame(DATA, 0, 1, b"success");
    let cases = [
        ("whole", head(&[("content-length", "7")]), body(b"success")),
        ("truncated", head(&[("content-length", "8")]), part()),
        ("unknown", head(&[]), part()),
    ];
    for (id, head, body) in cases {
        let script = FrameScript {
            first: settings(),
            answer: [head, body, go_away(1, 0)].concat(),
            closes: true,
            ..FrameScript::default()
        };
        // The receiver never opens the window, which holds 64 KiB.
        let receiver = FrameReceiver::start(vec![script]).await;
        set(&server, id, over_http2(&receiver.url())).await;
        let registration = json!({
            "topic": "t", "id": id, "endpoint": id, "body": "x".repeat(100_000), "ladder": { "intervals": [] },
        });
        server.register(registration).await;
        if id == "whole" {
            let view = server.until_state(id, "delivered").await;
            check(&view["attempts"][0], "acknowledged", "2");
        } else {
            let view = server.until_state(id, "dead").await;
            check(&view["attempts"][0], "protocol", "2");
            assert_eq!(view["attempts"][0]["reason"], CLOSED, "{id}: {view}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_judged_and_bounded_as_over_http1() {
    let mut receiver = Http2Receiver::start(None).await;
    let server = start().await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    let cases: [(u16, Vec<u8>, &str, &str); 5] = [
        (
            204,
            Vec::new(),
            "wrong_answer",
            "answered 204, but with an empty body and not `success`",
        ),
        (500, b"oops".to_vec(), "http_status", "answered 500"),
        (
            200,
            b"fail".to_vec(),
            "wrong_answer",
            "answered 200, but the body is `fail` and not `success`",
        ),
        (200, vec![b'x'; 65_536], "wrong_answer", "answered 200, but"),
        (
            200,
            vec![b'x'; 1_000_000],
            "wrong_answer",
            "with more than 65536 bytes",
        ),
    ];
    for (status, body, outcome, reason) in cases {
        let length = body.len();
        let (attempt, ()) = tokio::join!(tested(&server, "shop"), async {
            receiver.call().await.answer(status, body);
        });
        check(&attempt, outcome, "2");
        let found = attempt["reason"].as_str().expect("a reason");
        assert!(found.contains(reason), "{length}: {found}");
    }
    assert_eq!(
        receiver.opened(),
        1,
        "an answer that is too long ends its call only"
    );
    server.stop().await;
}
