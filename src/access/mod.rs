//! Who may use the API: the API keys as this server knows them, and the rate of requests of each.
//!
//! The keys are kept in the journal. Every request needs them, so the journal is not asked for each: every server reads
//! them twice a second ([`AccessControl::run`]), so a key that was made or revoked on one server is so on all of them within
//! a second. The server that makes a change knows it at once. While the journal is unavailable, what was read last stays in
//! use.
//!
//! A request needs a key if the server has one in its settings (`--api-key`), if the journal has any key, or if others than
//! this machine can reach the server. The key of the settings is an operator's.
//!
//! Requests with wrong keys are not limited. A right key has to be taken at any time, or whoever sends wrong ones
//! would lock the others out. So a limit could only refuse wrong keys in another way, and whoever guesses would learn as much. The
//! bound on guesses is the length of the keys.

mod request_limit;

use crate::domain::api_key::{ApiKeyDigest, ApiKeyName, ApiKeyRecord, RANDOM_BYTES, key_of};
use crate::domain::caller::Caller;
use crate::journal::{
    Actor, AddingApiKey, ApiKeyAdded, ApiKeyRevoked, ApiKeyRow, Journal, JournalError, OperatorKey,
    RevokingApiKey,
};
use request_limit::RequestLimit;
pub use request_limit::RequestRate;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

/// How often the journal is asked for its keys.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// The API keys of one server. The default needs no key.
#[derive(Default)]
pub struct AccessControl {
    journal: Option<Arc<dyn Journal>>,
    /// The key of the settings.
    configured: Option<(ApiKeyDigest, RequestLimit)>,
    /// How many requests each key may send.
    rate: Option<RequestRate>,
    /// Whether others than this machine can reach the server.
    is_exposed: bool,
    known: RwLock<KnownKeys>,
    /// Held while the journal is read or changed, so that what was read before a change does not replace it.
    changing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct KnownKeys {
    by_digest: HashMap<ApiKeyDigest, Arc<KnownKey>>,
    /// The names of the rows that cannot be read. Each was logged once.
    unreadable: BTreeSet<String>,
}

struct KnownKey {
    caller: Arc<Caller>,
    record: ApiKeyRecord,
    limit: RequestLimit,
}

/// Why a request is not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAdmitted {
    /// It has no key.
    NoKey,
    /// It has no key, and there is none yet: nobody but this machine may use the server until there is one.
    NoKeyExists,
    /// It has a key that is none of this server.
    UnknownKey,
    /// The key has expired, at this instant in milliseconds since 1970.
    Expired(ApiKeyName, i64),
    /// The key has sent too many requests. One is admitted again within a second.
    TooMany,
}

impl AccessControl {
    /// Reads the keys of the journal.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn open(
        journal: Option<Arc<dyn Journal>>,
        configured: Option<&str>,
        is_exposed: bool,
        rate: Option<RequestRate>,
    ) -> Result<Self, JournalError> {
        let access = Self {
            journal,
            configured: configured
                .map(|key| (ApiKeyDigest::of(key.as_bytes()), RequestLimit::new(rate))),
            rate,
            is_exposed,
            ..Self::default()
        };
        access.refresh().await?;
        Ok(access)
    }

    /// Access with the key of the settings alone, if there is one.
    #[must_use]
    pub fn with_key(configured: Option<&str>) -> Self {
        Self {
            configured: configured
                .map(|key| (ApiKeyDigest::of(key.as_bytes()), RequestLimit::default())),
            ..Self::default()
        }
    }

    /// Whether a request without a key is refused.
    #[must_use]
    pub fn needs_key(&self) -> bool {
        self.is_exposed || self.configured.is_some() || self.has_keys()
    }

    /// Whether the journal has keys. One that has expired or cannot be read counts: otherwise the last key that
    /// expires would open the server to everybody.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        let known = self.read();
        !known.by_digest.is_empty() || !known.unreadable.is_empty()
    }

    /// Whether the server has a key in its settings.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        self.configured.is_some()
    }

    /// Who sends a request with this key, at this instant in milliseconds since 1970.
    ///
    /// # Errors
    /// [`NotAdmitted`] says why the request is refused.
    pub fn admit(&self, key: Option<&[u8]>, now_ms: i64) -> Result<Arc<Caller>, NotAdmitted> {
        let Some(key) = key else {
            if !self.needs_key() {
                return Ok(Arc::new(Caller::operator()));
            }
            let has_any = self.is_configured() || self.has_keys();
            return Err(match has_any {
                true => NotAdmitted::NoKey,
                false => NotAdmitted::NoKeyExists,
            });
        };
        // Digests are compared: from the time that this takes, nobody learns anything about a key.
        let digest = ApiKeyDigest::of(key);
        if let Some((configured, limit)) = &self.configured
            && configured.is_same(&digest)
        {
            admit_within(limit)?;
            return Ok(Arc::new(Caller::operator()));
        }
        let known = self.read().by_digest.get(&digest).cloned();
        let Some(known) = known else {
            return match self.needs_key() {
                true => Err(NotAdmitted::UnknownKey),
                false => Ok(Arc::new(Caller::operator())),
            };
        };
        admit_known(&known, now_ms, admit_within)
    }

    /// Who has opened a session with the key of this name; no name is that of the key of the settings. `is_key` tells by
    /// the digest whether the session was opened with it, and not with an earlier one of the same name. `is_counted`: the
    /// request counts for the rate of the key.
    ///
    /// # Errors
    /// As [`AccessControl::admit`].
    pub fn caller_of_session(
        &self,
        name: Option<&str>,
        is_key: impl Fn(&ApiKeyDigest) -> bool,
        now_ms: i64,
        is_counted: bool,
    ) -> Result<Arc<Caller>, NotAdmitted> {
        let admit = |limit: &RequestLimit| match is_counted {
            true => admit_within(limit),
            false => Ok(()),
        };
        let Some(name) = name else {
            return match &self.configured {
                Some((configured, limit)) if is_key(configured) => {
                    admit(limit).map(|()| Arc::new(Caller::operator()))
                }
                Some(_) | None => Err(NotAdmitted::UnknownKey),
            };
        };
        let of_name = |known: &&Arc<KnownKey>| known.record.name.as_str() == name;
        let known = self.read().by_digest.values().find(of_name).cloned();
        let known = known.filter(|known| is_key(&known.record.digest));
        admit_known(
            known.ok_or(NotAdmitted::UnknownKey)?.as_ref(),
            now_ms,
            admit,
        )
    }

    /// All keys, by name, as the journal has them now. `None` if there is no journal.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn list(&self) -> Result<Option<Vec<ApiKeyRow>>, JournalError> {
        match &self.journal {
            Some(journal) => Ok(Some(journal.api_keys().await?)),
            None => Ok(None),
        }
    }

    /// Adds a key. This server knows it when this returns. `None` if there is no journal.
    ///
    /// # Errors
    /// If the journal fails. The key may have been added nevertheless.
    pub async fn add(
        &self,
        record: ApiKeyRecord,
        actor: Actor,
    ) -> Result<Option<ApiKeyAdded>, JournalError> {
        let Some(journal) = &self.journal else {
            return Ok(None);
        };
        let _changing = self.changing.lock().await;
        let adding = AddingApiKey {
            record,
            operator: self.operator(),
            actor,
        };
        let added = journal.add_api_key(&adding).await?;
        if added == ApiKeyAdded::Added {
            self.write().take(adding.record, self.rate);
        }
        Ok(Some(added))
    }

    /// Revokes a key. This server refuses it when this returns, and others do within a second. `None` if there is no
    /// journal.
    ///
    /// # Errors
    /// If the journal fails. The key may have been revoked nevertheless.
    pub async fn revoke(
        &self,
        name: String,
        actor: Actor,
        at_ms: i64,
    ) -> Result<Option<ApiKeyRevoked>, JournalError> {
        let Some(journal) = &self.journal else {
            return Ok(None);
        };
        let _changing = self.changing.lock().await;
        let revoking = RevokingApiKey {
            name,
            operator: self.operator(),
            actor,
            at_ms,
        };
        let revoked = journal.revoke_api_key(&revoking).await?;
        if matches!(revoked, ApiKeyRevoked::Revoked | ApiKeyRevoked::Missing) {
            self.write().forget(&revoking.name);
        }
        Ok(Some(revoked))
    }

    /// Reads the keys again.
    ///
    /// # Errors
    /// If the journal fails. What was read last stays in use.
    pub async fn refresh(&self) -> Result<(), JournalError> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let _changing = self.changing.lock().await;
        let rows = journal.api_keys().await?;
        self.write().replace(rows, self.rate);
        Ok(())
    }

    /// Keeps the keys up to date until stopped.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut was_logged = false;
        while stop
            .run_until_cancelled(tokio::time::sleep(ASK_EVERY))
            .await
            .is_some()
        {
            let Some(read) = stop.run_until_cancelled(self.refresh()).await else {
                return;
            };
            match read {
                Ok(()) => was_logged = false,
                // `health` logs that the journal is unavailable.
                Err(error) if was_logged || error.may_pass() => {
                    tracing::debug!(%error, "the API keys cannot be read now; what was read last stays in use");
                }
                Err(error) => {
                    was_logged = true;
                    tracing::error!(%error, "the API keys cannot be read; what was read last stays in use");
                }
            }
        }
    }

    fn operator(&self) -> OperatorKey {
        match self.configured {
            Some(_) => OperatorKey::Configured,
            None => OperatorKey::Needed,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, KnownKeys> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, KnownKeys> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownKeys {
    fn replace(&mut self, rows: Vec<ApiKeyRow>, rate: Option<RequestRate>) {
        let mut unreadable = BTreeSet::new();
        // A key that is as before keeps its limit.
        let mut before = std::mem::take(&mut self.by_digest);
        for ApiKeyRow { name, read } in rows {
            match read {
                Ok(record) => match before.remove(&record.digest) {
                    Some(same) if same.record == record => {
                        self.by_digest.insert(record.digest, same);
                    }
                    Some(_) | None => self.take(record, rate),
                },
                Err(problem) => {
                    if !self.unreadable.contains(&name) {
                        tracing::error!(
                            name,
                            problem,
                            "an API key cannot be read, so it is refused; revoke it"
                        );
                    }
                    unreadable.insert(name);
                }
            }
        }
        self.unreadable = unreadable;
    }

    fn take(&mut self, record: ApiKeyRecord, rate: Option<RequestRate>) {
        let known = Arc::new(KnownKey {
            caller: Arc::new(Caller::of(&record)),
            record,
            limit: RequestLimit::new(rate),
        });
        self.by_digest.insert(known.record.digest, known);
    }

    fn forget(&mut self, name: &str) {
        self.by_digest
            .retain(|_, known| known.record.name.as_str() != name);
        self.unreadable.remove(name);
    }
}

/// A new key.
///
/// # Errors
/// If the operating system gives no random bytes.
pub fn random_key() -> Result<Zeroizing<String>, String> {
    let mut random = Zeroizing::new([0; RANDOM_BYTES]);
    getrandom::fill(&mut random[..]).map_err(|error| error.to_string())?;
    Ok(key_of(&random))
}

fn admit_known(
    known: &KnownKey,
    now_ms: i64,
    admit: impl Fn(&RequestLimit) -> Result<(), NotAdmitted>,
) -> Result<Arc<Caller>, NotAdmitted> {
    if let Some(expires_ms) = known.record.expires_ms
        && !known.record.is_valid_at(now_ms)
    {
        return Err(NotAdmitted::Expired(known.record.name.clone(), expires_ms));
    }
    admit(&known.limit)?;
    Ok(known.caller.clone())
}

fn admit_within(limit: &RequestLimit) -> Result<(), NotAdmitted> {
    match limit.admits() {
        true => Ok(()),
        false => Err(NotAdmitted::TooMany),
    }
}

#[cfg(test)]
mod tests;
