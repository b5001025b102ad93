//! Redis that has lost a key, whole or in part, with leases out and without, under two servers: nothing is
//! lost, nothing is sent twice, nothing stands still, and no stranger takes the schedule over.
//!
//! One exception: if both records of a lease are lost, maintenance may put the notification back while its
//! attempt is still in flight, and another server makes that attempt too. Nobody can tell then that it is in
//! flight. How often that happens here depends on when maintenance looks.
//!
//! A row of [`LOSSES`] is a test of its own, with leases out and without.

use crate::support::merchant::{Merchant, Reaction};
use crate::support::redis::connect;
use crate::support::ringback::{BEGIN_MS, Server, Stores, config, with_ladder};
use futures_util::stream::{self, StreamExt as _};
use redis::aio::MultiplexedConnection;
use ringback::app::App;
use ringback::clock::{Clock, ManualClock};
use ringback::config::{RedisUrl, ServeConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Leases that one lane may have out here.
const CAP: usize = 4;
/// Notifications that are due at once, and those that are due later.
const DUE: usize = 10;
const LATER: usize = 4;

/// Rows tried at the same time.
const AT_ONCE: usize = 4;
/// The longest that any row may take: the reconciler looks every few seconds.
const LONGEST: Duration = Duration::from_secs(50);

/// What is lost: a command, with `@lane` for the lane and `@key` for the key of a notification that is
/// leased if any is.
const LOSSES: &[&[&str]] = &[
    &["DEL", "{rb:0}:jobs"],
    &["HDEL", "{rb:0}:jobs", "@key"],
    &["HSET", "{rb:0}:jobs", "@key", "cut off"],
    &["DEL", "{rb:0}:lanes"],
    &["ZREM", "{rb:0}:lanes", "@lane"],
    &["DEL", "{rb:0}:lane:@lane"],
    &["SET", "{rb:0}:lane:@lane", "of another type"],
    &["ZPOPMIN", "{rb:0}:lane:@lane"],
    &["DEL", "{rb:0}:leases"],
    &["ZREM", "{rb:0}:leases", "@key"],
    &["DEL", "{rb:0}:leased:@lane"],
    &["ZREM", "{rb:0}:leased:@lane", "@key"],
    &["SET", "{rb:0}:leased:@lane", "of another type"],
    &["DEL", "{rb:0}:changing"],
    &["DEL", "{rb:0}:meta"],
    &["HDEL", "{rb:0}:meta", "owner"],
    &["HDEL", "{rb:0}:meta", "generation"],
    &["HDEL", "{rb:0}:meta", "state"],
    &["HDEL", "{rb:0}:meta", "run"],
    &["HDEL", "{rb:0}:meta", "signing"],
    &["HDEL", "{rb:0}:meta", "number"],
    &["DEL", "{rb:0}:epoch"],
    &["DEL", "{rb:0}:epoch", "{rb:0}:meta"],
    &["DEL", "{rb:0}:rebuild"],
    &["DEL", "{rb:0}:health"],
    &["SET", "{rb:0}:health", "of another type"],
    &["DEL", "{rb:0}:settings"],
    &["SET", "{rb:0}:settings", "of another type"],
    // Two at once, as with a policy that evicts many before anybody looks.
    &["DEL", "{rb:0}:jobs", "{rb:0}:leases"],
    &["DEL", "{rb:0}:jobs", "{rb:0}:lanes"],
    &["DEL", "{rb:0}:leases", "{rb:0}:leased:@lane"],
    &["DEL", "{rb:0}:lanes", "{rb:0}:leases"],
    &[
        "DEL",
        "{rb:0}:jobs",
        "{rb:0}:leases",
        "{rb:0}:leased:@lane",
        "{rb:0}:changing",
    ],
    &[
        "EVAL",
        "for _, key in ipairs(redis.call('KEYS', '{rb:0}:claim:*')) do redis.call('DEL', key) end",
        "0",
    ],
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_key_is_lost_without_leases_nothing_else_is() {
    all(Leases::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_key_is_lost_with_leases_out_nothing_else_is() {
    all(Leases::Out).await;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leases {
    None,
    Out,
}

/// Tries all losses, some at the same time, each on stores of its own: most of the time is spent waiting.
async fn all(leases: Leases) {
    let tries = LOSSES
        .iter()
        .map(|loss| async { tokio::spawn(lose(loss, leases)).await });
    let tried: Vec<_> = stream::iter(tries)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let wrong: Vec<String> = (tried.into_iter())
        .filter_map(|tried| tried.expect("no panic"))
        .collect();
    assert!(wrong.is_empty(), "{leases:?}:\n{}", wrong.join("\n"));
}

/// Two servers of one journal, a merchant, and what was lost in between. Says what is wrong.
async fn lose(loss: &[&str], leases: Leases) -> Option<String> {
    let held = |reaction| Reaction::Held(Box::new(reaction));
    let script = match leases {
        Leases::None => Vec::new(),
        Leases::Out => vec![
            held(Reaction::success()),
            held(Reaction::success()),
            held(Reaction::fail()),
            held(Reaction::fail()),
        ],
    };
    let mut merchant = Merchant::scripted(script, Reaction::success()).await;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut settings = config(dir.path(), Stores::Postgres);
    settings.schedule.lane_start = CAP;
    settings.schedule.lane_concurrency = CAP;
    // No call runs into its limit, however slow the machine is.
    settings.delivery.timeout = Duration::from_secs(60);
    let clock = ManualClock::at(BEGIN_MS);
    let first = Server::open(settings.clone(), Some(clock.clone()), None).await;

    let due_ms = match leases {
        Leases::None => 2_000,
        Leases::Out => 0,
    };
    for number in 0..DUE + LATER {
        let mut asked = with_ladder(&format!("n{number}"), &merchant, &["1s", "1s"]);
        let delay_ms = if number < DUE { due_ms } else { 5_000 };
        asked["delay"] = format!("{delay_ms}ms").into();
        first.register(asked).await;
    }
    let mut calls = Vec::new();
    if leases == Leases::Out {
        for _ in 0..CAP {
            calls.push(merchant.call().await);
        }
    }
    let leased = calls.first().map_or("n0".to_string(), |call| {
        String::from_utf8_lossy(&call.body).replace("id=", "")
    });
    let url = settings.schedule.redis.clone().expect("on Redis");
    let mut redis = connect(url.expose()).await;
    let lane = merchant.url("");
    let lane = lane.trim_end_matches('/');
    let words: Vec<String> = (loss.iter())
        .map(|word| {
            word.replace("@lane", lane)
                .replace("@key", &format!("t/{leased}"))
        })
        .collect();
    command(&mut redis, &words).await;

    let what = format!("{loss:?}");
    if let Some(taken) = stranger(&url, &clock).await {
        return Some(format!("{what}: {taken}"));
    }
    let mut beside = settings.clone();
    beside.data_dir = dir.path().join("beside");
    let second = Server::open(beside, Some(clock.clone()), None).await;
    for _ in 0..CAP {
        merchant.release();
    }

    // The clock goes on by more than a lease and more than a window of the reconciler.
    let ended = within_clock(&first, &clock, 90_000).await;
    let wrong = match ended {
        Err(pending) => Some(format!("{what}: still pending: {pending:?}")),
        Ok(()) => None,
    };
    let again = match leases {
        Leases::None => 0,
        Leases::Out => 2,
    };
    while let Some(call) = merchant.arrived() {
        calls.push(call);
    }
    let mut made: BTreeMap<(String, u32), usize> = BTreeMap::new();
    for call in &calls {
        let webhook = call.header("Webhook-Id").to_string();
        *made.entry((webhook, call.attempt())).or_default() += 1;
    }
    let doubled = made.values().filter(|many| **many > 1).count();
    // An attempt that is made twice is acknowledged the second time, so the next one may not be needed.
    let may_double = match leases {
        Leases::Out if loses_both_records(loss) => CAP,
        Leases::Out | Leases::None => 0,
    };
    let wrong = wrong.or_else(|| {
        let wanted = DUE + LATER + again;
        let right = doubled <= may_double
            && made.len() <= wanted
            && made.len() + doubled.min(again) >= wanted;
        (!right).then(|| {
            format!(
                "{what}: {} attempts of {wanted}, {doubled} twice",
                made.len()
            )
        })
    });
    let wrong = match (wrong, stranger(&url, &clock).await) {
        (Some(wrong), _) => Some(wrong),
        (None, taken) => taken.map(|taken| format!("{what}, afterwards: {taken}")),
    };
    first.stop().await;
    second.stop().await;
    if wrong.is_some() {
        return wrong;
    }
    let left: Vec<String> = keys(&mut redis).await;
    let left: Vec<_> = left.iter().filter(|key| !is_bookkeeping(key)).collect();
    (!left.is_empty()).then(|| format!("{what}: left over {left:?}"))
}

/// Whether this loss takes a lease out of `leases` and out of the lane's own list.
fn loses_both_records(loss: &[&str]) -> bool {
    ["{rb:0}:leases", "{rb:0}:leased:@lane"]
        .iter()
        .all(|key| loss.contains(key))
}

/// Whether a server of another journal is let in. Says so.
async fn stranger(redis: &RedisUrl, clock: &ManualClock) -> Option<String> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut foreign: ServeConfig = config(dir.path(), Stores::Redis);
    foreign.schedule.redis = Some(redis.clone());
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    match App::start_by(foreign, clock).await {
        Err(_) => None,
        Ok(app) => {
            app.stop().await;
            Some("a server of another journal was let in".to_string())
        }
    }
}

/// Turns the clock on, a little at a time, until everything is delivered. Gives what is not.
async fn within_clock(
    server: &Server,
    clock: &ManualClock,
    for_ms: i64,
) -> Result<(), Vec<String>> {
    let until_ms = clock.now_ms() + for_ms;
    let ids: Vec<String> = (0..DUE + LATER)
        .map(|number| format!("n{number}"))
        .collect();
    let begun = Instant::now();
    loop {
        let mut pending = Vec::new();
        for id in &ids {
            let view = server.until(id, |_| true).await;
            if view["state"] != "delivered" {
                pending.push(format!("{id} {} {}", view["state"], view["attempts_made"]));
            }
        }
        if pending.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > LONGEST {
            return Err(pending);
        }
        if clock.now_ms() < until_ms {
            clock.advance(500);
        }
    }
}

async fn command(redis: &mut MultiplexedConnection, words: &[String]) {
    let mut command = redis::cmd(&words[0]);
    command.arg(&words[1..]);
    let done = command.exec_async(redis).await;
    done.unwrap_or_else(|error| panic!("{words:?}: {error}"));
}

async fn keys(redis: &mut MultiplexedConnection) -> Vec<String> {
    let command = redis::cmd("KEYS").arg("{rb:0}:*").to_owned();
    command.query_async(redis).await.expect("answered")
}

/// What stays though nothing is pending.
fn is_bookkeeping(key: &str) -> bool {
    ["meta", "epoch", "rebuild", "health", "settings"]
        .iter()
        .any(|name| key == format!("{{rb:0}}:{name}"))
        || key.starts_with("{rb:0}:claim:")
}
