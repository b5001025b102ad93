//! Endpoints: setting, changing and reading them.

use super::timeouts::{TooLate, with_timeout};
use super::{Service, ServiceError};
use crate::domain::endpoint::{Endpoint, EndpointName, EndpointSettings};
use crate::domain::endpoint_tls::TlsRequest;
use crate::domain::lane::Lane;
use crate::domain::signing_key::SigningKey;
use crate::endpoints::store::{EndpointStore, EndpointStoreError};
use crate::journal::{
    Actor, EndpointSet, ExpectedVersion, JournalError, SealedKeys, SettingEndpoint, StoredEndpoint,
};
use crate::schedule::ScheduleError;
use crate::settings_sync::bring_settings;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::MutexGuard;

/// The error of a server with no store for endpoints: without a journal, if the schedule is in memory.
pub(super) const NO_ENDPOINTS: ServiceError = ServiceError::NoJournal("keep endpoints");
/// Longest wait for another change of an endpoint on this server.
const LONGEST_CHANGE_WAIT: Duration = Duration::from_secs(3);
/// Longest wait until an endpoint that was made under the name of one that was removed is what registrations mean.
const LONGEST_REMOVAL_WAIT: Duration = Duration::from_secs(4);
/// How often a change that is based on an older version is made again.
pub(super) const MOST_TRIES: usize = 8;

/// What a request says about an endpoint.
#[derive(Debug)]
pub struct EndpointRequest {
    /// Its settings.
    pub settings: EndpointSettings,
    /// Its signing keys, the first of which signs first. `None`: they stay as they are.
    pub keys: Option<Vec<SigningKey>>,
    /// What it says about TLS. The settings contain nothing of it yet.
    pub tls: TlsRequest,
}

/// What is written: the settings, the signing keys if they change, and the fingerprint of the master key if the
/// settings contain something that was encrypted just now.
pub(super) type EndpointContent = (EndpointSettings, Option<SealedKeys>, Option<String>);

/// The result of setting an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointReply {
    /// There was none of that name.
    Created(Endpoint),
    /// It has these settings now, or had them before.
    Existing(Endpoint),
}

/// A page of endpoints, in the order of their names.
#[derive(Debug, Clone, Default)]
pub struct EndpointPage {
    /// The endpoints.
    pub items: Vec<Arc<Endpoint>>,
    /// The name after which the next page begins; `None` at the end.
    pub next: Option<EndpointName>,
}

impl EndpointRequest {
    /// Whether something of it depends on the endpoint that is there.
    fn needs_what_is_there(&self) -> bool {
        self.keys.is_some() || self.tls.certificate.is_some()
    }
}

impl From<EndpointStoreError> for ServiceError {
    fn from(error: EndpointStoreError) -> Self {
        match error {
            EndpointStoreError::Journal(error) => Self::Journal(error),
            EndpointStoreError::Schedule(error) => Self::Schedule(error),
        }
    }
}

impl TooLate for EndpointStoreError {
    fn too_late() -> Self {
        Self::Schedule(ScheduleError::too_late())
    }
}

impl Service {
    /// Makes an endpoint or replaces it. Secrets that it keeps are those that the endpoint has in the moment of the write:
    /// if another change comes between, such as one of the master key, all is done again with the result of that.
    ///
    /// # Errors
    /// [`ServiceError::NoJournal`] if there is no store for endpoints; if the keys cannot be encrypted; if the store
    /// fails. It can be repeated.
    pub async fn set_endpoint(
        &self,
        name: &EndpointName,
        request: EndpointRequest,
        actor: Actor,
    ) -> Result<EndpointReply, ServiceError> {
        let reply = self.set_at_once(name, request, &actor).await?;
        self.wait_for_removal(&reply).await;
        Ok(reply)
    }

    /// Writes an endpoint, as [`Service::set_endpoint`].
    async fn set_at_once(
        &self,
        name: &EndpointName,
        request: EndpointRequest,
        actor: &Actor,
    ) -> Result<EndpointReply, ServiceError> {
        let _change = self.change_of_endpoints().await?;
        let mut reads_it = request.needs_what_is_there();
        for _ in 0..MOST_TRIES {
            let before = match reads_it {
                true => self.readable_endpoint(name).await?,
                false => None,
            };
            let expected = match &before {
                Some(removed) if removed.is_removed => {
                    ExpectedVersion::Removed(removed.endpoint.version)
                }
                Some(before) => ExpectedVersion::Exactly(before.endpoint.version),
                // Nothing of the request was read from the store.
                None => ExpectedVersion::Any,
            };
            let live = before.filter(|before| !before.is_removed);
            let content = self.seal_request(name, &request, live.map(|live| live.endpoint))?;
            let set = self.write_endpoint(name, content, expected, actor);
            if let Some(reply) = set.await? {
                return Ok(reply);
            }
            reads_it = true;
        }
        Err(ServiceError::EndpointUnsettled)
    }

    /// Waits until an endpoint that was just made under the name of one that was removed is what registrations mean on every
    /// server. By the clock, but for a bounded time if that stands or was set back.
    async fn wait_for_removal(&self, reply: &EndpointReply) {
        let (EndpointReply::Created(endpoint) | EndpointReply::Existing(endpoint)) = reply;
        if let Some(made_again_ms) = endpoint.settings.made_again_ms {
            let waiting = self.clock.sleep_until(made_again_ms);
            let _ = tokio::time::timeout(LONGEST_REMOVAL_WAIT, waiting).await;
        }
    }

    /// One endpoint, as the store has it now, also if it was removed; `None` if there was none, or if it cannot be read.
    async fn readable_endpoint(
        &self,
        name: &EndpointName,
    ) -> Result<Option<StoredEndpoint>, ServiceError> {
        let stored = match with_timeout(self.endpoint_store()?.find(name)).await {
            Err(
                EndpointStoreError::Journal(JournalError::Corrupt(_))
                | EndpointStoreError::Schedule(ScheduleError::Corrupt(_)),
            ) => None,
            found => found?,
        };
        // A record in Redis without a number is damaged, whatever else it says.
        Ok(stored.filter(|stored| stored.number > 0))
    }

    /// Encrypts what a request contains that must be.
    fn seal_request(
        &self,
        name: &EndpointName,
        EndpointRequest {
            settings,
            keys,
            tls,
        }: &EndpointRequest,
        before: Option<Endpoint>,
    ) -> Result<EndpointContent, ServiceError> {
        let (keys_before, tls_before) = match before {
            Some(before) => (before.keys, before.settings.tls),
            None => Default::default(),
        };
        let keys = (keys.as_ref()).map(|given| self.seal_all(name, given, keys_before));
        let (tls, sealed_with) = self.seal_tls(name, tls, tls_before.as_ref())?;
        let settings = EndpointSettings {
            tls,
            ..settings.clone()
        };
        Ok((settings, keys.transpose()?, sealed_with))
    }

    /// Changes an endpoint: `change` gets it and returns what it becomes. If another change comes between,
    /// it is called again with the result of that.
    ///
    /// # Errors
    /// The error of `change`; [`ServiceError::MissingEndpoint`]; as [`Service::set_endpoint`].
    pub async fn change_endpoint<Bad: From<ServiceError> + Send>(
        &self,
        name: &EndpointName,
        actor: Actor,
        change: impl Fn(&Endpoint) -> Result<EndpointRequest, Bad> + Send,
    ) -> Result<EndpointReply, Bad> {
        let _change = self.change_of_endpoints().await?;
        for _ in 0..MOST_TRIES {
            let before = self.stored_endpoint(name).await?;
            let request = change(&before)?;
            let expected = ExpectedVersion::Exactly(before.version);
            let content = self.seal_request(name, &request, Some(before))?;
            let written = self.write_endpoint(name, content, expected, &actor).await;
            if let Some(reply) = written.map_err(Bad::from)? {
                return Ok(reply);
            }
        }
        Err(ServiceError::EndpointUnsettled.into())
    }

    /// One endpoint, as the store has it now.
    ///
    /// # Errors
    /// [`ServiceError::MissingEndpoint`]; as [`Service::set_endpoint`].
    pub async fn stored_endpoint(&self, name: &EndpointName) -> Result<Endpoint, ServiceError> {
        let stored = with_timeout(self.endpoint_store()?.find(name)).await?;
        let live = stored.filter(|stored| !stored.is_removed);
        live.map(|stored| stored.endpoint)
            .ok_or(ServiceError::MissingEndpoint)
    }

    /// A page of the endpoints, in the order of their names. A change on another server is seen within a second.
    ///
    /// # Errors
    /// [`ServiceError::NoJournal`] if there is no store for endpoints.
    pub fn list_endpoints(
        &self,
        after: Option<&EndpointName>,
        limit: usize,
    ) -> Result<EndpointPage, ServiceError> {
        self.endpoint_store()?;
        let mut items = self.endpoints.page(after, limit + 1);
        let has_more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().filter(|_| has_more);
        Ok(EndpointPage {
            next: last.map(|last| last.name.clone()),
            items,
        })
    }

    /// The names of endpoints that are wanted, in their order, at most `limit`.
    #[must_use]
    pub fn endpoint_names(
        &self,
        is_wanted: impl Fn(&EndpointName) -> bool,
        limit: usize,
    ) -> Vec<EndpointName> {
        self.endpoints.names(is_wanted, limit)
    }

    /// The endpoint that a registration of this instant names.
    pub(super) async fn endpoint_to_use(
        &self,
        name: &EndpointName,
        now_ms: i64,
    ) -> Result<Option<Arc<Endpoint>>, ServiceError> {
        self.endpoint_store()?;
        Ok(with_timeout(self.endpoints.find(name, now_ms)).await?)
    }

    /// `None` if the endpoint has not the expected version.
    pub(super) async fn write_endpoint(
        &self,
        name: &EndpointName,
        (settings, keys, sealed_with): EndpointContent,
        expected: ExpectedVersion,
        actor: &Actor,
    ) -> Result<Option<EndpointReply>, ServiceError> {
        let store = self.endpoint_store()?;
        let begun = self.endpoints.readings_begun();
        let setting = SettingEndpoint {
            name: name.clone(),
            settings,
            keys,
            sealed_with,
            expected,
            actor: actor.clone(),
            at_ms: self.clock.now_ms(),
            made_again_after_ms: self.endpoints.made_again_after_ms(),
        };
        let set = with_timeout(store.set(&setting)).await?;
        let is_unchanged = matches!(set, EndpointSet::Unchanged(_));
        let reply = match set {
            EndpointSet::Conflict => return Ok(None),
            EndpointSet::Full => return Err(ServiceError::TooManyEndpoints),
            EndpointSet::OtherMasterKey => return Err(ServiceError::OtherMasterKey),
            EndpointSet::Unreadable => return Err(ServiceError::UnreadableEndpoint),
            EndpointSet::Created(endpoint) => EndpointReply::Created(endpoint),
            EndpointSet::Changed(endpoint) | EndpointSet::Unchanged(endpoint) => {
                EndpointReply::Existing(endpoint)
            }
        };
        let (EndpointReply::Created(endpoint) | EndpointReply::Existing(endpoint)) = &reply;
        self.endpoints.learn(endpoint, begun).await;
        self.bring_limits(store, name).await;
        if is_unchanged {
            return Ok(Some(reply));
        }
        tracing::info!(
            endpoint = %name, version = endpoint.version, actor = %actor.name(),
            "an endpoint was set; attempts from now on use its new settings"
        );
        Ok(Some(reply))
    }

    /// Brings the limits of the endpoint's lane into the schedule. If this fails, every server brings them within a
    /// second. A schedule that keeps the endpoint changes them in the same step.
    pub(super) async fn bring_limits(&self, store: &EndpointStore, name: &EndpointName) {
        if let EndpointStore::Journal(journal) = store {
            let lane = Lane::of_endpoint(name);
            let bringing = bring_settings(journal.as_ref(), self.schedule.as_ref(), Some(&lane));
            let _ = with_timeout(bringing).await;
        }
    }

    pub(super) fn endpoint_store(&self) -> Result<&EndpointStore, ServiceError> {
        self.endpoints.store().ok_or(NO_ENDPOINTS)
    }

    /// Waits until no other change of an endpoint is being made by this server. Changes wait for each other in a
    /// database too; without this wait, many of them would hold all connections meanwhile.
    pub(super) async fn change_of_endpoints(&self) -> Result<MutexGuard<'_, ()>, ServiceError> {
        tokio::time::timeout(LONGEST_CHANGE_WAIT, self.endpoint_changes.lock())
            .await
            .map_err(|_| ServiceError::EndpointUnsettled)
    }
}
