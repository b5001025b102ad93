//! The endpoints as this server knows them: all of them in memory, read again as soon as one has changed.
//!
//! They are kept in the journal, or without one in the schedule ([`store`]). Every attempt needs its endpoint, so the
//! store is not asked for each. Every server asks it twice a second what has changed ([`Endpoints::run`]), so a change
//! on one server holds on all of them within a second. The server that makes a change knows it at once. While the
//! store is unavailable, the last settings that were read stay in use for what was registered before. A schedule that has
//! lost endpoints says so to the next who asks; then every server forgets them.
//!
//! Once an endpoint was removed, another merchant may get its name. What is registered for the new one must never go to
//! the URL that another server still knows. So what a server knows counts only for what was registered until two seconds after
//! its last complete reading began; for what was registered later, it reads first what has changed. And what means the
//! new one is registered three seconds after somebody has found the old one removed, at the earliest: a server that still
//! knows the old one has read before that.

pub mod default_key_store;
pub mod default_keys;
mod default_keys_at_start;
mod default_keys_in_schedule;
mod default_keys_text;
pub mod first_default_key;
mod in_schedule;
mod known_default_keys;
mod known_endpoints;
mod reading_turns;
mod readings;
pub mod server_secret;
pub mod store;

use crate::clock::Clock;
use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::domain::lane::Lane;
use crate::domain::signers::Signers;
use crate::domain::snapshot::Snapshot;
use crate::journal::StoredEndpoint;
use crate::keyring::{Keyring, UnusableKey, no_key_signs};
use default_keys::DefaultKeyring;
use known_endpoints::KnownEndpoints;
use reading_turns::ReadingTurns;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use store::{EndpointStore, EndpointStoreError};

/// How long after the removal of an endpoint was found another one of its name begins, in milliseconds. The clocks of two
/// servers may differ by as much as this is longer than what was read counts.
const MADE_AGAIN_AFTER_MS: i64 = 3_000;

/// The endpoints of one store. The default has no store and no endpoints.
#[derive(Default)]
pub struct Endpoints {
    store: Option<EndpointStore>,
    known: RwLock<KnownEndpoints>,
    /// The clock by which notifications are registered, if other servers use the store too.
    shared: Option<Arc<dyn Clock>>,
    readings: ReadingTurns,
    keyring: Keyring,
    default_keys: DefaultKeyring,
}

impl Endpoints {
    /// Reads all endpoints. Without a store there are none. `shared` is the clock by which notifications are registered, if
    /// other servers use the store too.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn open(
        store: Option<EndpointStore>,
        shared: Option<Arc<dyn Clock>>,
    ) -> Result<Self, EndpointStoreError> {
        let endpoints = Self {
            store,
            shared,
            ..Self::default()
        };
        endpoints.refresh().await?;
        Ok(endpoints)
    }

    /// Opens signing keys with this keyring.
    #[must_use]
    pub fn with_keyring(self, keyring: Keyring) -> Self {
        Self { keyring, ..self }
    }

    /// Signs with these default keys what has no keys of its own.
    #[must_use]
    pub fn with_default_keys(self, default_keys: DefaultKeyring) -> Self {
        Self {
            default_keys,
            ..self
        }
    }

    /// The default keys.
    #[must_use]
    pub fn default_keys(&self) -> &DefaultKeyring {
        &self.default_keys
    }

    /// Seals signing keys.
    #[must_use]
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// What signs a call to this endpoint, or to a URL without one, at this instant.
    ///
    /// # Errors
    /// [`UnusableKey`]: then the call must not be made.
    pub fn signers(
        &self,
        endpoint: Option<&Endpoint>,
        now_ms: i64,
    ) -> Result<Signers, UnusableKey> {
        let Some(endpoint) = endpoint else {
            let default = self.default_keys.signers()?;
            return Signers::of(Vec::new(), Some(default), now_ms).ok_or_else(no_key_signs);
        };
        let default = match endpoint.keys.default_signs_at(now_ms) {
            true => Some(self.default_keys.signers()?),
            false => None,
        };
        self.keyring.signers(endpoint, default, now_ms)
    }

    /// Where they are kept; `None` if they are kept nowhere.
    #[must_use]
    pub fn store(&self) -> Option<&EndpointStore> {
        self.store.as_ref()
    }

    /// The endpoint of this name, as far as this server knows.
    #[must_use]
    pub fn known(&self, name: &EndpointName) -> Option<Arc<Endpoint>> {
        self.read().by_name.get(name).cloned()
    }

    /// The endpoint of this name as this server knows it, if that may be used for something that is registered at this
    /// instant.
    #[must_use]
    pub fn known_for(&self, name: &EndpointName, registered_ms: i64) -> Option<Arc<Endpoint>> {
        let known = self.read();
        let counts = match &self.shared {
            Some(clock) => known.counts_for(registered_ms, clock.now_ms()),
            None => true,
        };
        known.by_name.get(name).filter(|_| counts).cloned()
    }

    /// Likewise; a journal is asked first what has changed if what is known does not count for that instant. It must be past:
    /// then what a reading finds that begins now counts in any case. A schedule has parts, of which one may be away, so it is
    /// asked for each endpoint.
    async fn current(
        &self,
        name: &EndpointName,
        registered_ms: i64,
    ) -> Result<Option<Arc<Endpoint>>, EndpointStoreError> {
        if let Some(known) = self.known_for(name, registered_ms) {
            return Ok(Some(known));
        }
        match &self.store {
            Some(EndpointStore::Journal(_)) if self.known(name).is_some() => {
                self.refresh_soon().await?;
                Ok(self.known(name))
            }
            _ => Ok(None),
        }
    }

    /// How long after one of its name was found removed an endpoint that is made again is what registrations mean, in
    /// milliseconds.
    #[must_use]
    pub fn made_again_after_ms(&self) -> i64 {
        match &self.shared {
            Some(_) => MADE_AGAIN_AFTER_MS,
            None => 0,
        }
    }

    async fn stored(
        &self,
        name: &EndpointName,
    ) -> Result<Option<StoredEndpoint>, EndpointStoreError> {
        match &self.store {
            Some(store) => store.find(name).await,
            None => Ok(None),
        }
    }

    /// The endpoint of this name, for what is registered at this instant. If this server knows none, the store is asked:
    /// another server may just have made it.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn find(
        &self,
        name: &EndpointName,
        now_ms: i64,
    ) -> Result<Option<Arc<Endpoint>>, EndpointStoreError> {
        if let Some(current) = self.current(name, now_ms).await? {
            return Ok(Some(current));
        }
        let stored = self.stored(name).await?;
        let live = stored.filter(|stored| !stored.is_removed);
        Ok(live.map(|stored| Arc::new(stored.endpoint)))
    }

    /// The endpoint of the name that a pending notification has which was registered at this instant, also if it was removed
    /// since. The caller asks whether the notification means it ([`Endpoint::is_meant_by`]).
    ///
    /// # Errors
    /// If the store fails.
    pub async fn of_pending(
        &self,
        name: &EndpointName,
        registered_ms: i64,
    ) -> Result<Option<Arc<Endpoint>>, EndpointStoreError> {
        if let Some(current) = self.current(name, registered_ms).await? {
            return Ok(Some(current));
        }
        let stored = self.stored(name).await?;
        Ok(stored.map(|stored| Arc::new(stored.endpoint)))
    }

    /// The endpoints after this name, in the order of their names, at most `limit`.
    #[must_use]
    pub fn page(&self, after: Option<&EndpointName>, limit: usize) -> Vec<Arc<Endpoint>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let known = self.read();
        let names = known.by_name.range((from, Bound::Unbounded));
        names
            .map(|(_, endpoint)| endpoint.clone())
            .take(limit)
            .collect()
    }

    /// The names that are wanted, in their order, at most `limit`.
    #[must_use]
    pub fn names(
        &self,
        is_wanted: impl Fn(&EndpointName) -> bool,
        limit: usize,
    ) -> Vec<EndpointName> {
        let known = self.read();
        let wanted = known.by_name.keys().filter(|name| is_wanted(name));
        wanted.take(limit).cloned().collect()
    }

    /// The lanes of the endpoints with such a URL.
    #[must_use]
    pub fn lanes_with_url(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let known = self.read();
        let wanted = (known.by_name.values())
            .filter(|endpoint| is_wanted(endpoint.settings.url.as_str()))
            .map(|endpoint| Lane::of_endpoint(&endpoint.name).as_str().to_string());
        wanted.collect()
    }

    /// Gives a notification that uses the URL of its endpoint that URL, to be shown.
    pub fn fill_in_url(&self, snapshot: &mut Snapshot) {
        if snapshot.destination.is_none()
            && let Some(name) = snapshot.lane.endpoint()
        {
            let endpoint = self.known_for(&name, snapshot.registered_ms);
            let endpoint = endpoint.filter(|known| known.is_meant_by(snapshot.registered_ms));
            snapshot.destination = endpoint.map(|endpoint| endpoint.settings.url.clone());
        }
    }

    /// How many readings of what has changed have begun.
    #[must_use]
    pub fn readings_begun(&self) -> u64 {
        self.readings.begun()
    }

    /// Takes in an endpoint that this server has just set. `begun` is how many readings had begun before that: one that began
    /// since may have found it removed already, by another server, and then it is read once more.
    pub async fn learn(&self, endpoint: &Endpoint, begun: u64) {
        if self.has_learnt(endpoint, begun) {
            return;
        }
        // If that fails, it is read with the next one.
        let _ = self.refresh_soon().await;
    }

    /// `false` if it must be read.
    fn has_learnt(&self, endpoint: &Endpoint, begun: u64) -> bool {
        let mut known = self.write();
        known.note_change(&endpoint.name);
        let before = known.by_name.get(&endpoint.name);
        if before.is_none() && self.readings.begun() != begun {
            return false;
        }
        if before.is_none_or(|before| before.version <= endpoint.version) {
            known
                .by_name
                .insert(endpoint.name.clone(), Arc::new(endpoint.clone()));
        }
        true
    }

    /// Forgets an endpoint that this server has just removed.
    pub fn forget(&self, name: &EndpointName) {
        let mut known = self.write();
        known.note_change(name);
        known.by_name.remove(name);
    }

    /// Whether this name is reported as missing for the first time.
    #[must_use]
    pub fn report_missing(&self, name: &EndpointName) -> bool {
        self.write().reported.insert(name.as_str().to_string())
    }

    fn read(&self) -> RwLockReadGuard<'_, KnownEndpoints> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, KnownEndpoints> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
