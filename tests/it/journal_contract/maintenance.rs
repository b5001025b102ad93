//! What maintenance asks for: how many stand, what was changed, what was put back, what is forgotten.

use super::samples::{
    START_MS, apply, delivery, do_change, find, history, keep, key, refusal, registering,
    registering_at, registration,
};
use super::{INSTANCE, Store};
use ringback::domain::change::Change;
use ringback::domain::key::Key;
use ringback::domain::notification::{Notification, Start};
use ringback::domain::progress::Progress;
use ringback::domain::snapshot::Snapshot;
use ringback::domain::state::State;
use ringback::journal::{
    Actor, Journal, JournalError, Noting, PageBodies, Prune, Pruned, Rebuild, RegisterResult,
};
use std::sync::Arc;

const DAY_MS: i64 = 86_400_000;

/// Registers one at an instant.
async fn with_one(journal: &dyn Journal, id: &str, at_ms: i64) -> (Arc<Notification>, Progress) {
    let given = registering_at(registration(key(id)), at_ms);
    let progress = given.progress;
    (keep(journal, given).await, progress)
}

pub async fn many_are_looked_up_at_once_in_order(store: &dyn Store) {
    let journal = store.open().await;
    assert_eq!(journal.snapshots(&[]).await.expect("read"), []);
    let batch: Vec<_> = (0..300).map(|id| registering(&id.to_string())).collect();
    journal.register(&batch).await.expect("kept");
    do_change(&*journal, &key("7"), Change::Cancel, START_MS + 5).await;
    let keys: Vec<Key> = (0..400).rev().map(|id| key(&id.to_string())).collect();
    let found = journal.snapshots(&keys).await.expect("read");
    assert_eq!(found.len(), keys.len());
    for (key, found) in keys.iter().zip(&found) {
        let expected = journal.find(key).await.expect("read");
        let expected = expected.map(|snapshot| Snapshot {
            attempts: Vec::new(),
            ..snapshot
        });
        assert_eq!(*found, expected, "{key}");
    }
}

async fn all_changes(journal: &dyn Journal, from_ms: i64, until_ms: i64, limit: usize) -> Vec<Key> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = journal.changes(from_ms, until_ms, cursor, limit).await;
        let (keys, next) = page.expect("read");
        assert!(keys.len() <= limit);
        all.extend(keys);
        if next.is_none() {
            return all;
        }
        cursor = next;
    }
}

pub async fn changes_by_hand_are_found_by_their_time(store: &dyn Store) {
    let journal = store.open().await;
    for id in ["a", "b", "c", "d", "moved", "untouched"] {
        with_one(&*journal, id, START_MS).await;
    }
    let (refused, start) = with_one(&*journal, "refused", START_MS).await;
    apply(&*journal, refusal(&refused, start)).await;
    for (id, at_ms) in [("a", 10), ("b", 20), ("c", 20), ("d", 30)] {
        do_change(&*journal, &key(id), Change::Cancel, START_MS + at_ms).await;
    }
    do_change(&*journal, &refused.key, Change::Replay, START_MS + 40).await;
    do_change(&*journal, &refused.key, Change::Retry, START_MS + 50).await;
    let move_it = Change::Reschedule(Start::After(1_000));
    do_change(&*journal, &key("moved"), move_it, START_MS + 60).await;
    let (delivered, start) = with_one(&*journal, "delivered", START_MS).await;
    apply(&*journal, delivery(&delivered, start)).await;
    do_change(&*journal, &delivered.key, Change::Resend, START_MS + 70).await;
    let check = async |from_ms, until_ms, expected: &[&str]| {
        let expected: Vec<Key> = expected.iter().map(|id| key(id)).collect();
        for limit in [1, 2, 3, 100] {
            let found = all_changes(&*journal, START_MS + from_ms, START_MS + until_ms, limit);
            assert_eq!(found.await, expected, "{from_ms} to {until_ms} by {limit}");
        }
    };
    check(0, 10, &[]).await;
    check(10, 11, &["a"]).await;
    check(0, 30, &["a", "b", "c"]).await;
    check(20, 31, &["b", "c", "d"]).await;
    check(31, 60, &["refused", "refused"]).await;
    check(51, 100, &["moved", "delivered"]).await;
    check(71, 100, &[]).await;
}

pub async fn a_note_stands_in_the_history(store: &dyn Store) {
    let journal = store.open().await;
    let (notification, _) = with_one(&*journal, "1", START_MS).await;
    let before = find(&*journal, &notification.key).await;
    let note = |key: Key| Noting {
        key,
        kind: "restored",
        actor: Actor::named("reconcile"),
        detail: "the schedule had lost it".to_string(),
        at_ms: START_MS + 3,
    };
    let notes = [note(notification.key.clone()), note(key("nobody"))];
    journal.note(&notes).await.expect("kept");
    journal.note(&[]).await.expect("nothing to keep");
    let lines = journal.transitions(&notification.key).await.expect("read");
    let line = lines.last().expect("a line");
    assert_eq!((&*line.kind, line.at_ms), ("restored", START_MS + 3));
    assert_eq!((&*line.actor, &*line.instance), ("reconcile", INSTANCE));
    assert_eq!(line.detail, "the schedule had lost it");
    assert_eq!(find(&*journal, &notification.key).await, before);
}

pub async fn a_rebuild_stands_in_the_history_of_what_was_pending(store: &dyn Store) {
    let journal = store.open().await;
    let (ended, start) = with_one(&*journal, "ended", START_MS).await;
    apply(&*journal, delivery(&ended, start)).await;
    let (pending, _) = with_one(&*journal, "pending", START_MS).await;
    let rebuild = Rebuild {
        at_ms: START_MS + DAY_MS,
        actor: Actor::named("rebuild"),
        reason: "Redis was empty".to_string(),
    };
    journal.rebuilding(&rebuild).await.expect("kept");
    let (later, _) = with_one(&*journal, "later", START_MS + DAY_MS + 1).await;
    let check = async |notification: &Notification, expected: &[&str]| {
        assert_eq!(history(&*journal, &notification.key).await, expected);
    };
    check(&ended, &["registered", "delivered"]).await;
    check(&pending, &["registered", "restored"]).await;
    check(&later, &["registered"]).await;
    let lines = journal.transitions(&pending.key).await.expect("read");
    let line = lines.last().expect("a line");
    assert_eq!((&*line.actor, &*line.instance), ("rebuild", INSTANCE));
    assert_eq!(
        (line.at_ms, &*line.detail),
        (rebuild.at_ms, "Redis was empty")
    );
    do_change(
        &*journal,
        &pending.key,
        Change::Cancel,
        START_MS + 2 * DAY_MS,
    )
    .await;
    check(&pending, &["registered", "restored", "cancelled"]).await;
}

/// Prunes until nothing is left to prune, `limit` at a time.
async fn prune(journal: &dyn Journal, prune: &Prune, limit: usize) -> Pruned {
    let mut all = Pruned::default();
    loop {
        let step = journal.prune(prune, limit).await.expect("pruned");
        assert!(step.payloads <= limit as u64 && step.records <= limit as u64);
        if step == Pruned::default() {
            return all;
        }
        all.payloads += step.payloads;
        all.records += step.records;
    }
}

pub async fn payloads_go_first_and_records_later(store: &dyn Store) {
    let journal = store.open().await;
    let mut ended_ms = Vec::new();
    for day in 0..4 {
        let at_ms = START_MS + day * DAY_MS;
        let (notification, start) = with_one(&*journal, &day.to_string(), at_ms).await;
        let given = delivery(&notification, start);
        ended_ms.push(given.at_ms);
        apply(&*journal, given).await;
    }
    let before = Prune {
        payloads_before_ms: ended_ms[2],
        records_before_ms: ended_ms[1],
        dead_before_ms: None,
    };
    let pruned = prune(&*journal, &before, 10).await;
    assert_eq!((pruned.payloads, pruned.records), (2, 1));
    assert_eq!(journal.find(&key("0")).await.expect("read"), None);
    assert_eq!(history(&*journal, &key("0")).await, [""; 0]);
    let second = find(&*journal, &key("1")).await;
    assert_eq!((second.state, second.attempts.len()), (State::Delivered, 1));
    assert_eq!(
        history(&*journal, &key("1")).await,
        ["registered", "delivered"]
    );
    let counts = journal.counts().await.expect("read");
    assert_eq!((counts.registered, counts.delivered), (3, 3));
    let later = Prune {
        payloads_before_ms: ended_ms[3] + 1,
        records_before_ms: ended_ms[2],
        ..before
    };
    let pruned = prune(&*journal, &later, 10).await;
    assert_eq!((pruned.payloads, pruned.records), (2, 1));
}

pub async fn dead_letters_stay_unless_asked_for(store: &dyn Store) {
    let journal = store.open().await;
    let (dead, start) = with_one(&*journal, "dead", START_MS).await;
    apply(&*journal, refusal(&dead, start)).await;
    let (discarded, start) = with_one(&*journal, "discarded", START_MS).await;
    apply(&*journal, refusal(&discarded, start)).await;
    let long_after = START_MS + 1_000 * DAY_MS;
    let everything = Prune {
        payloads_before_ms: long_after,
        records_before_ms: long_after,
        dead_before_ms: None,
    };
    assert_eq!(prune(&*journal, &everything, 10).await, Pruned::default());
    // Discarded after pruning has passed it: it has ended anew, and goes.
    do_change(&*journal, &discarded.key, Change::Discard, long_after - 1).await;
    assert_eq!(prune(&*journal, &everything, 10).await.records, 1);
    // A dead letter is whole: it can be replayed.
    do_change(&*journal, &dead.key, Change::Replay, long_after).await;
    let pending = journal.pending(&dead.key).await.expect("read");
    let pending = pending.expect("pending");
    assert_eq!(pending.notification, dead);
    apply(&*journal, refusal(&dead, pending.progress)).await;
    let ended_ms = find(&*journal, &dead.key).await.ended_ms.expect("it ended");
    let dead_too = |before_ms| Prune {
        dead_before_ms: Some(before_ms),
        ..everything
    };
    assert_eq!(prune(&*journal, &dead_too(ended_ms), 10).await.records, 0);
    assert_eq!(
        prune(&*journal, &dead_too(ended_ms + 1), 10).await.records,
        1
    );
    assert_eq!(journal.find(&dead.key).await.expect("read"), None);
    let counts = journal.counts().await.expect("read");
    assert_eq!((counts.registered, counts.dead), (0, 0));
}

pub async fn what_is_sent_again_keeps_its_body_until_it_ends_anew(store: &dyn Store) {
    let journal = store.open().await;
    let (one, start) = with_one(&*journal, "1", START_MS).await;
    let (other, other_start) = with_one(&*journal, "2", START_MS).await;
    apply(&*journal, delivery(&one, start)).await;
    apply(&*journal, delivery(&other, other_start)).await;
    let at_ms = START_MS + DAY_MS;
    let resent = do_change(&*journal, &one.key, Change::Resend, at_ms).await;
    let everything_before = |before_ms| Prune {
        payloads_before_ms: before_ms,
        records_before_ms: before_ms,
        dead_before_ms: Some(before_ms),
    };
    let prune = everything_before(at_ms + DAY_MS);
    let pruned = journal.prune(&prune, 100).await.expect("pruned");
    assert_eq!((pruned.payloads, pruned.records), (1, 1));
    let pending = journal.pending(&one.key).await.expect("read");
    assert!(pending.is_some(), "its body is kept");
    // It ends again, after the place that pruning has come to.
    apply(&*journal, delivery(&one, resent.progress)).await;
    let pruned = journal.prune(&prune, 100).await.expect("pruned");
    assert_eq!((pruned.payloads, pruned.records), (1, 1));
    assert_eq!(journal.find(&one.key).await.expect("read"), None);
}

pub async fn pruning_goes_in_steps_and_skips_the_pending(store: &dyn Store) {
    let journal = store.open().await;
    let mut dead = 0;
    for id in 0..30 {
        let (notification, start) = with_one(&*journal, &id.to_string(), START_MS + id).await;
        match id % 3 {
            0 => apply(&*journal, delivery(&notification, start)).await,
            1 => {
                apply(&*journal, refusal(&notification, start)).await;
                dead += 1;
            }
            _ => {}
        }
    }
    let everything = Prune {
        payloads_before_ms: i64::MAX,
        records_before_ms: i64::MAX,
        dead_before_ms: None,
    };
    let (mut pruned, mut steps) = (0, 0);
    // A step may find dead ones alone, and nothing to prune among them.
    loop {
        let step = journal.prune(&everything, 4).await.expect("pruned");
        assert!(step.records <= 4);
        pruned += step.records;
        steps += 1;
        if !step.more {
            break;
        }
    }
    assert_eq!((pruned, steps), (10, 6), "20 have ended");
    let counts = journal.counts().await.expect("read");
    assert_eq!(
        (counts.registered, counts.scheduled, counts.dead),
        (20, 10, dead)
    );
    let (pending, _) = journal
        .pending_page(None, i64::MAX, 100, PageBodies::All)
        .await
        .expect("read");
    assert_eq!(pending.len(), 10);
}

pub async fn a_pruned_key_can_be_registered_again(store: &dyn Store) {
    let journal = store.open().await;
    let (notification, start) = with_one(&*journal, "1", START_MS).await;
    apply(&*journal, delivery(&notification, start)).await;
    let everything = Prune {
        payloads_before_ms: i64::MAX,
        records_before_ms: i64::MAX,
        dead_before_ms: None,
    };
    journal.prune(&everything, 10).await.expect("pruned");
    let again = journal.register(&[registering("1")]).await.expect("kept");
    assert_eq!(again, [RegisterResult::Created]);
    assert_eq!(history(&*journal, &key("1")).await, ["registered"]);
    let snapshot = find(&*journal, &key("1")).await;
    assert_eq!(
        (snapshot.state, snapshot.attempts.len()),
        (State::Scheduled, 0)
    );
}

pub async fn a_value_is_remembered_under_its_name(store: &dyn Store) {
    let journal = store.open().await;
    let id = journal.id().to_string();
    let recall = async |name| journal.recall(name).await.expect("read");
    assert_eq!(
        recall("id").await,
        None,
        "the journal's own name is its own"
    );
    assert_eq!(recall("place").await, None);
    journal.remember("place", "1").await.expect("kept");
    journal.remember("place", "2").await.expect("kept");
    journal.remember("id", "x").await.expect("kept");
    assert_eq!(recall("place").await.as_deref(), Some("2"));
    assert!(journal.duty("prune", 60_000).await.expect("asked"));
    assert!(journal.duty("prune", 60_000).await.expect("asked"), "kept");
    journal.close().await;
    let closed = journal.remember("place", "3").await;
    assert!(
        matches!(closed, Err(JournalError::Unavailable(_))),
        "{closed:?}"
    );
    drop(journal);
    let journal = store.open().await;
    assert_eq!(journal.id(), id);
    let kept = journal.recall("place").await.expect("read");
    assert_eq!(kept.as_deref(), Some("2"));
}
