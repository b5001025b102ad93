//! Measures a rebuild: how soon a server delivers again, and how soon Redis is complete, after Redis has lost
//! all its data.

use crate::Options;
use crate::load::{arrived, register};
use crate::receiver::{Receiver, now_us};
use crate::server::{COUNT_ENTRIES, Setup, Stores};
use std::time::{Duration, Instant};

/// Number of notifications that become due at the time when Redis is emptied.
const DUE: usize = 1_000;
const MINUTE_MS: u64 = 60_000;
/// Maximum time of a rebuild. After that, the run fails.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Empties Redis while a server has `pending` notifications, once in each round.
pub async fn measure(options: &Options, pending: usize) {
    for round in 1..=options.rounds {
        for stores in &options.stores {
            if matches!(stores, Stores::RedisOnly | Stores::Embedded) {
                // Without a journal nothing can be rebuilt. Without Redis nothing can be emptied.
                continue;
            }
            let receiver = Receiver::start(options.lanes).await;
            let setup = Setup::start(*stores).await;
            once(round, &setup, &receiver, *stores, pending).await;
            setup.stop().await;
        }
    }
}

async fn once(round: usize, setup: &Setup, receiver: &Receiver, stores: Stores, pending: usize) {
    // Later than the measurement lasts, and so early that all of them are in the window.
    let from_ms = now_us() / 1_000 + 10 * MINUTE_MS;
    let due_ms = |number: usize| from_ms + number as u64 * 10 * MINUTE_MS / pending as u64;
    let later = (0..pending - DUE).map(due_ms);
    register(setup, receiver, later).await;
    receiver.stats("reset").await;
    let due_ms = now_us() / 1_000 + 3_000;
    register(setup, receiver, (0..DUE).map(|_| due_ms)).await;

    let url = setup
        .redis_url
        .as_deref()
        .expect("these stores include Redis");
    let client = redis::Client::open(url).expect("a URL");
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let mut redis = client
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .expect("connected");
    // Redis is emptied right before the notifications are due, so that none of them is sent before that.
    let wait_us = (due_ms * 1_000).saturating_sub(now_us() + 20_000);
    assert!(wait_us > 0, "registering took too long");
    tokio::time::sleep(Duration::from_micros(wait_us)).await;
    let flush = redis::cmd("FLUSHALL").exec_async(&mut redis).await;
    flush.expect("flushed");
    let flushed_us = now_us().max(due_ms * 1_000);
    let started = Instant::now();
    let state = redis::Cmd::hget("{rb:0}:meta", "state");
    loop {
        let state: Option<String> = state.query_async(&mut redis).await.expect("answered");
        if state.as_deref() == Some("whole") {
            break;
        }
        assert!(
            started.elapsed() < LONGEST_WAIT,
            "Redis is not complete again"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let whole = started.elapsed();
    let last_us = arrived(receiver, DUE).await;
    let first_us = receiver.stats("").await.first_us;
    let held: usize = redis::cmd("EVAL")
        .arg(COUNT_ENTRIES)
        .arg(0)
        .query_async(&mut redis)
        .await
        .expect("answered");
    assert_eq!(
        held,
        pending - DUE,
        "all notifications that are not due yet are back"
    );
    let since = |us: u64| us.saturating_sub(flushed_us) as f64 / 1e6;
    println!(
        "round {round}: {stores}, {pending} pending: first of {DUE} due ones after {:.3} s, last \
         after {:.3} s; all back after {:.2} s ({:.0}/s)",
        since(first_us),
        since(last_us),
        whole.as_secs_f64(),
        pending as f64 / whole.as_secs_f64()
    );
}
