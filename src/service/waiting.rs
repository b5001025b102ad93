//! Why a pending notification that is overdue is not being sent now.
//!
//! The reason is that of its lane at this moment. It is looked up for one notification, and not for lists.

use super::timeouts::with_timeout;
use super::{Flights, Service};
use crate::domain::call_rate::CallRate;
use crate::domain::deferral::{DeferralReason, NOTICED_MS};
use crate::domain::lane_settings::{LaneHold, LaneState};
use crate::domain::snapshot::Snapshot;
use crate::domain::timestamp::display_ms;
use crate::schedule::lane_status::LaneStatus;
use std::fmt;

/// What a notification waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingFor {
    /// The reason in one word.
    pub reason: DeferralReason,
    /// What is known of it.
    pub because: WaitingBecause,
    /// The same in a sentence.
    pub in_words: String,
}

/// What is known of the reason to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitingBecause {
    /// A lower number of its order has not ended.
    LowerNumber,
    /// Somebody holds the lane.
    Held(LaneHold),
    /// The destination answers no call, since this instant if it is known.
    Unanswered(Option<i64>),
    /// This server cannot open a signing key of the endpoint.
    UnusableKey,
    /// The lane makes so many calls per second, and so many notifications are due in it.
    Rate(CallRate, u64),
    /// So many of so many calls of the lane are in flight, and so many notifications are due in it.
    Concurrency(u64, u64, u64),
}

impl From<WaitingBecause> for WaitingFor {
    fn from(because: WaitingBecause) -> Self {
        let reason = match &because {
            WaitingBecause::LowerNumber => DeferralReason::Order,
            WaitingBecause::Held(_) => DeferralReason::Held,
            WaitingBecause::Unanswered(_) => DeferralReason::Probing,
            WaitingBecause::UnusableKey => DeferralReason::Keys,
            WaitingBecause::Rate(..) => DeferralReason::Rate,
            WaitingBecause::Concurrency(..) => DeferralReason::Concurrency,
        };
        Self {
            reason,
            in_words: because.to_string(),
            because,
        }
    }
}

impl fmt::Display for WaitingBecause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LowerNumber => {
                out.write_str("a lower number of its order has not ended, and goes first")
            }
            Self::Held(LaneHold {
                by,
                reason,
                since_ms,
            }) => {
                write!(
                    out,
                    "its lane is held by {by} since {}",
                    display_ms(*since_ms)
                )?;
                match &**reason {
                    "" => Ok(()),
                    reason => write!(out, ": {reason}"),
                }
            }
            Self::Unanswered(since_ms) => {
                out.write_str("the destination has answered no call")?;
                if let Some(since_ms) = since_ms {
                    write!(out, " since {}", display_ms(*since_ms))?;
                }
                out.write_str("; it is called once in a while until it answers")
            }
            Self::UnusableKey => {
                out.write_str("this server cannot open a signing key of the endpoint")
            }
            Self::Rate(rate, due) => write!(
                out,
                "its lane makes {rate} calls per second, and {due} notifications are due in it"
            ),
            Self::Concurrency(in_flight, limit, due) => write!(
                out,
                "its lane has {in_flight} of {limit} calls in flight, and {due} notifications are due in it"
            ),
        }
    }
}

impl Service {
    /// What this notification waits for; `None` if it is not pending, is in flight, is set aside, is not overdue, or if
    /// nothing in its lane is in its way. Also `None` if the schedule does not answer, because the notification can
    /// be shown without this.
    pub async fn waiting_for(&self, snapshot: &Snapshot) -> Option<WaitingFor> {
        let now_ms = self.clock.now_ms();
        if !is_waiting(snapshot) || !is_overdue(snapshot, now_ms) {
            return None;
        }
        let status = with_timeout(self.schedule.lane(&snapshot.lane))
            .await
            .ok()?;
        self.reason_to_wait(snapshot, &status, now_ms)
    }

    /// Who holds the lane of a pending notification that is not overdue: as long as that lasts, no call is made when its next
    /// attempt is due. `None` if nobody does, or if the schedule does not answer, which `flights` may say already. What an overdue
    /// one waits for is said by [`Service::waiting_for`].
    pub async fn hold_before_due(&self, snapshot: &Snapshot, flights: Flights) -> Option<LaneHold> {
        let now_ms = self.clock.now_ms();
        if flights == Flights::Unknown || !is_waiting(snapshot) || is_overdue(snapshot, now_ms) {
            return None;
        }
        self.hold_of(&snapshot.lane).await
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
            return Some(WaitingBecause::LowerNumber.into());
        }
        by_lane
    }
}

fn is_waiting(snapshot: &Snapshot) -> bool {
    snapshot.is_to_be_sent() && !snapshot.in_flight
}

/// Whether the next attempt was due so long ago that something is in its way.
fn is_overdue(snapshot: &Snapshot, now_ms: i64) -> bool {
    snapshot.progress.next_due_ms() + NOTICED_MS <= now_ms
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
    if let (LaneState::Held, Some(hold)) = (status.state(), &status.settings.hold) {
        return Some(WaitingBecause::Held(hold.clone()).into());
    }
    if status.is_probing {
        return Some(WaitingBecause::Unanswered(status.failing_since_ms).into());
    }
    if lacks_keys {
        return Some(WaitingBecause::UnusableKey.into());
    }
    if let Some(rate) = status.settings.limits.rate
        && status
            .rate_until_ms
            .is_some_and(|until_ms| until_ms > now_ms)
    {
        return Some(WaitingBecause::Rate(rate, status.due).into());
    }
    let limit = u64::try_from(status.limit).unwrap_or(u64::MAX);
    if status.in_flight >= limit {
        let because = WaitingBecause::Concurrency(status.in_flight, limit, status.due);
        return Some(because.into());
    }
    None
}
