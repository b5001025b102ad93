//! A journal around another one: it sees every call and its reply, and passes on what it does not change.
//!
//! Every call is passed on here, once. A type that watches, times or delays them implements [`JournalDecorator`].

pub use super::journal_call::JournalCall;
use super::{
    Actor, AddingApiKey, AllSetAside, ApiKeyAdded, ApiKeyRevoked, ApiKeyRow, AuditFilter,
    AuditPage, BodyReading, ChangeResult, Changing, ChangingDefaultKeys, Cursor, DayReading,
    DaySelection, DefaultKeysChanged, EndpointRow, EndpointSet, Examined, Filter, FoundStanding,
    JobAdded, JobMatches, JobOrdered, JobPage, JobStep, JobStepped, JobTrial, Journal,
    JournalActivity, JournalApiKeys, JournalAuditLog, JournalCounts, JournalDefaultKeys,
    JournalEndpoints, JournalError, JournalJobs, JournalMaintenance, JournalReads, JournalWrites,
    LaneOrder, ListedUnchanged, Noting, Order, PageBodies, PartitionWork, Payload, Pending,
    PersonAct, PlacesPage, Prune, Pruned, ReasonCounts, Rebuild, Recorded, Recording,
    RegisterResult, Registering, RemovingEndpoint, RevokingApiKey, SettingAside, SettingEndpoint,
    SnapshotPage, StoredEndpoint, TakenJob, Transition,
};
use crate::domain::activity::{ActivityBucket, ActivityCounts};
use crate::domain::attempt::Attempt;
use crate::domain::default_keys::DefaultKeys;
use crate::domain::endpoint::EndpointName;
use crate::domain::job::{BulkJob, JobId, JobOrder, JobSelection, JobState};
use crate::domain::job_result::JobResult;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::LaneChanges;
use crate::domain::later::{LaneAfter, LaterCount};
use crate::domain::snapshot::Snapshot;
use async_trait::async_trait;
use bytes::Bytes;
use std::future::Future;

/// A journal around another one. Everything that implements this is a [`Journal`].
pub trait JournalDecorator: Send + Sync + 'static {
    /// The journal that does the work.
    fn inner(&self) -> &dyn Journal;

    /// Makes a call to the inner journal. The call begins when `calling` is first polled.
    fn around<T: Send>(
        &self,
        call: JournalCall,
        calling: impl Future<Output = Result<T, JournalError>> + Send,
    ) -> impl Future<Output = Result<T, JournalError>> + Send;

    /// See [`JournalMaintenance::duty`].
    fn duty(
        &self,
        name: &str,
        ttl_ms: i64,
    ) -> impl Future<Output = Result<bool, JournalError>> + Send {
        async move {
            let calling = self.inner().duty(name, ttl_ms);
            self.around(JournalCall::Duty, calling).await
        }
    }
}

/// Passes a call to `around`, unless its list is empty. A journal may answer an empty list without asking its
/// database, so such a call says nothing about the database.
macro_rules! unless_empty {
    ($self:ident, $call:ident, $method:ident, $list:expr) => {
        if $list.is_empty() {
            $self.inner().$method($list).await
        } else {
            $self
                .around(JournalCall::$call, $self.inner().$method($list))
                .await
        }
    };
}

#[async_trait]
impl<Decorator: JournalDecorator> JournalWrites for Decorator {
    async fn register(&self, batch: &[Registering]) -> Result<Vec<RegisterResult>, JournalError> {
        unless_empty!(self, Register, register, batch)
    }

    async fn record(&self, batch: &[Recording]) -> Result<Vec<Recorded>, JournalError> {
        unless_empty!(self, Record, record, batch)
    }

    async fn fence(&self, keys: &[Key]) -> Result<Vec<Option<Snapshot>>, JournalError> {
        unless_empty!(self, Fence, fence, keys)
    }

    async fn fence_pendings(&self, keys: &[Key]) -> Result<Vec<Option<Pending>>, JournalError> {
        unless_empty!(self, Fence, fence_pendings, keys)
    }

    async fn change(&self, changing: Changing) -> Result<ChangeResult, JournalError> {
        let calling = self.inner().change(changing);
        self.around(JournalCall::Change, calling).await
    }

    async fn change_lane(&self, order: &LaneOrder) -> Result<i64, JournalError> {
        let calling = self.inner().change_lane(order);
        self.around(JournalCall::ChangeLane, calling).await
    }

    async fn set_aside(&self, setting: &SettingAside) -> Result<(), JournalError> {
        let calling = self.inner().set_aside(setting);
        self.around(JournalCall::SetAside, calling).await
    }
}

#[async_trait]
impl<Decorator: JournalDecorator> JournalReads for Decorator {
    fn id(&self) -> &str {
        self.inner().id()
    }

    async fn find(&self, key: &Key) -> Result<Option<Snapshot>, JournalError> {
        let calling = self.inner().find(key);
        self.around(JournalCall::Find, calling).await
    }

    async fn snapshots(&self, keys: &[Key]) -> Result<Vec<Option<Snapshot>>, JournalError> {
        unless_empty!(self, Snapshots, snapshots, keys)
    }

    async fn standings(&self, keys: &[Key]) -> Result<Vec<FoundStanding>, JournalError> {
        unless_empty!(self, Standings, standings, keys)
    }

    async fn transitions(&self, key: &Key) -> Result<Vec<Transition>, JournalError> {
        let calling = self.inner().transitions(key);
        self.around(JournalCall::Transitions, calling).await
    }

    async fn pending(&self, key: &Key) -> Result<Option<Pending>, JournalError> {
        let calling = self.inner().pending(key);
        self.around(JournalCall::Pending, calling).await
    }

    async fn pendings(&self, keys: &[Key]) -> Result<Vec<Option<Pending>>, JournalError> {
        unless_empty!(self, Pendings, pendings, keys)
    }

    async fn pendings_with_bodies(
        &self,
        keys: &[Key],
    ) -> Result<Vec<Option<Pending>>, JournalError> {
        unless_empty!(self, Pendings, pendings_with_bodies, keys)
    }

    async fn payload(&self, key: &Key, body: BodyReading) -> Result<Option<Payload>, JournalError> {
        let calling = self.inner().payload(key, body);
        self.around(JournalCall::Payload, calling).await
    }

    async fn bodies(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, JournalError> {
        unless_empty!(self, Bodies, bodies, keys)
    }

    async fn last_attempts(&self, keys: &[Key]) -> Result<Vec<Option<Attempt>>, JournalError> {
        unless_empty!(self, LastAttempts, last_attempts, keys)
    }

    async fn later_lanes(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Lane>, JournalError> {
        let calling = self.inner().later_lanes(after, limit);
        self.around(JournalCall::LaterLanes, calling).await
    }

    async fn count_later(
        &self,
        lanes: &[LaneAfter],
        most: usize,
    ) -> Result<Vec<LaterCount>, JournalError> {
        match lanes.is_empty() {
            true => self.inner().count_later(lanes, most).await,
            false => {
                let calling = self.inner().count_later(lanes, most);
                self.around(JournalCall::CountLater, calling).await
            }
        }
    }

    async fn list_scanned(
        &self,
        filter: &Filter,
        order: Order,
        cursor: Option<Cursor>,
        limit: usize,
        most_scanned: usize,
    ) -> Result<SnapshotPage, JournalError> {
        let calling = (self.inner()).list_scanned(filter, order, cursor, limit, most_scanned);
        self.around(JournalCall::List, calling).await
    }
}

#[async_trait]
impl<Decorator: JournalDecorator> JournalEndpoints for Decorator {
    async fn set_endpoint(&self, setting: &SettingEndpoint) -> Result<EndpointSet, JournalError> {
        let calling = self.inner().set_endpoint(setting);
        self.around(JournalCall::SetEndpoint, calling).await
    }

    async fn remove_endpoint(&self, removing: &RemovingEndpoint) -> Result<bool, JournalError> {
        let calling = self.inner().remove_endpoint(removing);
        self.around(JournalCall::RemoveEndpoint, calling).await
    }

    async fn endpoint(&self, name: &EndpointName) -> Result<Option<StoredEndpoint>, JournalError> {
        let calling = self.inner().endpoint(name);
        self.around(JournalCall::Endpoint, calling).await
    }

    async fn endpoints_after(
        &self,
        number: i64,
        limit: usize,
    ) -> Result<Vec<EndpointRow>, JournalError> {
        let calling = self.inner().endpoints_after(number, limit);
        self.around(JournalCall::EndpointsAfter, calling).await
    }
}

#[async_trait]
impl<Decorator: JournalDecorator> JournalDefaultKeys for Decorator {
    async fn default_keys(&self) -> Result<DefaultKeys, JournalError> {
        let calling = self.inner().default_keys();
        self.around(JournalCall::DefaultKeys, calling).await
    }

    async fn change_default_keys(
        &self,
        changing: &ChangingDefaultKeys,
    ) -> Result<DefaultKeysChanged, JournalError> {
        let calling = self.inner().change_default_keys(changing);
        self.around(JournalCall::ChangeDefaultKeys, calling).await
    }
}

#[async_trait]
impl<Decorator: JournalDecorator> JournalApiKeys for Decorator {
    async fn api_keys(&self) -> Result<Vec<ApiKeyRow>, JournalError> {
        let calling = self.inner().api_keys();
        self.around(JournalCall::ApiKeys, calling).await
    }

    async fn add_api_key(&self, adding: &AddingApiKey) -> Result<ApiKeyAdded, JournalError> {
        let calling = self.inner().add_api_key(adding);
        self.around(JournalCall::AddApiKey, calling).await
    }

    async fn revoke_api_key(
        &self,
        revoking: &RevokingApiKey,
    ) -> Result<ApiKeyRevoked, JournalError> {
        let calling = self.inner().revoke_api_key(revoking);
        self.around(JournalCall::RevokeApiKey, calling).await
    }
}

#[async_trait]
impl<Decorator: JournalDecorator> JournalAuditLog for Decorator {
    async fn keep_act(&self, act: &PersonAct) -> Result<(), JournalError> {
        let calling = self.inner().keep_act(act);
        self.around(JournalCall::KeepAct, calling).await
    }

    async fn audit_log(
        &self,
        filter: &AuditFilter,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<AuditPage, JournalError> {
        let calling = self.inner().audit_log(filter, cursor, limit);
        self.around(JournalCall::AuditLog, calling).await
    }
}

#[async_trait]
impl<Decorator: JournalDecorator> JournalJobs for Decorator {
    async fn add_job(&self, job: &BulkJob) -> Result<JobAdded, JournalError> {
        let calling = self.inner().add_job(job);
        self.around(JournalCall::AddJob, calling).await
    }

    async fn job_obstacle(&self, job: &BulkJob) -> Result<Option<JobAdded>, JournalError> {
        let calling = self.inner().job_obstacle(job);
        self.around(JournalCall::JobObstacle, calling).await
    }

    async fn job(&self, id: &JobId) -> Result<Option<BulkJob>, JournalError> {
        let calling = self.inner().job(id);
        self.around(JournalCall::Job, calling).await
    }

    async fn jobs(
        &self,
        state: Option<JobState>,
        before: Option<&JobId>,
        limit: usize,
    ) -> Result<Vec<BulkJob>, JournalError> {
        let calling = self.inner().jobs(state, before, limit);
        self.around(JournalCall::Jobs, calling).await
    }

    async fn order_job(
        &self,
        id: &JobId,
        order: JobOrder,
        actor: &Actor,
        reason: &str,
        at_ms: i64,
    ) -> Result<JobOrdered, JournalError> {
        let calling = self.inner().order_job(id, order, actor, reason, at_ms);
        self.around(JournalCall::OrderJob, calling).await
    }

    async fn take_job(&self, lease_ms: i64) -> Result<Option<TakenJob>, JournalError> {
        let calling = self.inner().take_job(lease_ms);
        self.around(JournalCall::TakeJob, calling).await
    }

    async fn keep_job(&self, id: &JobId, fence: i64, lease_ms: i64) -> Result<bool, JournalError> {
        let calling = self.inner().keep_job(id, fence, lease_ms);
        self.around(JournalCall::KeepJob, calling).await
    }

    async fn retake_job(
        &self,
        id: &JobId,
        fence: i64,
        lease_ms: i64,
    ) -> Result<Option<TakenJob>, JournalError> {
        let calling = self.inner().retake_job(id, fence, lease_ms);
        self.around(JournalCall::RetakeJob, calling).await
    }

    async fn step_job(&self, step: &JobStep) -> Result<JobStepped, JournalError> {
        let calling = self.inner().step_job(step);
        self.around(JournalCall::StepJob, calling).await
    }

    async fn job_page(
        &self,
        selection: &JobSelection,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<JobPage, JournalError> {
        let calling = self.inner().job_page(selection, cursor, limit);
        self.around(JournalCall::JobPage, calling).await
    }

    async fn job_matches(
        &self,
        selection: &JobSelection,
        cursor: Option<Cursor>,
    ) -> Result<JobMatches, JournalError> {
        let calling = self.inner().job_matches(selection, cursor);
        self.around(JournalCall::JobMatches, calling).await
    }

    async fn job_changes(
        &self,
        id: &JobId,
        since_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<JobPage, JournalError> {
        let calling = self.inner().job_changes(id, since_ms, cursor, limit);
        self.around(JournalCall::JobChanges, calling).await
    }

    async fn job_trial(
        &self,
        id: &JobId,
        since_ms: i64,
        most: usize,
    ) -> Result<JobTrial, JournalError> {
        let calling = self.inner().job_trial(id, since_ms, most);
        self.around(JournalCall::JobTrial, calling).await
    }

    async fn job_unchanged(
        &self,
        id: &JobId,
        result: JobResult,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ListedUnchanged>, JournalError> {
        let calling = self.inner().job_unchanged(id, result, after, limit);
        self.around(JournalCall::JobUnchanged, calling).await
    }

    async fn job_reasons(&self, id: &JobId) -> Result<ReasonCounts, JournalError> {
        let calling = self.inner().job_reasons(id);
        self.around(JournalCall::JobReasons, calling).await
    }
}

#[async_trait]
impl<Decorator: JournalDecorator> JournalActivity for Decorator {
    async fn keep_activity(
        &self,
        server: &str,
        minutes: &[(i64, ActivityCounts)],
    ) -> Result<(), JournalError> {
        let calling = self.inner().keep_activity(server, minutes);
        self.around(JournalCall::KeepActivity, calling).await
    }

    async fn activity(
        &self,
        from_minute: i64,
        until_minute: i64,
        bucket_minutes: i64,
    ) -> Result<Vec<ActivityBucket>, JournalError> {
        let calling = (self.inner()).activity(from_minute, until_minute, bucket_minutes);
        self.around(JournalCall::Activity, calling).await
    }
}

#[async_trait]
impl<Decorator: JournalDecorator> JournalMaintenance for Decorator {
    async fn all_set_aside(&self, limit: usize) -> Result<AllSetAside, JournalError> {
        let calling = self.inner().all_set_aside(limit);
        self.around(JournalCall::AllSetAside, calling).await
    }

    async fn pending_page(
        &self,
        cursor: Option<Cursor>,
        until_ms: i64,
        limit: usize,
        bodies: PageBodies,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError> {
        let calling = self.inner().pending_page(cursor, until_ms, limit, bodies);
        self.around(JournalCall::PendingPage, calling).await
    }

    async fn places_page(
        &self,
        cursor: Option<Cursor>,
        until_ms: i64,
        limit: usize,
    ) -> Result<PlacesPage, JournalError> {
        let calling = self.inner().places_page(cursor, until_ms, limit);
        self.around(JournalCall::PlacesPage, calling).await
    }

    async fn changes(
        &self,
        from_ms: i64,
        until_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Key>, Option<Cursor>), JournalError> {
        let calling = self.inner().changes(from_ms, until_ms, cursor, limit);
        self.around(JournalCall::Changes, calling).await
    }

    async fn lane_changes(&self, after: i64, limit: usize) -> Result<LaneChanges, JournalError> {
        let calling = self.inner().lane_changes(after, limit);
        self.around(JournalCall::LaneChanges, calling).await
    }

    async fn fill_in_later(
        &self,
        cursor: Cursor,
        limit: usize,
    ) -> Result<(u64, Option<Cursor>), JournalError> {
        let calling = self.inner().fill_in_later(cursor, limit);
        self.around(JournalCall::FillInLater, calling).await
    }

    async fn note(&self, notes: &[Noting]) -> Result<(), JournalError> {
        unless_empty!(self, Note, note, notes)
    }

    async fn rebuilding(&self, rebuild: &Rebuild) -> Result<(), JournalError> {
        let calling = self.inner().rebuilding(rebuild);
        self.around(JournalCall::Rebuilding, calling).await
    }

    async fn prune(&self, prune: &Prune, limit: usize) -> Result<Pruned, JournalError> {
        let calling = self.inner().prune(prune, limit);
        self.around(JournalCall::Prune, calling).await
    }

    async fn tend_partitions(&self, work: &PartitionWork) -> Result<Pruned, JournalError> {
        let calling = self.inner().tend_partitions(work);
        self.around(JournalCall::TendPartitions, calling).await
    }

    async fn duty(&self, name: &str, ttl_ms: i64) -> Result<bool, JournalError> {
        JournalDecorator::duty(self, name, ttl_ms).await
    }

    async fn recall(&self, name: &str) -> Result<Option<String>, JournalError> {
        let calling = self.inner().recall(name);
        self.around(JournalCall::Recall, calling).await
    }

    async fn remember(&self, name: &str, value: &str) -> Result<(), JournalError> {
        let calling = self.inner().remember(name, value);
        self.around(JournalCall::Remember, calling).await
    }

    async fn counts(&self) -> Result<JournalCounts, JournalError> {
        let calling = self.inner().counts();
        self.around(JournalCall::Counts, calling).await
    }

    async fn oldest_due(&self) -> Result<Option<i64>, JournalError> {
        let calling = self.inner().oldest_due();
        self.around(JournalCall::OldestDue, calling).await
    }

    async fn count_due_by(&self, due_ms: i64, most: usize) -> Result<u64, JournalError> {
        let calling = self.inner().count_due_by(due_ms, most);
        self.around(JournalCall::CountDueBy, calling).await
    }

    async fn examine(&self, limit: usize) -> Result<Examined, JournalError> {
        let calling = self.inner().examine(limit);
        self.around(JournalCall::Examine, calling).await
    }

    async fn read_day(
        &self,
        selection: &DaySelection,
    ) -> Result<Box<dyn DayReading>, JournalError> {
        let calling = self.inner().read_day(selection);
        self.around(JournalCall::ReadDay, calling).await
    }

    async fn check(&self) -> Result<(), JournalError> {
        let calling = self.inner().check();
        self.around(JournalCall::Check, calling).await
    }

    /// Not a call of its own: it says nothing about the connections that all other calls use.
    async fn keep_holding(&self) -> Result<(), JournalError> {
        self.inner().keep_holding().await
    }

    async fn close(&self) {
        self.inner().close().await;
    }
}
