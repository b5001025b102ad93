//! Changes by hand, in every state.

use super::samples::{
    START_MS, apply, attempts, changing, delivery, do_change, failure, find, history, keep, key,
    refusal, registering,
};
use super::{INSTANCE, Store};
use ringback::domain::attempt::Outcome;
use ringback::domain::change::Change;
use ringback::domain::key::Key;
use ringback::domain::progress::Progress;
use ringback::domain::snapshot::Snapshot;
use ringback::domain::state::State;
use ringback::journal::{ChangeResult, Journal};

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
        (Change::Retry, State::Scheduled, State::Scheduled),
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
    for change in Change::ALL {
        let result = journal
            .change(changing(&key("none"), *change, START_MS))
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
    for change in [Change::Cancel, Change::Retry] {
        let (key, _) = one_in(&*journal, State::Scheduled, &change.to_string()).await;
        let late = changing(&key, change, START_MS + 1);
        // Whoever leases it next begins with this.
        let fenced = journal.fence(&key).await.expect("kept");
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
    ] {
        let given = registering(&change.to_string());
        let notification = keep(&*journal, given.clone()).await;
        let key = &notification.key;
        if state == State::Dead {
            apply(&*journal, refusal(&notification, given.progress)).await;
        }
        let twice = changing(key, change, START_MS + 1_000);
        let done = journal.change(twice.clone()).await.expect("kept");
        let ChangeResult::Done(done) = done else {
            panic!("{change}: {done:?}");
        };
        // It is in the same state again.
        let next = match state {
            State::Dead => refusal(&notification, done.progress),
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
        let fenced = journal.fence(&key).await.expect("kept");
        let raised = fenced.expect("it is there").fence - before.fence;
        assert_eq!(raised, u64::from(*state == State::Scheduled), "{state}");
        let after = find(&*journal, &key).await;
        assert_eq!(after.fence, before.fence + raised, "{state}");
    }
    let nothing = journal.fence(&key("none")).await.expect("answered");
    assert_eq!(nothing, None);
}
