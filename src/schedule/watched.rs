//! A schedule that reports the result of each call to [`crate::health`]. It does not change requests or
//! answers.

use super::decorator::{ScheduleCall, ScheduleDecorator};
use super::memory_budget::{MemoryLimitReached, MemoryReservation};
use super::{Schedule, ScheduleError};
use crate::domain::notification::Notification;
use crate::health::{CallResult, Health, Store, Work};
use std::future::Future;
use std::sync::Arc;

/// A schedule whose calls are reported.
pub struct WatchedSchedule {
    schedule: Arc<dyn Schedule>,
    health: Arc<Health>,
}

impl WatchedSchedule {
    /// Reports the calls of a schedule.
    #[must_use]
    pub fn new(schedule: Arc<dyn Schedule>, health: Arc<Health>) -> Self {
        Self { schedule, health }
    }
}

/// The result of a check for [`crate::health`]. Every error counts as a failure: the schedule cannot be used.
#[must_use]
pub fn checked(result: &Result<(), ScheduleError>) -> CallResult {
    result
        .as_ref()
        .map_or_else(failed, |()| CallResult::Answered)
}

fn failed(error: &ScheduleError) -> CallResult {
    match error {
        ScheduleError::Unavailable(cause)
        | ScheduleError::Corrupt(cause)
        | ScheduleError::Foreign(cause) => CallResult::Failed(cause.clone()),
        ScheduleError::Rebuilding => CallResult::Rebuilding(error.to_string()),
        ScheduleError::BadCursor | ScheduleError::BeingRegistered => {
            CallResult::Failed(error.to_string())
        }
    }
}

/// The result of a failed call for [`crate::health`]. `others_answer`: a part of the schedule is out of reach, and others
/// are not.
fn ended(work: Work, error: &ScheduleError, others_answer: bool) -> CallResult {
    match error {
        // Every error counts: a claim concerns all notifications, so none is delivered.
        _ if work == Work::Claim => failed(error),
        ScheduleError::BadCursor | ScheduleError::BeingRegistered => CallResult::Answered,
        ScheduleError::Corrupt(_) | ScheduleError::Foreign(_) => CallResult::Unreadable,
        // The call needed that part, most likely. The claims find out whether the others work.
        ScheduleError::Unavailable(_) if others_answer => CallResult::Unreadable,
        ScheduleError::Unavailable(_) | ScheduleError::Rebuilding => failed(error),
    }
}

/// The kind of work that a call belongs to; `None` for a check, and for what every server asks all the time: how far the
/// settings of lanes are here, and which outages have ended.
fn work_of(call: ScheduleCall) -> Option<Work> {
    match call {
        ScheduleCall::Register | ScheduleCall::LeaseOne | ScheduleCall::EndReservation => {
            Some(Work::Accept)
        }
        ScheduleCall::Claim => Some(Work::Claim),
        ScheduleCall::Settle | ScheduleCall::Renew => Some(Work::Settle),
        ScheduleCall::Find | ScheduleCall::InFlight => Some(Work::Read),
        ScheduleCall::Holds
        | ScheduleCall::Scan
        | ScheduleCall::Restore
        | ScheduleCall::RestorePlaces
        | ScheduleCall::LeaveContent
        | ScheduleCall::Dead
        | ScheduleCall::Counts
        | ScheduleCall::LaneCounts
        | ScheduleCall::LaneInFlight
        | ScheduleCall::Lane
        | ScheduleCall::Lanes
        | ScheduleCall::CallLaneNow
        | ScheduleCall::ConfigureLanes => Some(Work::Browse),
        ScheduleCall::SettingsReached
        | ScheduleCall::EndedOutages
        | ScheduleCall::LoadedUntil
        | ScheduleCall::SetLoadedUntil
        | ScheduleCall::Check => None,
    }
}

impl ScheduleDecorator for WatchedSchedule {
    fn inner(&self) -> &dyn Schedule {
        self.schedule.as_ref()
    }

    async fn around<T: Send>(
        &self,
        call: ScheduleCall,
        calling: impl Future<Output = Result<T, ScheduleError>> + Send,
    ) -> Result<T, ScheduleError> {
        let Some(work) = work_of(call) else {
            return calling.await;
        };
        let watched = self.health.begin(Store::Schedule, work);
        let result = calling.await;
        watched.ended(match &result {
            Ok(_) => CallResult::Answered,
            Err(error) => ended(work, error, self.schedule.is_partly_out_of_reach()),
        });
        result
    }

    fn reserve_memory(
        &self,
        notification: &Notification,
    ) -> Result<MemoryReservation, MemoryLimitReached> {
        let reserved = self.schedule.reserve_memory(notification);
        // That one destination has too much says nothing about the others.
        if let Err(full @ MemoryLimitReached::OfAll(_)) = &reserved {
            let call = self.health.begin(Store::Schedule, Work::Accept);
            call.ended(CallResult::Failed(full.to_string()));
        }
        reserved
    }
}
