//! The operations that callers and support staff request, over both stores.
//!
//! Owns the order of the writes: the journal first, then the schedule. After a crash in between, only the
//! journal has the registration or the change, until reconciling puts it into the schedule. A repeated
//! registration does that too. Every request here can be repeated safely, with exceptions if it was done and its answer was lost
//! on the way to the caller: a resend or a replay that has ended since begins one more series, and a key without a given
//! secret is made twice. Knows nothing of HTTP;
//! `api` translates.
//!
//! Without a journal the schedule is the record, and remembers ended notifications for a while.

mod activity;
mod alerts;
mod api_keys;
mod audit_log;
mod changes;
mod default_keys;
mod difference;
#[cfg(test)]
mod empty_stores;
mod endpoint_keys;
mod endpoint_loss;
mod endpoint_removal;
mod endpoint_tls;
mod endpoints;
mod error;
mod held;
mod jobs;
mod lane_hold;
mod lanes;
pub mod later;
mod list_limit;
mod locks;
mod lookup;
mod measure;
mod overview;
mod payload;
mod register;
mod reused_names;
mod test_calls;
mod timeouts;
mod waiting;

pub use activity::{ActivityReading, ActivityWindow};
pub use api_keys::{ApiKeyRequest, MadeApiKey};
pub use audit_log::AuditRequest;
pub use endpoint_keys::{AddedKey, KeyToAdd};
pub use endpoint_loss::EndpointLoss;
pub use endpoints::{EndpointPage, EndpointReply, EndpointRequest};
pub use error::{BadApiKeyChange, ServiceError};
pub use jobs::{
    BulkReply, BulkRequest, JobListRequest, JobNotification, JobNotifications, JobPreview,
    LaneRetryRequest, TRIAL, default_rate,
};
pub use lane_hold::calls_wait;
pub use lanes::{HoldReply, LaneListRequest, ReleaseReply};
pub use lookup::{Flights, ListPage, ListRequest};
pub use overview::{StateCounts, TroubledLanes};
pub use payload::SentPayload;
pub use register::RegisterReply;
pub use test_calls::TestCaller;
pub use waiting::{WaitingBecause, WaitingFor};

use crate::access::AccessControl;
use crate::clock::Clock;
use crate::domain::default_keys::DefaultKeyWarning;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use crate::endpoints::Endpoints;
use crate::health::{Health, HealthReport, Store};
use crate::journal::recorder::Recorder;
use crate::journal::{self, Journal};
use crate::schedule::{self, Entry, FoundEntry, LeaseRequest, Schedule};
use crate::telemetry::metrics::Metrics;
use held::may_be_on_its_way;
use list_limit::ListLimit;
use locks::KeyLocks;
use measure::LastReading;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use timeouts::with_timeout;
use tokio::sync::{Notify, Semaphore};
use zeroize::Zeroizing;

/// How long a registration waits for a schedule that is about to be rebuilt.
const LONGEST_REBUILD_WAIT: Duration = Duration::from_secs(2);
/// How long a change by hand waits for a lease. Longer than a registration may be on its way
/// ([`schedule::HAND_LEASE_WAIT_MS`]).
const LONGEST_LEASE_WAIT: Duration = Duration::from_secs(4);
/// Maximum number of test calls at a time. More are refused: they would wait in requests of the API.
const MOST_TEST_CALLS: usize = 16;
/// Maximum number of registered notifications that are read at once to say in which fields a registration differs.
const MOST_COMPARISONS: usize = 2;
/// Wait before the stores are asked again.
const ASK_AGAIN: Duration = Duration::from_millis(5);
/// Longest such wait where many requests may wait at once.
const LONGEST_ASK_AGAIN: Duration = Duration::from_millis(160);

/// The operations on notifications.
pub struct Service {
    recorder: Option<Arc<Recorder>>,
    /// For reading what is registered, to tell a caller in which fields another registration differs.
    comparisons: Semaphore,
    /// For the long readings that callers ask for.
    list_limit: ListLimit,
    access: Arc<AccessControl>,
    endpoints: Arc<Endpoints>,
    test_caller: Option<Arc<dyn TestCaller>>,
    test_calls: Semaphore,
    endpoint_changes: tokio::sync::Mutex<()>,
    schedule: Arc<dyn Schedule>,
    clock: Arc<dyn Clock>,
    locks: KeyLocks,
    /// Requests for a lease whose replies were lost.
    unanswered: Mutex<HashMap<Key, LeaseRequest>>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    last_reading: LastReading,
    /// Wakes the task that takes jobs.
    job_wake: Notify,
}

impl Service {
    /// The operations over these stores. Without a recorder, the schedule is the record.
    #[must_use]
    pub fn new(recorder: Option<Arc<Recorder>>, schedule: Arc<dyn Schedule>) -> Self {
        let clock = schedule.clock();
        Self {
            health: Health::new(recorder.is_some()),
            comparisons: Semaphore::new(MOST_COMPARISONS),
            list_limit: ListLimit::default(),
            metrics: Metrics::new(),
            last_reading: LastReading::default(),
            job_wake: Notify::new(),
            recorder,
            access: Arc::default(),
            endpoints: Arc::default(),
            test_caller: None,
            test_calls: Semaphore::new(MOST_TEST_CALLS),
            endpoint_changes: tokio::sync::Mutex::new(()),
            schedule,
            clock,
            locks: KeyLocks::default(),
            unanswered: Mutex::default(),
        }
    }

    /// Uses this health instead of its own. Other parts report to it too.
    #[must_use]
    pub fn with_health(self, health: Arc<Health>) -> Self {
        Self { health, ..self }
    }

    /// Asks this for the callers of requests.
    #[must_use]
    pub fn with_access(self, access: Arc<AccessControl>) -> Self {
        Self { access, ..self }
    }

    /// Who may send requests.
    #[must_use]
    pub fn access(&self) -> &AccessControl {
        &self.access
    }

    /// The key that signs the cookies of the page: the same on every server with the same master key. `None` without a
    /// master key.
    ///
    /// # Errors
    /// If the master key cannot be made or read, in a sentence.
    pub fn session_key(&self) -> Result<Option<Zeroizing<[u8; 32]>>, String> {
        let key = self.endpoints.keyring().page_sessions();
        key.map_err(|failure| failure.to_string())
    }

    /// Uses these endpoints, and makes test calls this way.
    #[must_use]
    pub fn with_endpoints(
        self,
        endpoints: Arc<Endpoints>,
        test_caller: Arc<dyn TestCaller>,
    ) -> Self {
        Self {
            endpoints,
            test_caller: Some(test_caller),
            ..self
        }
    }

    /// The metrics of this server.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Uses these metrics, which other parts count as well.
    #[must_use]
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// The clock by which notifications are due.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    /// Whether there is a journal.
    #[must_use]
    pub fn has_journal(&self) -> bool {
        self.recorder.is_some()
    }

    /// The health of the stores, by a check now and by the results of earlier calls. Takes a bounded time,
    /// whatever the stores do.
    pub async fn check(&self) -> HealthReport {
        let journal = async {
            if let Some(journal) = self.journal() {
                let check = async { journal::watched::checked(&journal.check().await) };
                self.health.check(Store::Journal, check).await;
            }
        };
        let schedule = async { schedule::watched::checked(&self.schedule.check().await) };
        tokio::join!(journal, self.health.check(Store::Schedule, schedule));
        self.health.report()
    }

    /// The lanes of the endpoints to which this server sends nothing, because it cannot open one of their keys.
    #[must_use]
    pub fn unusable_endpoints(&self) -> Arc<BTreeSet<Lane>> {
        self.schedule.skipped_lanes().with_unusable_keys()
    }

    /// What a person should know if the default keys sign nothing on this server.
    #[must_use]
    pub fn default_keys_warning(&self) -> Option<DefaultKeyWarning> {
        self.endpoints.default_keys().warning()
    }

    fn journal(&self) -> Option<&dyn Journal> {
        self.recorder.as_ref().map(|recorder| recorder.journal())
    }

    /// The recorded state of a notification, without its attempts.
    async fn recorded(&self, key: &Key) -> Result<Option<Snapshot>, ServiceError> {
        match &self.recorder {
            Some(recorder) => Ok(with_timeout(recorder.snapshot(key.clone())).await?),
            None => Ok(with_timeout(self.schedule.find(key))
                .await?
                .map(snapshot_of)),
        }
    }

    /// Makes sure that a notification that is pending in the journal is in the schedule: after a crash or an
    /// outage between the two writes it may be missing. Returns whether it is in flight.
    ///
    /// Waits as long as its registration may be on its way from the server that accepted it. Such a registration is sent
    /// without asking the journal if it arrives soon after it was accepted. If this function put the notification in before that,
    /// it could be sent and forgotten, or be cancelled, and then be sent again.
    async fn ensure_scheduled(
        &self,
        journal: &dyn Journal,
        recorded: &Snapshot,
    ) -> Result<bool, ServiceError> {
        if !self.is_in_window(&recorded.progress) {
            return Ok(false);
        }
        let entry = [recorded.key_in_lane()];
        let (started, mut wait) = (Instant::now(), ASK_AGAIN);
        loop {
            if let [Some(holding)] = with_timeout(self.schedule.holds(&entry)).await?[..] {
                return Ok(holding.in_flight);
            }
            let Some(pending) = with_timeout(journal.pending(&recorded.key)).await? else {
                return Ok(false);
            };
            let now_ms = self.clock.now_ms();
            if !may_be_on_its_way(recorded, now_ms) || started.elapsed() > LONGEST_LEASE_WAIT {
                // The notification may end after it was read and before its entry is put in. So the entry is
                // verified when it is claimed.
                let entry = Entry {
                    verify: true,
                    ..Entry::scheduled(pending.notification, pending.progress)
                };
                with_timeout(self.schedule.register(entry)).await?;
                return Ok(false);
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_ASK_AGAIN);
        }
    }

    /// Whether a notification with this progress must be in the schedule now. If not, it waits in the journal
    /// ([`crate::schedule::window`]), which must have committed it before this is asked.
    fn is_in_window(&self, progress: &Progress) -> bool {
        let window = self.schedule.limits().window;
        window.includes(progress.next_due_ms(), self.clock.now_ms())
    }
}

/// A schedule's entry as callers see it.
fn snapshot_of(found: FoundEntry) -> Snapshot {
    let FoundEntry { entry, in_flight } = found;
    Snapshot {
        in_flight,
        state: entry.state,
        cause: entry.cause,
        ended_ms: entry.ended_ms,
        ..Snapshot::of_new(&entry.notification, entry.progress)
    }
}
