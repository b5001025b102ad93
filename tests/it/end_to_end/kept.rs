//! Connections that are kept for the next call, and merchants that close them.

use crate::support::merchant::{Call, Merchant, Reaction};
use crate::support::ringback::{Server, Stores, registration};
use serde_json::json;

/// Delivers one, and gives its call.
async fn deliver(server: &Server, merchant: &mut Merchant, id: &str) -> Call {
    server.register(registration(id, merchant)).await;
    let call = merchant.call().await;
    assert_eq!(call.attempt(), 1);
    let view = server.until_state(id, "delivered").await;
    assert_eq!(view["attempts"].as_array().map(Vec::len), Some(1), "{view}");
    call
}

/// Delivers until a connection is used again, which takes one that was seen to stay open for a
/// moment. Gives the number of that connection.
async fn until_used_again(server: &Server, merchant: &mut Merchant, name: &str) -> usize {
    let mut last = None;
    for number in 0.. {
        let call = deliver(server, merchant, &format!("{name}-{number}")).await;
        if last == Some(call.connection) {
            break;
        }
        last = Some(call.connection);
    }
    last.expect("it was used")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_used_again() {
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::Embedded).await;
    let connection = until_used_again(&server, &mut merchant, "first").await;
    for number in 0..5 {
        let call = deliver(&server, &mut merchant, &format!("n{number}")).await;
        assert_eq!(call.connection, connection);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_read_is_not_made_again() {
    for last in [Reaction::Close, Reaction::Reset] {
        let mut merchant = Merchant::start().await;
        let server = Server::start(Stores::Embedded).await;
        let connection = until_used_again(&server, &mut merchant, "first").await;
        merchant.now_does(Reaction::Held(Box::new(last)));
        let mut registration = registration("closed", &merchant);
        registration["ladder"] = json!({ "intervals": [] });
        server.register(registration).await;
        // It was read, and is not answered.
        assert_eq!(merchant.call().await.connection, connection);
        server.until_state("closed", "in_flight").await;
        merchant.now_does(Reaction::success());
        merchant.release();
        let view = server.until_state("closed", "dead").await;
        assert_eq!(view["attempts"].as_array().map(Vec::len), Some(1), "{view}");
        let attempt = &view["attempts"][0];
        assert_eq!(attempt["outcome"], "protocol", "{view}");
        let reason = attempt["reason"].as_str().expect("a reason");
        for told in ["was kept", "closed it", "may have read the request"] {
            assert!(reason.contains(told), "{reason}");
        }
        // From now on its calls get new connections.
        for number in 0..5 {
            let call = deliver(&server, &mut merchant, &format!("n{number}")).await;
            assert_eq!(call.connection, connection + 1 + number);
        }
        server.stop().await;
        assert!(merchant.arrived().is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_that_was_closed_costs_no_attempt() {
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::Embedded).await;
    for round in 0..5 {
        let name = format!("round-{round}");
        let connection = until_used_again(&server, &mut merchant, &name).await;
        merchant.hang_up().await;
        let call = deliver(&server, &mut merchant, &format!("after-{round}")).await;
        assert!(call.connection > connection);
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_end_is_announced_costs_no_other() {
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::Embedded).await;
    let connection = until_used_again(&server, &mut merchant, "first").await;
    let answer = "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 7\r\n\r\nsuccess";
    merchant.now_does(Reaction::RawThenClose(answer.into()));
    let call = deliver(&server, &mut merchant, "announced").await;
    assert_eq!(call.connection, connection);
    merchant.now_does(Reaction::success());
    let next = deliver(&server, &mut merchant, "next").await.connection;
    assert_ne!(next, connection);
    for number in 0..5 {
        let call = deliver(&server, &mut merchant, &format!("n{number}")).await;
        assert_eq!(call.connection, next);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merchant_that_closes_after_every_answer_is_called_once_for_each() {
    const MANY: usize = 200;
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsuccess".to_vec();
    let mut merchant = Merchant::scripted(vec![], Reaction::RawThenClose(answer)).await;
    let server = Server::start(Stores::Embedded).await;
    for number in 0..MANY {
        server
            .register(registration(&format!("n{number}"), &merchant))
            .await;
    }
    for number in 0..MANY {
        let view = server.until_attempts(&format!("n{number}"), 1).await;
        assert_eq!(view["state"], "delivered", "{view}");
    }
    server.stop().await;
    for _ in 0..MANY {
        merchant.call().await;
    }
    assert!(merchant.arrived().is_none());
}
