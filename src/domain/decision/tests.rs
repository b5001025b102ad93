//! Tests of the decision.

use super::*;

fn check(before: &Progress, started_ms: i64, outcome: Outcome, status: Option<u16>) -> Decision {
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
