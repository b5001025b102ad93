//! Keys, slow clients, too many clients, clients that hang up.

use super::faulty::{Fault, Faulty};
use super::{Embedded, NOTIFICATIONS, Reply, order};
use bytes::Bytes;
use reqwest::Method;
use ringback::api::ApiSettings;
use ringback::domain::key::Key;
use ringback::schedule::ScheduleReads as _;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn every_route_of_v1_asks_for_the_key() {
    let embedded = Embedded::with_key().await;
    let asked = |method: &Method, path: &str, shown: Option<&str>| {
        let request = embedded.server.request(method.clone(), path);
        Reply::of(match shown {
            Some(shown) => request.header("authorization", shown),
            None => request,
        })
    };
    for (method, path) in [
        (Method::POST, "/v1/notifications"),
        (Method::GET, "/v1/notifications"),
        (Method::POST, "/v1/notifications/batch"),
        (Method::GET, "/v1/notifications/t/1"),
        (Method::GET, "/v1/notifications/t/1/payload"),
        (Method::DELETE, "/v1/notifications/t/1"),
        (Method::POST, "/v1/notifications/t/1/retry"),
        (Method::GET, "/v1/dead-letters"),
        (Method::POST, "/v1/dead-letters/t/1/replay"),
        (Method::DELETE, "/v1/dead-letters/t/1"),
    ] {
        for shown in [None, Some("Bearer s3cre"), Some("Basic s3cret")] {
            let reply = asked(&method, path, shown).await;
            reply.is_problem(401, "unauthorized");
            let challenge = reply.header("www-authenticate");
            assert!(challenge.is_some_and(|text| text.starts_with("Bearer")));
        }
        let reply = asked(&method, path, Some("Bearer s3cret")).await;
        assert_ne!(reply.status, 401, "{path}");
    }
    embedded.server.get("/healthz").await.is(200);
    embedded.server.get("/readyz").await.is(200);
    assert_eq!(embedded.server.get("/metrics").await.status, 200);
    embedded.server.get("/v1/x").await.is_problem(404, "route");
}

/// Sends the text, then nothing more, and reads until the server closes.
async fn send_and_wait(embedded: &Embedded, text: &str) -> String {
    let mut stream = TcpStream::connect(embedded.server.address)
        .await
        .expect("connects");
    stream.write_all(text.as_bytes()).await.expect("sends");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer");
    String::from_utf8(answer).expect("text")
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let embedded = Embedded::with(ApiSettings {
        body_time: Duration::from_millis(50),
        ..ApiSettings::default()
    })
    .await;
    let head = "POST /v1/notifications HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    for (length, begun) in [
        ("Content-Length: 10\r\n\r\n", ""),
        ("Content-Length: 10\r\n\r\n", "{\"a\""),
        ("Transfer-Encoding: chunked\r\n\r\n", "2\r\n{\"\r\n"),
    ] {
        let answer = send_and_wait(&embedded, &format!("{head}{length}{begun}")).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(answer.contains("application/problem+json"), "{answer}");
        assert!(answer.contains("urn:ringback:problem:timeout"), "{answer}");
    }
}

#[tokio::test]
async fn a_client_that_asks_before_sending_too_much_is_told_at_once() {
    let embedded = Embedded::start().await;
    let answer = send_and_wait(
        &embedded,
        "POST /v1/notifications HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Expect: 100-continue\r\nContent-Length: 2000000\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn a_body_in_pieces_is_put_together() {
    let embedded = Embedded::start().await;
    let text = order("1").to_string();
    let mut request = String::from(
        "POST /v1/notifications HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    for piece in text.as_bytes().chunks(7) {
        let piece = std::str::from_utf8(piece).expect("ASCII");
        request.push_str(&format!("{:x}\r\n{piece}\r\n", piece.len()));
    }
    request.push_str("0\r\n\r\n");
    let answer = send_and_wait(&embedded, &request).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let key = Key::new("payment.succeeded", "1").expect("a key");
    let found = embedded.schedule.find(&key).await.expect("works");
    assert_eq!(
        found.expect("registered").entry.notification.body,
        Bytes::from_static(b"out_trade_no=1").into()
    );
}

#[tokio::test]
async fn beyond_the_bound_requests_are_refused_and_health_still_answers() {
    let faulty = Faulty::new(Fault::held());
    let server = faulty
        .serve(ApiSettings {
            most_requests: 1,
            ..ApiSettings::default()
        })
        .await;
    let Fault::Held { entered, go, .. } = &faulty.fault else {
        panic!("held");
    };
    let first = server
        .request(Method::POST, NOTIFICATIONS)
        .header("content-type", "application/json")
        .body(order("1").to_string())
        .send();
    let first = tokio::spawn(first);
    entered.acquire().await.expect("open").forget();
    let reply = server.register(&order("2")).await;
    reply.is_problem(503, "busy");
    assert_eq!(reply.header("retry-after"), Some("1"));
    server.get("/healthz").await.is(200);
    // The store does not answer: whoever asks is told within two seconds.
    let reply = server.get("/readyz").await;
    reply.is_problem(503, "unavailable");
    assert_eq!(reply.body["stores"][0]["cause"], "no answer within 1s500ms");
    go.add_permits(100);
    let first = first.await.expect("no panic").expect("an answer");
    Reply::read(first).await.is(201);
    server.register(&order("2")).await.is(201);
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_stop_what_it_asked_for() {
    let faulty = Faulty::new(Fault::held());
    let server = faulty.serve(ApiSettings::default()).await;
    let Fault::Held { entered, go, left } = &faulty.fault else {
        panic!("held");
    };
    let body = order("1").to_string();
    let request = format!(
        "POST /v1/notifications HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(server.address).await.expect("connects");
    stream.write_all(request.as_bytes()).await.expect("sends");
    entered.acquire().await.expect("open").forget();
    stream.shutdown().await.expect("hangs up");
    // The server closes its side too, so it has noticed.
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("closed");
    assert!(answer.is_empty());
    go.add_permits(100);
    tokio::time::timeout(Duration::from_secs(10), left.acquire())
        .await
        .expect("executed all the same")
        .expect("open")
        .forget();
    let path = "/v1/notifications/payment.succeeded/1";
    assert_eq!(server.get(path).await.is(200)["state"], "scheduled");
}
