//! The endpoints as this server knows them: all of them in memory, read again as soon as one has changed.
//!
//! They are kept in the journal, or without one in the schedule ([`store`]). Every attempt needs its endpoint, so the
//! store is not asked for each. Every server asks it twice a second what has changed ([`Endpoints::run`]), so a change
//! on one server holds on all of them within a second. The server that makes a change knows it at once. While the
//! store is unavailable, the last settings that were read stay in use for what was registered before. A schedule that has
//! lost endpoints says so to the next who asks; then every server forgets them.
//!
//! Once an endpoint was removed, another merchant may get its name. What is registered for the new one must never go to
//! the URL that another server still knows. So what a server knows counts only for what was registered until
//! [`KNOWN_FOR_MS`] after its last complete reading began; for what was registered later, it asks the store. And what
//! means the new one is registered [`MADE_AGAIN_AFTER_MS`] after somebody has found the old one removed, at the earliest: a
//! server that still knows the old one has read before that.
//!
//! A usual endpoint takes about 1 KB of memory; one with the largest headers and metadata takes about 30 KB. Signing keys
//! stay encrypted in memory; they are opened for each call. The default keys are few, and are kept opened.

pub mod default_key_store;
pub mod default_keys;
mod default_keys_at_start;
mod default_keys_in_schedule;
mod default_keys_text;
pub mod first_default_key;
mod in_schedule;
mod known_default_keys;
mod known_endpoints;
pub mod server_secret;
pub mod store;

use crate::clock::Clock;
use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::domain::lane::Lane;
use crate::domain::signers::Signers;
use crate::domain::snapshot::Snapshot;
use crate::journal::EndpointRow;
use crate::keyring::{Keyring, UnusableKey, no_key_signs};
use default_keys::DefaultKeyring;
use known_endpoints::KnownEndpoints;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use store::{ChangesReached, EndpointReading, EndpointStore, EndpointStoreError};
use tokio_util::sync::CancellationToken;

/// How often the store is asked what has changed.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// How often everything is read again. After a database was restored from a backup, an endpoint may have older
/// settings and an older number than this server has read.
const READ_ALL_EVERY: Duration = Duration::from_secs(300);

/// For how long after a complete reading has begun what it has found may be used for what is registered meanwhile, in
/// milliseconds. Readings follow each other faster, unless the store fails.
const KNOWN_FOR_MS: i64 = 2_000;
/// How long after the removal of an endpoint was found another one of its name begins, in milliseconds. The clocks of two
/// servers may differ by as much as this is longer than [`KNOWN_FOR_MS`].
const MADE_AGAIN_AFTER_MS: i64 = 3_000;

/// The endpoints of one store. The default has no store and no endpoints.
#[derive(Default)]
pub struct Endpoints {
    store: Option<EndpointStore>,
    known: RwLock<KnownEndpoints>,
    /// The clock by which notifications are registered, if other servers use the store too.
    shared: Option<Arc<dyn Clock>>,
    /// When the last complete reading began, in milliseconds since 1970 by that clock.
    confirmed_ms: AtomicI64,
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
    fn known_for(&self, name: &EndpointName, registered_ms: i64) -> Option<Arc<Endpoint>> {
        let known_until_ms = match &self.shared {
            Some(_) => (self.confirmed_ms.load(Ordering::Acquire)).saturating_add(KNOWN_FOR_MS),
            None => i64::MAX,
        };
        (registered_ms <= known_until_ms)
            .then(|| self.known(name))
            .flatten()
    }

    /// From when on what is registered for an endpoint means that one, if it is made at this instant under the name of one
    /// that was found removed before. Both are milliseconds since 1970.
    #[must_use]
    pub fn made_again_ms(&self, at_ms: i64) -> i64 {
        match &self.shared {
            Some(_) => at_ms.saturating_add(MADE_AGAIN_AFTER_MS),
            None => at_ms,
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
        if let Some(known) = self.known_for(name, now_ms) {
            return Ok(Some(known));
        }
        let stored = match &self.store {
            Some(store) => store.find(name).await?,
            None => None,
        };
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
        if let Some(known) = self.known_for(name, registered_ms) {
            return Ok(Some(known));
        }
        let Some(store) = &self.store else {
            return Ok(None);
        };
        let stored = store.find(name).await?;
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
            let endpoint = self.known(&name);
            let endpoint = endpoint.filter(|known| known.is_meant_by(snapshot.registered_ms));
            snapshot.destination = endpoint.map(|endpoint| endpoint.settings.url.clone());
        }
    }

    /// Takes in an endpoint that this server has just set.
    pub fn learn(&self, endpoint: &Endpoint) {
        let mut known = self.write();
        let is_newer = (known.by_name.get(&endpoint.name))
            .is_none_or(|before| before.version <= endpoint.version);
        if is_newer {
            known.changed_here.insert(endpoint.name.clone());
            known
                .by_name
                .insert(endpoint.name.clone(), Arc::new(endpoint.clone()));
        }
    }

    /// Forgets an endpoint that this server has just removed.
    pub fn forget(&self, name: &EndpointName) {
        let mut known = self.write();
        known.changed_here.insert(name.clone());
        known.by_name.remove(name);
    }

    /// Whether this name is reported as missing for the first time.
    #[must_use]
    pub fn report_missing(&self, name: &EndpointName) -> bool {
        self.write().reported.insert(name.as_str().to_string())
    }

    /// Reads what has changed since the last reading. There is one reading at a time: the first, then those of
    /// [`Endpoints::run`].
    ///
    /// # Errors
    /// If the store fails. What was read until then is used.
    async fn refresh(&self) -> Result<(), EndpointStoreError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let began_ms = self.now_ms();
        loop {
            let (reached, mut doubtful) = self.begin_reading();
            let Some(changed) = store.changes(&reached).await? else {
                return self.read_all(store).await;
            };
            doubtful.extend(self.write().take_page(changed.rows));
            self.read_again(store, doubtful).await?;
            self.write().reached = changed.reached;
            if !changed.has_more {
                self.confirmed_ms.store(began_ms, Ordering::Release);
                return Ok(());
            }
        }
    }

    /// Begins a reading. Returns how far the changes were read before, and what this server has changed since then.
    fn begin_reading(&self) -> (ChangesReached, BTreeSet<EndpointName>) {
        let mut known = self.write();
        let changed_here = std::mem::take(&mut known.changed_here);
        (known.reached.clone(), changed_here)
    }

    /// Reads those endpoints one by one that this server has changed before or during a reading. Without this, a key that
    /// was just removed here could sign again until the next reading. If it fails, they are read with the next one.
    async fn read_again(
        &self,
        store: &EndpointStore,
        mut doubtful: BTreeSet<EndpointName>,
    ) -> Result<(), EndpointStoreError> {
        while let Some(name) = doubtful.first().cloned() {
            self.write().changed_here.remove(&name);
            let found = store.find(&name).await;
            let mut known = self.write();
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    known.changed_here.append(&mut doubtful);
                    return Err(error);
                }
            };
            if known.changed_here.contains(&name) {
                continue;
            }
            doubtful.remove(&name);
            if let Some(stored) = found {
                known.take(EndpointRow {
                    name: name.as_str().to_string(),
                    number: stored.number,
                    read: Ok(stored),
                });
            }
        }
        Ok(())
    }

    /// The time by the clock that the servers share.
    fn now_ms(&self) -> i64 {
        self.shared.as_ref().map_or(0, |clock| clock.now_ms())
    }

    /// Reads everything again.
    async fn read_all(&self, store: &EndpointStore) -> Result<(), EndpointStoreError> {
        let began_ms = self.now_ms();
        let (_, mut doubtful) = self.begin_reading();
        let before: Vec<EndpointName> = self.read().by_name.keys().cloned().collect();
        let (mut reading, mut names) = (EndpointReading::default(), BTreeSet::new());
        while let Some(page) = store.read_more(&mut reading).await? {
            names.extend(page.iter().map(|row| row.name.clone()));
            doubtful.extend(self.write().take_page(page));
        }
        self.read_again(store, doubtful).await?;
        let mut known = self.write();
        known.reached = reading.reached();
        if store.forgets() {
            known.forget_lost(before, &names);
        }
        self.confirmed_ms.store(began_ms, Ordering::Release);
        Ok(())
    }

    /// Keeps the endpoints and the default keys up to date until stopped. Neither waits for the other: what of one cannot
    /// be read, or takes long to read, delays no change of the other. `now_ms` is the clock.
    pub async fn run(
        self: Arc<Self>,
        now_ms: impl Fn() -> i64 + Send + Sync,
        stop: CancellationToken,
    ) {
        let Some(store) = &self.store else {
            return;
        };
        let keeping =
            async { tokio::join!(self.keep_default_keys(now_ms), self.keep_endpoints(store)) };
        stop.run_until_cancelled(keeping).await;
    }

    async fn keep_default_keys(&self, now_ms: impl Fn() -> i64) {
        let mut logged = false;
        loop {
            tokio::time::sleep(ASK_EVERY).await;
            let read = self.default_keys.refresh(&self.keyring, now_ms()).await;
            report(read, "default keys", &mut logged);
        }
    }

    async fn keep_endpoints(&self, store: &EndpointStore) {
        let (mut read_all, mut logged) = (Instant::now(), false);
        loop {
            tokio::time::sleep(ASK_EVERY).await;
            let read = if read_all.elapsed() < READ_ALL_EVERY {
                self.refresh().await
            } else {
                let read = self.read_all(store).await;
                if read.is_ok() {
                    read_all = Instant::now();
                }
                read
            };
            report(read, "endpoints", &mut logged);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, KnownEndpoints> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, KnownEndpoints> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs a failed reading: once until one succeeds, because the next one follows at once.
fn report(read: Result<(), EndpointStoreError>, what: &str, logged: &mut bool) {
    match read {
        Ok(()) => *logged = false,
        // `health` logs that the store is unavailable.
        Err(error) if *logged || error.may_pass() => {
            tracing::debug!(
                what,
                %error,
                "changes cannot be read now; what was read last stays in use"
            );
        }
        Err(error) => {
            *logged = true;
            tracing::error!(
                what,
                %error,
                "changes cannot be read; endpoints stay in use as they were read last, but nothing is signed with default \
                 keys that cannot be read; trying again"
            );
        }
    }
}

#[cfg(test)]
mod tests;
