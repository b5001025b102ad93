//! A receiver that asks for no more calls while a server cannot bring the hold of its lane into the schedule.

use crate::journal_contract::samples::{START_MS, keep, key, registering_at, registration};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::no_endpoints;
use crate::support::{short_pause, within};
use ringback::clock::ManualClock;
use ringback::delivery::address_filter::AddressFilter;
use ringback::delivery::dispatcher::Dispatcher;
use ringback::delivery::http_client::{HttpClient, HttpClientSettings};
use ringback::domain::endpoint::{Endpoint, EndpointName, EndpointSettings};
use ringback::domain::endpoint_keys::EndpointKeys;
use ringback::domain::lane::Lane;
use ringback::domain::lane_settings::{LaneHold, LaneSetting};
use ringback::domain::notification::{Registration, Target};
use ringback::health::Health;
use ringback::journal::recorder::Recorder;
use ringback::journal::sqlite::SqliteJournal;
use ringback::journal::{Actor, Journal, LaneOrder};
use ringback::schedule::decorator::{ScheduleCall, ScheduleDecorator};
use ringback::schedule::memory::MemorySchedule;
use ringback::schedule::window::Window;
use ringback::schedule::{
    ClaimQuota, Entry, Limits, Schedule, ScheduleError, ScheduleLeases as _, ScheduleReads as _,
    SettingsSource,
};
use ringback::settings_sync::bring_settings;
use ringback::telemetry::metrics::Metrics;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LIMITS: Limits = Limits {
    lane_start: 1,
    lane_cap: 1,
    lease_ms: 15_000,
    remember_ms: None,
    settings_source: SettingsSource::Schedule,
    window: Window::WHOLE,
    early_ms: 0,
};

/// A schedule of which a server cannot change the settings of lanes for some time.
struct Unreachable {
    inner: MemorySchedule,
    is_away: AtomicBool,
}

impl ScheduleDecorator for Unreachable {
    fn inner(&self) -> &dyn Schedule {
        &self.inner
    }

    async fn around<T: Send>(
        &self,
        call: ScheduleCall,
        calling: impl Future<Output = Result<T, ScheduleError>> + Send,
    ) -> Result<T, ScheduleError> {
        let is_of_settings = matches!(
            call,
            ScheduleCall::SettingsReached | ScheduleCall::ConfigureLanes
        );
        if is_of_settings && self.is_away.load(Ordering::SeqCst) {
            return Err(ScheduleError::Unavailable("it is away".into()));
        }
        calling.await
    }
}

/// Who holds a lane by the journal.
async fn hold_in_journal(journal: &dyn Journal, lane: &Lane) -> Option<LaneHold> {
    let found = journal.lane_changes(0, 100).await.expect("read");
    let change = found.changes.into_iter().find(|one| one.lane == *lane)?;
    match change.setting {
        LaneSetting::All(settings) => settings.hold,
        LaneSetting::Hold(hold) => hold,
        LaneSetting::Limits(_) => None,
    }
}

/// An endpoint whose lane is held by a 410.
fn endpoint(name: &EndpointName, url: &str) -> Endpoint {
    let text = format!(r#"{{"url":"{url}","gone":"hold"}}"#);
    Endpoint {
        name: name.clone(),
        version: 1,
        settings: EndpointSettings::from_text(&text).expect("settings"),
        keys: EndpointKeys::default(),
        created_ms: START_MS,
        changed_ms: START_MS,
    }
}

fn client() -> HttpClient {
    HttpClient::new(HttpClientSettings {
        filter: AddressFilter {
            allowed: vec!["127.0.0.0/8".parse().expect("a network")],
            allow_http: true,
        },
        timeout: Duration::from_secs(10),
        user_agent: "test".to_string(),
        proxy: None,
    })
}

#[tokio::test]
async fn a_release_is_not_undone_by_the_server_that_wrote_the_hold() {
    let merchant = Merchant::scripted(vec![], Reaction::Answer(410, Vec::new())).await;
    let name = EndpointName::parse("shop").expect("a name");
    let lane = Lane::of_endpoint(&name);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let journal = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
    let journal: Arc<dyn Journal> = Arc::new(journal.expect("a journal"));
    let clock = ManualClock::at(START_MS);
    let memory = ringback::schedule::memory::MEMORY_BYTES;
    let schedule = Arc::new(Unreachable {
        inner: MemorySchedule::over_journal(Arc::new(clock.clone()), LIMITS, memory),
        is_away: AtomicBool::new(true),
    });
    let asked = Registration {
        target: Target::Endpoint(name.clone(), None),
        ..registration(key("1"))
    };
    let registering = registering_at(asked, START_MS);
    let progress = registering.progress;
    let notification = keep(&*journal, registering).await;
    let entry = Entry::scheduled(notification, progress);
    schedule.register(entry).await.expect("registered");
    let claimed = schedule.claim(ClaimQuota::of(1)).await.expect("claimed");
    let lease = claimed.leases.into_iter().next().expect("it is due");
    let endpoints = no_endpoints();
    let begun = endpoints.readings_begun();
    endpoints
        .learn(&endpoint(&name, &merchant.url("/")), begun)
        .await;
    let dispatcher = Dispatcher::new(
        Arc::new(client()),
        schedule.clone(),
        Some(Arc::new(Recorder::start(journal.clone()))),
        Arc::new(clock),
        1,
        Health::new(true),
        Metrics::new(),
    )
    .with_endpoints(endpoints);
    let worker = dispatcher.worker();
    let working = tokio::spawn(async move { worker.run(Box::new(lease)).await });
    within("the hold to be in the journal", async {
        while hold_in_journal(&*journal, &lane).await.is_none() {
            short_pause().await;
        }
    })
    .await;
    // Another server brings the hold, and a person releases the lane there.
    let other = &schedule.inner;
    let brought = bring_settings(&*journal, other, Some(&lane)).await;
    brought.expect("brought");
    let held = other.lane(&lane).await.expect("answered").settings.hold;
    assert_eq!(held.map(|hold| hold.by), Some("dispatcher".into()));
    let release = LaneOrder {
        lane: lane.clone(),
        setting: LaneSetting::Hold(None),
        actor: Actor::named("anna"),
        reason: "the receiver is back".into(),
        at_ms: START_MS,
    };
    journal.change_lane(&release).await.expect("kept");
    let brought = bring_settings(&*journal, other, Some(&lane)).await;
    brought.expect("brought");
    schedule.is_away.store(false, Ordering::SeqCst);
    within("the attempt", working).await.expect("no panic");
    assert_eq!(hold_in_journal(&*journal, &lane).await, None);
    let status = schedule.lane(&lane).await.expect("answered");
    assert_eq!(status.settings.hold, None);
}
