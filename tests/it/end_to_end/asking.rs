//! What comes back from a lease that nobody settled: the journal is asked before it is sent, and sent is
//! only what is pending still.

use crate::support::held::{held, until_leases_are_back};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::redis::connect;
use crate::support::ringback::{BEGIN_MS, Server, Stores, registration, with_ladder};
use crate::support::{short_pause, within};
use redis::Cmd;
use redis::aio::MultiplexedConnection;
use reqwest::Method;
use ringback::config::JournalConfig;
use ringback::domain::key::Key;
use ringback::domain::lane::{KeyInLane, Lane};
use ringback::redis_tls::RedisTls;
use ringback::schedule::ScheduleLeases as _;
use ringback::schedule::recoverable::Recoverable;
use ringback::schedule::redis::{ClaimTimes, Options, RedisSchedule, Time};
use ringback::schedule::window::Window;
use ringback::schedule::{CHANGE_LEASE_MS, LeaseRequest, LeasedOne, Limits, SettingsSource};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Executor as _};
use std::sync::Arc;

const DUE_MS: i64 = 3_600_000;
/// The notification is called off while nobody looks.
const CALL_OFF: &str = "UPDATE notifications SET state = 'cancelled', ended_ms = 1";
/// Likewise, right after its fence was raised and told.
const CALL_OFF_ONCE_FENCED: &str = "CREATE TRIGGER call_off AFTER UPDATE OF fence ON notifications
    WHEN NEW.fence > OLD.fence
    BEGIN UPDATE notifications SET state = 'cancelled', ended_ms = 1; END";

/// A server, and one notification on which another server that is gone has a lease.
struct Scene {
    server: Server,
    merchant: Merchant,
    redis: MultiplexedConnection,
}

impl Scene {
    async fn new() -> Self {
        let merchant = Merchant::start().await;
        let server = Server::start_by_hand(Stores::Redis).await;
        let mut asked = registration("a", &merchant);
        asked["delay"] = format!("{DUE_MS}ms").into();
        server.register(asked).await;
        let url = server.config().schedule.redis.clone().expect("on Redis");
        let mut redis = connect(url.expose()).await;
        let epoch: String = (Cmd::get("{rb:0}:epoch").query_async(&mut redis).await).expect("set");
        let owner = epoch.strip_suffix("/1").expect("one partition").to_string();
        let options = Options {
            url: url.expose().to_string(),
            partitions: 1,
            limits: Limits {
                lane_start: 16,
                lane_cap: 16,
                lease_ms: 15_000,
                remember_ms: None,
                settings_source: SettingsSource::Schedule,
                window: Window::WHOLE,
                early_ms: 0,
            },
            time: Time::Clock,
            owner,
            signing: None,
            replicas: 0,
            tls: RedisTls::default(),
            claim_times: ClaimTimes::default(),
        };
        let gone = RedisSchedule::open(&options, Arc::new(server.clock().clone()));
        let gone = gone.expect("a URL");
        gone.inspect(false).await.expect("looked");
        let request = LeaseRequest::new(KeyInLane {
            key: Key::new("t", "a").expect("a key"),
            lane: Lane::from_name("here"),
        });
        let leased = gone.lease_one(&request).await.expect("answered");
        assert!(matches!(leased, LeasedOne::Leased(_)), "{leased:?}");
        Self {
            server,
            merchant,
            redis,
        }
    }

    async fn sql(&self, statement: &'static str) {
        sql(&self.server, statement).await;
    }

    /// The lease expires, and the attempt is due. Awaits that the schedule holds nothing any more, and
    /// that nothing was sent; gives how many attempts the journal has.
    async fn until_it_is_gone(mut self) -> usize {
        self.server.clock().turn_to(BEGIN_MS + CHANGE_LEASE_MS);
        self.server.clock().turn_to(BEGIN_MS + DUE_MS);
        until_nothing_is_scheduled(&mut self.redis).await;
        let view = self.server.get("a").await;
        assert_eq!(view["state"], "cancelled", "{view}");
        self.server.stop().await;
        assert!(self.merchant.arrived().is_none(), "it was sent");
        view["attempts"].as_array().expect("a list").len()
    }
}

async fn until_nothing_is_scheduled(redis: &mut MultiplexedConnection) {
    within("the schedule to let it go", async {
        loop {
            if held(redis).await == 0 {
                return;
            }
            short_pause().await;
        }
    })
    .await;
}

async fn sql(server: &Server, statement: &'static str) {
    let JournalConfig::Sqlite(path) = &server.config().journal else {
        panic!("it has a SQLite journal");
    };
    let options = SqliteConnectOptions::new().filename(path);
    let options = options.busy_timeout(std::time::Duration::from_secs(20));
    let mut journal: SqliteConnection = options.connect().await.expect("opened");
    journal.execute(statement).await.expect("executed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_called_off_meanwhile_is_not_sent() {
    let scene = Scene::new().await;
    scene.sql(CALL_OFF).await;
    assert_eq!(scene.until_it_is_gone().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_called_off_before_its_interruption_is_noted_is_not_sent() {
    let mut scene = Scene::new().await;
    // As if the lease had been one of an attempt.
    let holder = Cmd::hdel("{rb:0}:changing", "t/a");
    let gone: usize = holder.query_async(&mut scene.redis).await.expect("there");
    assert_eq!(gone, 1);
    scene.sql(CALL_OFF_ONCE_FENCED).await;
    assert_eq!(scene.until_it_is_gone().await, 1, "the interrupted one");
}

/// As if it had been set back to an older copy.
const FORGET: &str = "DELETE FROM notifications";

/// A server with one call in flight, which is acknowledged once the merchant is let go.
async fn in_flight() -> (Server, Merchant) {
    let held = Reaction::Held(Box::new(Reaction::success()));
    let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
    let server = Server::start_by_hand(Stores::Redis).await;
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    (server, merchant)
}

/// Awaits the delivery of one that the journal had forgotten: once, and noted.
async fn until_delivered_once(server: Server, mut merchant: Merchant) {
    assert_eq!(merchant.call().await.attempt(), 1);
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts"].as_array().map(Vec::len), Some(1), "{view}");
    server.stop().await;
    assert!(merchant.arrived().is_none(), "once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_journal_has_forgotten_is_written_down_and_sent() {
    let scene = Scene::new().await;
    scene.sql(FORGET).await;
    scene.server.clock().turn_to(BEGIN_MS + CHANGE_LEASE_MS);
    scene.server.clock().turn_to(BEGIN_MS + DUE_MS);
    until_delivered_once(scene.server, scene.merchant).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_journal_forgets_before_the_outcome_is_written_down_with_it() {
    let (server, mut merchant) = in_flight().await;
    sql(&server, FORGET).await;
    merchant.release();
    let path = "/v1/notifications/t/a";
    within("it to be known again", async {
        while server.call(Method::GET, path, None).await.0 == 404 {
            short_pause().await;
        }
    })
    .await;
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts"].as_array().map(Vec::len), Some(1), "{view}");
    server.stop().await;
    assert!(merchant.arrived().is_none(), "once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_journal_forgets_with_its_first_attempt_is_written_down_and_retried() {
    let mut merchant = Merchant::scripted(vec![Reaction::fail()], Reaction::success()).await;
    let server = Server::start_by_hand(Stores::Redis).await;
    server.register(with_ladder("a", &merchant, &["4m"])).await;
    assert_eq!(merchant.call().await.attempt(), 1);
    server.until_attempts("a", 1).await;
    let url = server.config().schedule.redis.clone().expect("on Redis");
    let mut redis = connect(url.expose()).await;
    until_leases_are_back(&mut redis).await;
    sql(&server, FORGET).await;
    // Its content may be left to the journal meanwhile, which says that it has none.
    for minute in 1..4 {
        server.clock().turn_to(BEGIN_MS + minute * 60_000);
    }
    server.clock().turn_to(BEGIN_MS + 240_000);
    assert_eq!(merchant.call().await.attempt(), 2);
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts_made"], 2, "{view}");
    server.stop().await;
    assert!(merchant.arrived().is_none(), "once");
}

/// It does not take a notification that it has forgotten.
const REFUSE: &str = "CREATE TRIGGER refuse BEFORE INSERT ON notifications
    BEGIN SELECT RAISE(ABORT, 'damage'); END";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_journal_has_forgotten_and_refuses_is_sent_once_it_takes_it() {
    let Scene {
        server,
        mut merchant,
        mut redis,
    } = Scene::new().await;
    sql(&server, FORGET).await;
    sql(&server, REFUSE).await;
    server.clock().turn_to(BEGIN_MS + CHANGE_LEASE_MS);
    server.clock().turn_to(BEGIN_MS + DUE_MS);
    // It is claimed, and put off because the journal refuses it. The time of the next try counts from then.
    until_leases_are_back(&mut redis).await;
    let server = server.restart().await;
    assert!(merchant.arrived().is_none(), "nobody could record it");
    sql(&server, "DROP TRIGGER refuse").await;
    server.clock().turn_to(BEGIN_MS + 2 * DUE_MS);
    assert_eq!(merchant.call().await.attempt(), 1);
    server.until_state("a", "delivered").await;
    server.stop().await;
    assert!(merchant.arrived().is_none(), "once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_journal_forgets_and_refuses_after_the_call_is_not_sent_again() {
    let (server, mut merchant) = in_flight().await;
    sql(&server, FORGET).await;
    sql(&server, REFUSE).await;
    merchant.release();
    let url = server.config().schedule.redis.clone().expect("on Redis");
    let mut redis = connect(url.expose()).await;
    until_nothing_is_scheduled(&mut redis).await;
    server.stop().await;
    assert!(merchant.arrived().is_none(), "once");
}
