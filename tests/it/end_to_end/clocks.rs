//! Clocks that differ: a server's idea of the schedule's time may be a millisecond behind.

use crate::by_hand::scripted::Scripted;
use crate::journal_contract::samples::{START_MS, find, keep, key, registering_at, registration};
use crate::support::merchant::Merchant;
use crate::support::ringback::no_endpoints;
use crate::support::within;
use ringback::clock::ManualClock;
use ringback::delivery::address_filter::AddressFilter;
use ringback::delivery::dispatcher::Dispatcher;
use ringback::delivery::http_client::{HttpClient, HttpClientSettings};
use ringback::delivery::lookups::HostResolver;
use ringback::domain::destination::Destination;
use ringback::domain::notification::{Registration, Start, Target};
use ringback::domain::progress::Progress;
use ringback::health::Health;
use ringback::journal::Journal;
use ringback::journal::recorder::Recorder;
use ringback::journal::sqlite::SqliteJournal;
use ringback::schedule::ScheduleLeases as _;
use ringback::schedule::window::Window;
use ringback::schedule::{CLAIMED_EARLY_MS, ClaimQuota, Entry, Lease, Limits, SettingsSource};
use ringback::telemetry::metrics::Metrics;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const LIMITS: Limits = Limits {
    lane_start: 16,
    lane_cap: 16,
    lease_ms: 15_000,
    remember_ms: None,
    settings_source: SettingsSource::Schedule,
    window: Window::WHOLE,
    early_ms: 0,
};

#[tokio::test]
async fn no_attempt_is_recorded_as_begun_before_it_was_due() {
    let merchant = Merchant::start().await;
    let behind = ManualClock::at(START_MS - 1);
    let client = HttpClient::new(settings());
    attempt(&merchant.url("/notify"), client, behind).await;
}

#[tokio::test]
async fn what_is_claimed_early_is_sent_when_it_is_due() {
    let merchant = Merchant::start().await;
    for early_ms in [1, CLAIMED_EARLY_MS] {
        let clock = ManualClock::at(START_MS);
        let client = HttpClient::new(settings());
        let scene = Scene::of(&merchant.url("/notify"), client, [&clock; 3], early_ms).await;
        let due_ms = START_MS + early_ms;
        tokio::join!(scene.attempt(), async {
            // The attempt comes first, and waits for the clock.
            clock.turn_to(due_ms);
        });
        assert_eq!(scene.begun().await, (due_ms, due_ms));
    }
    // Nobody else can make the attempt meanwhile, so a clock that was set back does not hold it.
    let clock = ManualClock::at(START_MS);
    let client = HttpClient::new(settings());
    let early_ms = CLAIMED_EARLY_MS;
    let scene = Scene::of(&merchant.url("/notify"), client, [&clock; 3], early_ms).await;
    within("the attempt", scene.attempt()).await;
    assert_eq!(scene.begun().await, (START_MS + early_ms, START_MS));
    // What was claimed earlier than any claim does, is sent at once, as by servers of before.
    let clock = ManualClock::at(START_MS);
    let client = HttpClient::new(settings());
    let early_ms = CLAIMED_EARLY_MS + 1;
    let scene = Scene::of(&merchant.url("/notify"), client, [&clock; 3], early_ms).await;
    scene.attempt().await;
    assert_eq!(scene.begun().await, (START_MS + early_ms, START_MS));
}

/// Takes five seconds of this clock for each name.
struct SlowNames(ManualClock);

impl HostResolver for SlowNames {
    fn resolve(&self, _: &str) -> io::Result<Vec<SocketAddr>> {
        self.0.advance(5_000);
        Ok(vec![SocketAddr::from(([127, 0, 0, 1], 0))])
    }
}

#[tokio::test]
async fn the_signed_time_is_that_of_the_sending() {
    let mut merchant = Merchant::start().await;
    let behind = ManualClock::at(START_MS - 1);
    let client = HttpClient::with_resolver(settings(), Arc::new(SlowNames(behind.clone())));
    let url = format!("http://slow.example:{}/notify", merchant.port());
    attempt(&url, client, behind).await;
    let sent_s = (START_MS - 1 + 5_000) / 1_000;
    let timestamp = merchant
        .call()
        .await
        .header("Webhook-Timestamp")
        .to_string();
    assert_eq!(timestamp, sent_s.to_string());
}

fn settings() -> HttpClientSettings {
    HttpClientSettings {
        filter: AddressFilter {
            allowed: vec!["127.0.0.0/8".parse().expect("a network")],
            allow_http: true,
        },
        timeout: Duration::from_secs(10),
        user_agent: "test".to_string(),
        proxy: None,
    }
}

/// Makes one attempt of a server whose clock is this one.
async fn attempt(url: &str, client: HttpClient, behind: ManualClock) {
    let clocks = [
        &ManualClock::at(START_MS),
        &ManualClock::at(START_MS - 1),
        &behind,
    ];
    let scene = Scene::of(url, client, clocks, 0).await;
    scene.attempt().await;
    assert_eq!(scene.begun().await, (START_MS, START_MS));
}

/// A server that has claimed one notification.
struct Scene {
    journal: Arc<dyn Journal>,
    dispatcher: Dispatcher,
    lease: Box<Lease>,
    _dir: TempDir,
}

impl Scene {
    /// The clocks are those of the schedule, of the server's idea of it, and of the server itself. The lease was given at
    /// [`START_MS`], so long before the notification is due.
    async fn of(
        url: &str,
        client: HttpClient,
        [clock, shown, own]: [&ManualClock; 3],
        early_ms: i64,
    ) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let journal = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
        let journal: Arc<dyn Journal> = Arc::new(journal.expect("a journal"));
        let schedule = Scripted::shown_by(clock, shown, LIMITS);
        let asked = Registration {
            target: Target::Url(Destination::parse(url).expect("a URL")),
            start: Start::At(START_MS + early_ms),
            ..registration(key("1"))
        };
        let registering = registering_at(asked, START_MS);
        let progress = registering.progress;
        let notification = keep(&*journal, registering).await;
        let due_now = Progress {
            due_ms: START_MS,
            ..progress
        };
        let entry = Entry::scheduled(notification, due_now);
        schedule.register(entry).await.expect("registered");
        let claimed = schedule.claim(ClaimQuota::of(1)).await.expect("claimed");
        let mut lease = claimed.leases.into_iter().next().expect("it is due");
        lease.entry.progress = progress;
        let recorder = Arc::new(Recorder::start(journal.clone()));
        let dispatcher = Dispatcher::new(
            Arc::new(client),
            schedule,
            Some(recorder),
            Arc::new(own.clone()),
            1,
            Health::new(true),
            Metrics::new(),
        )
        .with_endpoints(no_endpoints());
        Self {
            journal,
            dispatcher,
            lease: Box::new(lease),
            _dir: dir,
        }
    }

    async fn attempt(&self) {
        self.dispatcher.worker().run(self.lease.clone()).await;
    }

    /// When the attempt was due, and when it began.
    async fn begun(&self) -> (i64, i64) {
        let snapshot = find(&*self.journal, &key("1")).await;
        let [attempt] = &snapshot.attempts[..] else {
            panic!("{snapshot:?}");
        };
        (attempt.due_ms, attempt.started_ms)
    }
}
