use super::*;
use crate::domain::destination::Destination;
use crate::domain::headers::Headers;
use crate::domain::key::Key;
use crate::domain::notification::{Registration, Target};
use crate::domain::priority::Priority;
use crate::domain::snapshot::SetAside;
use crate::domain::webhook_id::WebhookId;
use bytes::Bytes;

const MOVE: Change = Change::Reschedule(Start::After(500));

/// A notification that is due in 100 ms, in this state.
fn one_in(state: State) -> Snapshot {
    let registration = Registration {
        key: Key::new("t", "1").expect("a key"),
        target: Target::Url(Destination::parse("https://shop.example/notify").expect("a url")),
        body: Bytes::from_static(b"x"),
        content_type: "text/plain".into(),
        headers: Headers::default(),
        start: Start::After(100),
        ladder: None,
        ack: None,
        priority: Priority::Normal,
        order: None,
    };
    let (notification, progress) = registration.accept(WebhookId::from_bytes([1; 16]), 0, None);
    Snapshot {
        state,
        ..Snapshot::of_new(&notification, progress)
    }
}

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut one = one_in(State::Scheduled);
    change(&mut one);
    one
}

#[test]
fn each_change_needs_its_state() {
    for (change, from, to) in [
        (Change::Cancel, State::Scheduled, State::Cancelled),
        (Change::Discard, State::Dead, State::Cancelled),
        (Change::Replay, State::Dead, State::Scheduled),
        (Change::Resend, State::Delivered, State::Scheduled),
        (Change::Retry, State::Scheduled, State::Scheduled),
        (MOVE, State::Scheduled, State::Scheduled),
    ] {
        for state in State::ALL {
            let before = one_in(*state);
            let expected = (*state == from).then_some(to);
            let changed = change.apply(&before, 5).map(|changed| changed.state);
            assert_eq!(changed, expected, "{change} {state}");
            let allowed = change.is_allowed(&before);
            assert_eq!(allowed, expected.is_some(), "{change} {state}");
            if expected.is_none() {
                let refusal = format!("cannot {change} a notification that is {state}");
                let refused = change.refusal(&before);
                let rest = refused.strip_prefix(&refusal).expect("the state");
                assert!(rest.is_empty() || rest.starts_with("; "), "{refused}");
            }
        }
    }
}

#[test]
fn what_was_cancelled_can_only_be_registered_again() {
    let check = |change: Change, before: &Snapshot, rest: &str| {
        let expected = format!("cannot {change} a notification that is cancelled{rest}");
        assert_eq!(change.refusal(before), expected);
    };
    let cancelled = one_in(State::Cancelled);
    let superseded = Snapshot {
        cause: Some(Cause::Superseded),
        ..one_in(State::Cancelled)
    };
    for change in [Change::Replay, Change::Resend, Change::Retry, MOVE] {
        let another = "; to have it sent, register it under another id";
        check(change, &cancelled, another);
        let latest = "; a higher number of its order was registered, and only the latest is sent";
        check(change, &superseded, latest);
    }
    for change in [Change::Cancel, Change::Discard] {
        check(change, &cancelled, "");
    }
}

#[test]
fn what_is_sent_again_gets_a_new_series_and_attempts_count_on() {
    for (change, state) in [
        (Change::Replay, State::Dead),
        (Change::Resend, State::Delivered),
    ] {
        let mut before = one_in(state);
        before.progress.step = 8;
        before.progress.attempts = 9;
        let after = change.apply(&before, 1_000).expect("allowed").progress;
        assert_eq!((after.series, after.step, after.attempts), (2, 0, 9));
        assert_eq!(after.first_due_ms, 1_000);
        assert_eq!(after.deadline_ms, 1_000 + before.ladder.window_ms());
    }
}

#[test]
fn a_retry_is_an_attempt_of_its_own_only_before_the_next_one_is_due() {
    let at = |now_ms| {
        let mut before = one_in(State::Scheduled);
        before.progress = Progress::start(&before.ladder, 100);
        let after = Change::Retry.apply(&before, now_ms).expect("allowed");
        let again = Snapshot {
            progress: after.progress,
            ..before
        };
        let twice = Change::Retry.apply(&again, now_ms + 1).expect("allowed");
        assert_eq!(twice.progress, after.progress, "it was asked for before");
        let (progress, left) = (after.progress, again.attempts_left());
        (progress.next_due_ms(), progress.next_is_by_hand(), left)
    };
    assert_eq!(at(99), (99, true, 9));
    assert_eq!(at(100), (100, false, 8));
    assert_eq!(at(101), (100, false, 8));
}

#[test]
fn a_move_takes_the_deadline_along_and_drops_an_attempt_by_hand() {
    let check = |before: &Snapshot, start, expected_ms, detail: &str| {
        let change = Change::Reschedule(start);
        let after = change.apply(before, 1_000).expect("allowed").progress;
        let expected = Progress {
            series: before.progress.series,
            attempts: before.progress.attempts,
            ..Progress::start(&before.ladder, expected_ms)
        };
        assert_eq!(after, expected);
        assert_eq!(change.detail("", &before.progress, &after), detail);
    };
    let plain = one_in(State::Scheduled);
    let to = |text: &str| format!("from 1970-01-01T00:00:00.100Z to {text}");
    let two = to("1970-01-01T00:00:02.000Z");
    check(&plain, Start::After(1_000), 2_000, &two);
    check(&plain, Start::At(2_000), 2_000, &two);
    // An instant in the past means at once, as in a registration.
    let now = to("1970-01-01T00:00:01.000Z");
    check(&plain, Start::At(7), 1_000, &now);
    check(&plain, Start::After(0), 1_000, &now);
    // An attempt by hand has failed, and another one was asked for.
    let by_hand = with(|one| {
        one.progress.attempts = 1;
        one.progress.retry_at_ms = Some(50);
    });
    let dropped = format!("{two}; the attempt that was asked for by hand is dropped");
    check(&by_hand, Start::At(2_000), 2_000, &dropped);
    // In a later series too.
    let replayed = with(|one| one.progress.series = 2);
    check(&replayed, Start::At(2_000), 2_000, &two);
}

#[test]
fn what_was_attempted_or_set_aside_cannot_be_moved() {
    let check = |before: &Snapshot, refusal: &str| {
        assert!(!MOVE.is_allowed(before));
        assert_eq!(MOVE.apply(before, 5), None);
        assert!(!MOVE.may_follow_the_attempt(before));
        let said = MOVE.refusal(before);
        assert!(said.contains(refusal), "{said}");
    };
    let attempted = with(|one| one.progress.step = 1);
    check(&attempted, "after the first attempt of its series");
    let aside = with(|one| {
        one.set_aside = Some(SetAside {
            at_ms: 1,
            reason: "x".into(),
        });
    });
    check(&aside, "that is set aside");
    let in_flight = with(|one| one.in_flight = true);
    assert!(MOVE.may_follow_the_attempt(&in_flight));
    let refusal = "cannot reschedule a notification that is in_flight";
    assert_eq!(MOVE.refusal(&in_flight), refusal);
}

#[test]
fn what_a_higher_number_has_ended_is_cancelled_by_hand_once() {
    let ended = Snapshot {
        cause: Some(Cause::Superseded),
        ended_ms: Some(3),
        ..one_in(State::Cancelled)
    };
    let by_hand = Snapshot {
        cancelled_by_hand: true,
        ..ended.clone()
    };
    for change in [Change::Cancel, Change::Discard] {
        let changed = change.apply(&ended, 5).expect("allowed");
        assert_eq!((changed.state, changed.cause), (ended.state, ended.cause));
        assert_eq!(changed.progress, ended.progress);
        assert_eq!(changed.ended_ms, Some(3));
        assert_eq!(change.apply(&by_hand, 5), None);
    }
    for change in [Change::Retry, Change::Replay, Change::Resend, MOVE] {
        assert!(!change.is_allowed(&ended), "{change}");
    }
    let in_flight = Snapshot {
        in_flight: true,
        ..ended
    };
    let said = Change::Cancel.refusal(&in_flight);
    assert!(said.contains("an attempt is in flight"), "{said}");
    assert!(Change::Cancel.may_follow_the_attempt(&in_flight));
    for change in [Change::Retry, Change::Replay, Change::Resend, MOVE] {
        assert!(!change.may_follow_the_attempt(&in_flight), "{change}");
    }
}
