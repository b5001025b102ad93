//! The endpoints as this server knows them: all of them in memory, read again as soon as one has changed.
//!
//! Every attempt needs its endpoint, so the journal is not asked for each. Every server asks it twice a second what
//! has changed ([`Endpoints::run`]), so a change on one server holds on all of them within a second. The server that
//! makes a change knows it at once. While the journal is unavailable, the last settings that were read stay in use.
//!
//! A usual endpoint takes about 1 KB of memory; one with the largest headers and metadata takes about 30 KB. Signing keys
//! stay encrypted in memory; they are opened for each call.

use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::domain::signers::Signers;
use crate::domain::snapshot::Snapshot;
use crate::journal::{EndpointRow, Journal, JournalError};
use crate::keyring::{Keyring, UnusableKey};
use std::collections::{BTreeMap, BTreeSet};
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
    /// Names that rows have which cannot be read, or that are missing in the journal. Each was logged once.
    reported: BTreeSet<String>,
}

impl KnownEndpoints {
    /// Takes in a row. A row that cannot be read makes its endpoint unknown: to use its last settings would be to
    /// ignore a change.
    fn take(&mut self, row: EndpointRow) {
        self.number = self.number.max(row.number);
        match row.read {
            Ok(stored) => {
                self.reported.remove(&row.name);
                let name = stored.endpoint.name.clone();
                if stored.is_removed {
                    self.by_name.remove(&name);
                } else {
                    self.by_name.insert(name, Arc::new(stored.endpoint));
                }
            }
            Err(why) => {
                self.by_name.retain(|name, _| name.as_str() != row.name);
                if self.reported.insert(row.name.clone()) {
                    tracing::error!(
                        endpoint = row.name,
                        why,
                        "the journal has an endpoint that this server cannot read; notifications that name it wait; \
                         set it again, or update this server if another version wrote it"
                    );
                }
            }
        }
    }
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

    /// Takes in an endpoint that this server has just set.
    pub fn learn(&self, endpoint: &Endpoint) {
        let mut known = self.write();
        let is_newer = (known.by_name.get(&endpoint.name))
            .is_none_or(|before| before.version <= endpoint.version);
        if is_newer {
            known
                .by_name
                .insert(endpoint.name.clone(), Arc::new(endpoint.clone()));
        }
    }

    /// Forgets an endpoint that this server has just removed.
    pub fn forget(&self, name: &EndpointName) {
        self.write().by_name.remove(name);
    }

    /// Whether this name is reported as missing for the first time.
    #[must_use]
    pub fn report_missing(&self, name: &EndpointName) -> bool {
        self.write().reported.insert(name.as_str().to_string())
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
            for row in changed {
                // Another reading may have come further meanwhile.
                if row.number > known.number {
                    known.take(row);
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Reads everything again. What the journal has lost, because it was restored from a backup, stays in use.
    async fn read_all(&self) -> Result<(), JournalError> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let mut number = 0;
        loop {
            let page = journal.endpoints_after(number, PAGE).await?;
            let is_last = page.len() < PAGE;
            let mut known = self.write();
            for row in page {
                number = row.number;
                // This may undo a change that this server has made since the page was read. The next reading, half
                // a second later, brings it again, because its number is above those that were read here.
                known.take(row);
            }
            if is_last {
                known.number = number;
                return Ok(());
            }
        }
    }

    /// Keeps the endpoints up to date until stopped.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        if self.journal.is_none() {
            return;
        }
        let (mut read_all, mut logged) = (Instant::now(), false);
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
            match stop.run_until_cancelled(reading).await {
                None | Some(Ok(())) => logged = false,
                // `health` logs that the journal is unavailable.
                Some(Err(error)) if logged || matches!(error, JournalError::Unavailable(_)) => {
                    tracing::debug!(
                        %error,
                        "the changes of the endpoints cannot be read now; the last settings stay in use"
                    );
                }
                Some(Err(error)) => {
                    logged = true;
                    tracing::error!(
                        %error,
                        "the changes of the endpoints cannot be read; the last settings stay in use; trying again"
                    );
                }
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
