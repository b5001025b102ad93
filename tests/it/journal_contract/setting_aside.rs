//! What is set aside stays pending, and is put into no schedule until a change by hand releases it.

use super::samples::{
    START_MS, apply, changing, delivery, do_change, failure, find, history, keep, key, raise_fence,
    record, registering, registering_at, registration,
};
use super::{INSTANCE, Store};
use ringback::domain::change::Change;
use ringback::domain::key::Key;
use ringback::domain::snapshot::SetAside;
use ringback::domain::state::State;
use ringback::journal::{
    AllSetAside, ChangeResult, Journal, PageBodies, Pending, Prune, Recorded, SettingAside,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Sets one aside five milliseconds after [`START_MS`].
async fn set_aside(journal: &dyn Journal, id: &str, reason: &str) {
    let setting = SettingAside {
        key: key(id),
        at_ms: START_MS + 5,
        reason: reason.to_string(),
    };
    journal.set_aside(&setting).await.expect("kept");
}

fn since_then(reason: &str) -> Option<SetAside> {
    Some(SetAside {
        at_ms: START_MS + 5,
        reason: reason.to_string(),
    })
}

fn keys_of(page: &[Pending]) -> impl Iterator<Item = Key> {
    page.iter().map(|pending| pending.notification.key.clone())
}

/// Everything that a schedule would be loaded with, read in pages of so many.
async fn pending(journal: &dyn Journal, limit: usize) -> Vec<Key> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let (page, next) = journal
            .pending_page(cursor, i64::MAX, limit, PageBodies::All)
            .await
            .expect("read");
        let reading = journal.pending_page(cursor, i64::MAX, limit, PageBodies::None);
        let (without_bodies, same_next) = reading.await.expect("read");
        assert_eq!(same_next, next);
        assert!(keys_of(&page).eq(keys_of(&without_bodies)));
        let places = journal.places_page(cursor, i64::MAX, limit).await;
        let places = places.expect("read");
        assert_eq!(places.next, next);
        let of_all = places.places.iter().chain(&places.need_content);
        let keys: BTreeSet<Key> = of_all.map(|place| place.entry.key.clone()).collect();
        assert_eq!(keys, keys_of(&page).collect());
        found.extend(keys_of(&page));
        match next {
            Some(_) => cursor = next,
            None => return found,
        }
    }
}

pub async fn the_oldest_due_is_pending_and_not_set_aside(store: &dyn Store) {
    let journal = store.open().await;
    let oldest = async || journal.oldest_due().await.expect("read");
    assert_eq!(oldest().await, None);
    for (id, later_ms) in [("b", 20), ("a", 10), ("c", 30)] {
        let registering = registering_at(registration(key(id)), START_MS + later_ms);
        keep(&*journal, registering).await;
    }
    assert_eq!(oldest().await, Some(START_MS + 10));
    set_aside(&*journal, "a", "unreadable").await;
    assert_eq!(oldest().await, Some(START_MS + 20));
    let found = find(&*journal, &key("b")).await;
    let pending = journal.pending(&key("b")).await.expect("read");
    let pending = pending.expect("it is pending");
    let ended = delivery(&pending.notification, found.progress);
    apply(&*journal, ended).await;
    assert_eq!(oldest().await, Some(START_MS + 30));
}

pub async fn what_is_due_by_an_instant_is_counted_up_to_a_limit(store: &dyn Store) {
    let journal = store.open().await;
    for (id, later_ms) in [("b", 20), ("a", 10), ("c", 30), ("d", 30)] {
        let registering = registering_at(registration(key(id)), START_MS + later_ms);
        keep(&*journal, registering).await;
    }
    // It stays pending.
    set_aside(&*journal, "a", "unreadable").await;
    let found = find(&*journal, &key("b")).await;
    let pending = journal.pending(&key("b")).await.expect("read");
    let pending = pending.expect("it is pending");
    let ended = delivery(&pending.notification, found.progress);
    apply(&*journal, ended).await;
    for (later_ms, most, expected) in [
        (9, 10, 0),
        (10, 10, 1),
        (29, 10, 1),
        (30, 10, 3),
        (30, 3, 3),
        (30, 2, 2),
    ] {
        let counted = journal.count_due_by(START_MS + later_ms, most).await;
        assert_eq!(counted.expect("read"), expected, "{later_ms} {most}");
    }
}

pub async fn what_is_set_aside_is_pending_and_put_into_no_schedule(store: &dyn Store) {
    let journal = store.open().await;
    for id in ["a", "b", "c"] {
        keep(&*journal, registering(id)).await;
    }
    let counts = journal.counts().await.expect("read");
    assert_eq!(
        journal.all_set_aside(10).await.expect("read"),
        AllSetAside::default()
    );
    set_aside(&*journal, "b", "the first reason").await;
    set_aside(&*journal, "b", "another").await;

    assert_eq!(pending(&*journal, 10).await, [key("a"), key("c")]);
    assert!(journal.pending(&key("b")).await.expect("read").is_none());
    assert!(journal.pending(&key("a")).await.expect("read").is_some());
    let together = journal.pendings(&["a", "b", "c"].map(key)).await;
    let together: Vec<bool> = together
        .expect("read")
        .iter()
        .map(Option::is_some)
        .collect();
    assert_eq!(together, [true, false, true]);
    let found = find(&*journal, &key("b")).await;
    assert_eq!(found.state, State::Scheduled);
    assert_eq!(found.set_aside, since_then("the first reason"));
    assert_eq!(find(&*journal, &key("a")).await.set_aside, None);
    let keys = [key("b"), key("c")];
    let snapshots = journal.snapshots(&keys).await.expect("read");
    let set_aside = snapshots.into_iter().map(|found| found?.set_aside);
    assert_eq!(
        set_aside.collect::<Vec<_>>(),
        [since_then("the first reason"), None]
    );
    let fenced = raise_fence(&*journal, &key("b")).await;
    assert!(fenced.expect("it is there").set_aside.is_some());
    assert_eq!(journal.counts().await.expect("read"), counts);
    assert_eq!(history(&*journal, &key("b")).await, ["registered"]);
}

pub async fn those_set_aside_are_listed_up_to_a_bound(store: &dyn Store) {
    let journal = store.open().await;
    for id in ["a", "b", "c"] {
        keep(&*journal, registering(id)).await;
        set_aside(&*journal, id, "why").await;
    }
    let all = journal.all_set_aside(2).await.expect("read");
    assert_eq!(all.total, 3);
    let why = since_then("why").expect("it is");
    assert_eq!(all.named, [(key("a"), why.clone()), (key("b"), why)]);
    let all = journal.all_set_aside(0).await.expect("read");
    assert_eq!((all.total, all.named.len()), (3, 0));
}

pub async fn pages_go_on_past_what_is_set_aside(store: &dyn Store) {
    let journal = store.open().await;
    for number in 0..150 {
        let id = format!("{number:03}");
        keep(&*journal, registering(&id)).await;
        if !matches!(number, 70 | 149) {
            set_aside(&*journal, &id, "").await;
        }
    }
    for limit in [1, 7, 64, 70, 150, 1_000] {
        assert_eq!(
            pending(&*journal, limit).await,
            [key("070"), key("149")],
            "{limit}"
        );
    }
}

pub async fn a_change_releases_it_and_the_history_says_that_it_was(store: &dyn Store) {
    let journal = store.open().await;
    for (id, change) in [("a", Change::Retry), ("b", Change::Cancel)] {
        keep(&*journal, registering(id)).await;
        set_aside(&*journal, id, "why").await;
        // One that is not applied releases nothing.
        let stale = ringback::journal::Changing {
            fence: 7,
            ..changing(&key(id), change, START_MS + 8)
        };
        let refused = journal.change(stale).await.expect("answered");
        assert!(matches!(refused, ChangeResult::Fenced(_)), "{refused:?}");
        assert!(find(&*journal, &key(id)).await.set_aside.is_some());

        let changed = do_change(&*journal, &key(id), change, START_MS + 9).await;
        assert_eq!(changed.set_aside, None);
        assert_eq!(find(&*journal, &key(id)).await.set_aside, None);
        assert_eq!(
            history(&*journal, &key(id)).await,
            ["registered", "set_aside", change.transition()]
        );
    }
    let lines = journal.transitions(&key("a")).await.expect("read");
    assert_eq!((lines[1].at_ms, &*lines[1].detail), (START_MS + 5, "why"));
    assert_eq!(
        (&*lines[1].actor, &*lines[1].instance),
        ("dispatcher", INSTANCE)
    );
    assert_eq!(pending(&*journal, 10).await, [key("a")]);
    assert_eq!(journal.all_set_aside(1).await.expect("read").total, 0);
}

pub async fn what_has_ended_or_was_pruned_is_not_set_aside(store: &dyn Store) {
    let journal = store.open().await;
    let given = registering("a");
    let progress = given.progress;
    let notification = keep(&*journal, given).await;
    set_aside(&*journal, "a", "why").await;
    // An outcome that can be recorded after all.
    apply(&*journal, delivery(&notification, progress)).await;
    let found = find(&*journal, &key("a")).await;
    assert_eq!((found.state, found.set_aside), (State::Delivered, None));
    assert_eq!(journal.all_set_aside(1).await.expect("read").total, 0);
    let all = Prune {
        payloads_before_ms: i64::MAX,
        records_before_ms: i64::MAX,
        dead_before_ms: None,
    };
    assert_eq!(journal.prune(&all, 10).await.expect("pruned").records, 1);
    keep(&*journal, registering("a")).await;
    assert_eq!(find(&*journal, &key("a")).await.set_aside, None);
    assert_eq!(pending(&*journal, 10).await, [key("a")]);
}

pub async fn no_word_of_a_reason_is_too_odd_to_be_kept(store: &dyn Store) {
    let journal = store.open().await;
    let given = registering("a");
    let progress = given.progress;
    let notification = keep(&*journal, given).await;
    // By the quick way and by the careful one.
    for before in [progress, progress] {
        let mut odd = failure(&notification, before);
        let attempt = Arc::make_mut(&mut odd.attempt);
        attempt.answer.reason = "a\0\u{1}\u{fffe}b".to_string();
        attempt.started_ms += i64::from(find(&*journal, &key("a")).await.progress.attempts);
        let recorded = record(&*journal, odd).await;
        assert!(!matches!(recorded, Recorded::Missing));
    }
    let found = find(&*journal, &key("a")).await;
    assert_eq!(found.attempts.len(), 2);
    for attempt in &found.attempts {
        let reason = &attempt.answer.reason;
        assert!(
            reason.starts_with('a') && reason.ends_with('b'),
            "{reason:?}"
        );
    }
    set_aside(&*journal, "a", "c\0d").await;
    let set_aside = find(&*journal, &key("a")).await.set_aside;
    assert!(set_aside.expect("it is").reason.ends_with('d'));
    let odd = ringback::journal::Changing {
        reason: "e\0f".to_string(),
        fence: find(&*journal, &key("a")).await.fence,
        ..changing(&key("a"), Change::Cancel, START_MS + 100_000)
    };
    let changed = journal.change(odd).await.expect("applied");
    assert!(matches!(changed, ChangeResult::Done(_)), "{changed:?}");
}
