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
    let end = |state, cause| Decision {
        state,
        cause,
        progress: counted,
        request: None,
    };
    let again = |progress| Decision {
        state: State::Scheduled,
        cause: None,
        progress,
        request: None,
    };
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
mod tests {
    use super::*;

    fn check(
        before: &Progress,
        started_ms: i64,
        outcome: Outcome,
        status: Option<u16>,
    ) -> Decision {
        let followed = FollowedRequests {
            retry_after: true,
            gone: true,
        };
        let attempt = EndedAttempt {
            started_ms,
            ended_ms: started_ms,
            outcome,
            status,
            retry_after: None,
        };
        decide(&Ladder::standard(), followed, before, &attempt, 0.5)
    }

    /// The decision after an attempt of Alipay's ladder that starts on time, takes a second, and is answered with
    /// this status and `Retry-After`.
    fn asked(before: &Progress, status: u16, retry_after: &str) -> Decision {
        let followed = FollowedRequests {
            retry_after: true,
            gone: false,
        };
        let attempt = answered(before, status, retry_after);
        decide(&Ladder::standard(), followed, before, &attempt, 0.5)
    }

    fn answered(before: &Progress, status: u16, retry_after: &str) -> EndedAttempt {
        let started_ms = before.next_due_ms();
        EndedAttempt {
            started_ms,
            ended_ms: started_ms + 1_000,
            outcome: Outcome::HttpStatus,
            status: Some(status),
            retry_after: RetryAfter::read([retry_after.as_bytes()]),
        }
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

    #[test]
    fn retry_after_delays_the_next_attempt_and_never_beyond_the_deadline() {
        const WINDOW_MS: i64 = 87_720_000;
        let start = Progress::start(&Ladder::standard(), 0);
        let check = |retry_after: &str, due_ms: i64, clamped: bool| {
            let progress = asked(&start, 429, retry_after).progress;
            let found = (progress.due_ms, progress.clamped);
            assert_eq!(found, (due_ms, clamped), "{retry_after}");
        };
        // The ladder's next attempt is due at 4m; the answer came at 1 s.
        for sooner in [
            "0",
            "238",
            "239",
            "Thu, 01 Jan 1970 00:04:00 GMT",
            "-9",
            "x",
        ] {
            check(sooner, 240_000, false);
        }
        check("240", 241_000, false);
        check("Thu, 01 Jan 1970 01:00:00 GMT", 3_600_000, false);
        check("87719", WINDOW_MS, false);
        check("87720", WINDOW_MS, true);
        check("Sun, 01 Mar 1970 00:00:00 GMT", WINDOW_MS, true);
        check("5184001", 240_000, false);
        check("99999999999999999999", 240_000, false);
    }

    #[test]
    fn later_attempts_count_on_from_the_one_that_was_moved() {
        let start = Progress::start(&Ladder::standard(), 0);
        let moved = asked(&start, 503, "3599").progress;
        assert_eq!(moved.due_ms, 3_600_000);
        let next = asked(&moved, 503, "").progress;
        assert_eq!(next.due_ms, 3_600_000 + 600_000);
        // At the deadline, the attempt is the last one.
        let last = asked(&start, 503, "100000").progress;
        let ended = asked(&last, 503, "1");
        assert_eq!(ended.cause, Some(Cause::WindowClosed));
        let effect = ended.request.expect("a request").in_words();
        assert!(effect.ends_with("but no attempt is left"), "{effect}");
    }

    #[test]
    fn retry_after_counts_only_where_it_is_followed_and_with_429_and_503() {
        let start = Progress::start(&Ladder::standard(), 0);
        let by_ladder_ms = 240_000;
        for status in [300, 400, 413, 500, 502, 504] {
            let decision = asked(&start, status, "3600");
            assert_eq!(decision.progress.due_ms, by_ladder_ms, "{status}");
            assert_eq!(decision.request, None, "{status}");
        }
        let ignored = FollowedRequests {
            retry_after: false,
            gone: false,
        };
        let attempt = answered(&start, 429, "3600");
        let decide = |followed, attempt: EndedAttempt| {
            super::decide(&Ladder::standard(), followed, &start, &attempt, 0.5)
        };
        let decision = decide(ignored, attempt);
        assert_eq!(decision.progress.due_ms, by_ladder_ms);
        let words = decision.request.expect("a request").in_words();
        assert!(words.ends_with("which is not followed here"), "{words}");
        let followed = FollowedRequests {
            retry_after: true,
            ..ignored
        };
        for outcome in [Outcome::Protocol, Outcome::Timeout, Outcome::Interrupted] {
            let broken = EndedAttempt { outcome, ..attempt };
            let decision = decide(followed, broken);
            assert!(decision.progress.due_ms <= by_ladder_ms, "{outcome}");
            assert_eq!(decision.request, None, "{outcome}");
        }
    }

    #[test]
    fn an_attempt_at_the_end_of_the_window_is_not_moved() {
        let start = Progress::start(&Ladder::standard(), 0);
        let deadline_ms = start.deadline_ms;
        let before = Progress {
            step: 6,
            due_ms: deadline_ms - 54_000_000,
            ..start
        };
        let next = asked(&before, 429, "54000");
        assert_eq!(next.progress.due_ms, deadline_ms);
        let words = next.request.expect("a request").in_words();
        assert!(words.contains("the window closes when"), "{words}");
    }

    #[test]
    fn an_attempt_by_hand_can_be_told_to_wait_too() {
        let start = Progress::start(&Ladder::standard(), 0);
        let second = asked(&start, 500, "").progress;
        let by_hand = Progress {
            retry_at_ms: Some(50_000),
            ..second
        };
        let moved = asked(&by_hand, 429, "600").progress;
        assert_eq!((moved.step, moved.due_ms), (1, 651_000));
        let unmoved = asked(&by_hand, 429, "60").progress;
        assert_eq!((unmoved.step, unmoved.due_ms), (1, 240_000));
    }

    #[test]
    fn gone_ends_a_notification_only_where_it_is_followed() {
        let start = Progress::start(&Ladder::standard(), 0);
        let by_hand = Progress {
            due_ms: 240_000,
            retry_at_ms: Some(50_000),
            ..start
        };
        for before in [start, by_hand] {
            let stopped = check(&before, 1_000, Outcome::HttpStatus, Some(410));
            assert_eq!(stopped.cause, Some(Cause::Refused));
            let words = stopped.request.expect("a request").in_words();
            assert_eq!(words, ": the receiver asks for no more calls");
            let failed = asked(&before, 410, "3600");
            assert_eq!((failed.state, failed.cause), (State::Scheduled, None));
            assert_eq!(failed.progress.due_ms, 240_000);
            let words = failed.request.expect("a request").in_words();
            assert_eq!(words, ", which counts like any other failure here");
        }
    }
}
