//! The effect of a recording, or of a change by hand, on a notification: the same for every journal.
//!
//! The functions are pure. A journal reads the notification in a transaction, calls one of them, and writes
//! the result in the same transaction.

use super::rows::StoredNotification;
use super::{ChangeResult, Changing, Recorded, Recording};
use crate::domain::attempt::Outcome;
use crate::domain::change::Changed;
use crate::domain::key::Key;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::{Cause, State};
use std::collections::HashMap;

/// A line for the history of a notification: its kind, and the cause or reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HistoryLine {
    pub(super) kind: &'static str,
    pub(super) detail: String,
}

/// What a recording changes in the notification. The attempt is kept in each of these cases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing: an interrupted attempt does not count as a step of the ladder.
    Unchanged,
    /// The status of the notification. Contains a line for the history if the notification has ended.
    Advanced(Option<HistoryLine>),
    /// Nothing: the notification has ended, or no longer has the progress that it had before the attempt.
    Stale,
}

/// The part of a notification that recordings and changes rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) state: State,
    pub(super) cause: Option<Cause>,
    /// [`Snapshot::cancelled_by_hand`].
    pub(super) cancelled_by_hand: bool,
    pub(super) progress: Progress,
    pub(super) ended_ms: Option<i64>,
}

impl Status {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self {
            state: snapshot.state,
            cause: snapshot.cause,
            cancelled_by_hand: snapshot.cancelled_by_hand,
            progress: snapshot.progress,
            ended_ms: snapshot.ended_ms,
        }
    }

    /// The status of a pending notification.
    pub(super) fn scheduled(progress: Progress) -> Self {
        Self {
            state: State::Scheduled,
            cause: None,
            cancelled_by_hand: false,
            progress,
            ended_ms: None,
        }
    }

    /// Whether a notification that has ended becomes delivered if an attempt of the same series is acknowledged: the
    /// receiver did accept it.
    ///
    /// The attempt was in flight when a higher number of its order was registered. Or its lease expired before its outcome
    /// was recorded, another server made the attempt again, and that one failed. A caller who was answered that the
    /// notification is cancelled or discarded relies on that, so it stays so.
    /// Which of those that have ended count as pending before that is narrower ([`Snapshot::takes_late_delivery`]): a dead
    /// letter can neither be cancelled nor be in flight.
    fn is_delivered_by_late_answer(&self) -> bool {
        let is_superseded = self.cause == Some(Cause::Superseded) && !self.cancelled_by_hand;
        self.state == State::Dead || is_superseded
    }

    /// Removes an attempt that was requested by hand, if the notification has ended.
    fn without_retry_at_the_end(mut self) -> Self {
        if self.state != State::Scheduled {
            self.progress.retry_at_ms = None;
        }
        self
    }
}

/// Applies a recording to a notification.
pub(super) fn record(snapshot: &mut Snapshot, recording: &Recording) -> Effect {
    let mut status = Status::of(snapshot);
    let effect = advance(&mut status, recording);
    set_status(snapshot, status);
    effect
}

/// Applies a recording to a status, for callers that do not have the whole notification.
pub(super) fn advance(status: &mut Status, recording: &Recording) -> Effect {
    let Recording {
        attempt,
        before,
        decision,
        at_ms,
        ..
    } = recording;
    let current = status.progress;
    // After a move, the instants of a failure on the old ones would undo the move.
    let is_unchanged =
        (current.attempts, current.first_due_ms) == (before.attempts, before.first_due_ms);
    let is_in_place = is_unchanged || matches!(decision.state, State::Delivered);
    let is_open = status.state == State::Scheduled
        || (decision.state == State::Delivered && status.is_delivered_by_late_answer());
    if !is_open || current.series != before.series || !is_in_place {
        return Effect::Stale;
    }
    if attempt.answer.outcome == Outcome::Interrupted {
        return Effect::Unchanged;
    }
    // A delivery is applied even if other attempts were recorded meanwhile, or the notification was moved. The
    // numbers of attempts and steps must not become smaller then.
    let progress = Progress {
        attempts: decision.progress.attempts.max(current.attempts),
        step: decision.progress.step.max(current.step),
        first_due_ms: current.first_due_ms,
        // A deferral of the attempt moves it.
        deadline_ms: if is_unchanged {
            decision.progress.deadline_ms
        } else {
            current.deadline_ms
        },
        ..decision.progress
    };
    *status = Status {
        state: decision.state,
        cause: decision.cause,
        cancelled_by_hand: false,
        progress,
        ended_ms: match decision.state {
            State::Scheduled => None,
            State::Delivered | State::Dead | State::Cancelled => Some(*at_ms),
        },
    }
    .without_retry_at_the_end();
    let line = |kind, detail| Effect::Advanced(Some(HistoryLine { kind, detail }));
    match decision.state {
        State::Scheduled => Effect::Advanced(None),
        State::Delivered => line("delivered", String::new()),
        State::Cancelled => line("cancelled", String::new()),
        State::Dead => {
            let cause = decision.cause.map_or("", |cause| cause.as_str());
            line("parked", cause.to_string())
        }
    }
}

/// The reply to a recording whose attempt was kept before. Such a recording is sent again because the reply
/// to the first one was lost.
pub(super) fn reply_to_repeat(snapshot: &Snapshot, recording: &Recording) -> Recorded {
    let Recording {
        attempt, decision, ..
    } = recording;
    let current = snapshot.progress;
    let is_applied = snapshot.state == decision.state
        && current.series == decision.progress.series
        && current.attempts == decision.progress.attempts;
    let pending = snapshot.state == State::Scheduled && current.series == attempt.series;
    if is_applied || (pending && attempt.answer.outcome == Outcome::Interrupted) {
        Recorded::Applied
    } else {
        Recorded::Stale(Box::new(snapshot.clone()))
    }
}

/// Applies a change by hand to a notification and returns a line for its history. If the change is refused,
/// returns the reply for the caller. An applied change raises the fence, so the same change is not applied
/// twice.
pub(super) fn change(
    snapshot: &mut Snapshot,
    changing: &Changing,
) -> Result<HistoryLine, ChangeResult> {
    let Some(changed) = changing.change.apply(snapshot, changing.at_ms) else {
        return Err(ChangeResult::Refused(Box::new(snapshot.clone())));
    };
    if snapshot.fence != changing.fence {
        return Err(ChangeResult::Fenced(Box::new(snapshot.clone())));
    }
    snapshot.fence += 1;
    let Changed {
        state,
        cause,
        progress,
        ended_ms,
    } = changed;
    let status = Status {
        state,
        cause,
        cancelled_by_hand: cause == Some(Cause::Superseded),
        progress,
        ended_ms,
    };
    let detail = (changing.change).detail(&changing.reason, &snapshot.progress, &progress);
    set_status(snapshot, status.without_retry_at_the_end());
    // A change by hand also releases a notification that was set aside.
    snapshot.set_aside = None;
    Ok(HistoryLine {
        kind: changing.change.transition(),
        detail,
    })
}

/// Raises the fences of those of these notifications that are pending, once for each time a key is given, so that no
/// two callers hold the same fence. Returns what each caller is told, and what is to be written.
pub(super) fn raise_fences(
    mut known: HashMap<Key, StoredNotification>,
    keys: &[Key],
) -> (Vec<Option<Snapshot>>, Vec<StoredNotification>) {
    let raised = keys.iter().map(|key| {
        let stored = known.get_mut(key)?;
        stored.snapshot.fence += u64::from(stored.snapshot.state == State::Scheduled);
        Some(stored.snapshot.clone())
    });
    let raised = raised.collect();
    known.retain(|_, stored| stored.snapshot.state == State::Scheduled);
    (raised, known.into_values().collect())
}

fn set_status(snapshot: &mut Snapshot, status: Status) {
    snapshot.state = status.state;
    snapshot.cause = status.cause;
    snapshot.cancelled_by_hand = status.cancelled_by_hand;
    snapshot.progress = status.progress;
    snapshot.ended_ms = status.ended_ms;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attempt::Attempt;
    use crate::domain::decision::Decision;
    use crate::domain::ladder::Ladder;
    use std::sync::Arc;

    const AT_MS: i64 = 5_000;

    /// The next attempt of this progress ends with this outcome, and the notification with this state.
    fn recording(before: Progress, outcome: Outcome, end: (State, Option<Cause>)) -> Recording {
        let mut attempt = Attempt::interrupted(&before, before.due_ms);
        attempt.answer.outcome = outcome;
        Recording {
            key: Key::new("t", "1").expect("a key"),
            attempt: Arc::new(attempt),
            before,
            decision: Decision {
                state: end.0,
                cause: end.1,
                progress: after_one(before),
                request: None,
            },
            at_ms: AT_MS,
        }
    }

    fn after_one(before: Progress) -> Progress {
        Progress {
            attempts: before.attempts + 1,
            step: before.step + 1,
            ..before
        }
    }

    #[test]
    fn a_late_delivery_counts_unless_a_caller_relies_on_another_end() {
        use Cause::{LadderExhausted, Refused, Superseded};
        let before = Progress::start(&Ladder::standard(), 1_000);
        let delivery = recording(before, Outcome::Acknowledged, (State::Delivered, None));
        let failure = recording(
            before,
            Outcome::HttpStatus,
            (State::Dead, Some(LadderExhausted)),
        );
        let check = |state, cause, cancelled_by_hand, progress: Progress, counts: bool| {
            let ended = Status {
                state,
                cause,
                cancelled_by_hand,
                progress,
                ended_ms: Some(4_000),
            };
            let mut status = ended;
            let effect = advance(&mut status, &delivery);
            if counts {
                let line = HistoryLine {
                    kind: "delivered",
                    detail: String::new(),
                };
                assert_eq!(effect, Effect::Advanced(Some(line)), "{ended:?}");
                let expected = Status {
                    state: State::Delivered,
                    cause: None,
                    cancelled_by_hand: false,
                    progress: Progress {
                        attempts: progress.attempts.max(1),
                        step: progress.step.max(1),
                        ..progress
                    },
                    ended_ms: Some(AT_MS),
                };
                assert_eq!(status, expected, "{ended:?}");
            } else {
                assert_eq!((effect, status), (Effect::Stale, ended));
            }
            // A failure of what has ended changes nothing.
            let mut status = ended;
            let effect = advance(&mut status, &failure);
            assert_eq!((effect, status), (Effect::Stale, ended));
        };
        let once = after_one(before);
        // The repetition of the attempt has failed.
        check(State::Dead, Some(LadderExhausted), false, once, true);
        check(State::Dead, Some(Refused), false, once, true);
        // So have further attempts.
        let thrice = after_one(after_one(once));
        check(State::Dead, Some(LadderExhausted), false, thrice, true);
        check(State::Cancelled, Some(Superseded), false, before, true);
        check(State::Cancelled, Some(Superseded), true, before, false);
        // Cancelled, or discarded as a dead letter.
        check(State::Cancelled, None, false, before, false);
        check(State::Cancelled, None, false, once, false);
        check(State::Delivered, None, false, once, false);
        // It was replayed, and is dead again.
        let next = after_one(once.next_series(&Ladder::standard(), 3_000));
        check(State::Dead, Some(LadderExhausted), false, next, false);
    }
}
