//! HTTP/2 connections that are kept from call to call: what ends them, what is given back on them, and what that costs.

use super::http2::{check, over_http2, set, start, tested};
use crate::support::http2::Http2Receiver;
use crate::support::http2_frames::{
    FrameReceiver, FrameScript, body, head, settings, settings_allowing,
};
use crate::support::ringback::{Server, Stores};
use serde_json::json;

async fn an_end_between_calls_costs_nothing(mut receiver: Http2Receiver) {
    let server = start().await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    for round in 0..10 {
        for _ in 0..2 {
            let (attempt, call) = tokio::join!(tested(&server, "shop"), async {
                let mut call = receiver.call().await;
                call.answer(200, "success");
                call
            });
            check(&attempt, "acknowledged", "2");
            call.close_connection();
            receiver.until_closed(receiver.opened()).await;
        }
        assert!(receiver.arrived().is_none(), "{round}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_closed_between_two_calls_costs_no_attempt() {
    an_end_between_calls_costs_nothing(Http2Receiver::start(None).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_reset_between_two_calls_costs_no_attempt() {
    an_end_between_calls_costs_nothing(Http2Receiver::start_resetting().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_allows_no_further_calls_gets_the_next_one_on_a_new_connection() {
    let server = start().await;
    // With its first answer it says that it takes no more calls on this connection, and it does not leave.
    let last = FrameScript {
        first: settings(),
        answer: [settings_allowing(0), head(&[]), body(b"success")].concat(),
        answers_pings: true,
        ..FrameScript::default()
    };
    let next = FrameScript {
        first: settings(),
        answer: [head(&[]), body(b"success")].concat(),
        answers_pings: true,
        ..FrameScript::default()
    };
    let receiver = FrameReceiver::start(vec![last, next]).await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    for opened in [1, 2] {
        check(&tested(&server, "shop").await, "acknowledged", "2");
        assert_eq!((receiver.opened(), receiver.calls()), (opened, opened));
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_to_the_wrong_server_gets_no_further_calls() {
    let mut receiver = Http2Receiver::start(None).await;
    let server = start().await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    let (attempt, ()) = tokio::join!(tested(&server, "shop"), async {
        receiver.call().await.answer(421, "");
    });
    check(&attempt, "http_status", "2");
    let (attempt, ()) = tokio::join!(tested(&server, "shop"), async {
        receiver.call().await.acknowledge();
    });
    check(&attempt, "acknowledged", "2");
    assert_eq!(attempt["connection"], "new", "{attempt}");
    assert_eq!(receiver.opened(), 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_answers_one_after_the_other_use_up_no_window() {
    // Together they are longer than what all bodies of a connection may be before the caller takes them.
    const ANSWERS: usize = 180;
    let mut receiver = Http2Receiver::start(None).await;
    let server = start().await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    for number in 0..ANSWERS {
        let (attempt, ()) = tokio::join!(tested(&server, "shop"), async {
            receiver.call().await.answer(200, vec![b'x'; 60_000]);
        });
        assert_eq!(attempt["outcome"], "wrong_answer", "{number}: {attempt}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_may_widen_its_window_after_each_part_of_a_long_body() {
    const LONGEST: usize = 8 * 1024 * 1024;
    let server = Server::start_as(Stores::Embedded, |config| {
        config.api.largest_body_bytes = LONGEST;
    })
    .await;
    let widening = FrameScript {
        first: settings(),
        answers_pings: true,
        answers_whole_calls: true,
        widens: true,
        ..FrameScript::default()
    };
    let receiver = FrameReceiver::start(vec![widening]).await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    let long =
        json!({ "topic": "t", "id": "long", "endpoint": "shop", "body": "x".repeat(LONGEST) });
    server.register(long).await;
    let view = server.until_attempts("long", 1).await;
    check(&view["attempts"][0], "acknowledged", "2");
    server.stop().await;
}
