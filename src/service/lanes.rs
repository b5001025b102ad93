//! Lanes: how they are doing, holding and releasing them.
//!
//! A change goes to the journal first, then into the schedule, and is answered after both. If this server dies in
//! between, every other one brings it within half a second ([`crate::settings_sync`]). Without a journal, the schedule
//! alone keeps it.

use super::timeouts::{TooLate, with_long_timeout, with_timeout};
use super::{Service, ServiceError};
use crate::domain::job::BulkJob;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::{
    LaneChange, LaneChanges, LaneHold, LaneSetting, LaneSettings, LaneState,
};
use crate::journal::{Actor, Filter, Journal, LaneOrder, Order};
use crate::schedule::ScheduleError;
use crate::schedule::lane_status::{LanePage, LaneSelection, LaneStatus};
use crate::settings_sync::{SettingsSyncError, bring_settings};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of calls to the schedule for one page.
const MOST_CALLS: usize = 100;
/// For how long a page is filled up with the lanes of further calls.
const LONGEST_FILLING: Duration = Duration::from_secs(1);

/// Which lanes to list.
#[derive(Debug, Clone, Default)]
pub struct LaneListRequest {
    /// Only lanes in this state.
    pub state: Option<LaneState>,
    /// Maximum number of lanes on the page.
    pub limit: usize,
    /// The `next` of the page before; `None` for the first page.
    pub cursor: Option<String>,
}

/// The answer to a release.
#[derive(Debug, Clone)]
pub struct ReleaseReply {
    /// The job that stands for it.
    pub job: BulkJob,
    /// Whether the journal keeps the job. If there is none, the job has no id that anybody could ask for.
    pub is_kept: bool,
    /// Whether somebody held the lane before.
    pub was_held: bool,
}

/// The answer to a hold.
#[derive(Debug, Clone)]
pub struct HoldReply {
    /// The lane now.
    pub status: LaneStatus,
    /// The hold that was there before; `None` if nobody held the lane.
    pub before: Option<LaneHold>,
}

impl From<SettingsSyncError> for ServiceError {
    fn from(error: SettingsSyncError) -> Self {
        match error {
            SettingsSyncError::Journal(error) => Self::Journal(error),
            SettingsSyncError::Schedule(error) => Self::Schedule(error),
        }
    }
}

impl TooLate for SettingsSyncError {
    fn too_late() -> Self {
        Self::Schedule(ScheduleError::too_late())
    }
}

impl Service {
    /// One lane now. A lane of which nothing is known is open and empty.
    ///
    /// # Errors
    /// If the schedule fails.
    pub async fn lane(&self, lane: &Lane) -> Result<LaneStatus, ServiceError> {
        Ok(with_timeout(self.schedule.lane(lane)).await?)
    }

    /// Refuses a request about a lane of which nothing is known: its name is probably misspelt. Known is a lane whose
    /// endpoint there is or was, that a notification in the journal goes to, or that has entries, settings or a last call in
    /// the schedule. Each of these is one reading by key or by index.
    ///
    /// # Errors
    /// [`ServiceError::MissingLane`]; if a store fails.
    pub(super) async fn check_known(
        &self,
        journal: &dyn Journal,
        lane: &Lane,
    ) -> Result<(), ServiceError> {
        if let Some(name) = lane.endpoint()
            && with_timeout(self.endpoints.of_pending(&name))
                .await?
                .is_some()
        {
            return Ok(());
        }
        let of_lane = Filter {
            lane: Some(lane.as_str().to_string()),
            ..Filter::default()
        };
        let newest = with_long_timeout(journal.list(&of_lane, Order::Registered, None, 1)).await?;
        if !newest.items.is_empty() || newest.next.is_some() {
            return Ok(());
        }
        let status = self.lane(lane).await?;
        let is_known = status.waiting + status.in_flight > 0
            || status.settings != LaneSettings::default()
            || status.last_outcome.is_some();
        match is_known {
            true => Ok(()),
            false => Err(ServiceError::MissingLane(lane.clone())),
        }
    }

    /// Lanes that have pending notifications or settings, in no order. The work for a page is bounded, so it may be
    /// short, or even empty, although there are more; it has a cursor then.
    ///
    /// # Errors
    /// [`ServiceError::Schedule`] if the schedule fails, also because the cursor is not valid.
    pub async fn lanes(&self, request: &LaneListRequest) -> Result<LanePage, ServiceError> {
        let selection = match request.state {
            Some(LaneState::Held) => LaneSelection::Configured,
            Some(LaneState::Open | LaneState::Probing) | None => LaneSelection::All,
        };
        let started = Instant::now();
        let mut page = LanePage {
            lanes: Vec::new(),
            next: request.cursor.clone(),
        };
        for _ in 0..MOST_CALLS {
            let wanted = request.limit - page.lanes.len();
            let reading = self.schedule.lanes(selection, page.next.as_deref(), wanted);
            let found = with_long_timeout(reading).await?;
            let matches = |status: &LaneStatus| {
                let state = request.state;
                state.is_none_or(|state| status.state() == state)
            };
            page.lanes.extend(found.lanes.into_iter().filter(matches));
            page.next = found.next;
            let is_full = page.lanes.len() >= request.limit;
            if page.next.is_none() || is_full || started.elapsed() > LONGEST_FILLING {
                break;
            }
        }
        Ok(page)
    }

    /// Holds a lane: after this has succeeded, no claim of any server gives one of its notifications. Attempts in
    /// flight end as always. What is pending waits and spends no attempt. A lane that is held already stays held
    /// since then ([`LaneHold::again`]).
    ///
    /// # Errors
    /// If a store fails; then the lane may be held a moment later nevertheless.
    pub async fn hold_lane(
        self: &Arc<Self>,
        lane: &Lane,
        actor: Actor,
        reason: &str,
    ) -> Result<HoldReply, ServiceError> {
        let before = self.lane(lane).await?.settings.hold;
        let hold = match &before {
            Some(before) => before.again(actor.name(), reason),
            None => LaneHold {
                by: actor.name().into(),
                reason: reason.into(),
                since_ms: self.clock.now_ms(),
            },
        };
        // Also if nothing of it changes: the schedule may still have a hold that the journal has no more.
        let status = self.change_hold(lane, Some(hold), actor, reason).await?;
        Ok(HoldReply { status, before })
    }

    /// Releases a lane that is held. What waits in it and is due is sent, longest due first. The job says how many
    /// those are; it is done when this returns. If nobody held the lane, nothing changes, and the reply says so.
    ///
    /// # Errors
    /// As [`Service::hold_lane`]. If only the job could not be kept, the lane is released nevertheless.
    pub async fn release_lane(
        self: &Arc<Self>,
        lane: &Lane,
        actor: Actor,
        reason: &str,
    ) -> Result<ReleaseReply, ServiceError> {
        // Read before the release: afterwards the calls begin.
        let before = self.lane(lane).await?;
        let was_held = before.settings.hold.is_some();
        let due = if was_held { before.due } else { 0 };
        // Also if it was not held: the journal may have a hold that the schedule has not yet.
        self.change_hold(lane, None, actor.clone(), reason).await?;
        // Dying here leaves the lane released, and no job that says so.
        let (job, is_kept) = self.note_release(lane, due, actor, reason).await?;
        Ok(ReleaseReply {
            job,
            is_kept,
            was_held,
        })
    }

    /// Changes who holds a lane. The change is completed even if the caller disconnects.
    async fn change_hold(
        self: &Arc<Self>,
        lane: &Lane,
        hold: Option<LaneHold>,
        actor: Actor,
        reason: &str,
    ) -> Result<LaneStatus, ServiceError> {
        let is_held = hold.is_some();
        let order = LaneOrder {
            lane: lane.clone(),
            setting: LaneSetting::Hold(hold),
            actor,
            reason: reason.to_string(),
            at_ms: self.clock.now_ms(),
        };
        let service = self.clone();
        let changing = tokio::spawn(async move {
            service.change_lane(&order).await?;
            let (lane, actor, reason) = (&order.lane, order.actor.name(), &order.reason);
            match is_held {
                true => {
                    tracing::info!(%lane, actor, reason, "a lane is held; calls to its destination wait")
                }
                false => tracing::info!(%lane, actor, reason, "a lane is released"),
            }
            service.lane(lane).await
        });
        changing
            .await
            .unwrap_or_else(|error| resume_unwind(error.into_panic()))
    }

    async fn change_lane(&self, order: &LaneOrder) -> Result<(), ServiceError> {
        let Some(journal) = self.journal() else {
            let change = LaneChange {
                lane: order.lane.clone(),
                setting: order.setting.clone(),
                number: 0,
            };
            let changes = LaneChanges {
                changes: vec![change],
                range: None,
            };
            with_timeout(self.schedule.configure_lanes(&changes)).await?;
            return Ok(());
        };
        with_timeout(journal.change_lane(order)).await?;
        // Dying here leaves it in the journal; every server brings it from there.
        with_timeout(bring_settings(journal, self.schedule.as_ref())).await?;
        Ok(())
    }
}
