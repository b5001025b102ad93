//! Changes by hand, in every state.

use super::samples::{
    START_MS, apply, attempts, changing, delivery, do_change, failure, find, history, keep, key,
    raise_fence, recording, refusal, registering,
};
use super::{INSTANCE, Store};
use ringback::domain::attempt::Outcome;
use ringback::domain::change::Change;
use ringback::domain::key::Key;
use ringback::domain::notification::Start;
use ringback::domain::progress::Progress;
use ringback::domain::snapshot::Snapshot;
use ringback::domain::state::State;
use ringback::journal::{ChangeResult, Changing, Journal, Prune, Recorded, SettingAside};
use std::collections::HashMap;

/// Brings a new notification into a state.
async fn one_in(journal: &dyn Journal, state: State, id: &str) -> (Key, Progress) {
    let given = registering(id);
    let progress = given.progress;
    let notification = keep(journal, given).await;
    match state {
        State::Scheduled => {}
        State::Delivered => apply(journal, delivery(&notification, progress)).await,
        State::Dead => apply(journal, refusal(&notification, progress)).await,
        State::Cancelled => {
            do_change(journal, &notification.key, Change::Cancel, START_MS + 1).await;
        }
    }
    (notification.key.clone(), progress)
}

pub async fn each_change_needs_its_state(store: &dyn Store) {
    let journal = store.open().await;
    let at_ms = START_MS + 1_000;
    for (change, from, to) in [
        (Change::Cancel, State::Scheduled, State::Cancelled),
        (Change::Discard, State::Dead, State::Cancelled),
        (Change::Replay, State::Dead, State::Scheduled),
        (Change::Resend, State::Delivered, State::Scheduled),
        (Change::Retry, State::Scheduled, State::Scheduled),
        (
            Change::Reschedule(Start::After(60_000)),
            State::Scheduled,
            State::Scheduled,
        ),
    ] {
        for state in State::ALL {
            let (key, _) = one_in(&*journal, *state, &format!("{change}-{state}")).await;
            let before = find(&*journal, &key).await;
            let lines = history(&*journal, &key).await;
            let result = journal.change(changing(&key, change, at_ms)).await;
            let after = find(&*journal, &key).await;
            let shown = Box::new(Snapshot {
                attempts: Vec::new(),
                ..after.clone()
            });
            if *state == from {
                assert_eq!(result.expect("kept"), ChangeResult::Done(shown));
                assert_eq!(after.state, to, "{change} {state}");
                let ended_ms = (to != State::Scheduled).then_some(at_ms);
                assert_eq!(after.ended_ms, ended_ms, "{change} {state}");
                assert_eq!(after.cause, None, "{change} {state}");
                let line = history(&*journal, &key).await.pop();
                assert_eq!(line.as_deref(), Some(change.transition()));
            } else {
                assert_eq!(result.expect("kept"), ChangeResult::Refused(shown));
                assert_eq!(after, before, "{change} {state}");
                assert_eq!(history(&*journal, &key).await, lines);
            }
        }
    }
}

pub async fn a_change_of_nothing_is_missing(store: &dyn Store) {
    let journal = store.open().await;
    for change in [Change::Cancel, Change::Resend, MOVE] {
        let result = journal
            .change(changing(&key("none"), change, START_MS))
            .await;
        assert_eq!(result.expect("read"), ChangeResult::Missing);
    }
}

pub async fn a_replay_starts_a_new_series_and_keeps_the_history(store: &dyn Store) {
    let journal = store.open().await;
    let given = registering("1");
    let notification = keep(&*journal, given.clone()).await;
    apply(&*journal, refusal(&notification, given.progress)).await;
    let at_ms = START_MS + 86_400_000;
    let replayed = do_change(&*journal, &notification.key, Change::Replay, at_ms).await;
    assert_eq!((replayed.progress.series, replayed.progress.step), (2, 0));
    assert_eq!(replayed.progress.first_due_ms, at_ms);
    assert_eq!(replayed.webhook_id, notification.webhook_id);
    apply(&*journal, delivery(&notification, replayed.progress)).await;
    let snapshot = find(&*journal, &notification.key).await;
    assert_eq!(
        attempts(&snapshot),
        [(1, 1, Outcome::HttpStatus), (2, 2, Outcome::Acknowledged)]
    );
    assert_eq!(
        history(&*journal, &notification.key).await,
        ["registered", "parked", "replayed", "delivered"]
    );
}

pub async fn a_resend_starts_a_new_series_and_keeps_the_history(store: &dyn Store) {
    let journal = store.open().await;
    let given = registering("1");
    let notification = keep(&*journal, given.clone()).await;
    apply(&*journal, failure(&notification, given.progress)).await;
    let second = find(&*journal, &notification.key).await.progress;
    apply(&*journal, delivery(&notification, second)).await;
    let mut at_ms = START_MS + 86_400_000;
    for series in [2, 3] {
        let resent = do_change(&*journal, &notification.key, Change::Resend, at_ms).await;
        assert_eq!(
            (resent.progress.series, resent.progress.step),
            (series, 0),
            "{resent:?}"
        );
        assert_eq!(resent.progress.attempts, series);
        assert_eq!(
            (resent.progress.first_due_ms, resent.ended_ms),
            (at_ms, None)
        );
        assert_eq!(resent.webhook_id, notification.webhook_id);
        let pending = journal.pending(&notification.key).await.expect("read");
        let body = pending.expect("it is pending").notification.body.clone();
        assert_eq!(body, notification.body);
        // The outcome of a call in the series before changes nothing.
        let late = journal.record(&[delivery(&notification, second)]).await;
        assert!(
            matches!(late.expect("kept")[..], [Recorded::Stale(_)]),
            "{series}"
        );
        apply(&*journal, delivery(&notification, resent.progress)).await;
        at_ms += 86_400_000;
    }
    let lines = journal.transitions(&notification.key).await.expect("read");
    let shown: Vec<(&str, i64, &str)> = lines
        .iter()
        .map(|line| (&*line.kind, line.at_ms, &*line.actor))
        .collect();
    let day = |days: i64| START_MS + days * 86_400_000;
    assert_eq!(
        shown,
        [
            ("registered", START_MS, "orders"),
            ("delivered", second.due_ms + 20, "dispatcher"),
            ("resent", day(1), "support"),
            ("delivered", day(1) + 20, "dispatcher"),
            ("resent", day(2), "support"),
            ("delivered", day(2) + 20, "dispatcher"),
        ]
    );
    assert!(lines.iter().all(|line| line.instance == INSTANCE));
    assert_eq!(lines[2].detail, "asked to resend");
}

pub async fn what_has_no_body_any_more_is_not_sent_again(store: &dyn Store) {
    let journal = store.open().await;
    let (key, _) = one_in(&*journal, State::Delivered, "1").await;
    let prune = Prune {
        payloads_before_ms: START_MS + 1_000,
        records_before_ms: 0,
        dead_before_ms: None,
    };
    let pruned = journal.prune(&prune, 10).await.expect("pruned");
    assert_eq!(pruned.payloads, 1);
    let before = find(&*journal, &key).await;
    let result = journal
        .change(changing(&key, Change::Resend, START_MS + 2_000))
        .await;
    let shown = Box::new(Snapshot {
        attempts: Vec::new(),
        ..before.clone()
    });
    assert_eq!(
        result.expect("answered"),
        ChangeResult::PayloadDeleted(shown)
    );
    assert_eq!(find(&*journal, &key).await, before);
    assert_eq!(history(&*journal, &key).await, ["registered", "delivered"]);
}

/// A move by an hour, counted from when it is asked for.
const MOVE: Change = Change::Reschedule(Start::After(3_600_000));

pub async fn a_move_takes_the_deadline_along_and_says_from_when_to_when(store: &dyn Store) {
    let journal = store.open().await;
    let given = registering("1");
    let notification = keep(&*journal, given.clone()).await;
    let key = &notification.key;
    do_change(&*journal, key, Change::Retry, START_MS - 5_000).await;
    let moved = do_change(&*journal, key, MOVE, START_MS - 4_000).await;
    let expected = Progress::start(&notification.ladder, START_MS + 3_596_000);
    assert_eq!(moved.progress, expected, "the attempt by hand is dropped");
    assert_eq!(moved.fingerprint, notification.fingerprint);
    let pending = journal.pending(key).await.expect("read");
    assert_eq!(pending.expect("it is pending").progress, expected);
    // An earlier instant, and one in the past.
    let at = Change::Reschedule(Start::At(START_MS + 1));
    let moved = do_change(&*journal, key, at, START_MS).await;
    assert_eq!(moved.progress.due_ms, START_MS + 1);
    let past = Change::Reschedule(Start::At(1));
    let moved = do_change(&*journal, key, past, START_MS + 2).await;
    assert_eq!(moved.progress.due_ms, START_MS + 2);
    let lines = journal.transitions(key).await.expect("read");
    let line = &lines[2];
    assert_eq!((&*line.kind, &*line.actor), ("rescheduled", "support"));
    assert_eq!(
        line.detail,
        "from 2026-11-20T08:30:00.000Z to 2026-11-20T09:29:56.000Z; the attempt that was asked for by hand is dropped"
    );
    assert_eq!(
        lines[3].detail,
        "from 2026-11-20T09:29:56.000Z to 2026-11-20T08:30:00.001Z"
    );
}

pub async fn what_was_attempted_on_its_ladder_is_not_moved(store: &dyn Store) {
    let journal = store.open().await;
    let given = registering("1");
    let notification = keep(&*journal, given.clone()).await;
    let key = &notification.key;
    // An attempt by hand takes no step of the ladder.
    let asked = do_change(&*journal, key, Change::Retry, START_MS - 10_000).await;
    apply(&*journal, failure(&notification, asked.progress)).await;
    let moved = do_change(&*journal, key, MOVE, START_MS - 5_000).await;
    assert_eq!((moved.progress.attempts, moved.progress.step), (1, 0));
    apply(&*journal, failure(&notification, moved.progress)).await;
    let before = find(&*journal, key).await;
    let late = Changing {
        fence: before.fence,
        ..changing(key, MOVE, START_MS + 4_000_000)
    };
    let result = journal.change(late).await.expect("answered");
    assert!(matches!(result, ChangeResult::Refused(_)), "{result:?}");
    assert_eq!(find(&*journal, key).await, before);
    // In a new series it can be moved again.
    apply(&*journal, refusal(&notification, before.progress)).await;
    do_change(&*journal, key, Change::Replay, START_MS + 5_000_000).await;
    let moved = do_change(&*journal, key, MOVE, START_MS + 5_000_000).await;
    assert_eq!(moved.progress.first_due_ms, START_MS + 8_600_000);
    assert_eq!((moved.progress.series, moved.progress.attempts), (2, 3));
}

pub async fn what_is_set_aside_is_not_moved(store: &dyn Store) {
    let journal = store.open().await;
    let (key, _) = one_in(&*journal, State::Scheduled, "1").await;
    let setting = SettingAside {
        key: key.clone(),
        at_ms: START_MS + 1,
        reason: "its outcome could not be recorded".into(),
    };
    journal.set_aside(&setting).await.expect("kept");
    let before = find(&*journal, &key).await;
    let result = journal.change(changing(&key, MOVE, START_MS + 2)).await;
    let result = result.expect("answered");
    assert!(matches!(result, ChangeResult::Refused(_)), "{result:?}");
    assert_eq!(find(&*journal, &key).await, before);
}

pub async fn an_outcome_from_before_a_move_does_not_undo_it(store: &dyn Store) {
    let journal = store.open().await;
    for (id, outcome, state) in [
        ("failed", Outcome::Timeout, State::Scheduled),
        ("refused", Outcome::Blocked, State::Scheduled),
        ("delivered", Outcome::Acknowledged, State::Delivered),
    ] {
        let given = registering(id);
        let notification = keep(&*journal, given.clone()).await;
        let key = &notification.key;
        // Its lease has expired, so that it could be moved; now its outcome comes.
        let late = recording(&notification, given.progress, outcome, None);
        let moved = do_change(&*journal, key, MOVE, START_MS + 10).await;
        let recorded = journal
            .record(std::slice::from_ref(&late))
            .await
            .expect("kept");
        let after = find(&*journal, key).await;
        assert_eq!(after.state, state, "{id}");
        assert_eq!(after.attempts.len(), 1, "{id}");
        assert_eq!(
            (after.progress.first_due_ms, after.progress.deadline_ms),
            (moved.progress.first_due_ms, moved.progress.deadline_ms),
            "{id}"
        );
        if state == State::Scheduled {
            assert!(matches!(recorded[..], [Recorded::Stale(_)]), "{recorded:?}");
            assert_eq!(after.progress, moved.progress, "{id}");
            let again = journal.record(&[late]).await.expect("kept");
            assert!(matches!(again[..], [Recorded::Stale(_)]), "{again:?}");
        } else {
            assert_eq!(recorded, [Recorded::Applied]);
        }
    }
}

pub async fn a_retry_brings_the_next_attempt_forward(store: &dyn Store) {
    let journal = store.open().await;
    let given = registering("1");
    let notification = keep(&*journal, given.clone()).await;
    let first = failure(&notification, given.progress);
    apply(&*journal, first.clone()).await;
    let at_ms = START_MS + 50;
    let asked = do_change(&*journal, &notification.key, Change::Retry, at_ms).await;
    assert_eq!(asked.next_due_ms(), Some(at_ms));
    assert_eq!(asked.progress.due_ms, first.decision.progress.due_ms);
    let by_hand = failure(&notification, asked.progress);
    apply(&*journal, by_hand).await;
    let snapshot = find(&*journal, &notification.key).await;
    assert_eq!((snapshot.progress.step, snapshot.progress.attempts), (1, 2));
    assert_eq!(snapshot.next_due_ms(), Some(first.decision.progress.due_ms));
}

pub async fn the_history_says_who_did_what_and_why(store: &dyn Store) {
    let journal = store.open().await;
    let (key, _) = one_in(&*journal, State::Dead, "1").await;
    do_change(&*journal, &key, Change::Discard, START_MS + 77).await;
    let lines = journal.transitions(&key).await.expect("read");
    let line = lines.last().expect("a line");
    assert_eq!((&*line.kind, line.at_ms), ("discarded", START_MS + 77));
    assert_eq!((&*line.actor, &*line.instance), ("support", INSTANCE));
    assert_eq!(line.detail, "asked to discard");
}

pub async fn a_change_whose_lease_was_lost_is_refused(store: &dyn Store) {
    let journal = store.open().await;
    for change in [Change::Cancel, Change::Retry, MOVE] {
        let (key, _) = one_in(&*journal, State::Scheduled, &change.to_string()).await;
        let late = changing(&key, change, START_MS + 1);
        // Whoever leases it next begins with this.
        let fenced = raise_fence(&*journal, &key).await;
        let fenced = fenced.expect("it is there");
        let before = find(&*journal, &key).await;
        assert_eq!(fenced, before);
        let refused = journal.change(late).await.expect("answered");
        assert_eq!(refused, ChangeResult::Fenced(Box::new(fenced)));
        assert_eq!(find(&*journal, &key).await, before, "{change}");
        assert_eq!(history(&*journal, &key).await, ["registered"]);
        do_change(&*journal, &key, change, START_MS + 2).await;
    }
}

pub async fn a_change_that_comes_twice_is_applied_once(store: &dyn Store) {
    let journal = store.open().await;
    for (change, state) in [
        (Change::Retry, State::Scheduled),
        (Change::Replay, State::Dead),
        (Change::Resend, State::Delivered),
    ] {
        let given = registering(&change.to_string());
        let notification = keep(&*journal, given.clone()).await;
        let key = &notification.key;
        match state {
            State::Dead => apply(&*journal, refusal(&notification, given.progress)).await,
            State::Delivered => apply(&*journal, delivery(&notification, given.progress)).await,
            State::Scheduled | State::Cancelled => {}
        }
        let twice = changing(key, change, START_MS + 1_000);
        let done = journal.change(twice.clone()).await.expect("kept");
        let ChangeResult::Done(done) = done else {
            panic!("{change}: {done:?}");
        };
        // It is in the same state again.
        let next = match state {
            State::Dead => refusal(&notification, done.progress),
            State::Delivered => delivery(&notification, done.progress),
            _ => failure(&notification, done.progress),
        };
        apply(&*journal, next).await;
        let before = find(&*journal, key).await;
        assert_eq!(before.state, state);
        let again = journal.change(twice).await.expect("answered");
        assert!(matches!(again, ChangeResult::Fenced(_)), "{again:?}");
        assert_eq!(find(&*journal, key).await, before, "{change}");
    }
}

pub async fn only_what_is_pending_is_fenced(store: &dyn Store) {
    let journal = store.open().await;
    for state in State::ALL {
        let (key, _) = one_in(&*journal, *state, &state.to_string()).await;
        let before = find(&*journal, &key).await;
        let fenced = raise_fence(&*journal, &key).await;
        let raised = fenced.expect("it is there").fence - before.fence;
        assert_eq!(raised, u64::from(*state == State::Scheduled), "{state}");
        let after = find(&*journal, &key).await;
        assert_eq!(after.fence, before.fence + raised, "{state}");
    }
    let nothing = raise_fence(&*journal, &key("none")).await;
    assert_eq!(nothing, None);
}

pub async fn many_are_fenced_at_once(store: &dyn Store) {
    let journal = store.open().await;
    let (mut keys, mut expected) = (Vec::new(), Vec::new());
    for number in 0..20 {
        for state in State::ALL {
            let (key, _) = one_in(&*journal, *state, &format!("{state}-{number}")).await;
            let mut after = find(&*journal, &key).await;
            after.attempts.clear();
            after.fence += u64::from(*state == State::Scheduled);
            keys.push(key);
            expected.push(Some(after));
        }
        keys.push(key(&format!("unknown-{number}")));
        expected.push(None);
    }
    let found = journal.fence(&keys).await.expect("raised");
    assert_eq!(found, expected);
    for after in expected.iter_mut().flatten() {
        after.fence += u64::from(after.state == State::Scheduled);
    }
    // Two who ask for the same one do not hold the same fence.
    let (first, pending) = (expected.iter().zip(&keys))
        .find_map(|(after, key)| {
            Some((after.clone()?, key.clone())).filter(|(after, _)| after.state == State::Scheduled)
        })
        .expect("one is pending");
    keys.push(pending);
    expected.push(Some(Snapshot {
        fence: first.fence + 1,
        ..first
    }));
    let found = journal.fence(&keys).await.expect("raised");
    assert_eq!(found, expected);
    let last: HashMap<_, _> = keys.iter().zip(expected).collect();
    for (key, expected) in last {
        let found = journal.find(key).await.expect("read");
        let fence = |snapshot: Option<Snapshot>| snapshot.map(|snapshot| snapshot.fence);
        assert_eq!(fence(found), fence(expected), "{key}");
    }
    assert_eq!(journal.fence(&[]).await.expect("answered"), []);
}
