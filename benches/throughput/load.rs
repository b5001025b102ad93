//! The loads: registers notifications at the server, and waits until their calls have arrived at the receiver.

use crate::processor_time::TimeOfEach;
use crate::receiver::{Receiver, now_us};
use crate::report::Lateness;
use crate::server::Setup;
use ringback::domain::timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Length of a body, in bytes.
const BODY_BYTES: usize = 512;
/// Notifications in one batch request.
const BATCH: usize = 1_000;
/// Maximum time until the last call arrives. After that, the run fails.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// A body of 512 bytes that contains the due time of its notification.
pub fn body(due_ms: u64) -> String {
    let mut body = format!("due={due_ms}&pad=");
    body.extend(std::iter::repeat_n('x', BODY_BYTES - body.len()));
    body
}

/// What a drain, or registrations one by one, have shown.
#[derive(Debug, Clone, Copy)]
pub struct Drained {
    /// Notifications delivered per second.
    pub per_second: f64,
    /// The processor time of each, from the instant at which the measurement began until a moment after the last call.
    pub time_of_each: TimeOfEach,
}

/// How long after the last call the outcomes of all are recorded and settled.
const SETTLED: Duration = Duration::from_millis(300);

/// Registers `many` notifications that are due at the same instant, `least` after the registrations have begun, or later. The
/// rate counts from that instant on.
pub async fn drain(setup: &Setup, receiver: &Receiver, many: usize, least: Duration) -> Drained {
    // The time for registering is a guess. If it was too short, the load is repeated with twice the time.
    let mut lead = Duration::from_secs(5 + many as u64 / 10_000).max(least);
    loop {
        receiver.stats("reset").await;
        let due_ms = now_us() / 1_000 + u64::try_from(lead.as_millis()).expect("short");
        register(setup, receiver, (0..many).map(|_| due_ms)).await;
        if let Some(wait_ms) = due_ms.checked_sub(now_us() / 1_000) {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            let before = setup.processor_time();
            let last_us = arrived(receiver, many).await;
            tokio::time::sleep(SETTLED).await;
            return Drained {
                per_second: many as f64 / ((last_us - due_ms * 1_000) as f64 / 1e6),
                time_of_each: setup.processor_time().of_each(before, many),
            };
        }
        arrived(receiver, many).await;
        lead *= 2;
    }
}

/// Registers `many` notifications one by one, over `connections` connections at full speed. The rate is that of those that
/// are registered and delivered.
pub async fn single(
    setup: &Setup,
    receiver: &Receiver,
    many: usize,
    connections: usize,
) -> Drained {
    receiver.stats("reset").await;
    let before = setup.processor_time();
    let next = Arc::new(AtomicUsize::new(0));
    let started_us = now_us();
    let mut tasks = Vec::new();
    for connection in 0..connections {
        let (next, client) = (next.clone(), setup.client.clone());
        let urls = receiver.urls.clone();
        let url = format!(
            "{}/v1/notifications",
            setup.urls[connection % setup.urls.len()]
        );
        let run = setup.next_run();
        tasks.push(tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= many {
                    return;
                }
                let registration = registration(run, number, &urls, None);
                let answer = client
                    .post(&url)
                    .header("content-type", "application/json")
                    .body(registration.to_string())
                    .send()
                    .await
                    .expect("the server answers");
                assert_eq!(answer.status(), 201);
                answer.bytes().await.expect("a body");
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let last_us = arrived(receiver, many).await;
    tokio::time::sleep(SETTLED).await;
    Drained {
        per_second: many as f64 / ((last_us - started_us) as f64 / 1e6),
        time_of_each: setup.processor_time().of_each(before, many),
    }
}

/// Registers notifications whose due times are evenly spread, `per_second` in each second of `span`, which begins `least`
/// after the registrations have begun, or later. Returns how late they arrive.
pub async fn late(
    setup: &Setup,
    receiver: &Receiver,
    per_second: f64,
    span: Duration,
    least: Duration,
) -> Lateness {
    let many = (per_second * span.as_secs_f64()) as usize;
    receiver.stats("reset").await;
    let lead_ms = (5_000 + many as u64 / 5).max(least.as_millis() as u64);
    let first_ms = now_us() / 1_000 + lead_ms;
    let due = |number: usize| first_ms + (number as f64 / per_second * 1e3) as u64;
    register(setup, receiver, (0..many).map(due)).await;
    assert!(
        now_us() / 1_000 < first_ms,
        "registering took longer than {lead_ms} ms"
    );
    arrived(receiver, many).await;
    Lateness::of(receiver.stats("late").await.late_us)
}

/// Registers notifications to the receiver's lanes in turn.
pub async fn register(setup: &Setup, receiver: &Receiver, due_ms: impl Iterator<Item = u64>) {
    register_to(setup, &receiver.urls, due_ms).await;
}

/// Registers notifications to these URLs in turn.
pub async fn register_to(setup: &Setup, urls: &[String], due_ms: impl Iterator<Item = u64>) {
    let urls = urls.to_vec();
    let run = setup.next_run();
    let registration = move |number, due_ms| registration(run, number, &urls, Some(due_ms));
    register_each(setup, due_ms.collect(), registration).await;
}

/// Registers a notification for each of these due times, in batches, with four tasks. `registration` gets its number and
/// its due time.
pub async fn register_each(
    setup: &Setup,
    due_ms: Vec<u64>,
    registration: impl Fn(usize, u64) -> Value + Clone + Send + 'static,
) {
    let mut tasks = Vec::new();
    let chunks: Vec<(usize, Vec<u64>)> = due_ms
        .chunks(BATCH)
        .map(<[u64]>::to_vec)
        .enumerate()
        .collect();
    let chunks = Arc::new(std::sync::Mutex::new(chunks));
    for task in 0..4 {
        let (chunks, client) = (chunks.clone(), setup.client.clone());
        let registration = registration.clone();
        let url = format!(
            "{}/v1/notifications/batch",
            setup.urls[task % setup.urls.len()]
        );
        tasks.push(tokio::spawn(async move {
            loop {
                let Some((index, chunk)) = chunks.lock().expect("not poisoned").pop() else {
                    return;
                };
                let notifications: Vec<Value> = (chunk.iter().enumerate())
                    .map(|(offset, due_ms)| registration(index * BATCH + offset, *due_ms))
                    .collect();
                let answer = client
                    .post(&url)
                    .header("content-type", "application/json")
                    .body(json!({ "notifications": notifications }).to_string())
                    .send()
                    .await
                    .expect("the server answers");
                assert_eq!(answer.status(), 200);
                let results: Value = answer.json().await.expect("JSON");
                let results = results["results"].as_array().expect("results");
                assert!(
                    results.iter().all(|result| result["status"] == 201),
                    "{results:?}"
                );
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
}

fn registration(run: usize, number: usize, urls: &[String], due_ms: Option<u64>) -> Value {
    let mut registration = json!({
        "topic": "payment.succeeded",
        "id": format!("order-{run}-{number:08}"),
        "url": urls[number % urls.len()],
        "body": body(due_ms.unwrap_or(0)),
    });
    if let Some(due_ms) = due_ms {
        let due_ms = i64::try_from(due_ms).expect("in range");
        registration["deliver_at"] = timestamp::display_ms(due_ms).into();
    }
    registration
}

/// Waits until `many` calls have arrived. Returns when the last one arrived, in microseconds since 1970.
pub async fn arrived(receiver: &Receiver, many: usize) -> u64 {
    let started = Instant::now();
    loop {
        let stats = receiver.stats("").await;
        if stats.calls >= many as u64 {
            assert_eq!(stats.calls, many as u64, "a call was made twice");
            return stats.last_us;
        }
        assert!(
            started.elapsed() < LONGEST_WAIT,
            "only {} of {many} arrived",
            stats.calls
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
