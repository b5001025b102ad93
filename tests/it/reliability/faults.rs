//! Cutting the lines between a server and its stores.
//!
//! Faults that come at random under load, with the same account as after kills; and each fault alone,
//! at the very place where it matters.

use super::account::Account;
use super::callers::Callers;
use super::receiver::Receiver;
use super::stage::{Stage, Stores};
use crate::support::chance::{Chance, fresh_seed};
use crate::support::merchant::Merchant;
use crate::support::proxy::{Cut, Line, Proxy};
use crate::support::redis::{RedisServer, connect};
use crate::support::ringback::{self, Server, registration};
use crate::support::within;
use ::ringback::config::RedisUrl;
use reqwest::Method;
use std::time::{Duration, Instant};

/// How many faults come under load, and how many notifications.
const FAULTS: u32 = 10;
const NOTIFICATIONS: u32 = 800;
/// How long a fault lasts, and how long all is well between two.
const LASTS_MS: std::ops::Range<u64> = 100..900;
const BETWEEN_MS: std::ops::Range<u64> = 50..500;

/// A fault of a line, at random; then it passes again.
async fn disturb(line: &Proxy, chance: &mut Chance) {
    let lasts = chance.millis(LASTS_MS);
    let delay = |chance: &mut Chance| chance.millis(1..60);
    let fault = match chance.below(6) {
        0 => Line::Refuses,
        1 => Line::Closes,
        2 => Line::Delays {
            there: delay(chance),
            back: delay(chance),
        },
        3 => Line::Swallows,
        cutting => {
            // Before the reply, or in the middle of it.
            let after = if cutting == 4 { 0 } else { 9 };
            line.cut(Cut::Any, after, 1 + usize::from(chance.percent(50)));
            Line::Passes
        }
    };
    line.set(fault);
    tokio::time::sleep(lasts).await;
    line.set(Line::Passes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_to_redis_that_fails_at_random_loses_nothing_and_doubles_nothing() {
    let seed = fresh_seed();
    println!("seed {seed}");
    let receiver = Receiver::start(seed).await;
    let mut stage = Stage::start_with_lines(Stores::RedisAndSqlite, &receiver).await;
    let callers = Callers::new(seed, NOTIFICATIONS, receiver.origins(), stage.urls());
    let load = tokio::spawn(callers.clone().run());
    let mut chance = Chance::of_one(seed, 1 << 40);
    let share = NOTIFICATIONS / (FAULTS + 1);
    for _ in 0..FAULTS {
        callers.allow(share / 2);
        tokio::time::sleep(chance.millis(BETWEEN_MS)).await;
        callers.allow(share - share / 2);
        disturb(stage.redis_line(), &mut chance).await;
    }
    callers.allow(NOTIFICATIONS - share * FAULTS);
    load.await.expect("no panic");
    let account = Account::settle(seed, &mut stage, &callers, &receiver).await;
    println!("{}", account.counts);
    account.check();
    assert_eq!(account.counts.duplicates, 0, "nobody was killed");
}

/// A server on SQLite, and on Redis behind a line.
struct Lined {
    _redis: RedisServer,
    url: String,
    line: Proxy,
    server: Server,
    merchant: Merchant,
}

impl Lined {
    async fn start() -> Self {
        let redis = RedisServer::start(&[]);
        let line = Proxy::start(redis.address());
        let server = Server::start_as(ringback::Stores::Redis, |config| {
            let url = format!("redis://{}/0", line.address());
            config.schedule.redis = Some(RedisUrl::parse(&url).expect("a URL"));
            // Short leases.
            config.delivery.timeout = Duration::from_millis(500);
        })
        .await;
        Self {
            url: redis.url(0),
            _redis: redis,
            line,
            server,
            merchant: Merchant::start().await,
        }
    }

    async fn register(&self, id: &str, delay: &str) -> u16 {
        let mut asked = registration(id, &self.merchant);
        asked["delay"] = delay.into();
        let call = self
            .server
            .call(Method::POST, "/v1/notifications", Some(asked));
        call.await.0
    }

    /// Exactly one call came, and none is to come: Redis has let go of everything.
    async fn delivered_once(mut self, id: &str) -> serde_json::Value {
        let view = self.server.until_state(id, "delivered").await;
        let mut redis = connect(&self.url).await;
        within("Redis to let go", async {
            let jobs = async |redis: &mut _| -> u64 {
                let jobs = redis::Cmd::hlen("{rb:0}:jobs");
                jobs.query_async(redis).await.expect("answered")
            };
            while jobs(&mut redis).await > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        self.server.stop().await;
        assert_eq!(self.merchant.call().await.attempt(), 1);
        assert!(self.merchant.arrived().is_none(), "called twice: {view}");
        view
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_whose_reply_was_cut_is_refused_or_kept_and_asking_again_doubles_nothing() {
    async fn check(after: usize, times: usize, expected: &[u16]) {
        let lined = Lined::start().await;
        // The body stands in the envelope, and in nothing else that is sent to Redis.
        lined.line.cut(Cut::To(b"id=a".to_vec()), after, times);
        let status = lined.register("a", "0s").await;
        lined.line.has_cut().await;
        assert!(expected.contains(&status), "{after} {times}: {status}");
        if status == 503 {
            assert_eq!(lined.register("a", "0s").await, 200);
        }
        lined.delivered_once("a").await;
    }
    check(0, 1, &[201, 503]).await;
    check(5, 1, &[201, 503]).await;
    check(0, 2, &[201, 503]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_reply_was_cut_is_given_again_at_once() {
    let lined = Lined::start().await;
    lined.line.cut(Cut::With(b"t/a".to_vec()), 0, 1);
    assert_eq!(lined.register("a", "100ms").await, 201);
    lined.line.has_cut().await;
    let view = lined.delivered_once("a").await;
    assert_eq!(view["attempts"][0]["outcome"], "acknowledged");
    assert_eq!(view["attempts_made"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_whose_reply_was_cut_is_not_delivered_twice() {
    for (after, times) in [(0, 1), (3, 1), (0, 2)] {
        let lined = Lined::start().await;
        lined.line.cut(Cut::To(b"forget".to_vec()), after, times);
        assert_eq!(lined.register("a", "0s").await, 201);
        lined.line.has_cut().await;
        let view = lined.delivered_once("a").await;
        assert_eq!(view["attempts_made"], 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_cut_in_the_middle_break_no_connection_for_good() {
    let lined = Lined::start().await;
    // Those to the first commands of new connections too.
    lined.line.cut(Cut::Any, 5, 20);
    assert!(matches!(lined.register("a", "0s").await, 201 | 503));
    within("the replies to be cut", async {
        while lined.line.cuts() {
            lined.register("a", "0s").await;
        }
    })
    .await;
    within("the registration to be accepted", async {
        while lined.register("a", "0s").await == 503 {}
    })
    .await;
    lined.delivered_once("a").await;
}

/// Has the line fail while something falls due, and says how long after its return that is
/// delivered.
async fn resumes_after(fault: Line) -> Duration {
    let mut lined = Lined::start().await;
    assert_eq!(lined.register("a", "300ms").await, 201);
    lined.line.set(fault);
    // It is due and cannot be had, and nothing can be registered.
    assert_eq!(lined.register("b", "0s").await, 503);
    assert!(lined.merchant.arrived().is_none());
    lined.line.set(Line::Passes);
    let back = Instant::now();
    lined.merchant.call().await;
    let took = back.elapsed();
    lined.server.until_state("a", "delivered").await;
    assert!(matches!(lined.register("b", "0s").await, 200 | 201));
    lined.server.until_state("b", "delivered").await;
    lined.server.stop().await;
    lined.merchant.call().await;
    assert!(lined.merchant.arrived().is_none());
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dispatcher_goes_on_by_itself_when_redis_is_back() {
    for fault in [Line::Refuses, Line::Closes, Line::Swallows] {
        let took = resumes_after(fault).await;
        println!("{fault:?}: delivered {took:.1?} after the line was back");
    }
}
