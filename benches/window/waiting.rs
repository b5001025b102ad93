//! The bytes of an entry in Redis, as a registration writes it, and while it waits for its second attempt.
//!
//! The notifications are registered over the API, and all first attempts are made and fail: the receiver answers 500. The
//! second ones are due in [`LATER`], so nothing is due while Redis is looked at. At last Redis is emptied, and loaded
//! from the journal.

use crate::load::register_each;
use crate::receiver::{REFUSED, Receiver, now_us};
use crate::redis_state::RedisState;
use crate::server::{Setup, Stores};
use crate::start_up::until;
use crate::{Options, load};
use ringback::domain::timestamp;
use serde_json::json;
use std::time::{Duration, Instant};

/// When the second attempt is due: within half of the default horizon, in minutes.
const LATER: u64 = 25;
/// How many notifications are registered in a second at least.
const SLOWEST_REGISTERING: u64 = 6_000;
/// Maximum time of all first attempts.
const LONGEST_ATTEMPTS: Duration = Duration::from_secs(600);
/// Length of a body, in bytes.
const BODY_BYTES: u64 = 512;

/// Registers the notifications, has their first attempts fail, and prints what an entry takes each time.
pub async fn measure(options: &Options) {
    let destinations = usize::try_from(options.destinations).expect("fits");
    let receiver = Receiver::start(destinations).await;
    let setup = Setup::start(Stores::RedisPostgres).await;
    let redis = RedisState::of(&setup).await;
    let many = options.later as u64;
    let before = redis.memory().await;

    let begun = Instant::now();
    let due_ms = now_us() / 1_000 + 10_000 + 1_000 * many / SLOWEST_REGISTERING;
    let urls: Vec<String> = (receiver.urls.iter())
        .map(|url| url.replace("/notify", REFUSED))
        .collect();
    let registration = move |number: usize, due_ms: u64| {
        json!({
            "topic": "payment.succeeded",
            "id": format!("later-{number:010}"),
            "url": urls[number % urls.len()],
            "body": load::body(due_ms),
            "deliver_at": timestamp::display_ms(i64::try_from(due_ms).expect("in range")),
            "ladder": { "intervals": [format!("{LATER}m")], "window": "1h" },
        })
    };
    register_each(&setup, vec![due_ms; options.later], registration).await;
    let registered = many as f64 / begun.elapsed().as_secs_f64();
    let first = redis.memory().await;
    assert_eq!(redis.entries().await, many, "all are in Redis");
    println!(
        "waiting for the first attempt, as registered ({registered:.0}/s): {}",
        first.of_each(before, many, BODY_BYTES)
    );
    until(due_ms * 1_000).await;

    loop {
        let calls = receiver.stats("").await.calls;
        if calls >= many && redis.leases().await == 0 {
            break;
        }
        assert!(
            now_us() / 1_000 < due_ms + LONGEST_ATTEMPTS.as_millis() as u64,
            "only {calls} of {many} attempts were made"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let stats = receiver.stats("").await;
    let attempted = many as f64 / (stats.last_us.saturating_sub(due_ms * 1_000) as f64 / 1e6);
    // What was recorded last is settled a moment later.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let later = redis.memory().await;
    assert_eq!(redis.entries().await, many, "all are in Redis");
    println!(
        "waiting for a later attempt, after the first one ({attempted:.0}/s): {}",
        later.of_each(before, many, BODY_BYTES)
    );

    redis.flush().await;
    let flushed = Instant::now();
    let whole = redis.whole().await;
    let loaded = redis.memory().await;
    assert_eq!(redis.entries().await, many, "all are back");
    println!(
        "waiting for a later attempt, as loaded ({}): {}",
        whole.since(flushed, many),
        loaded.of_each(before, many, BODY_BYTES)
    );
    let calls = receiver.stats("").await.calls;
    assert_eq!(calls, many, "an attempt was made twice");
    setup.stop().await;
}
