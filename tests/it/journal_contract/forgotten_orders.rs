//! Orders of which the journal has forgotten a part: because it was restored from an older copy, or because it was pruned.

use super::Store;
use super::samples::{START_MS, changing, delivery, failure, find, key, registering};
use ringback::domain::change::Change;
use ringback::domain::notification::Notification;
use ringback::domain::order::{OrderMode, OrderPlace};
use ringback::domain::progress::Progress;
use ringback::domain::state::{Cause, State};
use ringback::journal::{Actor, ChangeResult, Journal, Prune, RegisterResult, Registering};
use std::sync::Arc;

fn ordered(id: &str, number: i64, mode: OrderMode) -> Registering {
    let plain = registering(id);
    let place = OrderPlace::new("o", number, mode).expect("valid");
    Registering {
        notification: Arc::new(Notification {
            order: Some(Box::new(place)),
            ..Notification::clone(&plain.notification)
        }),
        ..plain
    }
}

/// What maintenance registers: it was attempted before.
fn accepted(id: &str, number: i64, mode: OrderMode) -> Registering {
    let one = ordered(id, number, mode);
    Registering {
        progress: Progress {
            attempts: 2,
            step: 2,
            due_ms: one.progress.due_ms + 60_000,
            ..one.progress
        },
        actor: Actor::maintenance(),
        ..one
    }
}

async fn register(journal: &dyn Journal, one: &Registering) -> RegisterResult {
    let mut replies = journal
        .register(std::slice::from_ref(one))
        .await
        .expect("kept");
    assert_eq!(replies.len(), 1);
    replies.remove(0)
}

async fn state(journal: &dyn Journal, id: &str) -> (State, Option<Cause>) {
    let found = find(journal, &key(id)).await;
    (found.state, found.cause)
}

const SUPERSEDED: (State, Option<Cause>) = (State::Cancelled, Some(Cause::Superseded));

pub async fn the_latest_that_was_forgotten_ends_lower_ones_when_it_is_registered_again(
    store: &dyn Store,
) {
    let journal = store.open().await;
    let first = ordered("1", 1, OrderMode::Latest);
    assert_eq!(register(&*journal, &first).await, RegisterResult::Created);
    let second = accepted("2", 2, OrderMode::Latest);
    match register(&*journal, &second).await {
        RegisterResult::CreatedOver(ended) => assert_eq!(ended[0].key, key("1")),
        other => panic!("{other:?}"),
    }
    assert_eq!(state(&*journal, "1").await, SUPERSEDED);
    let kept = find(&*journal, &key("2")).await;
    assert_eq!(
        (kept.state, kept.progress),
        (State::Scheduled, second.progress)
    );
    let again = register(&*journal, &second).await;
    assert!(matches!(again, RegisterResult::Existing(_)), "{again:?}");
}

pub async fn a_lower_one_that_was_forgotten_is_kept_and_not_sent(store: &dyn Store) {
    let journal = store.open().await;
    let second = ordered("2", 2, OrderMode::Latest);
    assert_eq!(register(&*journal, &second).await, RegisterResult::Created);
    let first = accepted("1", 1, OrderMode::Latest);
    let kept = register(&*journal, &first).await;
    assert!(matches!(kept, RegisterResult::Superseded(_)), "{kept:?}");
    assert_eq!(state(&*journal, "1").await, SUPERSEDED);
    assert_eq!(find(&*journal, &key("1")).await.progress.attempts, 2);
    assert_eq!(state(&*journal, "2").await, (State::Scheduled, None));
}

pub async fn what_was_forgotten_is_kept_whatever_its_number(store: &dyn Store) {
    let journal = store.open().await;
    let taken = ordered("taken", 1, OrderMode::Latest);
    assert_eq!(register(&*journal, &taken).await, RegisterResult::Created);
    for (id, mode) in [("same", OrderMode::Latest), ("strict", OrderMode::Strict)] {
        let one = accepted(id, 1, mode);
        assert_eq!(register(&*journal, &one).await, RegisterResult::Created);
        let kept = find(&*journal, &key(id)).await;
        assert_eq!(
            (kept.state, kept.progress),
            (State::Scheduled, one.progress)
        );
    }
}

async fn die(journal: &dyn Journal, number: i64) {
    let one = ordered(&number.to_string(), number, OrderMode::Latest);
    register(journal, &one).await;
    let mut dead = failure(&one.notification, one.progress);
    dead.decision.state = State::Dead;
    dead.decision.cause = Some(Cause::WindowClosed);
    journal.record(&[dead]).await.expect("kept");
}

async fn deliver(journal: &dyn Journal, number: i64) {
    let one = ordered(&number.to_string(), number, OrderMode::Latest);
    register(journal, &one).await;
    let delivered = delivery(&one.notification, one.progress);
    journal.record(&[delivered]).await.expect("kept");
}

async fn pruned(journal: &dyn Journal, prune: &Prune) -> u64 {
    let pruned = journal.prune(prune, 100).await.expect("pruned");
    assert!(!pruned.more);
    pruned.records
}

/// All that has ended is old, but dead letters are kept.
const ENDED: Prune = Prune {
    payloads_before_ms: 0,
    records_before_ms: FAR_MS,
    dead_before_ms: None,
};

/// Dead letters are old too.
const ALL: Prune = Prune {
    dead_before_ms: Some(FAR_MS),
    ..ENDED
};

/// An order in which number 1 is a dead letter and what is higher was delivered, all long ago.
async fn dead_below_delivered(store: &dyn Store) -> Arc<dyn Journal> {
    let journal = store.open().await;
    die(&*journal, 1).await;
    for number in [2, 3] {
        deliver(&*journal, number).await;
    }
    journal
}

const FAR_MS: i64 = START_MS + 10_000_000_000;

pub async fn the_highest_number_is_not_forgotten_before_a_lower_one(store: &dyn Store) {
    let journal = dead_below_delivered(store).await;
    assert_eq!(pruned(&*journal, &ENDED).await, 1, "the number 2");
    let replay = changing(&key("1"), Change::Replay, FAR_MS);
    let replayed = journal.change(replay).await.expect("answered");
    assert!(
        matches!(replayed, ChangeResult::Superseded(_)),
        "{replayed:?}"
    );
    let both = pruned(&*journal, &ALL).await;
    assert_eq!(both, 2, "the number 1, and then nothing keeps the number 3");
}

pub async fn a_highest_number_goes_with_the_last_dead_letter(store: &dyn Store) {
    let journal = store.open().await;
    die(&*journal, 1).await;
    die(&*journal, 2).await;
    deliver(&*journal, 3).await;
    assert_eq!(pruned(&*journal, &ENDED).await, 0);
    let discard = changing(&key("1"), Change::Discard, FAR_MS);
    let discarded = journal.change(discard).await.expect("answered");
    assert!(matches!(discarded, ChangeResult::Done(_)), "{discarded:?}");
    assert_eq!(pruned(&*journal, &ENDED).await, 0, "it ended anew");
    let later = Prune {
        records_before_ms: FAR_MS + 1,
        ..ENDED
    };
    assert_eq!(pruned(&*journal, &later).await, 1, "the number 1");
    assert_eq!(state(&*journal, "3").await.0, State::Delivered);
    assert_eq!(pruned(&*journal, &ALL).await, 2);
}

pub async fn what_is_not_old_does_not_go_with_a_dead_letter(store: &dyn Store) {
    let journal = dead_below_delivered(store).await;
    assert_eq!(pruned(&*journal, &ENDED).await, 1, "the number 2");
    // The limit was made longer since then.
    let longer = Prune {
        records_before_ms: START_MS,
        ..ALL
    };
    assert_eq!(pruned(&*journal, &longer).await, 1, "the number 1");
    assert_eq!(state(&*journal, "3").await.0, State::Delivered);
    // What pruning has not come to yet.
    die(&*journal, 4).await;
    deliver(&*journal, 5).await;
    assert_eq!(pruned(&*journal, &longer).await, 1, "the number 4");
    assert_eq!(state(&*journal, "5").await.0, State::Delivered);
}

/// Each was the highest one when it was old enough.
pub async fn many_that_were_kept_for_a_dead_letter_go_with_it(store: &dyn Store) {
    let journal = store.open().await;
    die(&*journal, 1).await;
    for number in 2..40 {
        deliver(&*journal, number).await;
        assert_eq!(pruned(&*journal, &ENDED).await, 0, "{number}");
    }
    assert_eq!(pruned(&*journal, &ALL).await, 39);
}
