//! Clocks that differ: a server's idea of the schedule's time may be a millisecond behind.

use crate::by_hand::scripted::Scripted;
use crate::journal_contract::samples::{START_MS, find, keep, key, registering_at, registration};
use crate::support::merchant::Merchant;
use crate::support::ringback::no_endpoints;
use ringback::clock::ManualClock;
use ringback::delivery::address_filter::AddressFilter;
use ringback::delivery::dispatcher::Dispatcher;
use ringback::delivery::http_client::{HttpClient, HttpClientSettings};
use ringback::delivery::lookups::HostResolver;
use ringback::domain::destination::Destination;
use ringback::domain::notification::{Registration, Target};
use ringback::health::Health;
use ringback::journal::Journal;
use ringback::journal::recorder::Recorder;
use ringback::journal::sqlite::SqliteJournal;
use ringback::schedule::ScheduleLeases as _;
use ringback::schedule::window::Window;
use ringback::schedule::{ClaimQuota, Entry, Limits, SettingsSource};
use ringback::telemetry::metrics::Metrics;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const LIMITS: Limits = Limits {
    lane_start: 16,
    lane_cap: 16,
    lease_ms: 15_000,
    remember_ms: None,
    settings_source: SettingsSource::Schedule,
    window: Window::WHOLE,
};

#[tokio::test]
async fn no_attempt_is_recorded_as_begun_before_it_was_due() {
    let merchant = Merchant::start().await;
    let behind = ManualClock::at(START_MS - 1);
    let client = HttpClient::new(settings());
    attempt(&merchant.url("/notify"), client, behind).await;
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
    let dir = tempfile::tempdir().expect("a temporary directory");
    let journal = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
    let journal: Arc<dyn Journal> = Arc::new(journal.expect("a journal"));
    let clock = ManualClock::at(START_MS);
    let schedule = Scripted::shown_by(&clock, &ManualClock::at(START_MS - 1), LIMITS);
    let asked = Registration {
        target: Target::Url(Destination::parse(url).expect("a URL")),
        ..registration(key("1"))
    };
    let registering = registering_at(asked, START_MS);
    let progress = registering.progress;
    let notification = keep(&*journal, registering).await;
    let entry = Entry::scheduled(notification, progress);
    schedule.register(entry).await.expect("registered");
    let lease = schedule
        .claim(ClaimQuota::of(1))
        .await
        .expect("claimed")
        .leases
        .remove(0);
    let recorder = Arc::new(Recorder::start(journal.clone()));
    let dispatcher = Dispatcher::new(
        Arc::new(client),
        schedule,
        Some(recorder),
        Arc::new(behind),
        1,
        Health::new(true),
        Metrics::new(),
    )
    .with_endpoints(no_endpoints());
    dispatcher.worker().run(Box::new(lease)).await;
    let snapshot = find(&*journal, &key("1")).await;
    let [attempt] = &snapshot.attempts[..] else {
        panic!("{snapshot:?}");
    };
    assert_eq!((attempt.due_ms, attempt.started_ms), (START_MS, START_MS));
}
