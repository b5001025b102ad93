//! Merchants that break the rules of HTTP, or take all the time in the world. Each has an outcome and a reason in
//! plain words. `floods` has those that send too much, `kept` those that close connections that are used again, and
//! `tls` those that fail before HTTP.

use super::on_stores;
use crate::support::merchant::{Merchant, Reaction, each_connection};
use crate::support::ringback::{SHORT, Server, Stores};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

on_stores!(
    answers_that_break_the_rules_are_described,
    an_answer_that_comes_one_byte_at_a_time_is_cut_off_by_the_limit,
);

const OK: &str = "HTTP/1.1 200 OK\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
/// A limit that no call runs into which is answered, however slow the machine is.
const GENEROUS: Duration = Duration::from_secs(60);

async fn server(stores: Stores, timeout: Duration) -> Server {
    Server::start_as(stores, |config| config.delivery.timeout = timeout).await
}

/// A notification with this body after its only attempt, as the API shows it.
async fn ended(server: &Server, id: &str, url: &str, body: &str) -> Value {
    let asked = json!({
        "topic": "t", "id": id, "url": url, "body": body, "ladder": { "intervals": [] },
    });
    server.register(asked).await;
    let has_ended = |view: &Value| matches!(view["state"].as_str(), Some("delivered" | "dead"));
    server.until(id, has_ended).await
}

/// Its attempt.
async fn attempt_at(server: &Server, id: &str, url: &str, body: &str) -> Value {
    ended(server, id, url, body).await["attempts"][0].clone()
}

/// The only attempt of a notification, after which it is dead. `None` where attempts are not kept.
async fn failed_at(
    stores: Stores,
    server: &Server,
    id: &str,
    merchant: &Merchant,
) -> Option<Value> {
    let view = ended(server, id, &merchant.url("/notify"), "x").await;
    assert_eq!(view["state"], "dead", "{id}: {view}");
    assert_eq!(view["attempts_made"], 1, "{id}: {view}");
    (stores != Stores::RedisOnly).then(|| view["attempts"][0].clone())
}

async fn answers_that_break_the_rules_are_described(stores: Stores) {
    let server = server(stores, GENEROUS).await;
    let raw = |text: String| Reaction::RawThenClose(text.into_bytes());
    const CLOSED: &str = "the connection was closed before the answer was complete";
    const RESET: &str = "the receiver reset the connection before the answer was complete";
    let cases: Vec<(&str, Reaction, &str, Value, &str)> = vec![
        (
            "chunk-size",
            raw(format!("{CHUNKED}zz\r\n")),
            "protocol",
            json!(200),
            "the body of the answer was not HTTP: Invalid chunk size line: missing size digit",
        ),
        (
            "chunk-negative",
            raw(format!("{CHUNKED}-7\r\nsuccess\r\n0\r\n\r\n")),
            "protocol",
            json!(200),
            "the body of the answer was not HTTP: Invalid chunk size line: missing size digit",
        ),
        (
            "chunk-huge",
            raw(format!("{CHUNKED}ffffffffffffffffff\r\n")),
            "protocol",
            json!(200),
            "the body of the answer was not HTTP: invalid chunk size: overflow",
        ),
        (
            "chunk-end",
            raw(format!("{CHUNKED}3\r\nsuccess\r\n0\r\n\r\n")),
            "protocol",
            json!(200),
            "the body of the answer was not HTTP: Invalid chunk body CR",
        ),
        (
            "chunk-cut",
            raw(format!("{CHUNKED}7\r\nsuccess\r\n")),
            "protocol",
            json!(200),
            CLOSED,
        ),
        (
            "chunk-reset",
            Reaction::RawThenReset(format!("{CHUNKED}7\r\nsuc").into()),
            "protocol",
            json!(200),
            RESET,
        ),
        (
            "half-reset",
            Reaction::RawThenReset(format!("{OK}Content-Length: 7\r\n\r\nsuc").into()),
            "protocol",
            json!(200),
            RESET,
        ),
        (
            "head-reset",
            Reaction::RawThenReset(OK.into()),
            "protocol",
            Value::Null,
            RESET,
        ),
        ("reset", Reaction::Reset, "protocol", Value::Null, RESET),
        ("close", Reaction::Close, "protocol", Value::Null, CLOSED),
        (
            "two-lengths",
            raw(format!(
                "{OK}Content-Length: 7\r\nContent-Length: 8\r\n\r\nsuccess"
            )),
            "protocol",
            Value::Null,
            "the answer was not HTTP: invalid content-length parsed",
        ),
        (
            "bad-length",
            raw(format!("{OK}Content-Length: -7\r\n\r\nsuccess")),
            "protocol",
            Value::Null,
            "the answer was not HTTP: invalid content-length parsed",
        ),
        (
            "bad-header",
            raw(format!("{OK}no colon\r\n\r\nsuccess")),
            "protocol",
            Value::Null,
            "the answer was not HTTP: invalid HTTP header parsed",
        ),
        (
            "no-head",
            raw("success".to_string()),
            "protocol",
            Value::Null,
            "the answer was not HTTP: invalid HTTP version parsed",
        ),
        (
            "garbage",
            raw("SSH-2.0-x\r\n".to_string()),
            "protocol",
            Value::Null,
            "the answer was not HTTP: invalid HTTP version parsed",
        ),
        (
            "http2",
            raw("HTTP/2 200\r\n\r\nsuccess".to_string()),
            "protocol",
            Value::Null,
            "the answer was not HTTP: invalid HTTP version parsed",
        ),
        (
            "bad-status",
            raw("HTTP/1.1 9 X\r\n\r\n".to_string()),
            "protocol",
            Value::Null,
            "the answer was not HTTP: invalid HTTP status-code parsed",
        ),
        (
            "switch",
            raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n".to_string()),
            "http_status",
            json!(101),
            "answered 101",
        ),
    ];
    for (id, reaction, outcome, status, reason) in cases {
        let merchant = Merchant::scripted(vec![], reaction).await;
        let Some(attempt) = failed_at(stores, &server, id, &merchant).await else {
            continue;
        };
        assert_eq!(attempt["outcome"], outcome, "{id}: {attempt}");
        assert_eq!(attempt["status"], status, "{id}: {attempt}");
        assert_eq!(attempt["reason"], reason, "{id}");
    }
    server.stop().await;
}

async fn an_answer_that_comes_one_byte_at_a_time_is_cut_off_by_the_limit(stores: Stores) {
    let server = server(stores, SHORT).await;
    let drip = |first: String, again: &str| Reaction::Drip(first.into(), again.into());
    let cases = [
        ("line", drip(String::new(), OK), "the answer was awaited"),
        (
            "headers",
            drip(OK.to_string(), "X: y\r\n"),
            "the answer was awaited",
        ),
        (
            "interim",
            drip(String::new(), "HTTP/1.1 100 Continue\r\n\r\n"),
            "the answer was awaited",
        ),
        (
            "body",
            drip(format!("{OK}\r\n"), "success"),
            "the body of the answer was read",
        ),
        (
            "chunks",
            drip(CHUNKED.to_string(), "1\r\ns\r\n"),
            "the body of the answer was read",
        ),
    ];
    // At the same time, since each takes as long as the limit.
    let calling = &server;
    let checks = cases.map(|(id, reaction, while_what)| async move {
        let merchant = Merchant::scripted(vec![], reaction).await;
        let Some(attempt) = failed_at(stores, calling, id, &merchant).await else {
            return;
        };
        assert_eq!(attempt["outcome"], "timeout", "{id}: {attempt}");
        let reason = format!("no complete answer within 2s; the time ran out while {while_what}");
        assert_eq!(attempt["reason"], reason, "{id}");
        // What has come is in the record.
        match while_what {
            "the answer was awaited" => assert_eq!(attempt["status"], Value::Null, "{id}"),
            _ => {
                assert_eq!(attempt["status"], 200, "{id}");
                let answer = attempt["answer"].as_str().expect("a part of the body");
                assert!(answer.starts_with('s'), "{id}: {answer}");
            }
        }
    });
    join_all(checks).await;
    server.stop().await;
}

/// Reads a request up to the end of its head.
async fn read_head(stream: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_before_the_body_was_read_counts() {
    let server = server(Stores::Embedded, GENEROUS).await;
    let body = "x".repeat(256 * 1024);
    for (id, answer, outcome, reason) in [
        (
            "refused",
            "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n",
            "http_status",
            json!("answered 413"),
        ),
        (
            "accepted",
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsuccess",
            "acknowledged",
            Value::Null,
        ),
    ] {
        let address = each_connection(move |mut stream| async move {
            read_head(&mut stream).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            // The body stays unread, and the connection open.
            std::future::pending::<()>().await;
        })
        .await;
        let attempt = attempt_at(&server, id, &format!("http://{address}/"), &body).await;
        assert_eq!(attempt["outcome"], outcome, "{id}: {attempt}");
        assert_eq!(attempt["reason"], reason, "{id}: {attempt}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_headers_are_not_too_many() {
    let many = "X: y\r\n".repeat(99);
    let answer = format!("{OK}{many}Content-Length: 7\r\n\r\nsuccess");
    let merchant = Merchant::scripted(vec![], Reaction::Raw(answer.into())).await;
    let server = server(Stores::Embedded, GENEROUS).await;
    let attempt = attempt_at(&server, "100", &merchant.url("/notify"), "x").await;
    assert_eq!(attempt["outcome"], "acknowledged", "{attempt}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_before_the_request_counts_or_is_described() {
    const EARLY: &str = "before the request was sent, the receiver closed the connection, or sent an answer although \
        it was asked nothing";
    let server = server(Stores::Embedded, GENEROUS).await;
    for round in 0..20 {
        let address = each_connection(move |mut stream| async move {
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsuccess";
            let _ = stream.write_all(answer.as_bytes()).await;
            std::future::pending::<()>().await;
        })
        .await;
        let url = format!("http://{address}/");
        let attempt = attempt_at(&server, &round.to_string(), &url, "x").await;
        // It depends on whether the answer or the request is first.
        match attempt["outcome"].as_str() {
            Some("acknowledged") => assert_eq!(attempt["reason"], Value::Null, "{attempt}"),
            Some("protocol") => assert_eq!(attempt["reason"], EARLY, "{attempt}"),
            _ => panic!("{attempt}"),
        }
    }
    server.stop().await;
}
