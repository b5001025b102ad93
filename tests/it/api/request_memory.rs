//! Many large requests at once: what they hold together is bounded, and nobody is starved.

use super::{Embedded, NOTIFICATIONS, Reply, order};
use ringback::api::ApiSettings;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Memory for one large request beside what each may take for itself.
const MEMORY_BYTES: usize = 256 * 1024;

/// Takes 134 KB of it.
fn large(id: &str) -> Value {
    let mut order = order(id);
    order["body"] = json!("x".repeat(200_000));
    order
}

async fn small_memory(longest_wait: Duration) -> Embedded {
    Embedded::with(ApiSettings {
        request_memory_bytes: MEMORY_BYTES,
        longest_wait,
        ..ApiSettings::default()
    })
    .await
}

/// A request that has been sent but for its last byte.
struct Unfinished {
    stream: TcpStream,
    last: u8,
}

impl Unfinished {
    async fn send(address: SocketAddr, path: &str, body: &str, sent: usize) -> Self {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(address).await.expect("connects");
        stream.write_all(head.as_bytes()).await.expect("sends");
        let body = body.as_bytes();
        stream.write_all(&body[..sent]).await.expect("sends");
        Self {
            stream,
            last: body[body.len() - 1],
        }
    }

    async fn finish(mut self) -> String {
        self.stream.write_all(&[self.last]).await.expect("sends");
        let mut answer = String::new();
        let read = self.stream.read_to_string(&mut answer).await;
        read.expect("an answer");
        answer
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_is_no_memory_large_requests_are_refused_and_small_ones_are_not() {
    let embedded = small_memory(Duration::from_millis(50)).await;
    let address = embedded.server.address;
    let mut held = Vec::new();
    let refused = 'refused: {
        // Two get memory, and a third goes on without.
        for number in 0..100 {
            let body = large(&format!("held-{number}")).to_string();
            let all_but_one = body.len() - 1;
            held.push(Unfinished::send(address, NOTIFICATIONS, &body, all_but_one).await);
            for attempt in 0..10 {
                let reply = embedded
                    .server
                    .register(&large(&format!("{number}-{attempt}")))
                    .await;
                if reply.status == 503 {
                    break 'refused reply;
                }
                reply.is(201);
            }
        }
        panic!("there was always memory");
    };
    refused.is_problem(503, "busy");
    assert_eq!(refused.header("retry-after"), Some("1"));
    for number in 0..10 {
        let reply = embedded
            .server
            .register(&order(&format!("small-{number}")))
            .await;
        reply.is(201);
    }
    let mut finished = 0;
    for unfinished in held {
        finished += usize::from(unfinished.finish().await.starts_with("HTTP/1.1 201 "));
    }
    assert!(finished > 0);
    embedded.server.register(&large("last")).await.is(201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_length_that_is_only_declared_takes_no_memory() {
    let embedded = small_memory(Duration::ZERO).await;
    let address = embedded.server.address;
    let body = large("claimed").to_string();
    let mut claimed = Vec::new();
    for sent in [0, 1, 60_000].repeat(20) {
        claimed.push(Unfinished::send(address, NOTIFICATIONS, &body, sent).await);
    }
    for number in 0..10 {
        let reply = embedded.server.register(&large(&format!("{number}"))).await;
        reply.is(201);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_fill_the_memory_together_are_all_executed() {
    const MANY: usize = 60;
    let embedded = small_memory(Duration::from_secs(60)).await;
    let address = embedded.server.address;
    let mut begun = Vec::new();
    for number in 0..MANY {
        let body = large(&format!("{number}")).to_string();
        begun.push((
            Unfinished::send(address, NOTIFICATIONS, &body, 100_000).await,
            body,
        ));
    }
    let mut ended = Vec::new();
    for (mut unfinished, body) in begun {
        ended.push(tokio::spawn(async move {
            let rest = &body.as_bytes()[100_000..body.len() - 1];
            unfinished.stream.write_all(rest).await.expect("sends");
            unfinished.finish().await
        }));
    }
    for ended in ended {
        let answer = ended.await.expect("no panic");
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_batches_keep_no_place_from_others() {
    let embedded = Embedded::with(ApiSettings {
        longest_wait: Duration::ZERO,
        ..ApiSettings::default()
    })
    .await;
    let path = "/v1/notifications/batch";
    let batch = json!({ "notifications": [order("1")] });
    let body = batch.to_string();
    let mut slow = Vec::new();
    for _ in 0..64 {
        slow.push(Unfinished::send(embedded.server.address, path, &body, 10).await);
        Reply::is(embedded.server.post_json(path, &batch).await, 200);
    }
}
