//! Name servers that do not answer: they delay the calls to their own names alone.

use crate::journal_contract::samples::{key, registering_at, registration};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::no_endpoints;
use crate::support::{short_pause, within};
use ringback::clock::SystemClock;
use ringback::delivery::address_filter::AddressFilter;
use ringback::delivery::dispatcher::{Dispatcher, Stop};
use ringback::delivery::http_client::{HttpClient, HttpClientSettings};
use ringback::delivery::lookups::HostResolver;
use ringback::domain::deferral::Lacked;
use ringback::domain::destination::Destination;
use ringback::domain::notification::{Registration, Target};
use ringback::health::Health;
use ringback::schedule::memory::MemorySchedule;
use ringback::schedule::window::Window;
use ringback::schedule::{ClaimQuota, Entry, Lease, Limits, Schedule, SettingsSource};
use ringback::telemetry::metrics::Metrics;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const LIMITS: Limits = Limits {
    lane_start: 1,
    lane_cap: 16,
    lease_ms: 60_000,
    remember_ms: None,
    settings_source: SettingsSource::Schedule,
    window: Window::WHOLE,
    early_ms: 0,
};
/// More than a runtime has threads for blocking work.
const HANGING: usize = 600;

/// What name servers do when they are asked for another name than `good.example`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum OtherNames {
    #[default]
    Hang,
    Resolve,
    Refuse,
}

/// Name servers that always answer for `good.example`.
#[derive(Default)]
struct NameServers {
    begun: Mutex<usize>,
    others: Mutex<OtherNames>,
    changed: Condvar,
}

impl HostResolver for NameServers {
    fn resolve(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        *self.begun.lock().expect("sound") += 1;
        if name != "good.example" {
            let others = self.others.lock().expect("sound");
            let hangs = |others: &mut OtherNames| *others == OtherNames::Hang;
            let others = self.changed.wait_while(others, hangs).expect("sound");
            if *others == OtherNames::Refuse {
                return Err(io::Error::other("no such name"));
            }
        }
        Ok(vec![SocketAddr::from(([127, 0, 0, 1], 0))])
    }
}

impl NameServers {
    fn now_do(&self, others: OtherNames) {
        *self.others.lock().expect("sound") = others;
        self.changed.notify_all();
    }

    fn begun(&self) -> usize {
        *self.begun.lock().expect("sound")
    }

    async fn until_begun(&self, many: usize) {
        let begun = async {
            while self.begun() < many {
                short_pause().await;
            }
        };
        within("look-ups that begin", begun).await;
    }
}

async fn register(schedule: &dyn Schedule, id: &str, url: &str) {
    let asked = Registration {
        target: Target::Url(Destination::parse(url).expect("a URL")),
        ..registration(key(id))
    };
    let registering = registering_at(asked, schedule.clock().now_ms());
    let entry = Entry::scheduled(registering.notification, registering.progress);
    schedule.register(entry).await.expect("registered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_name_waits_for_the_look_ups_of_others_spends_no_attempt() {
    /// As many new names as may be looked up at a time.
    const MOST: usize = 64;
    let (names, schedule, dispatcher) = dispatcher(Duration::from_secs(1));
    for number in 0..MOST {
        let url = format!("http://hang-{number}.example/n");
        register(&*schedule, &format!("hang-{number}"), &url).await;
    }
    let hanging = schedule.claim(ClaimQuota::of(MOST)).await.expect("claimed");
    assert_eq!(hanging.leases.len(), MOST);
    let mut calls = JoinSet::new();
    for lease in hanging.leases {
        let worker = dispatcher.worker();
        calls.spawn(async move { worker.run(Box::new(lease)).await });
    }
    names.until_begun(MOST).await;
    register(&*schedule, "good", "http://good.example/n").await;
    // The first call ends without a look-up, and so does the second, for which the notification is due a moment later.
    for lacked in [None, Some(Lacked::Capacity)] {
        let lease = within("a lease", claim_one(&*schedule)).await;
        assert_eq!(lease.entry.notification.key, key("good"));
        assert_eq!(lease.entry.progress.attempts, 0);
        assert_eq!(lease.entry.lacked, lacked);
        within("a call", dispatcher.worker().run(Box::new(lease))).await;
    }
    assert_eq!(names.begun(), MOST);
    within("the calls to end", calls.join_all()).await;
    names.now_do(OtherNames::Refuse);
}

/// Claims until something is due.
async fn claim_one(schedule: &dyn Schedule) -> Lease {
    loop {
        let mut claimed = schedule.claim(ClaimQuota::of(1)).await.expect("claimed");
        match claimed.leases.pop() {
            Some(lease) => return lease,
            None => short_pause().await,
        }
    }
}

/// A dispatcher whose calls have this time limit, the name servers that it asks, and its schedule.
fn dispatcher(timeout: Duration) -> (Arc<NameServers>, Arc<dyn Schedule>, Dispatcher) {
    crate::support::install_tls();
    let names = Arc::new(NameServers::default());
    let client = HttpClient::with_resolver(settings(timeout), names.clone());
    let schedule: Arc<dyn Schedule> = Arc::new(MemorySchedule::new(Arc::new(SystemClock), LIMITS));
    let dispatcher = Dispatcher::new(
        Arc::new(client),
        schedule.clone(),
        None,
        Arc::new(SystemClock),
        4_096,
        Health::new(false),
        Metrics::new(),
    )
    .with_endpoints(no_endpoints());
    (names, schedule, dispatcher)
}

fn settings(timeout: Duration) -> HttpClientSettings {
    HttpClientSettings {
        filter: AddressFilter {
            allowed: vec!["127.0.0.0/8".parse().expect("a network")],
            allow_http: true,
        },
        timeout,
        user_agent: "test".to_string(),
        proxy: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destination_that_answers_is_called_at_once() {
    // No connection is kept, so each call looks the name up.
    let closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 7\r\n\r\nsuccess";
    let closing = Reaction::RawThenClose(closing.to_vec());
    let mut merchant = Merchant::scripted(vec![], closing).await;
    let (names, schedule, dispatcher) = dispatcher(Duration::from_secs(50));
    let drain = CancellationToken::new();
    let stop = Stop {
        drain: drain.clone(),
        drain_timeout: Duration::ZERO,
    };
    let running = tokio::spawn(dispatcher.run(stop));
    let good = format!("http://good.example:{}/n", merchant.port());
    register(&*schedule, "first", &good).await;
    within("the first call", merchant.call()).await;
    for number in 0..HANGING {
        let url = format!("http://hang-{number}.example/n");
        register(&*schedule, &format!("hang-{number}"), &url).await;
    }
    // As many as may be looked up of new destinations, and the one of before.
    names.until_begun(65).await;
    for id in ["second", "third"] {
        register(&*schedule, id, &good).await;
        within("a call", merchant.call()).await;
    }
    assert_eq!(names.begun(), 67);
    // Nor does other work that blocks wait for the look-ups.
    let other = tokio::task::spawn_blocking(|| ());
    within("a thread", other).await.expect("done");
    drain.cancel();
    within("the dispatcher to stop", running)
        .await
        .expect("done");
    names.now_do(OtherNames::Refuse);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn destinations_that_answered_and_whose_names_hang_now_delay_no_other() {
    /// More than may begin to be looked up at a time.
    const PROVEN: usize = 300;
    let closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 7\r\n\r\nsuccess";
    let closing = Reaction::RawThenClose(closing.to_vec());
    let mut merchant = Merchant::scripted(vec![], closing).await;
    let (names, schedule, dispatcher) = dispatcher(Duration::from_secs(50));
    let drain = CancellationToken::new();
    let stop = Stop {
        drain: drain.clone(),
        drain_timeout: Duration::ZERO,
    };
    let running = tokio::spawn(dispatcher.run(stop));
    let good = format!("http://good.example:{}/n", merchant.port());
    let shops =
        (0..PROVEN).map(|number| format!("http://shop-{number}.example:{}/n", merchant.port()));
    let shops: Vec<String> = shops.collect();
    names.now_do(OtherNames::Resolve);
    register(&*schedule, "good-1", &good).await;
    for (number, url) in shops.iter().enumerate() {
        register(&*schedule, &format!("{number}-1"), url).await;
    }
    for _ in 0..=PROVEN {
        merchant.call().await;
    }
    let settled = async {
        while schedule.counts().await.expect("counted").pending > 0 {
            short_pause().await;
        }
    };
    within("every call to be settled", settled).await;
    assert_eq!(names.begun(), 1 + PROVEN);
    names.now_do(OtherNames::Hang);
    for (number, url) in shops.iter().enumerate() {
        register(&*schedule, &format!("{number}-2"), url).await;
    }
    names.until_begun(1 + 2 * PROVEN).await;
    register(&*schedule, "good-2", &good).await;
    within("a call", merchant.call()).await;
    assert_eq!(names.begun(), 2 * (1 + PROVEN));
    drain.cancel();
    within("the dispatcher to stop", running)
        .await
        .expect("done");
    names.now_do(OtherNames::Refuse);
}
