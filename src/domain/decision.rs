//! The delivery decision: whether a notification is delivered, dead or attempted again after an attempt.
//!
//! The decision is one pure function, [`decide`], and it cannot fail. All other delivery code only
//! applies its result. Whether an answer is an acknowledgement is decided in [`super::ack`].

use crate::domain::attempt::{GONE, Outcome};
use crate::domain::ladder::{Failed, LATE_MS, Ladder, Next};
use crate::domain::progress::Progress;
use crate::domain::receiver_requests::{
    FollowedRequests, RequestEffect, WAIT_STATUSES, WaitEffect,
};
use crate::domain::retry_after::RetryAfter;
use crate::domain::state::{Cause, State};

/// A notification's state and progress after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The new state.
    pub state: State,
    /// Why the notification is dead, if the new state is dead.
    pub cause: Option<Cause>,
    /// The new progress. It counts the attempt, unless the attempt was interrupted.
    pub progress: Progress,
    /// What the receiver asked for with its answer, and what that changed.
    pub request: Option<RequestEffect>,
}

/// An attempt that has ended: the values on which the decision depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedAttempt {
    /// When it started, in milliseconds since 1970.
    pub started_ms: i64,
    /// When its answer was there. A `Retry-After` in seconds counts from then.
    pub ended_ms: i64,
    /// How it ended.
    pub outcome: Outcome,
    /// The HTTP status, if the receiver sent one.
    pub status: Option<u16>,
    /// What the receiver asked for with `Retry-After`.
    pub retry_after: Option<RetryAfter>,
}

/// Decides what happens after an attempt. `followed` says which requests of the receiver count. `draw` is a
/// random number from 0 to 1; only ladders with jitter use it.
#[must_use]
pub fn decide(
    ladder: &Ladder,
    followed: FollowedRequests,
    before: &Progress,
    attempt: &EndedAttempt,
    draw: f64,
) -> Decision {
    let by_hand = before.next_is_by_hand();
    let counted = Progress {
        attempts: before.attempts + 1,
        step: before.step + u32::from(!by_hand),
        retry_at_ms: None,
        ..*before
    };
    let decided = |state, cause, progress| Decision {
        state,
        cause,
        progress,
        request: None,
    };
    let end = |state, cause| decided(state, cause, counted);
    let again = |progress| decided(State::Scheduled, None, progress);
    match attempt.outcome {
        Outcome::Acknowledged => end(State::Delivered, None),
        Outcome::Blocked => end(State::Dead, Some(Cause::Blocked)),
        Outcome::HttpStatus if attempt.status == Some(GONE) && followed.gone => Decision {
            request: Some(RequestEffect::Stopped),
            ..end(State::Dead, Some(Cause::Refused))
        },
        // The attempt is made again under the same number, because the receiver may not have seen it.
        Outcome::Interrupted => again(*before),
        Outcome::WrongAnswer
        | Outcome::HttpStatus
        | Outcome::Timeout
        | Outcome::Connect
        | Outcome::Tls
        | Outcome::Dns
        | Outcome::Protocol => {
            if by_hand {
                // An attempt by hand does not change the time of the next attempt on the ladder.
                return after_request(followed, attempt, again(counted));
            }
            let failed = Failed {
                step: counted.step,
                due_ms: before.due_ms,
                started_ms: attempt.started_ms,
                deadline_ms: before.deadline_ms,
                clamped: before.clamped,
            };
            let next = match ladder.next_attempt(failed, draw) {
                Next::Attempt { due_ms, clamped } => again(Progress {
                    due_ms,
                    clamped,
                    ..counted
                }),
                Next::End(cause) => end(State::Dead, Some(cause)),
            };
            after_request(followed, attempt, next)
        }
    }
}

/// Applies what the receiver asked for to the decision after a failed attempt: `Retry-After` delays the next
/// attempt, but not beyond the deadline. Later attempts count on from the one that was moved.
fn after_request(
    followed: FollowedRequests,
    attempt: &EndedAttempt,
    mut decision: Decision,
) -> Decision {
    // The status of a broken answer is known too, but only a complete answer is followed.
    let whole = attempt.outcome == Outcome::HttpStatus;
    let status = attempt.status.filter(|_| whole);
    if status == Some(GONE) {
        decision.request = Some(RequestEffect::NotStopped);
    }
    if let Some(asked) = attempt.retry_after
        && status.is_some_and(|status| WAIT_STATUSES.contains(&status))
    {
        let effect = wait_effect(followed, asked, attempt.ended_ms, &decision);
        if let WaitEffect::Moved {
            to_ms, to_deadline, ..
        } = effect
        {
            decision.progress.due_ms = to_ms;
            decision.progress.clamped = to_deadline;
        }
        decision.request = Some(RequestEffect::Wait { asked, effect });
    }
    decision
}

fn wait_effect(
    followed: FollowedRequests,
    asked: RetryAfter,
    answered_ms: i64,
    decision: &Decision,
) -> WaitEffect {
    let Some(until_ms) = asked.until_ms(answered_ms) else {
        return WaitEffect::Unusable;
    };
    if !followed.retry_after {
        return WaitEffect::NotFollowed;
    }
    if decision.state != State::Scheduled {
        return WaitEffect::NoneLeft;
    }
    let Progress {
        due_ms,
        deadline_ms,
        ..
    } = decision.progress;
    if until_ms <= due_ms {
        return WaitEffect::NotEarlier;
    }
    let to_ms = until_ms.min(deadline_ms);
    if to_ms <= due_ms {
        return WaitEffect::AtTheEnd;
    }
    WaitEffect::Moved {
        from_ms: due_ms,
        to_ms,
        to_deadline: until_ms > deadline_ms,
    }
}

/// Whether an attempt that starts at `started_ms` is the recovery attempt. That is the one attempt that is
/// still made if the window closed while the dispatcher was down. The result is used only for the text
/// of the attempt's reason: [`Ladder::next_attempt`] decides that no attempt follows it.
#[must_use]
pub fn is_recovery(progress: &Progress, started_ms: i64) -> bool {
    started_ms > progress.deadline_ms + LATE_MS
}

#[cfg(test)]
mod tests;
