//! Where the default keys are kept: in the journal, or without one in the schedule.
//!
//! Both keep the same contract (`tests/it/endpoint_contract/default_keys.rs`). What a change means is decided in one place,
//! beside the journals ([`crate::journal::decide_default_keys`]).

pub use super::default_keys_in_schedule::DefaultKeysInSchedule;
use super::store::EndpointStoreError;
use crate::domain::default_keys::DefaultKeys;
use crate::journal::{
    ChangingDefaultKeys, DEFAULT_SECRET, DefaultKeysChanged, Journal, MASTER_KEY,
};
use crate::schedule::Schedule;
use std::fmt;
use std::sync::Arc;

/// Where the default keys are kept.
#[derive(Clone)]
pub enum DefaultKeyStore {
    /// In the journal.
    Journal(Arc<dyn Journal>),
    /// In the schedule, because there is no journal.
    Schedule(DefaultKeysInSchedule),
}

impl fmt::Debug for DefaultKeyStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Journal(_) => "Journal",
            Self::Schedule(_) => "Schedule",
        })
    }
}

impl DefaultKeyStore {
    /// The store of a server with these stores. `None` if neither keeps default keys.
    #[must_use]
    pub fn of(journal: Option<Arc<dyn Journal>>, schedule: Arc<dyn Schedule>) -> Option<Self> {
        match journal {
            Some(journal) => Some(Self::Journal(journal)),
            None => DefaultKeysInSchedule::of(schedule).map(Self::Schedule),
        }
    }

    /// All of them, also those that have ended. A key that cannot be read is told apart and hides no other.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn read(&self) -> Result<DefaultKeys, EndpointStoreError> {
        match self {
            Self::Journal(journal) => Ok(journal.default_keys().await?),
            Self::Schedule(schedule) => Ok(schedule.read().await?),
        }
    }

    /// Changes them. Each change is decided by what is there then. So however many servers give the store its first key,
    /// it gets one. It can be repeated. The first keys decide the master key; those of another one are refused.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn change(
        &self,
        changing: &ChangingDefaultKeys,
    ) -> Result<DefaultKeysChanged, EndpointStoreError> {
        match self {
            Self::Journal(journal) => Ok(journal.change_default_keys(changing).await?),
            Self::Schedule(schedule) => Ok(schedule.change(changing).await?),
        }
    }

    /// The fingerprint of the master key that encrypted what it has; `None` if nothing was encrypted yet.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn master_key(&self) -> Result<Option<String>, EndpointStoreError> {
        match self {
            Self::Journal(journal) => Ok(journal.recall(MASTER_KEY).await?),
            Self::Schedule(schedule) => Ok(schedule.read_with_master_key().await?.1),
        }
    }

    /// The fingerprint of the secret that is known to sign: of the newest default key in a journal, or of the secret with
    /// which a server was started that signs with its own.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn remembered_secret(&self) -> Result<Option<String>, EndpointStoreError> {
        match self {
            Self::Journal(journal) => Ok(journal.recall(DEFAULT_SECRET).await?),
            Self::Schedule(schedule) => Ok(schedule.remembered_secret().await?),
        }
    }

    /// Remembers the fingerprint of the secret of a server that signs with its own. A schedule remembers it when it is
    /// inspected.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) async fn remember_secret(
        &self,
        fingerprint: &str,
    ) -> Result<(), EndpointStoreError> {
        match self {
            Self::Journal(journal) => Ok(journal.remember(DEFAULT_SECRET, fingerprint).await?),
            Self::Schedule(_) => Ok(()),
        }
    }
}
