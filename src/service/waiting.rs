//! Why a pending notification that is overdue is not being sent now.
//!
//! The reason is that of its lane at this moment. It is looked up for one notification, and not for lists.

use super::Service;
use super::timeouts::with_timeout;
use crate::domain::deferral::{DeferralReason, NOTICED_MS};
use crate::domain::lane_settings::{LaneHold, LaneState};
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::domain::timestamp::display_ms;
use crate::schedule::lane_status::LaneStatus;

/// What a notification waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingFor {
    /// The reason in one word.
    pub reason: DeferralReason,
    /// The same in a sentence.
    pub in_words: String,
}

impl Service {
    /// What this notification waits for; `None` if it is not pending, is in flight, is set aside, is not overdue, or if
    /// nothing in its lane is in its way. Also `None` if the schedule does not answer, because the notification can
    /// be shown without this.
    pub async fn waiting_for(&self, snapshot: &Snapshot) -> Option<WaitingFor> {
        let now_ms = self.clock.now_ms();
        if !is_waiting(snapshot) || snapshot.progress.next_due_ms() + NOTICED_MS > now_ms {
            return None;
        }
        let status = with_timeout(self.schedule.lane(&snapshot.lane))
            .await
            .ok()?;
        self.reason_to_wait(snapshot, &status, now_ms)
    }

    /// As [`Service::waiting_for`], of a notification for which an attempt was just requested by hand. It is due since a
    /// moment, so whatever is in its way now counts, unless its attempt has begun.
    pub async fn waiting_after_request(&self, snapshot: &Snapshot) -> Option<WaitingFor> {
        let now_ms = self.clock.now_ms();
        if !is_waiting(snapshot) || snapshot.progress.next_due_ms() > now_ms {
            return None;
        }
        let status = with_timeout(self.schedule.lane(&snapshot.lane))
            .await
            .ok()?;
        let waiting = self.reason_to_wait(snapshot, &status, now_ms)?;
        if waiting.reason == DeferralReason::Probing && is_probed_next(snapshot, &status) {
            return None;
        }
        // The lane was read first: if the attempt has begun since, it may itself be what uses the lane up.
        let now = self.find(&snapshot.key).await.ok()??;
        let has_begun = now.progress.attempts != snapshot.progress.attempts;
        (is_waiting(&now) && !has_begun).then_some(waiting)
    }

    /// What is in the way of a notification that is due, if its lane is in this state.
    fn reason_to_wait(
        &self,
        snapshot: &Snapshot,
        status: &LaneStatus,
        now_ms: i64,
    ) -> Option<WaitingFor> {
        let name = status.lane.endpoint();
        let endpoint = name.and_then(|name| self.endpoints.known(&name));
        let lacks_keys = endpoint
            .is_some_and(|endpoint| self.endpoints.signers(Some(&endpoint), now_ms).is_err());
        let by_lane = of_lane(status, lacks_keys, now_ms);
        let is_paused = by_lane.as_ref().is_some_and(|waiting| {
            matches!(
                waiting.reason,
                DeferralReason::Held | DeferralReason::Probing
            )
        });
        if snapshot.waits_for_ms.is_some() && !is_paused {
            return Some(WaitingFor {
                reason: DeferralReason::Order,
                in_words: "a lower number of its order has not ended, and goes first".to_string(),
            });
        }
        by_lane
    }
}

fn is_waiting(snapshot: &Snapshot) -> bool {
    snapshot.state == State::Scheduled && !snapshot.in_flight && snapshot.set_aside.is_none()
}

/// Whether the call that a request by hand asks of a lane that is probed is one of this notification. A lane that is
/// probed makes one call at a time, and what was requested goes before what is due without a request.
fn is_probed_next(snapshot: &Snapshot, status: &LaneStatus) -> bool {
    let limit = u64::try_from(status.limit).unwrap_or(u64::MAX);
    let is_first = snapshot.progress.retry_at_ms.is_some() || status.due <= 1;
    is_first && status.in_flight < limit
}

/// Why a lane gives nothing now. `lacks_keys`: this server cannot open a key of its endpoint.
fn of_lane(status: &LaneStatus, lacks_keys: bool, now_ms: i64) -> Option<WaitingFor> {
    let waiting = |reason, in_words| Some(WaitingFor { reason, in_words });
    if let (LaneState::Held, Some(hold)) = (status.state(), &status.settings.hold) {
        return waiting(DeferralReason::Held, held(hold));
    }
    if status.is_probing {
        let since = status.failing_since_ms.map_or(String::new(), |since_ms| {
            format!(" since {}", display_ms(since_ms))
        });
        let in_words = format!(
            "the destination has answered no call{since}; it is called once in a while until it answers"
        );
        return waiting(DeferralReason::Probing, in_words);
    }
    if lacks_keys {
        let in_words = "this server cannot open a signing key of the endpoint";
        return waiting(DeferralReason::Keys, in_words.to_string());
    }
    if let Some(rate) = status.settings.limits.rate
        && status
            .rate_until_ms
            .is_some_and(|until_ms| until_ms > now_ms)
    {
        let in_words = format!(
            "its lane makes {rate} calls per second, and {} notifications are due in it",
            status.due
        );
        return waiting(DeferralReason::Rate, in_words);
    }
    let limit = u64::try_from(status.limit).unwrap_or(u64::MAX);
    if status.in_flight >= limit {
        let in_words = format!(
            "its lane has {} of {limit} calls in flight, and {} notifications are due in it",
            status.in_flight, status.due
        );
        return waiting(DeferralReason::Concurrency, in_words);
    }
    None
}

fn held(
    LaneHold {
        by,
        reason,
        since_ms,
    }: &LaneHold,
) -> String {
    let since = display_ms(*since_ms);
    match &**reason {
        "" => format!("its lane is held by {by} since {since}"),
        reason => format!("its lane is held by {by} since {since}: {reason}"),
    }
}
