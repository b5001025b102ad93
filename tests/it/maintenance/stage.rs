//! A journal and a schedule side by side, and what to do to one of them alone.

use crate::journal_contract::samples::{START_MS, keep, key, place, registering_at, registration};
use crate::support::postgres;
use crate::support::redis::{connect, fresh_database};
use ringback::clock::ManualClock;
use ringback::domain::destination::Destination;
use ringback::domain::key::Key;
use ringback::domain::notification::{Notification, Registration, Target};
use ringback::domain::progress::Progress;
use ringback::domain::state::State;
use ringback::journal::postgres::PostgresJournal;
use ringback::journal::sqlite::SqliteJournal;
use ringback::journal::{Journal, Transition};
use ringback::redis_tls::RedisTls;
use ringback::schedule::memory::MemorySchedule;
use ringback::schedule::recoverable::Recoverable;
use ringback::schedule::redis::{ClaimTimes, Options, RedisSchedule, Time};
use ringback::schedule::window::Window;
use ringback::schedule::{
    ClaimQuota, ClaimedLease, Entry, HeldProgress, Lease, LeaseRequest, LeasedOne, Limits,
    Registered, Reservation, Schedule, SettingsSource, Settled, Settlement,
};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub const LEASE_MS: i64 = 20_000;
const LIMITS: Limits = Limits {
    lane_start: 100,
    lane_cap: 100,
    lease_ms: LEASE_MS,
    remember_ms: None,
    settings_source: SettingsSource::Schedule,
    window: Window::WHOLE,
    early_ms: 0,
};

/// How far ahead the schedule of a stage with a window holds what is pending, in milliseconds.
pub const HORIZON_MS: i64 = 3_600_000;
/// The settings of such a stage.
const WINDOWED: Limits = Limits {
    window: Window::of(Duration::from_millis(HORIZON_MS.unsigned_abs())),
    ..LIMITS
};

/// What a schedule has of a notification.
#[derive(Debug, PartialEq, Eq)]
pub struct Held {
    /// Whether the journal is asked before it is sent.
    pub verify: bool,
    pub progress: HeldProgress,
}

/// Two stores that belong together. Their clock stands at [`START_MS`].
pub struct Stage {
    pub journal: Arc<dyn Journal>,
    pub schedule: Arc<dyn Schedule>,
    pub clock: ManualClock,
    /// Where the schedule is, if it is in Redis.
    pub redis: Option<String>,
    /// Where the journal is, if it is in PostgreSQL.
    pub postgres: Option<String>,
    /// Where it is otherwise.
    pub dir: TempDir,
}

impl Stage {
    pub async fn memory() -> Self {
        Self::in_memory(LIMITS).await
    }

    pub async fn memory_with_window() -> Self {
        Self::in_memory(WINDOWED).await
    }

    async fn in_memory(limits: Limits) -> Self {
        let (dir, journal) = journal().await;
        let clock = ManualClock::at(START_MS);
        Self {
            schedule: Arc::new(MemorySchedule::new(Arc::new(clock.clone()), limits)),
            journal,
            clock,
            redis: None,
            postgres: None,
            dir,
        }
    }

    pub async fn redis() -> Self {
        let (dir, journal) = journal().await;
        Self::on_redis(dir, journal, None, fresh_database(), LIMITS).await
    }

    pub async fn redis_with_window() -> Self {
        let (dir, journal) = journal().await;
        Self::on_redis(dir, journal, None, fresh_database(), WINDOWED).await
    }

    /// On a Redis of its own.
    pub async fn redis_at(url: String) -> Self {
        let (dir, journal) = journal().await;
        Self::on_redis(dir, journal, None, url, LIMITS).await
    }

    /// Both stores on servers.
    pub async fn postgres() -> Self {
        Self::on_postgres(LIMITS).await
    }

    pub async fn postgres_with_window() -> Self {
        Self::on_postgres(WINDOWED).await
    }

    async fn on_postgres(limits: Limits) -> Self {
        let url = postgres::fresh_database();
        let journal = PostgresJournal::open(&url, "instance-1", true).await;
        let dir = tempfile::tempdir().expect("a directory");
        let journal = Arc::new(journal.expect("it opens"));
        Self::on_redis(dir, journal, Some(url), fresh_database(), limits).await
    }

    async fn on_redis(
        dir: TempDir,
        journal: Arc<dyn Journal>,
        postgres: Option<String>,
        redis: String,
        limits: Limits,
    ) -> Self {
        let clock = ManualClock::at(START_MS);
        let schedule = open_schedule(redis.clone(), journal.id(), limits, &clock).await;
        assert!(schedule.finish_loading().await.expect("heard"));
        Self {
            schedule: Arc::new(schedule),
            journal,
            clock,
            redis: Some(redis),
            postgres,
            dir,
        }
    }

    /// Writes into the journal behind its back.
    pub async fn sql(&self, statement: &'static str) {
        if let Some(url) = &self.postgres {
            let mut beside = postgres::connect(url).await;
            return postgres::run(&mut beside, statement).await;
        }
        let file = SqliteConnectOptions::new().filename(self.dir.path().join("journal.db"));
        let mut beside = file.connect().await.expect("opened");
        beside.execute(statement).await.expect("executed");
        beside.close().await.expect("closed");
    }

    /// The same schedule in Redis, as a server without a horizon uses it.
    pub async fn without_window(&self) -> Arc<dyn Schedule> {
        let redis = self.redis.clone().expect("on Redis");
        Arc::new(open_schedule(redis, self.journal.id(), LIMITS, &self.clock).await)
    }

    /// A server that works on the same schedule in Redis, and says to the others that it has a horizon, has just started and
    /// stopped.
    pub async fn server_with_horizon_comes_and_goes(&self) {
        let redis = self.redis.clone().expect("on Redis");
        let server = uninspected_schedule(redis, self.journal.id(), WINDOWED, &self.clock);
        server.announce_horizon();
        server.inspect(false).await.expect("looked");
        server.deregister().await;
    }

    /// The flags that name these stores.
    pub fn flags(&self) -> Vec<&str> {
        let mut flags = match &self.postgres {
            Some(url) => vec!["--journal", url],
            None => vec!["--data-dir", "."],
        };
        if let Some(redis) = &self.redis {
            flags.extend(["--redis", redis, "--partitions", "2"]);
        }
        flags
    }

    /// Registers one so many milliseconds after [`START_MS`], in the journal alone.
    pub async fn journal_one(&self, id: &str, at_ms: i64) -> (Arc<Notification>, Progress) {
        let registering = registering_at(registration(key(id)), START_MS + at_ms);
        let progress = registering.progress;
        (keep(self.journal.as_ref(), registering).await, progress)
    }

    /// Registers one in both.
    pub async fn register(&self, id: &str, at_ms: i64) -> (Arc<Notification>, Progress) {
        let (notification, progress) = self.journal_one(id, at_ms).await;
        self.schedule_one(&notification, progress).await;
        (notification, progress)
    }

    /// Registers one in both that goes to another destination than the others.
    pub async fn register_for(&self, id: &str, url: &str) {
        let registration = Registration {
            target: Target::Url(Destination::parse(url).expect("a URL")),
            ..registration(key(id))
        };
        let registering = registering_at(registration, START_MS);
        let progress = registering.progress;
        let notification = keep(self.journal.as_ref(), registering).await;
        self.schedule_one(&notification, progress).await;
    }

    /// Registers so many in the journal alone, each due a millisecond after the one before.
    pub async fn journal_many(&self, many: i64) {
        let batch: Vec<_> = (0..many)
            .map(|number| {
                let registration = registration(key(&format!("{number:05}")));
                registering_at(registration, START_MS + number)
            })
            .collect();
        self.journal.register(&batch).await.expect("kept");
    }

    /// Registers so many in the journal alone, all due at once, so many milliseconds after [`START_MS`].
    pub async fn journal_many_at(&self, many: i64, at_ms: i64) {
        let batch: Vec<_> = (0..many)
            .map(|number| {
                let registration = registration(key(&format!("{number:05}")));
                registering_at(registration, START_MS + at_ms)
            })
            .collect();
        self.journal.register(&batch).await.expect("kept");
    }

    /// Puts one into the schedule alone.
    pub async fn schedule_one(&self, notification: &Arc<Notification>, progress: Progress) {
        let entry = Entry::scheduled(notification.clone(), progress);
        let registered = self.schedule.register(entry).await.expect("registered");
        assert_eq!(registered, Registered::Created);
    }

    /// What the schedule has of one.
    pub async fn held(&self, id: &str) -> Option<Held> {
        let found = self.schedule.find(&key(id)).await.expect("answered");
        if let Some(found) = found {
            return Some(Held {
                verify: found.entry.verify,
                progress: HeldProgress::Whole(found.entry.progress),
            });
        }
        let holdings = self.schedule.holds(&[place(&key(id))]).await;
        let holding = holdings.expect("answered")[0]?;
        assert!(matches!(holding.progress, HeldProgress::Due(_)));
        Some(Held {
            verify: true,
            progress: holding.progress,
        })
    }

    /// Leases one.
    pub async fn take(&self, id: &str) -> Lease {
        let request = LeaseRequest::new(place(&key(id)));
        match self.schedule.lease_one(&request).await.expect("answered") {
            LeasedOne::Leased(lease) => *lease,
            other => panic!("{id}: {other:?}"),
        }
    }

    /// Takes one out of the schedule.
    pub async fn unschedule(&self, id: &str) {
        let request = LeaseRequest::new(place(&key(id)));
        let settled = match self.schedule.lease_one(&request).await.expect("answered") {
            LeasedOne::Leased(lease) => {
                let end = Settlement::to(State::Delivered, None, lease.entry.progress, START_MS);
                self.schedule.settle(*lease, end).await
            }
            LeasedOne::Reserved(lease) => {
                let ending = self.schedule.end_reservation(lease, Reservation::Forget);
                ending.await
            }
            other => panic!("{id}: {other:?}"),
        };
        assert_eq!(settled.expect("answered"), Settled::Done);
    }

    /// The ids of all that is due, claimed.
    pub async fn claim(&self) -> Vec<String> {
        let claimed = self
            .schedule
            .claim(ClaimQuota::of(100))
            .await
            .expect("claimed");
        let id = |lease: ClaimedLease| lease.key().id().to_string();
        claimed.into_leases().map(id).collect()
    }

    /// The last line of a history.
    pub async fn last_line(&self, key: &Key) -> Transition {
        let mut lines = self.journal.transitions(key).await.expect("read");
        lines.pop().expect("a line")
    }

    /// A command from outside, as an operator would send it.
    pub async fn redis_command(&self, words: &[&str]) {
        let mut connection = connect(self.redis.as_deref().expect("on Redis")).await;
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let done = command.exec_async(&mut connection).await;
        done.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    }
}

async fn journal() -> (TempDir, Arc<dyn Journal>) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("journal.db");
    let journal = SqliteJournal::open(&path, "instance-1").await;
    (dir, Arc::new(journal.expect("it opens")))
}

async fn open_schedule(
    url: String,
    owner: &str,
    limits: Limits,
    clock: &ManualClock,
) -> RedisSchedule {
    let schedule = uninspected_schedule(url, owner, limits, clock);
    schedule.inspect(false).await.expect("looked");
    schedule
}

/// A schedule that was not inspected yet.
fn uninspected_schedule(
    url: String,
    owner: &str,
    limits: Limits,
    clock: &ManualClock,
) -> RedisSchedule {
    let options = Options {
        url,
        partitions: 2,
        limits,
        time: Time::Clock,
        owner: owner.to_string(),
        signing: None,
        replicas: 0,
        tls: RedisTls::default(),
        claim_times: ClaimTimes::default(),
    };
    RedisSchedule::open(&options, Arc::new(clock.clone())).expect("a url")
}
