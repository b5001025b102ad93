//! How the endpoints are kept up to date.
//!
//! One reading of what has changed is made at a time ([`super::reading_turns`]).

use super::Endpoints;
use super::known_endpoints::Confirmed;
use super::reading_turns::not_in_time;
use super::store::{ChangesReached, EndpointReading, EndpointStore, EndpointStoreError};
use crate::domain::endpoint::EndpointName;
use crate::journal::{EndpointRow, JournalError, StoredEndpoint};
use crate::schedule::ScheduleError;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How often the store is asked what has changed.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// How often everything is read again. After a database was restored from a backup, an endpoint may have older
/// settings and an older number than this server has read.
const READ_ALL_EVERY: Duration = Duration::from_secs(300);
/// Longest wait of an attempt or a registration for a reading.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl Endpoints {
    /// Waits for a reading of what has changed that begins from now on, for a bounded time. Not at all just after one has
    /// failed: the next one follows soon, and whoever waits holds a permit.
    pub(super) async fn refresh_soon(&self) -> Result<(), EndpointStoreError> {
        if self.readings.has_failed_within(ASK_EVERY) {
            return Err(not_in_time());
        }
        let reading = tokio::time::timeout(LONGEST_WAIT, self.refresh());
        reading.await.unwrap_or_else(|_| Err(not_in_time()))
    }

    /// Reads what has changed since the last reading, unless another reading begins that this one waits for.
    ///
    /// # Errors
    /// If the store fails. What was read until then is used.
    pub(super) async fn refresh(&self) -> Result<(), EndpointStoreError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        self.readings.one_from_now(self.read_changes(store)).await
    }

    async fn read_changes(&self, store: &EndpointStore) -> Result<(), EndpointStoreError> {
        let mut began = self.confirmed_from_now();
        let mut has_read_all = false;
        loop {
            let (reached, mut doubtful) = self.begin_reading();
            let Some(changed) = store.changes(&reached).await? else {
                if has_read_all {
                    // The store has lost its data again.
                    return Err(not_in_time());
                }
                let mut reading = self.begin_reading_all();
                while self.read_page(store, &mut reading).await? {}
                self.end_reading_all(store, reading);
                (began, has_read_all) = (self.confirmed_from_now(), true);
                continue;
            };
            doubtful.extend(self.write().take_page(changed.rows));
            self.read_again(store, doubtful).await?;
            let mut known = self.write();
            known.reached = changed.reached;
            if !changed.has_more {
                known.confirmed = Some(began);
                return Ok(());
            }
        }
    }

    /// What a complete reading that begins now confirms.
    fn confirmed_from_now(&self) -> Confirmed {
        // Without others that use the store, nobody asks.
        let now_ms = (self.shared.as_ref()).map_or(0, |clock| clock.now_ms());
        Confirmed {
            at_ms: now_ms,
            at: Instant::now(),
        }
    }

    /// Begins a reading. Returns how far the changes were read before, and what this server has changed and not read since.
    pub(super) fn begin_reading(&self) -> (ChangesReached, BTreeSet<EndpointName>) {
        let known = self.read();
        let changed_here = known.changed_here.keys().cloned().collect();
        (known.reached.clone(), changed_here)
    }

    /// Reads those endpoints one by one that this server has changed before or during a reading. Without this, a key that
    /// was just removed here could sign again until the next reading. If it fails, they are read with the next one.
    pub(super) async fn read_again(
        &self,
        store: &EndpointStore,
        mut doubtful: BTreeSet<EndpointName>,
    ) -> Result<(), EndpointStoreError> {
        while let Some(name) = doubtful.first().cloned() {
            let change = self.read().changed_here.get(&name).copied();
            let found = unreadable_as_row(&name, store.find(&name).await)?;
            let mut known = self.write();
            if known.changed_here.get(&name).copied() != change {
                continue;
            }
            known.changed_here.remove(&name);
            doubtful.remove(&name);
            if let Some(row) = found {
                known.take(row);
            }
        }
        Ok(())
    }

    /// Reads everything again. What has changed is read meanwhile, between the pages.
    pub(super) async fn read_all(&self, store: &EndpointStore) -> Result<(), EndpointStoreError> {
        let mut reading = self.begin_reading_all();
        loop {
            let _alone = self.readings.alone().await;
            if !self.read_page(store, &mut reading).await? {
                self.end_reading_all(store, reading);
                return Ok(());
            }
        }
    }

    fn begin_reading_all(&self) -> ReadingAll {
        ReadingAll {
            before: self.read().by_name.keys().cloned().collect(),
            reading: EndpointReading::default(),
            names: BTreeSet::new(),
        }
    }

    /// Reads the next page. `false` at the end.
    async fn read_page(
        &self,
        store: &EndpointStore,
        all: &mut ReadingAll,
    ) -> Result<bool, EndpointStoreError> {
        let Some(page) = store.read_more(&mut all.reading).await? else {
            return Ok(false);
        };
        all.names.extend(page.iter().map(|row| row.name.clone()));
        let doubtful = self.write().take_page(page);
        let doubtful = doubtful.into_iter().collect();
        self.read_again(store, doubtful).await?;
        Ok(true)
    }

    fn end_reading_all(&self, store: &EndpointStore, all: ReadingAll) {
        let mut known = self.write();
        known.reached = all.reading.reached();
        if store.forgets() {
            known.forget_lost(all.before, &all.names);
        }
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
        let keeping = async {
            tokio::join!(
                self.keep_default_keys(now_ms),
                self.keep_endpoints(),
                self.keep_all_endpoints(store)
            )
        };
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

    async fn keep_endpoints(&self) {
        let mut logged = false;
        loop {
            tokio::time::sleep(ASK_EVERY).await;
            report(self.refresh().await, "endpoints", &mut logged);
        }
    }

    async fn keep_all_endpoints(&self, store: &EndpointStore) {
        let (mut logged, mut rest) = (false, READ_ALL_EVERY);
        loop {
            tokio::time::sleep(rest).await;
            let read = self.read_all(store).await;
            rest = match read.is_ok() {
                true => READ_ALL_EVERY,
                false => ASK_EVERY,
            };
            report(read, "endpoints", &mut logged);
        }
    }
}

/// A reading of everything.
struct ReadingAll {
    /// What was known before.
    before: Vec<EndpointName>,
    reading: EndpointReading,
    /// What was found.
    names: BTreeSet<String>,
}

/// What was found of an endpoint, as a row. One that cannot be read keeps no others from being read.
fn unreadable_as_row(
    name: &EndpointName,
    found: Result<Option<StoredEndpoint>, EndpointStoreError>,
) -> Result<Option<EndpointRow>, EndpointStoreError> {
    let (number, read) = match found {
        Ok(None) => return Ok(None),
        Ok(Some(stored)) => (stored.number, Ok(stored)),
        Err(
            EndpointStoreError::Journal(JournalError::Corrupt(why))
            | EndpointStoreError::Schedule(ScheduleError::Corrupt(why)),
        ) => (0, Err(why)),
        Err(error) => return Err(error),
    };
    Ok(Some(EndpointRow {
        name: name.as_str().to_string(),
        number,
        read,
    }))
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
