//! Both stores behind a [`Gate`].

use super::gate::{Gate, Verdict};
use ringback::journal::decorator::{JournalCall, JournalDecorator};
use ringback::journal::{Journal, JournalError};
use ringback::schedule::decorator::{ScheduleCall, ScheduleDecorator};
use ringback::schedule::{Schedule, ScheduleError};
use std::sync::Arc;

/// A schedule whose calls are held.
pub struct GatedSchedule {
    pub gate: Gate,
    pub inner: Arc<dyn Schedule>,
}

/// A journal whose calls are held.
pub struct GatedJournal {
    pub gate: Gate,
    pub inner: Arc<dyn Journal>,
}

const LOST: &str = "the reply was lost";

/// Makes a call once it is let go.
macro_rules! gated {
    ($self:ident, $name:expr, $error:ident, $call:expr) => {{
        let passed = $self.gate.pass($name).await;
        let reply = $call.await;
        let verdict = passed.verdict;
        drop(passed);
        match verdict {
            Verdict::Made => reply,
            Verdict::ReplyLost => Err($error::Unavailable(LOST.to_string())),
            Verdict::Died => std::future::pending().await,
        }
    }};
}

/// The calls that are held, by the name that a run prints. The others change nothing.
fn name_of_schedule_call(call: ScheduleCall) -> Option<&'static str> {
    match call {
        ScheduleCall::Register => Some("schedule.register"),
        ScheduleCall::Claim => Some("schedule.claim"),
        ScheduleCall::Settle => Some("schedule.settle"),
        ScheduleCall::Renew => Some("schedule.renew"),
        ScheduleCall::LeaseOne => Some("schedule.lease_one"),
        ScheduleCall::EndReservation => Some("schedule.end_reservation"),
        ScheduleCall::Find => Some("schedule.find"),
        ScheduleCall::Holds => Some("schedule.holds"),
        ScheduleCall::Restore => Some("schedule.restore"),
        ScheduleCall::RestorePlaces => Some("schedule.restore_places"),
        ScheduleCall::LeaveContent => Some("schedule.leave_content"),
        ScheduleCall::LoadedUntil => Some("schedule.loaded_until"),
        ScheduleCall::SetLoadedUntil => Some("schedule.set_loaded_until"),
        ScheduleCall::ConfigureLanes => Some("schedule.configure_lanes"),
        ScheduleCall::CallLaneNow => Some("schedule.call_lane_now"),
        ScheduleCall::InFlight
        | ScheduleCall::Scan
        | ScheduleCall::Dead
        | ScheduleCall::Counts
        | ScheduleCall::LaneCounts
        | ScheduleCall::Check
        | ScheduleCall::LaneInFlight
        | ScheduleCall::Lane
        | ScheduleCall::Lanes
        | ScheduleCall::SettingsReached
        | ScheduleCall::EndedOutages => None,
    }
}

impl ScheduleDecorator for GatedSchedule {
    fn inner(&self) -> &dyn Schedule {
        self.inner.as_ref()
    }

    async fn around<T: Send>(
        &self,
        call: ScheduleCall,
        calling: impl Future<Output = Result<T, ScheduleError>> + Send,
    ) -> Result<T, ScheduleError> {
        match name_of_schedule_call(call) {
            Some(name) => gated!(self, name, ScheduleError, calling),
            None => calling.await,
        }
    }
}

/// The calls that are held, by the name that a run prints. The others change nothing.
fn name_of_journal_call(call: JournalCall) -> Option<&'static str> {
    match call {
        JournalCall::Register => Some("journal.register"),
        JournalCall::Record => Some("journal.record"),
        JournalCall::Fence => Some("journal.fence"),
        JournalCall::Change => Some("journal.change"),
        JournalCall::ChangeLane => Some("journal.change_lane"),
        JournalCall::TakeJob => Some("journal.take_job"),
        JournalCall::KeepJob => Some("journal.keep_job"),
        JournalCall::RetakeJob => Some("journal.retake_job"),
        JournalCall::StepJob => Some("journal.step_job"),
        JournalCall::JobPage => Some("journal.job_page"),
        JournalCall::JobTrial => Some("journal.job_trial"),
        JournalCall::SetAside => Some("journal.set_aside"),
        JournalCall::Find => Some("journal.find"),
        JournalCall::Snapshots => Some("journal.snapshots"),
        JournalCall::Standings => Some("journal.standings"),
        JournalCall::Pending => Some("journal.pending"),
        JournalCall::Pendings => Some("journal.pendings"),
        JournalCall::PendingPage => Some("journal.pending_page"),
        JournalCall::PlacesPage => Some("journal.places_page"),
        JournalCall::Bodies => Some("journal.bodies"),
        JournalCall::AllSetAside
        | JournalCall::Transitions
        | JournalCall::Payload
        | JournalCall::List
        | JournalCall::LastAttempts
        | JournalCall::LaterLanes
        | JournalCall::CountLater
        | JournalCall::FillInLater
        | JournalCall::JobChanges
        | JournalCall::JobUnchanged
        | JournalCall::JobReasons
        | JournalCall::SetEndpoint
        | JournalCall::RemoveEndpoint
        | JournalCall::Endpoint
        | JournalCall::EndpointsAfter
        | JournalCall::DefaultKeys
        | JournalCall::ChangeDefaultKeys
        | JournalCall::ApiKeys
        | JournalCall::AddApiKey
        | JournalCall::RevokeApiKey
        | JournalCall::KeepAct
        | JournalCall::AuditLog
        | JournalCall::AddJob
        | JournalCall::JobObstacle
        | JournalCall::Job
        | JournalCall::Jobs
        | JournalCall::OrderJob
        | JournalCall::JobMatches
        | JournalCall::Changes
        | JournalCall::LaneChanges
        | JournalCall::Note
        | JournalCall::Rebuilding
        | JournalCall::Prune
        | JournalCall::TendPartitions
        | JournalCall::Duty
        | JournalCall::Recall
        | JournalCall::Remember
        | JournalCall::KeepActivity
        | JournalCall::Activity
        | JournalCall::Counts
        | JournalCall::OldestDue
        | JournalCall::CountDueBy
        | JournalCall::Examine
        | JournalCall::ReadDay
        | JournalCall::Check => None,
    }
}

impl JournalDecorator for GatedJournal {
    fn inner(&self) -> &dyn Journal {
        self.inner.as_ref()
    }

    async fn around<T: Send>(
        &self,
        call: JournalCall,
        calling: impl Future<Output = Result<T, JournalError>> + Send,
    ) -> Result<T, JournalError> {
        match name_of_journal_call(call) {
            Some(name) => gated!(self, name, JournalError, calling),
            None => calling.await,
        }
    }
}
