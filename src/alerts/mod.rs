//! Alerts: tells the operator's own endpoints when something is wrong with the service, and when it is well again.
//!
//! An alert is an ordinary notification with the topic `ringback.alert`, registered through [`crate::service`]. So it is
//! recorded, signed, retried and shown like all others. Only the alert that a store cannot be used is sent by calls of this
//! server, since it could not be registered.
//!
//! | file | what it decides or does |
//! |---|---|
//! | `destinations` | which destinations fail, and which are back; `budget` bounds how many alerts tell that |
//! | `dead_letters` | whether dead letters pile up |
//! | `lateness` | whether the attempts of this server begin late |
//! | `stores` | whether this server cannot use a store |
//! | `shared` | makes the first two checks, on one server at a time |
//! | `sender` | registers alerts, or makes the calls |
//!
//! What all servers see alike is told once. What each server sees for itself (its attempts, its connection to a store) each
//! tells, and names itself. An alert is never about the alerts: the lanes of their endpoints and their dead letters do not
//! count.

mod budget;
mod dead_letters;
mod destinations;
mod lateness;
mod sender;
mod shared;
mod stores;

pub use sender::AlertCaller;

use crate::clock::{Clock, millis};
use crate::domain::alert::PreparedAlert;
use crate::domain::endpoint::EndpointName;
use crate::domain::lane::Lane;
use crate::endpoints::Endpoints;
use crate::health::words_of;
use crate::journal::Journal;
use crate::schedule::Schedule;
use crate::service::Service;
use crate::telemetry::metrics::Metrics;
use lateness::LatenessAlerts;
use sender::AlertSender;
use shared::{CheckPosition, SharedChecks, drop_oldest};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stores::{ObservedStore, StoreAlerts};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// With every how many checks the stores are asked. In between, the results of calls so far count; once a store fails, it is
/// asked again and again by others.
const ASK_STORES_EVERY: u32 = 3;
/// How long the checks of what all servers see alike may take.
const LONGEST_CHECK: Duration = Duration::from_secs(10);

/// When there are alerts, and who gets them. What is `None` makes no alerts.
#[derive(Debug, Clone)]
pub struct AlertSettings {
    /// The endpoints that get all alerts.
    pub endpoints: Vec<EndpointName>,
    /// For how long a destination has failed when it is told.
    pub failing_after: Option<Duration>,
    /// How many dead letters within an hour are told.
    pub dead_letters: Option<u64>,
    /// How late an attempt begins that counts as late.
    pub late_after: Option<Duration>,
    /// For how long a store could not be used when it is told.
    pub store_after: Option<Duration>,
    /// The time between two checks.
    pub check_every: Duration,
    /// The name of this server.
    pub server: String,
}

/// The parts of a server that alerts need.
pub struct AlertParts {
    /// Registers the alerts.
    pub service: Arc<Service>,
    /// The endpoints that get them.
    pub endpoints: Arc<Endpoints>,
    /// The schedule.
    pub schedule: Arc<dyn Schedule>,
    /// The journal, if there is one.
    pub journal: Option<Arc<dyn Journal>>,
    /// Makes the calls if the stores are away.
    pub caller: Arc<dyn AlertCaller>,
    /// Counts attempts and alerts.
    pub metrics: Arc<Metrics>,
}

/// The checks of one server.
pub struct Alerts {
    settings: AlertSettings,
    clock: Arc<dyn Clock>,
    sender: AlertSender,
    shared: SharedChecks,
    lateness: LatenessAlerts,
    stores: StoreAlerts,
    /// Alerts of this server alone that are not registered yet.
    waiting: Vec<PreparedAlert>,
    /// The calls that this server makes itself: at most one at a time for each store and endpoint.
    calls: JoinSet<()>,
    /// By store: what is cancelled when the calls about it are over.
    direct: BTreeMap<&'static str, CancellationToken>,
    /// How many checks were made.
    checks: u32,
    /// Whether it was logged that the checks cannot be made.
    logged: bool,
}

impl Alerts {
    /// The checks with these settings.
    #[must_use]
    pub fn new(settings: AlertSettings, parts: AlertParts) -> Self {
        if let Some(late_after) = settings.late_after {
            parts.metrics.count_late_after(millis(late_after));
        }
        Self {
            clock: parts.schedule.clock(),
            shared: SharedChecks {
                journal: parts.journal,
                schedule: parts.schedule,
                excluded: settings.endpoints.iter().map(Lane::of_endpoint).collect(),
                failing_after_ms: settings.failing_after.map(millis),
                dead_letters: settings.dead_letters,
                position: CheckPosition::default(),
            },
            sender: AlertSender {
                names: settings.endpoints.clone(),
                service: parts.service,
                endpoints: parts.endpoints,
                caller: parts.caller,
                metrics: parts.metrics,
            },
            settings,
            lateness: LatenessAlerts::default(),
            stores: StoreAlerts::default(),
            waiting: Vec::new(),
            calls: JoinSet::new(),
            direct: BTreeMap::new(),
            checks: 0,
            logged: false,
        }
    }

    /// Makes the checks again and again until stopped. May be stopped at any point.
    pub async fn run(mut self, stop: CancellationToken) {
        let checking = async {
            loop {
                self.check().await;
                tokio::time::sleep(self.settings.check_every).await;
            }
        };
        stop.run_until_cancelled(checking).await;
    }

    async fn check(&mut self) {
        while self.calls.try_join_next().is_some() {}
        self.check_stores().await;
        self.check_lateness();
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting = self.sender.register_all(waiting).await;
        let now_ms = self.clock.now_ms();
        let checking = self.shared.run(&self.sender, now_ms);
        match tokio::time::timeout(LONGEST_CHECK, checking).await {
            Ok(Ok(())) => self.logged = false,
            // `health` logs the outages of the stores.
            Ok(Err(error)) if self.logged || error.may_pass() => tracing::debug!(
                %error,
                "destinations and dead letters could not be checked for alerts; trying again"
            ),
            Ok(Err(error)) => {
                self.logged = true;
                tracing::error!(
                    %error,
                    "destinations and dead letters could not be checked for alerts; trying again"
                );
            }
            Err(_) => {
                tracing::debug!(
                    "the check of destinations and dead letters for alerts took too long; trying again"
                );
                self.shared.give_back().await;
            }
        }
    }

    /// Checks the stores, now and then by calls to them: a server without work would not notice that they are away.
    async fn check_stores(&mut self) {
        let Some(store_after) = self.settings.store_after else {
            return;
        };
        let service = &self.sender.service;
        let report = match self.checks % ASK_STORES_EVERY {
            0 => service.check().await,
            _ => service.known_health(),
        };
        self.checks = self.checks.wrapping_add(1);
        let now_ms = self.clock.now_ms();
        let by = (self.settings.server.as_str(), millis(store_after));
        for (store, report) in report.stores {
            let seen = ObservedStore {
                store: store.as_str(),
                state: report.state.as_str(),
                away_ms: report.lasted.map(millis),
                cause: report.cause.as_deref().map(words_of),
            };
            let Some(alert) = self.stores.decide(seen, by, now_ms) else {
                continue;
            };
            let alert = alert.prepare();
            if alert.kind.is_recovery() {
                // What came after this would say that the store is away again.
                if let Some(over) = self.direct.remove(store.as_str()) {
                    over.cancel();
                }
                self.waiting.push(alert);
            } else {
                let over = CancellationToken::new();
                (self.sender).send_directly(&alert, &mut self.calls, &over);
                self.direct.insert(store.as_str(), over);
            }
        }
        drop_oldest(&mut self.waiting);
    }

    fn check_lateness(&mut self) {
        let Some(late_after) = self.settings.late_after else {
            return;
        };
        let by = (self.settings.server.as_str(), millis(late_after));
        let counts = self.sender.metrics.lateness();
        let alert = self.lateness.decide(counts, by, self.clock.now_ms());
        self.waiting.extend(alert.map(|alert| alert.prepare()));
        drop_oldest(&mut self.waiting);
    }
}
