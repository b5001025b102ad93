//! Merchants whose answers do not end: each has its own outcome, and nobody else waits.

use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Server, Stores, registration};
use serde_json::{Value, json};

const OK: &str = "HTTP/1.1 200 OK\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

fn flood(first: &str, again: &str) -> Reaction {
    Reaction::Flood(first.into(), again.into())
}

fn hints() -> String {
    let links = "Link: </style.css>; rel=preload; as=style\r\n".repeat(80);
    format!("HTTP/1.1 103 Early Hints\r\n{links}\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_part_of_an_answer_is_bounded() {
    const HEAD: &str = "longer than 64 KiB or has more than 100 headers";
    const BYTES: &str = "the receiver sent too many bytes";
    let many = "X: y\r\n".repeat(101);
    let many = format!("{OK}{many}Content-Length: 7\r\n\r\nsuccess");
    let cases: Vec<(&str, Reaction, &str, Value, &str)> = vec![
        (
            "continue",
            flood("", CONTINUE),
            "protocol",
            Value::Null,
            BYTES,
        ),
        ("hints", flood("", &hints()), "protocol", Value::Null, BYTES),
        (
            "headers",
            flood(OK, "X: y\r\n"),
            "protocol",
            Value::Null,
            HEAD,
        ),
        ("header", flood(OK, "x"), "protocol", Value::Null, HEAD),
        (
            "value",
            flood(&format!("{OK}X: "), "x"),
            "protocol",
            Value::Null,
            HEAD,
        ),
        (
            "phrase",
            flood("HTTP/1.1 200 ", "x"),
            "protocol",
            Value::Null,
            HEAD,
        ),
        (
            "101-headers",
            Reaction::Raw(many.into()),
            "protocol",
            Value::Null,
            HEAD,
        ),
        (
            "chunks",
            flood(CHUNKED, "1\r\nx\r\n"),
            "wrong_answer",
            json!(200),
            "more than 65536 bytes",
        ),
        (
            "extension",
            flood(&format!("{CHUNKED}1;"), "x"),
            "protocol",
            json!(200),
            "not HTTP",
        ),
        ("size", flood(CHUNKED, "0"), "protocol", json!(200), BYTES),
        (
            "trailers",
            flood(&format!("{CHUNKED}0\r\n"), "X: y\r\n"),
            "protocol",
            json!(200),
            "not HTTP",
        ),
        (
            "body",
            flood(&format!("{OK}\r\n"), "x"),
            "wrong_answer",
            json!(200),
            "more than 65536 bytes",
        ),
    ];
    let server = Server::start(Stores::Embedded).await;
    for (id, reaction, outcome, status, reason) in cases {
        let merchant = Merchant::scripted(vec![], reaction).await;
        let mut registration = registration(id, &merchant);
        registration["ladder"] = json!({ "intervals": [] });
        server.register(registration).await;
        let view = server.until_state(id, "dead").await;
        let attempt = &view["attempts"][0];
        assert_eq!(attempt["outcome"], outcome, "{id}: {attempt}");
        assert_eq!(attempt["status"], status, "{id}: {attempt}");
        let shown = attempt["reason"].as_str().expect("a reason");
        assert!(shown.contains(reason), "{id}: {shown}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interim_answer_is_skipped() {
    let answer = format!("{CONTINUE}{}{OK}Content-Length: 7\r\n\r\nsuccess", hints());
    let merchant = Merchant::scripted(vec![], Reaction::Raw(answer.into())).await;
    let server = Server::start(Stores::Embedded).await;
    server.register(registration("1", &merchant)).await;
    server.until_state("1", "delivered").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_hold_nobody_else_up() {
    const FLOODS: usize = 16;
    let healthy = Merchant::start().await;
    let server = Server::start(Stores::Embedded).await;
    let mut floods = Vec::new();
    for number in 0..FLOODS {
        // Each is a lane of its own, so all flood at the same time.
        let flooding = Merchant::scripted(vec![], flood("", CONTINUE)).await;
        let mut flooded = registration(&format!("flood-{number}"), &flooding);
        floods.push(flooding);
        flooded["ladder"] = json!({ "intervals": [] });
        server.register(flooded).await;
        let id = format!("well-{number}");
        server.register(registration(&id, &healthy)).await;
    }
    for number in 0..FLOODS {
        let view = server
            .until_state(&format!("well-{number}"), "delivered")
            .await;
        assert_eq!(view["attempts_made"], 1, "{view}");
        // None ran into the time limit.
        let view = server.until_state(&format!("flood-{number}"), "dead").await;
        assert_eq!(view["attempts"][0]["outcome"], "protocol", "{view}");
    }
    server.stop().await;
}
