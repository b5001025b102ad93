//! A change by hand, step by step: what it does when a lease is lost, when a reply does not come, and when
//! a store fails in the middle. Every order of two servers' steps is tried in `interleaving`; here is what
//! single mechanisms are for.

mod after_loss;
mod lost_reply;
pub mod scripted;

use crate::journal_contract::samples::{
    START_MS, apply, attempts, changing, do_change, find, key, place, refusal, registration,
};
use crate::support::redis::fresh_database;
use crate::support::{short_pause, within};
use ringback::clock::ManualClock;
use ringback::domain::attempt::Outcome;
use ringback::domain::change::Change;
use ringback::domain::later::FAR_MS;
use ringback::domain::notification::{Registration, Start};
use ringback::domain::state::{Cause, State};
use ringback::journal::recorder::Recorder;
use ringback::journal::sqlite::SqliteJournal;
use ringback::journal::{Actor, ChangeResult, Journal, JournalError};
use ringback::redis_tls::RedisTls;
use ringback::schedule::redis::{ClaimTimes, Options, RedisSchedule, Time};
use ringback::schedule::window::Window;
use ringback::schedule::{
    CHANGE_LEASE_MS, ClaimQuota, Entry, Limits, Schedule, SettingsSource, Settled, Settlement,
};
use ringback::schedule::{ScheduleLeases as _, ScheduleReads as _};
use ringback::service::{Service, ServiceError};
use scripted::{Scripted, Then};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Executor as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tempfile::TempDir;
use tokio::sync::oneshot;

const LIMITS: Limits = Limits {
    lane_start: 16,
    lane_cap: 16,
    lease_ms: 15_000,
    remember_ms: None,
    settings_source: SettingsSource::Schedule,
    window: Window::WHOLE,
    early_ms: 0,
};

/// A service over a schedule in memory and a journal in SQLite; its clock stands still.
struct Scene {
    dir: TempDir,
    clock: ManualClock,
    schedule: Arc<Scripted>,
    journal: Arc<dyn Journal>,
    service: Arc<Service>,
}

impl Scene {
    /// With one notification, `1`, that is due at once.
    async fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let clock = ManualClock::at(START_MS);
        let schedule = Scripted::over_journal(&clock, LIMITS);
        let journal = journal(&dir).await;
        let recorder = Arc::new(Recorder::start(journal.clone()));
        let service = Service::new(Some(recorder), schedule.clone());
        let scene = Self {
            dir,
            clock,
            schedule,
            journal,
            service: Arc::new(service),
        };
        let registered = scene.service.register(registration(key("1")), actor());
        registered.await.expect("registered");
        scene
    }

    async fn cancel(&self) -> Result<State, ServiceError> {
        let cancelled = self.service.cancel(&key("1"), actor()).await;
        cancelled.map(|snapshot| snapshot.state)
    }

    async fn entry(&self) -> Entry {
        let found = self.schedule.find(&key("1")).await.expect("answered");
        found.expect("it is there").entry
    }

    async fn is_leased(&self) -> bool {
        let flags = self.schedule.in_flight(&[place(&key("1"))]).await;
        flags.expect("answered") == [true]
    }
}

async fn journal(dir: &TempDir) -> Arc<dyn Journal> {
    let journal = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
    Arc::new(journal.expect("a journal"))
}

fn actor() -> Actor {
    Actor::named("test")
}

#[tokio::test]
async fn a_lease_that_was_lost_before_its_reply_came_changes_nothing() {
    let scene = Scene::new().await;
    // The server is suspended for longer than its lease lasts, and another leases the notification.
    let (clock, journal) = (scene.clock.clone(), scene.journal.clone());
    let suspended = async move {
        clock.advance(CHANGE_LEASE_MS);
        journal.fence(&[key("1")]).await.expect("fenced");
    };
    scene.schedule.then(Then::After(Box::pin(suspended)));
    assert_eq!(scene.cancel().await.expect("cancelled"), State::Cancelled);
    let requests = scene.schedule.requests.load(Ordering::Relaxed);
    assert_eq!(requests, 2, "it was applied under a second lease");
}

#[tokio::test]
async fn a_lease_whose_reply_was_lost_is_asked_for_again() {
    let scene = Scene::new().await;
    scene.schedule.then(Then::Lost);
    scene.schedule.then(Then::Lost);
    assert_eq!(scene.cancel().await.expect("cancelled"), State::Cancelled);
    assert_eq!(scene.schedule.requests.load(Ordering::Relaxed), 3);
    let none: [(u32, u32, Outcome); 0] = [];
    assert_eq!(attempts(&find(&*scene.journal, &key("1")).await), none);
}

#[tokio::test]
async fn a_lease_that_nobody_heard_of_is_given_back_before_it_expires() {
    let scene = Scene::new().await;
    scene.schedule.deaf.store(true, Ordering::Relaxed);
    let refused = scene.cancel().await;
    assert!(
        matches!(refused, Err(ServiceError::Schedule(_))),
        "{refused:?}"
    );
    assert!(scene.is_leased().await, "and nobody knows");
    scene.schedule.deaf.store(false, Ordering::Relaxed);
    // The clock stands still, so it does not expire.
    within("the lease to be given back", async {
        while scene.is_leased().await {
            short_pause().await;
        }
    })
    .await;
    assert_eq!(scene.entry().await.interrupted_ms, None);
    assert_eq!(
        scene
            .schedule
            .claim(ClaimQuota::of(1))
            .await
            .expect("answered")
            .leases
            .len(),
        1
    );
}

#[tokio::test]
async fn a_change_that_is_asked_for_again_goes_on_with_the_lease_that_nobody_heard_of() {
    let scene = Scene::new().await;
    scene.schedule.deaf.store(true, Ordering::Relaxed);
    scene.cancel().await.expect_err("no reply came");
    scene.schedule.deaf.store(false, Ordering::Relaxed);
    // It neither expires nor is it another's.
    assert_eq!(scene.cancel().await.expect("cancelled"), State::Cancelled);
}

#[tokio::test]
async fn a_change_of_which_the_journal_gives_no_answer_has_it_asked_before_anything_is_sent() {
    let scene = Scene::new().await;
    let path = scene.dir.path().join("journal.db");
    let options = SqliteConnectOptions::new().filename(path);
    let mut beside: SqliteConnection = options.connect().await.expect("opened");
    beside.execute("BEGIN IMMEDIATE").await.expect("locked");
    let refused = scene.cancel().await;
    assert!(
        matches!(
            refused,
            Err(ServiceError::Journal(JournalError::Unavailable(_)))
        ),
        "{refused:?}"
    );
    // It may have been executed all the same, or may be yet.
    let entry = scene.entry().await;
    assert!(entry.verify && entry.raise_fence, "{entry:?}");
    assert!(!scene.is_leased().await);
}

#[tokio::test]
async fn a_change_that_its_state_forbids_takes_no_lease() {
    let scene = Scene::new().await;
    let why = "a client that asks for it until it is dead";
    for _ in 0..2 {
        let refused = [
            scene.service.replay(&key("1"), actor(), why).await,
            scene.service.discard(&key("1"), actor()).await,
        ];
        for refused in refused {
            assert!(
                matches!(refused, Err(ServiceError::Refused { .. })),
                "{refused:?}"
            );
        }
        // The second time, somebody else has it.
        scene
            .schedule
            .claim(ClaimQuota::of(1))
            .await
            .expect("claimed");
    }
    assert_eq!(scene.schedule.requests.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_change_that_is_refused_under_its_lease_shuts_out_whoever_had_a_lease_before() {
    let scene = Scene::new().await;
    let mut claimed = scene
        .schedule
        .claim(ClaimQuota::of(1))
        .await
        .expect("claimed")
        .leases;
    let lease = claimed.pop().expect("it is due");
    let progress = lease.entry.progress;
    apply(
        &*scene.journal,
        refusal(&lease.entry.notification, progress),
    )
    .await;
    let parked = Settlement::to(State::Dead, Some(Cause::Refused), progress, START_MS);
    let settled = scene.schedule.settle(lease, parked).await;
    assert_eq!(settled.expect("answered"), Settled::Done);
    // Before it hears of its lease, another server has replayed it.
    let journal = scene.journal.clone();
    let replayed = async move {
        do_change(&*journal, &key("1"), Change::Replay, START_MS).await;
    };
    scene.schedule.then(Then::After(Box::pin(replayed)));
    let refused = scene.service.replay(&key("1"), actor(), "why").await;
    assert!(
        matches!(refused, Err(ServiceError::Refused { .. })),
        "{refused:?}"
    );
    // It is pending, and may be sent as soon as the lease is given back. So a change that somebody decided
    // on under an earlier lease must not be written any more.
    let late = changing(&key("1"), Change::Cancel, START_MS);
    let late = scene.journal.change(late).await.expect("answered");
    assert!(matches!(late, ChangeResult::Fenced(_)), "{late:?}");
    assert!(!scene.is_leased().await);
}

#[tokio::test]
async fn an_attempt_of_which_nobody_knows_the_outcome_is_noted_before_a_change() {
    let scene = Scene::new().await;
    let claimed = scene
        .schedule
        .claim(ClaimQuota::of(1))
        .await
        .expect("claimed")
        .leases;
    assert_eq!(claimed.len(), 1);
    // Whoever had it has died.
    scene.clock.advance(LIMITS.lease_ms);
    assert_eq!(scene.cancel().await.expect("cancelled"), State::Cancelled);
    let snapshot = find(&*scene.journal, &key("1")).await;
    assert_eq!(attempts(&snapshot), [(1, 1, Outcome::Interrupted)]);
    assert_eq!(snapshot.attempts[0].started_ms, START_MS);
}

#[tokio::test]
async fn what_is_registered_while_the_schedule_is_rebuilt_has_the_journal_asked() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let clock = ManualClock::at(START_MS);
    let journal = journal(&dir).await;
    let url = fresh_database();
    let options = Options {
        url: url.clone(),
        partitions: 1,
        limits: LIMITS,
        time: Time::Clock,
        owner: journal.id().to_string(),
        signing: None,
        replicas: 0,
        tls: RedisTls::default(),
        claim_times: ClaimTimes::default(),
    };
    let schedule = RedisSchedule::open(&options, Arc::new(clock)).expect("a URL");
    let schedule: Arc<dyn Schedule> = Arc::new(schedule);
    let recoverable = schedule.recoverable().expect("it outlives us");
    recoverable.inspect(false).await.expect("looked");
    recoverable.finish_loading().await.expect("heard");
    let mut redis = crate::support::redis::connect(&url).await;
    let flush = redis::cmd("FLUSHDB").exec_async(&mut redis).await;
    flush.expect("flushed");
    let recorder = Arc::new(Recorder::start(journal));
    let service = Service::new(Some(recorder), schedule.clone());
    let registering = service.register(registration(key("1")), actor());
    let rebuilding = async {
        within("the loss", recoverable.wait_for_loss()).await;
        recoverable.inspect(false).await.expect("looked");
    };
    let (registered, ()) = tokio::join!(registering, rebuilding);
    registered.expect("registered");
    // Meanwhile another server may have put it in, sent it and forgotten it.
    let found = schedule.find(&key("1")).await.expect("answered");
    assert!(found.expect("it is there").entry.verify);
}

/// One that is due so many milliseconds after it is registered.
fn delayed(id: &str, delay_ms: i64) -> Registration {
    Registration {
        start: Start::After(delay_ms),
        ..registration(key(id))
    }
}

#[tokio::test]
async fn what_is_far_ahead_is_cancelled_at_once_and_verified_when_its_registration_arrives_after_that()
 {
    let scene = Scene::new().await;
    let (arrives, late) = oneshot::channel();
    *scene.schedule.late.lock().expect("no panic") = Some(late);
    let service = scene.service.clone();
    let far = delayed("far", FAR_MS + 1);
    let registering = tokio::spawn(async move { service.register(far, actor()).await });
    within("the journal to have it", async {
        let journal = &scene.journal;
        while journal.find(&key("far")).await.expect("read").is_none() {
            short_pause().await;
        }
    })
    .await;
    // Another server cancels it. The clock stands still, so it waits for nothing.
    let recorder = Arc::new(Recorder::start(scene.journal.clone()));
    let other = Arc::new(Service::new(Some(recorder), scene.schedule.clone()));
    let cancelled = other.cancel(&key("far"), actor()).await;
    assert_eq!(cancelled.expect("cancelled").state, State::Cancelled);
    assert!(!registering.is_finished());
    arrives.send(()).expect("it waits");
    let registered = registering.await.expect("no panic");
    registered.expect("registered");
    let found = scene.schedule.find(&key("far")).await.expect("answered");
    assert!(found.expect("it has arrived").entry.verify);
}

#[tokio::test]
async fn what_is_due_within_a_minute_is_not_verified() {
    let scene = Scene::new().await;
    let near = delayed("near", FAR_MS);
    scene
        .service
        .register(near, actor())
        .await
        .expect("registered");
    let found = scene.schedule.find(&key("near")).await.expect("answered");
    assert!(!found.expect("it is there").entry.verify);
}
