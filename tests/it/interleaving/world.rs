//! The stores that two servers share, and the servers.

use super::gate::Gate;
use super::merchant::Merchant;
use super::operations::{Numbered, Registered};
use super::stores::{GatedJournal, GatedSchedule};
use crate::support::postgres;
use crate::support::redis::{RedisServer, connect, fresh_database};
use crate::support::ringback::no_endpoints;
use bytes::Bytes;
use ringback::clock::{Clock as _, ManualClock};
use ringback::delivery::address_filter::AddressFilter;
use ringback::delivery::dispatcher::Dispatcher;
use ringback::delivery::http_client::{HttpClient, HttpClientSettings};
use ringback::delivery::worker::Worker;
use ringback::domain::ack::AckRule;
use ringback::domain::destination::Destination;
use ringback::domain::headers::Headers;
use ringback::domain::key::Key;
use ringback::domain::ladder::Ladder;
use ringback::domain::later::FAR_MS;
use ringback::domain::notification::{Registration, Start, Target};
use ringback::domain::order::OrderPlace;
use ringback::domain::priority::Priority;
use ringback::health::Health;
use ringback::journal::Journal;
use ringback::journal::postgres::PostgresJournal;
use ringback::journal::recorder::Recorder;
use ringback::journal::sqlite::SqliteJournal;
use ringback::maintenance::difference::find_recorded;
use ringback::maintenance::error::MaintenanceError;
use ringback::maintenance::recovery::resync::Resync;
use ringback::maintenance::repair::{RepairNotes, repair};
use ringback::maintenance::window::WindowLoader;
use ringback::redis_tls::RedisTls;
use ringback::schedule::memory::MemorySchedule;
use ringback::schedule::recoverable::Inspection;
use ringback::schedule::redis::{ClaimTimes, Options, RedisSchedule, Time};
use ringback::schedule::window::Window;
use ringback::schedule::{ClaimQuota, Limits, Schedule, ScheduleError, SettingsSource};
use ringback::service::Service;
use ringback::telemetry::metrics::Metrics;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Mutex;

/// How long the lease of an attempt lasts here.
pub const LEASE_MS: i64 = 15_000;
const LIMITS: Limits = Limits {
    lane_start: 64,
    lane_cap: 64,
    lease_ms: LEASE_MS,
    remember_ms: None,
    settings_source: SettingsSource::Schedule,
    window: Window::WHOLE,
    early_ms: 0,
};
/// A short window: what is due in more than 20 s waits in the journal alone, and is loaded 10 s before it is due.
pub const SHORT_WINDOW: Window = Window::of(Duration::from_secs(20));
/// A long window: nothing waits in the journal alone. What waits for a later attempt is bare in Redis, and so is what was
/// registered for later, once its content was left to the journal.
pub const LONG_WINDOW: Window = Window::of(Duration::from_secs(3_600)).keeping_content(0);
/// After how long something may be loaded that was registered to be due in half a minute, in milliseconds.
pub const LOADABLE_MS: i64 = 21_000;
/// How long a call may last.
pub const LONGEST_CALL: Duration = Duration::from_secs(10);
/// Longest wait for Redis to keep what it holds.
const LONGEST_SAVE: Duration = Duration::from_secs(20);
const BEGIN_MS: i64 = 1_795_163_400_000;

/// Which stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    MemoryAndSqlite,
    RedisAndSqlite,
    RedisAndPostgres,
}

/// What both servers work with.
pub struct World {
    pub clock: ManualClock,
    pub merchant: Merchant,
    /// One of each for either server, and one for whoever looks afterwards.
    pub schedules: Vec<Arc<dyn Schedule>>,
    pub journals: Vec<Arc<dyn Journal>>,
    clients: Vec<Arc<HttpClient>>,
    window: Window,
    /// The Redis of its own, where it may be set back.
    redis: Option<Mutex<RedisServer>>,
    _dir: TempDir,
}

/// Whose Redis a world has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redis {
    /// A database of the one that all tests share.
    Shared,
    /// One of its own, which may be set back.
    Own,
}

/// One server over stores that may be held.
#[derive(Clone)]
pub struct Server {
    pub service: Arc<Service>,
    pub worker: Arc<Worker>,
    pub schedule: Arc<dyn Schedule>,
    pub journal: Arc<dyn Journal>,
}

/// How many attempts a series has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Most {
    One,
    Three,
}

/// The place of the one who looks afterwards.
pub const JUDGE: usize = 2;

impl World {
    pub async fn of(kind: Kind, whose: Redis, window: Window) -> Self {
        crate::support::install_tls();
        let limits = Limits { window, ..LIMITS };
        let dir = fast_directory();
        let clock = ManualClock::at(BEGIN_MS);
        let mut journals: Vec<Arc<dyn Journal>> = Vec::new();
        match kind {
            Kind::MemoryAndSqlite | Kind::RedisAndSqlite => {
                let journal = SqliteJournal::open(&dir.path().join("journal.db"), "both").await;
                let journal: Arc<dyn Journal> = Arc::new(journal.expect("it opens"));
                journals.extend([journal.clone(), journal.clone(), journal]);
            }
            Kind::RedisAndPostgres => {
                let url = postgres::fresh_database();
                for name in ["one", "other", "judge"] {
                    let journal = PostgresJournal::open(&url, name, true).await;
                    journals.push(Arc::new(journal.expect("it opens")));
                }
            }
        }
        let mut schedules: Vec<Arc<dyn Schedule>> = Vec::new();
        let mut redis = None;
        match kind {
            Kind::MemoryAndSqlite => {
                let schedule: Arc<dyn Schedule> =
                    Arc::new(MemorySchedule::new(Arc::new(clock.clone()), limits));
                schedules.extend([schedule.clone(), schedule.clone(), schedule]);
            }
            Kind::RedisAndSqlite | Kind::RedisAndPostgres => {
                let url = match whose {
                    Redis::Shared => fresh_database(),
                    Redis::Own => redis.insert(RedisServer::start(&[])).url(0),
                };
                for _ in 0..3 {
                    let owner = journals[0].id().to_string();
                    schedules.push(schedule_on(&url, owner, limits, &clock).await);
                }
            }
        }
        Self {
            merchant: Merchant::start(clock.clone()).await,
            clock,
            schedules,
            journals,
            clients: (0..3).map(client).collect(),
            window,
            redis: redis.map(Mutex::new),
            _dir: dir,
        }
    }

    /// A server whose calls are held, if there is a gate.
    pub fn server(&self, number: usize, gate: Option<&Gate>) -> Server {
        let mut schedule = self.schedules[number].clone();
        let mut journal = self.journals[number].clone();
        if let Some(gate) = gate {
            self.merchant.account.hold(number, gate.clone());
            schedule = Arc::new(GatedSchedule {
                gate: gate.clone(),
                inner: schedule,
            });
            journal = Arc::new(GatedJournal {
                gate: gate.clone(),
                inner: journal,
            });
        }
        let recorder = Arc::new(Recorder::start(journal.clone()));
        let dispatcher = Dispatcher::new(
            self.clients[number].clone(),
            schedule.clone(),
            Some(recorder.clone()),
            Arc::new(self.clock.clone()),
            64,
            Health::new(true),
            Metrics::new(),
        )
        .with_endpoints(no_endpoints());
        Server {
            service: Arc::new(Service::new(Some(recorder), schedule.clone())),
            worker: dispatcher.worker(),
            schedule,
            journal,
        }
    }

    /// After how long something is due that is registered for later, in milliseconds: in the long window, so late that it is
    /// verified before it is sent.
    pub fn later_ms(&self) -> i64 {
        match self.window == LONG_WINDOW {
            true => FAR_MS + 1_000,
            false => 30_000,
        }
    }

    /// A registration of something. If it has a place in an order, the order key is its id up to the hyphen.
    pub fn registration(&self, id: &str, registered: Registered, delay_ms: i64) -> Registration {
        let Registered { good, most, order } = registered;
        let order = order.map(|Numbered { number, mode }| {
            let (order_key, _) = id.split_once('-').expect("two parts");
            OrderPlace::new(order_key, number, mode).expect("a place")
        });
        let ladder = match most {
            Most::One => r#"{"intervals":[],"window":"1h"}"#,
            // Its second attempt is due after the horizon.
            Most::Three if self.window == SHORT_WINDOW => {
                r#"{"intervals":["30s","1s"],"window":"1h"}"#
            }
            Most::Three => r#"{"intervals":["1s","1s"],"window":"1h"}"#,
        };
        let url = format!("{}/{good}/{id}", self.merchant.origin);
        Registration {
            key: key(id),
            target: Target::Url(Destination::parse(&url).expect("a URL")),
            body: Bytes::from(format!("id={id}")),
            content_type: "text/plain".to_string(),
            headers: Headers::default(),
            start: Start::After(delay_ms),
            ladder: Some(Ladder::from_text(ladder).expect("a ladder")),
            ack: Some(AckRule::standard()),
            priority: Priority::Normal,
            order,
        }
    }

    /// Has Redis keep what it holds, to be set back to.
    pub async fn keep_redis(&self) {
        let server = self.own_redis().lock().await;
        let client = redis::Client::open(server.url(0)).expect("a URL");
        // Writing to a busy disk takes its time.
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(LONGEST_SAVE));
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connecting.await.expect("connected");
        let saved = redis::cmd("SAVE").query_async::<()>(&mut connection).await;
        saved.expect("saved");
    }

    /// Kills Redis, and starts it again with what it kept.
    pub async fn set_redis_back(&self) {
        let mut server = self.own_redis().lock().await;
        server.kill();
        server.start_again().await;
    }

    /// When the lease ends that an attempt of it has in Redis, as it lies there.
    pub async fn lease_of_attempt(&self, id: &str) -> Option<String> {
        let url = self.own_redis().lock().await.url(0);
        let mut redis = connect(&url).await;
        let key = key(id);
        let mut read = redis::pipe();
        read.zscore("{rb:0}:leases", key.as_str());
        read.hexists("{rb:0}:changing", key.as_str());
        let (expiry, is_by_hand): (Option<String>, bool) =
            read.query_async(&mut redis).await.expect("answered");
        expiry.filter(|_| !is_by_hand)
    }

    /// How many calls there were of each attempt of which the journal does not have the outcome: an attempt may be made again
    /// after a call of it was noted as interrupted.
    pub async fn calls_without_outcome(&self, id: &str) -> HashMap<u32, usize> {
        let known = self.journals[JUDGE].find(&key(id)).await.expect("read");
        let known = known.map(|known| known.attempts).unwrap_or_default();
        let mut many: HashMap<u32, usize> = HashMap::new();
        for call in self.merchant.account.calls(id) {
            *many.entry(call.attempt).or_default() += 1;
        }
        for attempt in known {
            if let Some(many) = many.get_mut(&attempt.number) {
                *many = many.saturating_sub(1);
            }
        }
        many
    }

    /// Lets so much time pass that nothing may be in flight since Redis was set back in the run before.
    pub fn outlast_the_last_loss(&self) {
        if self.redis.is_some() {
            self.clock.advance(LEASE_MS + 1);
        }
    }

    fn own_redis(&self) -> &Mutex<RedisServer> {
        self.redis.as_ref().expect("a Redis of its own")
    }

    /// When it is, by the clock of the stores.
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }
}

/// A directory in memory, if there is one: these tests lose no files, and SQLite waits for a disk after every write.
fn fast_directory() -> TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.unwrap_or_else(|_| tempfile::tempdir().expect("a directory"))
}

/// The key of an id.
pub fn key(id: &str) -> Key {
    Key::new("t", id).expect("a key")
}

fn client(number: usize) -> Arc<HttpClient> {
    let client = HttpClient::new(HttpClientSettings {
        filter: AddressFilter {
            allowed: vec!["127.0.0.0/8".parse().expect("a network")],
            allow_http: true,
        },
        timeout: LONGEST_CALL,
        user_agent: format!("server-{number}"),
        proxy: None,
    });
    Arc::new(client)
}

async fn schedule_on(
    url: &str,
    owner: String,
    limits: Limits,
    clock: &ManualClock,
) -> Arc<dyn Schedule> {
    let options = Options {
        url: url.to_string(),
        partitions: 1,
        limits,
        time: Time::Clock,
        owner,
        signing: None,
        replicas: 0,
        tls: RedisTls::default(),
        claim_times: ClaimTimes::default(),
    };
    let schedule = RedisSchedule::open(&options, Arc::new(clock.clone())).expect("a URL");
    let schedule: Arc<dyn Schedule> = Arc::new(schedule);
    look(&schedule, None).await;
    schedule
}

/// Looks, and does what is to be done, as the keeper of a server would.
pub async fn look(schedule: &Arc<dyn Schedule>, journal: Option<&Arc<dyn Journal>>) {
    let Some(recoverable) = schedule.recoverable() else {
        return;
    };
    while let Inspection::ToLoad(_) = recoverable.inspect(false).await.expect("looked") {
        let mut resync = Resync::new(journal.cloned(), schedule.as_ref(), recoverable);
        while resync.step().await.expect("recovered") {}
        recoverable.finish_loading().await.expect("heard");
    }
}

impl Server {
    /// Claims and attempts what is due; says how many attempts were begun.
    pub async fn attempt(&self) -> Result<usize, ScheduleError> {
        let claimed = self.schedule.claim(ClaimQuota::of(8)).await?;
        let mut many = 0;
        for lease in claimed.into_leases() {
            many += 1;
            self.worker.run(lease).await;
        }
        Ok(many)
    }

    /// Brings what is due soon from the journal into the schedule.
    pub async fn load(&self) -> Result<(), MaintenanceError> {
        let now_ms = self.schedule.clock().now_ms();
        let mut loader = WindowLoader::new(self.journal.clone(), self.schedule.clone());
        loader.pass(now_ms).await.map(drop)
    }

    /// Compares one notification and brings it to where the journal stands.
    pub async fn reconcile(&self, key: &Key) {
        let (journal, schedule) = (self.journal.as_ref(), self.schedule.as_ref());
        if let Ok(found) = find_recorded(
            journal,
            schedule,
            std::slice::from_ref(key),
            &BTreeSet::new(),
        )
        .await
        {
            let _ = repair(journal, schedule, &found, RepairNotes::LeftOut).await;
        }
    }
}
