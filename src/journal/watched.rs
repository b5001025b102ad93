//! A journal that reports the result of each call to [`crate::health`]. It does not change requests or
//! answers.

use super::decorator::{JournalCall, JournalDecorator};
use super::{Journal, JournalError};
use crate::health::{CallResult, Health, Store, Work};
use std::future::Future;
use std::sync::Arc;

/// A journal whose calls are reported.
pub struct WatchedJournal {
    journal: Arc<dyn Journal>,
    health: Arc<Health>,
}

impl WatchedJournal {
    /// Reports the calls of a journal.
    #[must_use]
    pub fn new(journal: Arc<dyn Journal>, health: Arc<Health>) -> Self {
        Self { journal, health }
    }
}

/// The result of a check for [`crate::health`]. Every error counts as a failure: the journal cannot be used.
#[must_use]
pub fn checked(result: &Result<(), JournalError>) -> CallResult {
    match result {
        Ok(()) => CallResult::Answered,
        Err(
            JournalError::Unavailable(cause)
            | JournalError::Corrupt(cause)
            | JournalError::Refused(cause),
        ) => CallResult::Failed(cause.clone()),
    }
}

/// The result of a failed call for [`crate::health`].
fn ended(error: &JournalError) -> CallResult {
    match error {
        // One notification may be damaged, or a table that all notifications need. So this error does not
        // tell whether the journal works for other notifications.
        JournalError::Corrupt(_) | JournalError::Refused(_) => CallResult::Unreadable,
        JournalError::Unavailable(cause) => CallResult::Failed(cause.clone()),
    }
}

/// The kind of work that a call belongs to. `None` for a check, which is reported separately; for reading
/// every notification or those of a day, which may take very long in a healthy journal; and for asking for changed settings of lanes
/// and for jobs, and for counters for plots, which every server does all the time, so an idle one would otherwise never be
/// idle.
fn work_of(call: JournalCall) -> Option<Work> {
    match call {
        JournalCall::Register
        | JournalCall::Change
        | JournalCall::ChangeLane
        | JournalCall::StepJob => Some(Work::Accept),
        JournalCall::Record | JournalCall::Fence | JournalCall::SetAside => Some(Work::Settle),
        JournalCall::Find
        | JournalCall::Snapshots
        | JournalCall::Standings
        | JournalCall::Pending
        | JournalCall::Pendings
        | JournalCall::Payload
        | JournalCall::Bodies => Some(Work::Read),
        JournalCall::AllSetAside
        | JournalCall::Transitions
        | JournalCall::PendingPage
        | JournalCall::PlacesPage
        | JournalCall::List
        | JournalCall::LastAttempts
        | JournalCall::LaterLanes
        | JournalCall::CountLater
        | JournalCall::FillInLater
        | JournalCall::SetEndpoint
        | JournalCall::RemoveEndpoint
        | JournalCall::Endpoint
        | JournalCall::EndpointsAfter
        | JournalCall::DefaultKeys
        | JournalCall::ChangeDefaultKeys
        | JournalCall::AddApiKey
        | JournalCall::RevokeApiKey
        | JournalCall::KeepAct
        | JournalCall::AuditLog
        | JournalCall::AddJob
        | JournalCall::JobObstacle
        | JournalCall::Job
        | JournalCall::Jobs
        | JournalCall::OrderJob
        | JournalCall::KeepJob
        | JournalCall::RetakeJob
        | JournalCall::JobPage
        | JournalCall::JobMatches
        | JournalCall::JobChanges
        | JournalCall::JobTrial
        | JournalCall::JobUnchanged
        | JournalCall::JobReasons
        | JournalCall::Activity
        | JournalCall::Changes
        | JournalCall::Note
        | JournalCall::Rebuilding
        | JournalCall::Prune
        | JournalCall::TendPartitions
        | JournalCall::Duty
        | JournalCall::Recall
        | JournalCall::Remember
        | JournalCall::Counts
        | JournalCall::OldestDue
        | JournalCall::CountDueBy => Some(Work::Browse),
        JournalCall::LaneChanges
        | JournalCall::ApiKeys
        | JournalCall::TakeJob
        | JournalCall::KeepActivity
        | JournalCall::Examine
        | JournalCall::ReadDay
        | JournalCall::Check => None,
    }
}

impl JournalDecorator for WatchedJournal {
    fn inner(&self) -> &dyn Journal {
        self.journal.as_ref()
    }

    async fn around<T: Send>(
        &self,
        call: JournalCall,
        calling: impl Future<Output = Result<T, JournalError>> + Send,
    ) -> Result<T, JournalError> {
        let Some(work) = work_of(call) else {
            return calling.await;
        };
        let watched = self.health.begin(Store::Journal, work);
        let result = calling.await;
        watched.ended(match &result {
            Ok(_) => CallResult::Answered,
            Err(error) => ended(error),
        });
        result
    }
}
