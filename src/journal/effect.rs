//! What a recording or a change makes of a notification: the same for every journal.
//!
//! Pure. A journal reads the notification within its transaction, asks here, and writes down what
//! has become of it.

use super::{ChangeResult, Changing, Recorded, Recording};
use crate::domain::attempt::Outcome;
use crate::domain::change::Changed;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::{Cause, State};

/// A line for the history: its kind, and its cause or reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HistoryLine {
    pub(super) kind: &'static str,
    pub(super) detail: String,
}

/// What a recording does beside keeping its attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing: the attempt was interrupted and takes no step.
    Unchanged,
    /// The notification has moved on; with a line for the history if it has ended.
    Advanced(Option<HistoryLine>),
    /// Nothing: the notification stands elsewhere.
    Stale,
}

/// How a notification stands: what recordings and changes rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) state: State,
    pub(super) cause: Option<Cause>,
    pub(super) progress: Progress,
    pub(super) ended_ms: Option<i64>,
}

impl Status {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self {
            state: snapshot.state,
            cause: snapshot.cause,
            progress: snapshot.progress,
            ended_ms: snapshot.ended_ms,
        }
    }

    /// How one stands that still has attempts ahead.
    pub(super) fn scheduled(progress: Progress) -> Self {
        Self {
            state: State::Scheduled,
            cause: None,
            progress,
            ended_ms: None,
        }
    }

    /// Once it has ended, no attempt lies ahead, by hand or otherwise.
    fn without_retry_at_the_end(mut self) -> Self {
        if self.state != State::Scheduled {
            self.progress.retry_at_ms = None;
        }
        self
    }
}

/// Applies a recording to the notification as it stands.
pub(super) fn record(snapshot: &mut Snapshot, recording: &Recording) -> Effect {
    let mut status = Status::of(snapshot);
    let effect = advance(&mut status, recording);
    set_status(snapshot, status);
    effect
}

/// The same, where no more is at hand than how the notification stands.
pub(super) fn advance(status: &mut Status, recording: &Recording) -> Effect {
    let Recording {
        attempt,
        before,
        decision,
        at_ms,
        ..
    } = recording;
    let current = status.progress;
    let is_in_place =
        current.attempts == before.attempts || matches!(decision.state, State::Delivered);
    if status.state != State::Scheduled || current.series != before.series || !is_in_place {
        return Effect::Stale;
    }
    if attempt.answer.outcome == Outcome::Interrupted {
        return Effect::Unchanged;
    }
    // A delivery counts even if other attempts were recorded meanwhile: those stay counted.
    let progress = Progress {
        attempts: decision.progress.attempts.max(current.attempts),
        step: decision.progress.step.max(current.step),
        ..decision.progress
    };
    *status = Status {
        state: decision.state,
        cause: decision.cause,
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

/// What to answer to a recording whose attempt is kept already: the reply to the first one was lost
/// on its way.
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

/// Applies a change by hand to the notification as it stands, or says why not; with a line for the
/// history. That raises the fence, so a change that is made twice is applied once.
pub(super) fn change(
    snapshot: &mut Snapshot,
    changing: &Changing,
) -> Result<HistoryLine, ChangeResult> {
    let changed = changing.change.apply(
        &snapshot.ladder,
        snapshot.state,
        &snapshot.progress,
        changing.at_ms,
    );
    let Some(changed) = changed else {
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
        progress,
        ended_ms,
    };
    set_status(snapshot, status.without_retry_at_the_end());
    // Whoever changes it by hand releases it too.
    snapshot.set_aside = None;
    Ok(HistoryLine {
        kind: changing.change.transition(),
        detail: changing.reason.clone(),
    })
}

fn set_status(snapshot: &mut Snapshot, status: Status) {
    snapshot.state = status.state;
    snapshot.cause = status.cause;
    snapshot.progress = status.progress;
    snapshot.ended_ms = status.ended_ms;
}
