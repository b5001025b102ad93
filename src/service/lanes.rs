//! Lanes: how they are doing, holding and releasing them.
//!
//! A change goes to the journal first, then into the schedule, and is answered after both. If this server dies in
//! between, every other one brings it within half a second ([`crate::settings_sync`]). Without a journal, the schedule
//! alone keeps it.

use super::later::{
    MOST_COUNTED, MOST_COUNTED_OF_MANY, count_later, find_later, is_in_schedule,
    may_wait_in_journal,
};
use super::timeouts::{TooLate, with_long_timeout, with_timeout};
use super::{Service, ServiceError};
use crate::domain::api_key::ApiKeyName;
use crate::domain::job::BulkJob;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::{LaneChange, LaneChanges, LaneHold, LaneSetting, LaneState};
use crate::journal::{Actor, Filter, Journal, JournalError, LaneOrder, Order};
use crate::schedule::lane_status::{LanePage, LaneSelection, LaneStatus};
use crate::schedule::{ScheduleError, SettingsReached};
use crate::settings_sync::{SettingsSyncError, bring_settings};
use futures_util::{StreamExt as _, TryStreamExt as _};
use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of calls to the schedule for one page.
const MOST_CALLS: usize = 100;
/// For how long a page is filled up with the lanes of further calls.
const LONGEST_FILLING: Duration = Duration::from_secs(1);

/// What a cursor in the lanes of the journal begins with. No cursor of a schedule does: those begin with a number, or with
/// the name of a lane.
const IN_JOURNAL: &str = "journal-";
/// Maximum number of lanes of the journal that are looked up for one call, and how many at a time.
const MOST_IN_JOURNAL: usize = 200;
const LANES_AT_ONCE: usize = 16;

/// Which lanes to list.
#[derive(Debug, Clone, Default)]
pub struct LaneListRequest {
    /// Only lanes in this state.
    pub state: Option<LaneState>,
    /// Maximum number of lanes on the page.
    pub limit: usize,
    /// The `next` of the page before; `None` for the first page.
    pub cursor: Option<String>,
    /// The API key of the caller; its lists wait for each other.
    pub asked_by: Option<ApiKeyName>,
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

/// The name after which a cursor in the lanes of the journal goes on; `None` if it is a cursor of the schedule.
fn after_in_journal(cursor: &str) -> Option<&str> {
    cursor.strip_prefix(IN_JOURNAL)
}

impl Service {
    /// One lane now, with what waits in the journal. A lane of which nothing is known is open and empty. If the journal does
    /// not answer, or lists of other callers are being read, the lane is shown without what waits there.
    ///
    /// # Errors
    /// If the schedule fails.
    pub async fn lane(&self, lane: &Lane) -> Result<LaneStatus, ServiceError> {
        let mut status = [self.lane_in_schedule(lane).await?];
        if let Some(journal) = self.journal().filter(|_| may_wait_in_journal(&status)) {
            let counting = count_later(journal, &mut status, MOST_COUNTED);
            if let Err(error) = self.read_soon(with_timeout(counting)).await {
                tracing::debug!(%lane, %error, "the journal could not say what waits in it for a destination");
            }
        }
        let [status] = status;
        Ok(status)
    }

    /// Makes a reading without which the caller can be answered, if the lists of other callers leave room for it soon.
    async fn read_soon<T>(
        &self,
        reading: impl Future<Output = Result<T, JournalError>>,
    ) -> Result<T, ServiceError> {
        let _permit = self.list_limit.permit_soon().await?;
        Ok(reading.await?)
    }

    /// One lane as the schedule has it.
    async fn lane_in_schedule(&self, lane: &Lane) -> Result<LaneStatus, ServiceError> {
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
            && with_timeout(self.endpoints.of_pending(&name, self.clock.now_ms()))
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
        let status = self.lane_in_schedule(lane).await?;
        match is_in_schedule(&status) || status.last_outcome.is_some() {
            true => Ok(()),
            false => Err(ServiceError::MissingLane(lane.clone())),
        }
    }

    /// Lanes that have pending notifications or settings, in no order: first those that the schedule has, then those of which
    /// everything waits in the journal. The work for a page is bounded, so it may be short, or even empty, although there are
    /// more; it has a cursor then. A lane whose notifications come into the schedule, or leave it, while pages are read may
    /// be missing. If the journal does not answer, or lists of other callers are being read, the lanes of the schedule are shown
    /// without what waits in the journal ([`LaneStatus::is_pending_at_least`]), and a cursor leads to those of which everything
    /// waits there.
    ///
    /// # Errors
    /// [`ServiceError::Schedule`] if the schedule fails, also because the cursor is not valid; if the cursor is one of the
    /// lanes of the journal, and the journal fails or too many lists are being read ([`ServiceError::TooManyLists`]).
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
        let mut journal_answers = true;
        for _ in 0..MOST_CALLS {
            let wanted = request.limit - page.lanes.len();
            let found = match page.next.as_deref().and_then(after_in_journal) {
                Some(after) => {
                    // What the schedule has is known without the journal. Whoever wants the rest asks with the cursor.
                    let asked_for = match page.next == request.cursor {
                        true => Some(request.asked_by.as_ref()),
                        false => None,
                    };
                    match self.lanes_in_journal(after, wanted, asked_for).await {
                        Err(error @ (ServiceError::Journal(_) | ServiceError::TooManyLists))
                            if asked_for.is_none() =>
                        {
                            tracing::debug!(%error, "the journal could not say which destinations have something waiting in it alone");
                            journal_answers = false;
                            break;
                        }
                        found => found?,
                    }
                }
                None => {
                    let reading = self.schedule.lanes(selection, page.next.as_deref(), wanted);
                    let mut found = with_long_timeout(reading).await?;
                    // All that are held are in the schedule: it has all settings.
                    if found.next.is_none() && selection == LaneSelection::All {
                        found.next = self.begin_in_journal().await?;
                    }
                    found
                }
            };
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
        let is_counted = journal_answers && may_wait_in_journal(&page.lanes);
        if let Some(journal) = self.journal().filter(|_| is_counted) {
            let counting = count_later(journal, &mut page.lanes, MOST_COUNTED_OF_MANY);
            if let Err(error) = self.read_soon(with_long_timeout(counting)).await {
                tracing::debug!(%error, "the journal could not say how much waits in it for a page of destinations");
            }
        }
        Ok(page)
    }

    /// The cursor before the lanes of the journal; `None` if everything that is pending is in the schedule.
    async fn begin_in_journal(&self) -> Result<Option<String>, ServiceError> {
        if !self.has_journal() {
            return Ok(None);
        }
        let loaded_until = with_timeout(self.schedule.loaded_until(&BTreeSet::new())).await?;
        Ok((loaded_until != Some(i64::MAX)).then(|| IN_JOURNAL.to_string()))
    }

    /// Lanes of which everything waits in the journal, in the order of their names: some of them, after this name. There is no
    /// permit while the schedule is asked. `asked_for`: the API key of a caller who cannot be answered without them; `None` for one
    /// who can.
    async fn lanes_in_journal(
        &self,
        after: &str,
        wanted: usize,
        asked_for: Option<Option<&ApiKeyName>>,
    ) -> Result<LanePage, ServiceError> {
        let permit = async || match asked_for {
            Some(asked_by) => self.list_limit.permit(asked_by).await,
            None => self.list_limit.permit_soon().await,
        };
        let journal = self.journal().ok_or(ScheduleError::BadCursor)?;
        let limit = wanted.clamp(1, MOST_IN_JOURNAL);
        let names = {
            let _permit = permit().await?;
            with_long_timeout(journal.later_lanes(Some(after), limit)).await?
        };
        let next = match names.last() {
            Some(last) if names.len() == limit => Some(format!("{IN_JOURNAL}{last}")),
            _ => None,
        };
        let calls: Vec<_> = names.iter().map(|name| self.schedule.lane(name)).collect();
        let reading = futures_util::stream::iter(calls)
            .buffered(LANES_AT_ONCE)
            .try_collect::<Vec<LaneStatus>>();
        let mut lanes = with_long_timeout(reading).await?;
        lanes.retain(|lane| !is_in_schedule(lane));
        if may_wait_in_journal(&lanes) {
            let _permit = permit().await?;
            with_long_timeout(find_later(journal, &mut lanes)).await?;
        }
        lanes.retain(|lane| lane.pending() > 0);
        Ok(LanePage { lanes, next })
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
        let before = self.lane_in_schedule(lane).await?.settings.hold;
        let hold = match &before {
            Some(before) => before.again(actor.name(), reason),
            None => LaneHold {
                by: actor.name().into(),
                reason: reason.into(),
                since_ms: self.clock.now_ms(),
            },
        };
        // Also if nothing of it changes: the schedule may still have a hold that the journal has no more.
        self.change_hold(lane, Some(hold), actor, reason).await?;
        let status = self.lane(lane).await?;
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
        let before = self.lane_in_schedule(lane).await?;
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
    ) -> Result<(), ServiceError> {
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
            Ok(())
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
            let none = SettingsReached::default();
            let configured = with_timeout(self.schedule.configure_lanes(&changes, &none)).await?;
            configured.all()?;
            return Ok(());
        };
        with_timeout(journal.change_lane(order)).await?;
        // Dying here leaves it in the journal; every server brings it from there.
        let bringing = bring_settings(journal, self.schedule.as_ref(), Some(&order.lane));
        with_timeout(bringing).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
