//! The delivery decision: whether a notification is delivered, dead or attempted again after an attempt.
//!
//! The decision is one pure function, [`decide`], and it cannot fail. All other delivery code only
//! applies its result. Whether an answer is an acknowledgement is decided in [`super::ack`].

use crate::domain::attempt::Outcome;
use crate::domain::ladder::{Failed, LATE_MS, Ladder, Next};
use crate::domain::progress::Progress;
use crate::domain::state::{Cause, State};

/// With this status, a receiver asks never to be called again (RFC 9110; Standard Webhooks).
const GONE: u16 = 410;

/// A notification's state and progress after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The new state.
    pub state: State,
    /// Why the notification is dead, if the new state is dead.
    pub cause: Option<Cause>,
    /// The new progress. It counts the attempt, unless the attempt was interrupted.
    pub progress: Progress,
}

/// Decides what happens after an attempt that started at `started_ms` and ended with `outcome`. `draw`
/// is a random number from 0 to 1; only ladders with jitter use it.
#[must_use]
pub fn decide(
    ladder: &Ladder,
    before: &Progress,
    started_ms: i64,
    outcome: Outcome,
    status: Option<u16>,
    draw: f64,
) -> Decision {
    let by_hand = before.next_is_by_hand();
    let counted = Progress {
        attempts: before.attempts + 1,
        step: before.step + u32::from(!by_hand),
        retry_at_ms: None,
        ..*before
    };
    let end = |state, cause| Decision {
        state,
        cause,
        progress: counted,
    };
    let again = |progress| Decision {
        state: State::Scheduled,
        cause: None,
        progress,
    };
    match outcome {
        Outcome::Acknowledged => end(State::Delivered, None),
        Outcome::Blocked => end(State::Dead, Some(Cause::Blocked)),
        Outcome::HttpStatus if status == Some(GONE) => end(State::Dead, Some(Cause::Refused)),
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
                return again(counted);
            }
            let failed = Failed {
                step: counted.step,
                due_ms: before.due_ms,
                started_ms,
                deadline_ms: before.deadline_ms,
                clamped: before.clamped,
            };
            match ladder.next_attempt(failed, draw) {
                Next::Attempt { due_ms, clamped } => again(Progress {
                    due_ms,
                    clamped,
                    ..counted
                }),
                Next::End(cause) => end(State::Dead, Some(cause)),
            }
        }
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
mod tests {
    use super::*;

    fn check(
        before: &Progress,
        started_ms: i64,
        outcome: Outcome,
        status: Option<u16>,
    ) -> Decision {
        decide(
            &Ladder::standard(),
            before,
            started_ms,
            outcome,
            status,
            0.5,
        )
    }

    #[test]
    fn an_answer_ends_or_continues_the_ladder() {
        let start = Progress::start(&Ladder::standard(), 1_000);
        let after = |outcome, status| {
            let decision = check(&start, 1_000, outcome, status);
            (decision.state, decision.cause)
        };
        assert_eq!(
            after(Outcome::Acknowledged, Some(200)),
            (State::Delivered, None)
        );
        assert_eq!(
            after(Outcome::Blocked, None),
            (State::Dead, Some(Cause::Blocked))
        );
        assert_eq!(
            after(Outcome::HttpStatus, Some(410)),
            (State::Dead, Some(Cause::Refused))
        );
        for outcome in [
            Outcome::WrongAnswer,
            Outcome::HttpStatus,
            Outcome::Timeout,
            Outcome::Connect,
            Outcome::Tls,
            Outcome::Dns,
            Outcome::Protocol,
        ] {
            let decision = check(&start, 1_000, outcome, Some(500));
            assert_eq!(
                (decision.state, decision.cause),
                (State::Scheduled, None),
                "{outcome}"
            );
            assert_eq!(decision.progress.due_ms, 241_000);
            assert_eq!((decision.progress.step, decision.progress.attempts), (1, 1));
        }
    }

    #[test]
    fn an_interrupted_attempt_takes_no_step() {
        let start = Progress::start(&Ladder::standard(), 1_000);
        let decision = check(&start, 1_000, Outcome::Interrupted, None);
        assert_eq!(
            (decision.state, decision.progress),
            (State::Scheduled, start)
        );
    }

    #[test]
    fn an_attempt_by_hand_leaves_the_ladder_where_it_was() {
        let start = Progress::start(&Ladder::standard(), 1_000);
        let second = check(&start, 1_000, Outcome::Timeout, None).progress;
        let asked = Progress {
            retry_at_ms: Some(50_000),
            ..second
        };
        let decision = check(&asked, 50_000, Outcome::Timeout, None);
        assert_eq!(
            decision.progress,
            Progress {
                attempts: 2,
                ..second
            }
        );
        let answered = check(&asked, 50_000, Outcome::Acknowledged, Some(200));
        assert_eq!(answered.state, State::Delivered);
    }

    #[test]
    fn a_window_that_closed_while_we_were_down_leaves_one_recovery_attempt() {
        let start = Progress::start(&Ladder::standard(), 0);
        let late_ms = start.deadline_ms + 3_600_000;
        assert!(is_recovery(&start, late_ms));
        assert!(!is_recovery(&start, start.deadline_ms + LATE_MS));
        let decision = check(&start, late_ms, Outcome::Timeout, None);
        assert_eq!(decision.cause, Some(Cause::WindowClosed));
        assert_eq!(
            check(&start, late_ms, Outcome::Acknowledged, Some(200)).state,
            State::Delivered
        );
    }
}
