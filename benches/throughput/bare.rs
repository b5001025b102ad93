//! The comparison value: how many calls per second an HTTP client makes without the dispatcher. It signs and
//! posts the same bodies.

use crate::load::body;
use crate::receiver::{Receiver, now_us};
use ringback::domain::signature::SigningSecret;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Posts `many` bodies with `connections` tasks. Returns the calls per second.
pub async fn rate(receiver: &Receiver, many: usize, connections: usize) -> f64 {
    let client = reqwest::Client::builder()
        .no_proxy()
        .http1_only()
        .tcp_nodelay(true)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .expect("a client");
    let secret = SigningSecret::from_random(&[7; 32]);
    let next = Arc::new(AtomicUsize::new(0));
    receiver.stats("reset").await;
    let started = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..connections {
        let (client, secret, next) = (client.clone(), secret.clone(), next.clone());
        let urls = receiver.urls.clone();
        tasks.push(tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= many {
                    return;
                }
                let body = body(0);
                let id = format!("msg_{number:032}");
                let timestamp_s = i64::try_from(now_us() / 1_000_000).expect("in range");
                let signature = secret.sign(&id, timestamp_s, body.as_bytes());
                let answer = client
                    .post(&urls[number % urls.len()])
                    .header("content-type", "text/plain; charset=utf-8")
                    .header("webhook-id", id)
                    .header("webhook-timestamp", timestamp_s)
                    .header("webhook-signature", signature)
                    .body(body)
                    .send()
                    .await
                    .expect("the receiver answers");
                let bytes = answer.bytes().await.expect("a body");
                assert_eq!(bytes.as_ref(), b"success");
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    many as f64 / started.elapsed().as_secs_f64()
}
