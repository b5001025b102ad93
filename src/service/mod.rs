//! The operations that callers and support staff request, over both stores.
//!
//! Owns the order of the writes: the journal first, then the schedule. After a crash in between, only the
//! journal has the registration or the change, until reconciling puts it into the schedule. A repeated
//! registration does that too. Every request here can be repeated safely. Knows nothing of HTTP; `api`
//! translates.
//!
//! Without a journal the schedule is the record, and remembers ended notifications for a while.

mod activity;
mod alerts;
mod api_keys;
mod audit_log;
mod changes;
mod default_keys;
mod difference;
mod endpoint_keys;
mod endpoint_tls;
mod endpoints;
mod held;
mod jobs;
mod lanes;
pub mod later;
mod locks;
mod lookup;
mod measure;
mod overview;
mod payload;
mod register;
mod reused_names;
mod timeouts;
mod waiting;

pub use activity::{ActivityReading, ActivityWindow};
pub use api_keys::{ApiKeyRequest, BadApiKeyChange, MadeApiKey};
pub use audit_log::AuditRequest;
pub use endpoint_keys::{AddedKey, KeyToAdd};
pub use endpoints::{EndpointPage, EndpointReply, EndpointRequest, TestCaller};
pub use jobs::{
    BulkReply, BulkRequest, JobListRequest, JobNotification, JobNotifications, JobPreview,
    LaneRetryRequest, TRIAL, default_rate,
};
pub use lanes::{HoldReply, LaneListRequest, ReleaseReply};
pub use lookup::{Flights, ListPage, ListRequest};
pub use overview::{StateCounts, TroubledLanes};
pub use payload::SentPayload;
pub use register::RegisterReply;
pub use waiting::{WaitingBecause, WaitingFor};

use crate::access::AccessControl;
use crate::clock::Clock;
use crate::domain::change::Change;
use crate::domain::default_keys::{BadDefaultKeyChange, DefaultKeyWarning};
use crate::domain::endpoint::{EndpointName, MOST_ENDPOINTS};
use crate::domain::endpoint_keys::BadKeyChange;
use crate::domain::endpoint_tls::BadTls;
use crate::domain::job::BulkJob;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::order::OrderConflict;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use crate::endpoints::Endpoints;
use crate::health::{Health, HealthReport, Store};
use crate::journal::recorder::Recorder;
use crate::journal::{self, Journal, JournalError, MOST_TOPICS};
use crate::keyring::SealFailure;
use crate::schedule::memory_budget::MemoryLimitReached;
use crate::schedule::{self, Entry, FoundEntry, LeaseRequest, Schedule, ScheduleError};
use crate::telemetry::metrics::Metrics;
use locks::KeyLocks;
use measure::LastReading;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thiserror::Error;
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

/// The operations on notifications.
pub struct Service {
    recorder: Option<Arc<Recorder>>,
    /// For reading what is registered, to tell a caller in which fields another registration differs.
    comparisons: Semaphore,
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

/// Why a request was not done.
#[derive(Debug, Clone, Error)]
pub enum ServiceError {
    /// No such notification.
    #[error("there is no notification of this topic and id")]
    Missing,
    /// The key was registered before with different content.
    #[error(
        "this topic and id were registered before with different content{}",
        named_fields(differing)
    )]
    Mismatch {
        /// The notification that was registered.
        snapshot: Box<Snapshot>,
        /// The names of the fields that differ, as far as what was registered is still kept.
        differing: Vec<&'static str>,
    },
    /// The key was registered before with the same content, and the notification was cancelled. Nothing will be
    /// sent. This is an error, so that a caller whose first answer was lost does not take it for a schedule.
    #[error(
        "this topic and id were registered before, and the notification was cancelled: nothing will be sent; to have it \
         sent, register it under another id"
    )]
    Cancelled(Box<Snapshot>),
    /// A registration cannot have the place in the order that it asks for. Nothing was kept.
    #[error("{conflict}{}", named_other(other.as_ref()))]
    OutOfOrder {
        /// Why.
        conflict: OrderConflict,
        /// The notification that is in the way, if it is known.
        other: Option<Key>,
    },
    /// The change sends a notification again, and a higher number of its order was registered. Nothing was changed.
    #[error(
        "a higher number of this notification's order was registered, and only the latest counts: it is not sent again"
    )]
    Superseded(Box<Snapshot>),
    /// The change sends a notification again whose endpoint was removed, and another one was made under its name, which
    /// may belong to somebody else. Nothing was changed.
    #[error(
        "the endpoint that this notification names was removed and made again since the notification was registered, and \
         may belong to somebody else by now: it is not sent again; to have it sent, register it under another id"
    )]
    EndpointMadeAgain(Box<Snapshot>),
    /// The notification's state does not allow the change.
    #[error("{}", change.refusal(snapshot))]
    Refused {
        /// The requested change.
        change: Change,
        /// The notification.
        snapshot: Box<Snapshot>,
    },
    /// A registration names an endpoint that does not exist.
    #[error("there is no endpoint `{0}`")]
    UnknownEndpoint(EndpointName),
    /// No such endpoint.
    #[error("there is no endpoint of this name")]
    MissingEndpoint,
    /// There are as many endpoints as there may be.
    #[error(
        "there are {MOST_ENDPOINTS} endpoints, and there may be no more; remove those that are not used"
    )]
    TooManyEndpoints,
    /// Another change of the endpoint is being made.
    #[error("another change of an endpoint is being made; ask again")]
    EndpointUnsettled,
    /// The endpoint cannot be read, and a request leaves out what would be kept. Nothing was changed.
    #[error(
        "this endpoint cannot be read, so its signing keys cannot be kept; replace it as a whole: give `keys` too, with `[]` \
         for none"
    )]
    UnreadableEndpoint,
    /// As many test calls are in flight as there may be.
    #[error("too many test calls are in flight; ask again")]
    TooManyTestCalls,
    /// Notifications that are pending name the endpoint.
    #[error(
        "notifications that name this endpoint are pending; wait for their end or cancel them, then remove it"
    )]
    EndpointInUse,
    /// The notification cannot be sent again, because its body was deleted. Nothing was changed.
    #[error(
        "the body of this notification was deleted, so it cannot be sent again; --keep-payloads says how long bodies are \
         kept"
    )]
    PayloadDeleted(Box<Snapshot>),
    /// The headers and the body of the notification are not kept any more.
    #[error(
        "the headers and the body of this notification are not kept any more; --keep-payloads says how long they are kept, \
         and without a journal only what is pending or dead has them"
    )]
    PayloadGone,
    /// The signing keys of the endpoint cannot be changed in this way.
    #[error(transparent)]
    KeyChange(#[from] BadKeyChange),
    /// The default keys cannot be changed in this way.
    #[error(transparent)]
    DefaultKeyChange(#[from] BadDefaultKeyChange),
    /// The API keys cannot be changed in this way.
    #[error(transparent)]
    ApiKeyChange(#[from] BadApiKeyChange),
    /// The TLS settings of the endpoint cannot be used. Nothing was changed.
    #[error(transparent)]
    Tls(#[from] BadTls),
    /// The endpoint has this secret already, but only for some time.
    #[error(
        "the endpoint has this secret already, as the key {0}, which signs only for some time; remove that key first"
    )]
    EndingKey(String),
    /// This server shares its journal and was given no master key.
    #[error(
        "this server was given no master key, so other servers of its journal could not use a signing key that it \
         encrypts; start all of them with the same --master-key or --master-key-file, then add the key"
    )]
    NoMasterKey,
    /// The store has keys that another master key encrypted.
    #[error(
        "the signing keys that the servers share were encrypted with another master key than that of this server; start this \
         server with the master key of the others"
    )]
    OtherMasterKey,
    /// A key cannot be encrypted.
    #[error("a signing key cannot be encrypted: {0}")]
    Sealing(SealFailure),
    /// Another write of it is not finished, or it is not known whether this one was. A later request finds
    /// out.
    #[error("something about this notification is still being written down; ask again")]
    Unsettled,
    /// The request needs a journal, and there is none. Contains what the server cannot do.
    #[error("this server keeps no journal, so it cannot {0}")]
    NoJournal(&'static str),
    /// Too much is pending; nothing was done. A later request succeeds when something was delivered.
    #[error(transparent)]
    Full(#[from] MemoryLimitReached),
    /// Nothing is known of this lane: nothing was done.
    #[error(
        "nothing is known of the destination {0}: no notification that is kept goes there, nothing waits there, it has no \
         settings, and there is no such endpoint; check its spelling"
    )]
    MissingLane(Lane),
    /// There is no job of this id.
    #[error("there is no job of this id")]
    MissingJob,
    /// The job has ended, so it takes no orders.
    #[error("the job has ended: it is {}", .0.state)]
    JobEnded(Box<BulkJob>),
    /// Another job of the lane has not ended. Nothing was done.
    #[error(
        "the job {} of this lane is {}, and a lane has one at a time; wait for its end, or stop it", .0.id, .0.state
    )]
    JobRuns(Box<BulkJob>),
    /// As many jobs have not ended as there may be. Nothing was done.
    #[error(
        "{0} jobs have not ended, and there may be no more; wait for the end of some, or stop them"
    )]
    TooManyJobs(usize),
    /// The cursor is not one that a list returned.
    #[error("invalid cursor; use the `next_cursor` of a list")]
    BadCursor,
    /// An id is looked for in all topics, and there are too many. Nothing was looked for.
    #[error(
        "the journal has more than {MOST_TOPICS} topics, too many to look for an id in each; name the topic"
    )]
    TooManyTopics,
    /// The journal failed; the caller must not assume that anything was done.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The schedule failed; the caller must not assume that anything was done.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

fn named_fields(differing: &[&str]) -> String {
    match differing {
        [] => String::new(),
        differing => format!(": {}", differing.join(", ")),
    }
}

fn named_other(other: Option<&Key>) -> String {
    other.map_or(String::new(), |other| {
        format!("; the other is {} {}", other.topic(), other.id())
    })
}

impl ServiceError {
    /// Whether the same request may succeed later, although nobody changes it.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Journal(error) => error.may_pass(),
            Self::Schedule(error) => error.may_pass(),
            error => matches!(error, Self::Unsettled),
        }
    }
}

impl Service {
    /// The operations over these stores. Without a recorder, the schedule is the record.
    #[must_use]
    pub fn new(recorder: Option<Arc<Recorder>>, schedule: Arc<dyn Schedule>) -> Self {
        let clock = schedule.clock();
        Self {
            health: Health::new(recorder.is_some()),
            comparisons: Semaphore::new(MOST_COMPARISONS),
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
        self.schedule.skipped_lanes().current()
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
    async fn ensure_scheduled(
        &self,
        journal: &dyn Journal,
        recorded: &Snapshot,
    ) -> Result<bool, ServiceError> {
        if !self.is_in_window(&recorded.progress) {
            return Ok(false);
        }
        let entry = [recorded.key_in_lane()];
        if let [Some(holding)] = with_timeout(self.schedule.holds(&entry)).await?[..] {
            return Ok(holding.in_flight);
        }
        if let Some(pending) = with_timeout(journal.pending(&recorded.key)).await? {
            // The notification may end after it was read and before its entry is put in. So the entry is
            // verified when it is claimed.
            let entry = Entry {
                verify: true,
                ..Entry::scheduled(pending.notification, pending.progress)
            };
            with_timeout(self.schedule.register(entry)).await?;
        }
        Ok(false)
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
