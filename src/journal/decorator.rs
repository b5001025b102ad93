//! A journal around another one: it sees every call and its reply, and passes on what it does not change.
//!
//! Every call is passed on here, once, those of jobs and of maintenance in files of their own. A type that watches, times or
//! delays them implements [`JournalDecorator`].

mod jobs;
mod maintenance;

pub use super::journal_call::JournalCall;
use super::{
    AddingApiKey, ApiKeyAdded, ApiKeyRevoked, ApiKeyRow, AuditFilter, AuditPage, BodyReading,
    ChangeResult, Changing, ChangingDefaultKeys, Cursor, DefaultKeysChanged, EndpointRow,
    EndpointSet, Filter, FoundStanding, Journal, JournalActivity, JournalApiKeys, JournalAuditLog,
    JournalDefaultKeys, JournalEndpoints, JournalError, JournalReads, JournalWrites, LaneOrder,
    Order, Payload, Pending, PersonAct, Recorded, Recording, RegisterResult, Registering,
    RemovingEndpoint, RevokingApiKey, SettingAside, SettingEndpoint, SnapshotPage, StoredEndpoint,
    Transition,
};
use crate::domain::activity::{ActivityBucket, ActivityCounts};
use crate::domain::attempt::Attempt;
use crate::domain::default_keys::DefaultKeys;
use crate::domain::endpoint::EndpointName;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
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

    /// See [`JournalMaintenance::duty`](super::JournalMaintenance::duty).
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
use unless_empty;

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
