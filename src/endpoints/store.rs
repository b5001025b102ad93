//! Where endpoints are kept: in the journal, or without one in the schedule.
//!
//! Both keep the same contract (`tests/it/endpoint_contract.rs`). What a change means is decided in one place, beside
//! the journals ([`crate::journal::effect_of_setting`]).

pub use super::in_schedule::{EndpointRemoved, InSchedule};
use crate::domain::endpoint::EndpointName;
use crate::journal::{
    EndpointRow, EndpointSet, Journal, JournalError, RemovingEndpoint, SettingEndpoint,
    StoredEndpoint,
};
use crate::schedule::endpoints::{EndpointScan, PartReached};
use crate::schedule::{Schedule, ScheduleError};
use std::sync::Arc;
use thiserror::Error;

/// Endpoints of a journal read in one call.
const PAGE: usize = 1_000;

/// Where endpoints are kept.
#[derive(Clone)]
pub enum EndpointStore {
    /// In the journal.
    Journal(Arc<dyn Journal>),
    /// In the schedule, because there is no journal.
    Schedule(InSchedule),
}

/// Why a call about endpoints or default keys failed.
#[derive(Debug, Clone, Error)]
pub enum EndpointStoreError {
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The schedule failed.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

impl EndpointStoreError {
    /// Whether a later call may succeed although nobody repairs anything.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Journal(error) => error.may_pass(),
            Self::Schedule(error) => error.may_pass(),
        }
    }
}

/// How far the changes were read. The default: nothing was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangesReached(Vec<PartReached>);

impl ChangesReached {
    /// A journal has one part, and its data has no generation.
    fn in_journal(number: i64) -> Self {
        Self(vec![PartReached {
            generation: String::new(),
            number,
        }])
    }

    fn number(&self) -> i64 {
        self.0.first().map_or(0, |part| part.number)
    }
}

/// What has changed.
#[derive(Debug, Clone, Default)]
pub struct EndpointChanges {
    /// The rows.
    pub rows: Vec<EndpointRow>,
    /// How far the changes are read with them.
    pub reached: ChangesReached,
    /// Whether there are more.
    pub has_more: bool,
}

/// A reading of all endpoints, page by page. It begins with the default.
#[derive(Debug, Clone, Default)]
pub struct EndpointReading {
    scan: EndpointScan,
    is_complete: bool,
}

impl EndpointReading {
    /// From where on changes are to be read afterwards.
    #[must_use]
    pub fn reached(&self) -> ChangesReached {
        ChangesReached(self.scan.reached.clone())
    }
}

impl EndpointStore {
    /// The store of a server with these stores. `None` if neither keeps endpoints.
    #[must_use]
    pub fn of(journal: Option<Arc<dyn Journal>>, schedule: Arc<dyn Schedule>) -> Option<Self> {
        match journal {
            Some(journal) => Some(Self::Journal(journal)),
            None => InSchedule::of(schedule).map(Self::Schedule),
        }
    }

    /// Makes an endpoint or replaces its settings. Settings that are the same change nothing. It can be repeated.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn set(&self, setting: &SettingEndpoint) -> Result<EndpointSet, EndpointStoreError> {
        match self {
            Self::Journal(journal) => Ok(journal.set_endpoint(setting).await?),
            Self::Schedule(schedule) => Ok(schedule.set(setting).await?),
        }
    }

    /// Removes an endpoint. Its last settings are still found.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn remove(
        &self,
        removing: &RemovingEndpoint,
    ) -> Result<EndpointRemoved, EndpointStoreError> {
        match self {
            Self::Journal(journal) => match journal.remove_endpoint(removing).await? {
                true => Ok(EndpointRemoved::Done),
                false => Ok(EndpointRemoved::Missing),
            },
            Self::Schedule(schedule) => Ok(schedule.remove(removing).await?),
        }
    }

    /// One endpoint, also if it was removed.
    ///
    /// # Errors
    /// If the store fails, or if it cannot read the endpoint.
    pub async fn find(
        &self,
        name: &EndpointName,
    ) -> Result<Option<StoredEndpoint>, EndpointStoreError> {
        match self {
            Self::Journal(journal) => Ok(journal.endpoint(name).await?),
            Self::Schedule(schedule) => Ok(schedule.find(name).await?),
        }
    }

    /// What has changed since. `None` if everything must be read again.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn changes(
        &self,
        after: &ChangesReached,
    ) -> Result<Option<EndpointChanges>, EndpointStoreError> {
        match self {
            Self::Journal(journal) => {
                let rows = journal.endpoints_after(after.number(), PAGE).await?;
                let number = rows.last().map_or(after.number(), |row| row.number);
                Ok(Some(EndpointChanges {
                    has_more: rows.len() == PAGE,
                    rows,
                    reached: ChangesReached::in_journal(number),
                }))
            }
            Self::Schedule(schedule) => {
                let changed = schedule.changes(&after.0).await?;
                Ok(changed.map(|(rows, reached, has_more)| EndpointChanges {
                    rows,
                    reached: ChangesReached(reached),
                    has_more,
                }))
            }
        }
    }

    /// The next page of all endpoints, those that were removed included; `None` at the end.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn read_more(
        &self,
        reading: &mut EndpointReading,
    ) -> Result<Option<Vec<EndpointRow>>, EndpointStoreError> {
        match self {
            Self::Journal(journal) => {
                if reading.is_complete {
                    return Ok(None);
                }
                let number = reading.reached().number();
                let rows = journal.endpoints_after(number, PAGE).await?;
                let number = rows.last().map_or(number, |row| row.number);
                reading.is_complete = rows.len() < PAGE;
                reading.scan.reached = ChangesReached::in_journal(number).0;
                Ok(Some(rows))
            }
            Self::Schedule(schedule) => Ok(schedule.read_more(&mut reading.scan).await?),
        }
    }

    /// Whether an endpoint that it does not have any more is no endpoint. A journal that was restored from a backup
    /// may lack endpoints that are in use: they stay in use. A schedule that has lost endpoints has mostly lost what
    /// names them too.
    #[must_use]
    pub fn forgets(&self) -> bool {
        match self {
            Self::Journal(_) => false,
            Self::Schedule(_) => true,
        }
    }
}
