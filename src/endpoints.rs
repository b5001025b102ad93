//! The endpoints as this server knows them: all of them in memory, read again as soon as one has changed.
//!
//! Every attempt needs its endpoint, so the journal is not asked for each. Every server asks it twice a second what
//! has changed ([`Endpoints::run`]), so a change on one server holds on all of them within a second. The server that
//! makes a change knows it at once. While the journal is unavailable, the last settings that were read stay in use.
//!
//! About 1 KB of memory for each endpoint. Signing keys stay encrypted in memory; they are opened for each call.

use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::domain::signers::Signers;
use crate::domain::snapshot::Snapshot;
use crate::journal::{Journal, JournalError};
use crate::keyring::{Keyring, UnusableKey};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How often the journal is asked what has changed.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// Endpoints read in one call.
const PAGE: usize = 1_000;
/// How often everything is read again. After a database was restored from a backup, an endpoint may have older
/// settings and an older number than this server has read.
const READ_ALL_EVERY: Duration = Duration::from_secs(300);

/// The endpoints of one journal. The default has no journal and no endpoints.
#[derive(Default)]
pub struct Endpoints {
    journal: Option<Arc<dyn Journal>>,
    known: RwLock<KnownEndpoints>,
    keyring: Keyring,
}

#[derive(Default)]
struct KnownEndpoints {
    by_name: BTreeMap<EndpointName, Arc<Endpoint>>,
    /// The number of the last change that was read.
    number: i64,
}

impl Endpoints {
    /// Reads all endpoints. Without a journal there are none.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn open(journal: Option<Arc<dyn Journal>>) -> Result<Self, JournalError> {
        let endpoints = Self {
            journal,
            known: RwLock::default(),
            keyring: Keyring::default(),
        };
        endpoints.refresh().await?;
        Ok(endpoints)
    }

    /// Opens signing keys with this keyring.
    #[must_use]
    pub fn with_keyring(self, keyring: Keyring) -> Self {
        Self { keyring, ..self }
    }

    /// Seals signing keys.
    #[must_use]
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// What signs a call to this endpoint at this instant.
    ///
    /// # Errors
    /// [`UnusableKey`]: then the call must not be made.
    pub fn signers(&self, endpoint: &Endpoint, now_ms: i64) -> Result<Signers, UnusableKey> {
        self.keyring.signers(endpoint, now_ms)
    }

    /// The endpoint of this name, as far as this server knows.
    #[must_use]
    pub fn known(&self, name: &EndpointName) -> Option<Arc<Endpoint>> {
        self.read().by_name.get(name).cloned()
    }

    /// The endpoint of this name. If this server knows none, the journal is asked: another server may just have
    /// made it.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn find(&self, name: &EndpointName) -> Result<Option<Arc<Endpoint>>, JournalError> {
        if let Some(known) = self.known(name) {
            return Ok(Some(known));
        }
        let stored = match &self.journal {
            Some(journal) => journal.endpoint(name).await?,
            None => None,
        };
        let live = stored.filter(|stored| !stored.is_removed);
        Ok(live.map(|stored| Arc::new(stored.endpoint)))
    }

    /// The endpoint that a pending notification names, also if it was removed since.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn of_pending(
        &self,
        name: &EndpointName,
    ) -> Result<Option<Arc<Endpoint>>, JournalError> {
        if let Some(known) = self.known(name) {
            return Ok(Some(known));
        }
        let Some(journal) = &self.journal else {
            return Ok(None);
        };
        let stored = journal.endpoint(name).await?;
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

    /// Gives a notification that uses the URL of its endpoint that URL, to be shown.
    pub fn fill_in_url(&self, snapshot: &mut Snapshot) {
        if snapshot.destination.is_none()
            && let Some(name) = snapshot.lane.endpoint()
        {
            let endpoint = self.known(&name);
            snapshot.destination = endpoint.map(|endpoint| endpoint.settings.url.clone());
        }
    }

    /// Reads what has changed since the last reading.
    ///
    /// # Errors
    /// If the journal fails. What was read until then is used.
    pub async fn refresh(&self) -> Result<(), JournalError> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        loop {
            let number = self.read().number;
            let changed = journal.endpoints_after(number, PAGE).await?;
            let is_last = changed.len() < PAGE;
            let mut known = self.write();
            for stored in changed {
                // Another reading may have come further meanwhile.
                if stored.number <= known.number {
                    continue;
                }
                known.number = stored.number;
                let name = stored.endpoint.name.clone();
                if stored.is_removed {
                    known.by_name.remove(&name);
                } else {
                    known.by_name.insert(name, Arc::new(stored.endpoint));
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Reads everything again, and then uses that alone.
    async fn read_all(&self) -> Result<(), JournalError> {
        let fresh = Self::open(self.journal.clone()).await?;
        let fresh = fresh
            .known
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        // A change that was read meanwhile is read once more.
        *self.write() = fresh;
        self.refresh().await
    }

    /// Keeps the endpoints up to date until stopped.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        if self.journal.is_none() {
            return;
        }
        let mut read_all = Instant::now();
        while stop
            .run_until_cancelled(tokio::time::sleep(ASK_EVERY))
            .await
            .is_some()
        {
            let reading = async {
                if read_all.elapsed() < READ_ALL_EVERY {
                    return self.refresh().await;
                }
                self.read_all().await?;
                read_all = Instant::now();
                Ok(())
            };
            if let Some(Err(error)) = stop.run_until_cancelled(reading).await {
                // `health` logs that the journal is unavailable.
                tracing::debug!(
                    %error,
                    "the changes of the endpoints cannot be read now; the last settings stay in use"
                );
            }
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, KnownEndpoints> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, KnownEndpoints> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}
