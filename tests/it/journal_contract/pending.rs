//! The pending notifications as a rebuilt schedule gets them.

use super::Store;
use super::samples::{
    START_MS, apply, delivery, do_change, failure, find, keep, key, refusal, registering,
    registering_at, registration,
};
use bytes::Bytes;
use ringback::domain::body::Body;
use ringback::domain::change::Change;
use ringback::domain::headers::Headers;
use ringback::domain::key::Key;
use ringback::domain::notification::{Notification, Registration, Start};
use ringback::domain::state::State;
use ringback::journal::{
    Filter, FoundStanding, Journal, Order, PageBodies, Pending, SHORT_BODY, SettingAside, Standing,
};
use std::sync::Arc;

/// Every page, until one comes without a cursor.
async fn pages(journal: &dyn Journal, limit: usize) -> Vec<Vec<Pending>> {
    pages_with(journal, limit, PageBodies::All).await
}

async fn pages_with(journal: &dyn Journal, limit: usize, bodies: PageBodies) -> Vec<Vec<Pending>> {
    let (mut pages, mut cursor) = (Vec::new(), None);
    loop {
        let (page, next) = journal
            .pending_page(cursor, i64::MAX, limit, bodies)
            .await
            .expect("read");
        assert!(page.len() <= limit);
        match next {
            Some(next) => cursor = Some(next),
            None => {
                assert!(page.is_empty());
                return pages;
            }
        }
        pages.push(page);
    }
}

async fn ids(journal: &dyn Journal, limit: usize) -> Vec<String> {
    pages(journal, limit)
        .await
        .iter()
        .flatten()
        .map(|pending| pending.notification.key.id().to_string())
        .collect()
}

pub async fn pages_are_sorted_by_due_time_and_complete(store: &dyn Store) {
    let journal = store.open().await;
    assert_eq!(ids(&*journal, 10).await, Vec::<String>::new());
    // 300 notifications in a mixed order, 100 due at each of three instants.
    let mut due = Vec::new();
    for number in 0..300_i64 {
        let given = Registration {
            start: Start::After(1_000 * (number % 3)),
            ..registration(key(&format!("{number:03}")))
        };
        keep(&*journal, registering_at(given, START_MS)).await;
        due.push((number % 3, format!("{number:03}")));
    }
    due.sort();
    let due: Vec<String> = due.into_iter().map(|(_, id)| id).collect();
    for limit in [7, 64, 100, 299, 300, 1_000] {
        assert_eq!(ids(&*journal, limit).await, due, "{limit}");
    }
}

pub async fn what_has_ended_is_not_pending(store: &dyn Store) {
    let journal = store.open().await;
    let all = [
        "pending",
        "failed",
        "delivered",
        "dead",
        "cancelled",
        "replayed",
    ];
    for id in all {
        let given = registering(id);
        let progress = given.progress;
        let notification = keep(&*journal, given).await;
        match id {
            "failed" => apply(&*journal, failure(&notification, progress)).await,
            "delivered" => apply(&*journal, delivery(&notification, progress)).await,
            "dead" | "replayed" => apply(&*journal, refusal(&notification, progress)).await,
            "cancelled" => {
                do_change(&*journal, &notification.key, Change::Cancel, START_MS + 1).await;
            }
            _ => {}
        }
        if id == "replayed" {
            do_change(&*journal, &notification.key, Change::Replay, START_MS + 50).await;
        }
        let expected = matches!(id, "pending" | "failed" | "replayed");
        let pending = journal.pending(&notification.key).await.expect("read");
        assert_eq!(pending.is_some(), expected, "{id}");
    }
    assert_eq!(ids(&*journal, 10).await, ["pending", "replayed", "failed"]);
    let mut keys = all.map(key).to_vec();
    keys.push(key("unknown"));
    keys.reverse();
    let together = journal.pendings(&keys).await.expect("read");
    assert_eq!(together.len(), keys.len());
    for (key, found) in keys.iter().zip(together) {
        let alone = journal.pending(key).await.expect("read");
        let (Some(found), Some(alone)) = (&found, &alone) else {
            assert_eq!(found.is_some(), alone.is_some(), "{key}");
            continue;
        };
        assert_eq!(found.progress, alone.progress, "{key}");
        let body = Body::InJournal(alone.notification.body.len());
        let without_body = Notification {
            body,
            ..Notification::clone(&alone.notification)
        };
        assert_eq!(*found.notification, without_body, "{key}");
    }
    assert!(journal.pendings(&[]).await.expect("read").is_empty());
}

/// An attempt reads at once what it needs. If its fence must be raised, that is one call too.
pub async fn short_bodies_come_with_the_rest_and_the_fence_is_raised_on_request(store: &dyn Store) {
    let journal = store.open().await;
    let mut bodies = Vec::new();
    for (id, len) in [
        ("0", 0),
        ("1", SHORT_BODY),
        ("2", SHORT_BODY + 1),
        ("3", 100_000),
    ] {
        let mut given = registering(id);
        Arc::make_mut(&mut given.notification).body = Bytes::from(vec![b'x'; len]).into();
        let kept = keep(&*journal, given).await;
        bodies.push((kept.key.clone(), len));
    }
    let ended = keep(&*journal, registering("ended")).await;
    do_change(&*journal, &ended.key, Change::Cancel, START_MS + 1).await;
    let mut keys: Vec<Key> = bodies.iter().map(|(key, _)| key.clone()).collect();
    keys.extend([ended.key.clone(), key("unknown")]);
    let read = journal.pendings_with_bodies(&keys).await.expect("read");
    assert_eq!(journal.fence_pendings(&keys).await.expect("raised"), read);
    assert_eq!(read[4..], [None, None]);
    for ((key, len), found) in bodies.iter().zip(&read) {
        let found = found.as_ref().expect("it is pending");
        let alone = journal.pending(key).await.expect("read").expect("there");
        assert_eq!(found.progress, alone.progress, "{key}");
        let body = match *len <= SHORT_BODY {
            true => alone.notification.body.clone(),
            false => Body::InJournal(*len),
        };
        let expected = Notification {
            body,
            ..Notification::clone(&alone.notification)
        };
        assert_eq!(*found.notification, expected, "{key}");
        assert_eq!(find(&*journal, key).await.fence, 1, "{key}");
    }
    assert_eq!(find(&*journal, &ended.key).await.fence, 1, "by its change");
    let twice = [keys[0].clone(), keys[0].clone()];
    let raised = journal.fence_pendings(&twice).await.expect("raised");
    assert_eq!(raised, [read[0].clone(), read[0].clone()]);
    assert_eq!(find(&*journal, &keys[0]).await.fence, 3);
    let setting = SettingAside {
        key: keys[1].clone(),
        reason: "a test".to_string(),
        at_ms: START_MS,
    };
    journal.set_aside(&setting).await.expect("set aside");
    assert_eq!(
        journal.fence_pendings(&keys[1..2]).await.expect("raised"),
        [None]
    );
    assert!(
        journal
            .fence_pendings(&[])
            .await
            .expect("raised")
            .is_empty()
    );
}

/// What a schedule must agree with is read in the same way, alone and with everything else.
pub async fn what_a_schedule_must_agree_with_is_what_a_snapshot_says(store: &dyn Store) {
    let journal = store.open().await;
    let all = [
        "pending",
        "failed",
        "delivered",
        "dead",
        "retried",
        "aside",
        "ended aside",
    ];
    for id in all {
        let registering = registering_at(registration(key(id)), START_MS);
        let progress = registering.progress;
        let notification = keep(&*journal, registering).await;
        match id {
            "failed" => apply(&*journal, failure(&notification, progress)).await,
            "delivered" | "ended aside" => {
                apply(&*journal, delivery(&notification, progress)).await;
            }
            "dead" => apply(&*journal, refusal(&notification, progress)).await,
            "retried" => {
                do_change(&*journal, &notification.key, Change::Retry, START_MS + 5).await;
            }
            _ => {}
        }
        if id.ends_with("aside") {
            let setting = SettingAside {
                key: key(id),
                at_ms: START_MS,
                reason: "damage".to_string(),
            };
            journal.set_aside(&setting).await.expect("kept");
        }
    }
    let mut keys = all.map(key).to_vec();
    keys.push(key("unknown"));
    keys.reverse();
    let standings = journal.standings(&keys).await.expect("read");
    let snapshots = journal.snapshots(&keys).await.expect("read");
    let expected: Vec<FoundStanding> = (snapshots.iter())
        .map(|found| match found {
            Some(snapshot) => FoundStanding::Found(Standing::of(snapshot)),
            None => FoundStanding::Missing,
        })
        .collect();
    assert_eq!(standings, expected);
    let is_aside = |found: &FoundStanding| match found {
        FoundStanding::Found(standing) => standing.set_aside,
        FoundStanding::Missing | FoundStanding::Damaged(_) => false,
    };
    assert_eq!(standings.iter().filter(|found| is_aside(found)).count(), 1);
    assert!(journal.standings(&[]).await.expect("read").is_empty());
}

pub async fn an_attempt_by_hand_comes_forward(store: &dyn Store) {
    let journal = store.open().await;
    for id in ["1", "2"] {
        let given = Registration {
            start: Start::After(60_000),
            ..registration(key(id))
        };
        keep(&*journal, registering_at(given, START_MS)).await;
    }
    assert_eq!(ids(&*journal, 10).await, ["1", "2"]);
    do_change(&*journal, &key("2"), Change::Retry, START_MS + 5).await;
    let found = pages(&*journal, 10).await.remove(0);
    assert_eq!(found[0].notification.key, key("2"));
    assert_eq!(found[0].progress.next_due_ms(), START_MS + 5);
    assert_eq!(found[0].progress.due_ms, START_MS + 60_000);
}

pub async fn large_bodies_make_pages_shorter_and_leave_nothing_out(store: &dyn Store) {
    let journal = store.open().await;
    // 50 MB together: more than a page may hold.
    for batch in 0..5 {
        let batch: Vec<_> = (0..40)
            .map(|number| {
                let given = Registration {
                    body: vec![7; 256 * 1024].into(),
                    ..registration(key(&format!("{batch}-{number:02}")))
                };
                registering_at(given, START_MS)
            })
            .collect();
        journal.register(&batch).await.expect("kept");
    }
    let pages = pages(&*journal, 1_000).await;
    let sizes: Vec<usize> = pages.iter().map(Vec::len).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 200);
    assert!(sizes.iter().all(|size| *size <= 128), "{sizes:?}");
}

pub async fn pages_without_bodies_are_the_same_but_for_them(store: &dyn Store) {
    let journal = store.open().await;
    for number in 0..150_i64 {
        let len = if number == 7 {
            256 * 1024
        } else {
            usize::try_from(number).expect("small")
        };
        let mut headers = Headers::default();
        if number % 4 == 0 {
            headers
                .insert("X-Number", &number.to_string())
                .expect("allowed");
        }
        let given = Registration {
            headers,
            body: vec![7; len].into(),
            start: Start::After(1_000 * (number % 3)),
            ..registration(key(&format!("{number:03}")))
        };
        let registering = registering_at(given, START_MS);
        let progress = registering.progress;
        let notification = keep(&*journal, registering).await;
        if number % 5 == 0 {
            apply(&*journal, failure(&notification, progress)).await;
        }
    }
    for limit in [7, 64, 1_000] {
        let whole = pages(&*journal, limit).await.concat();
        assert_eq!(whole.len(), 150);
        let read = pages_with(&*journal, limit, PageBodies::None).await;
        let read = read.concat();
        assert_eq!(read.len(), whole.len());
        for (whole, read) in whole.iter().zip(&read) {
            assert_eq!(whole.progress, read.progress);
            let mut expected = Notification::clone(&whole.notification);
            expected.body = Body::InJournal(expected.body.len());
            assert_eq!(*read.notification, expected);
        }
    }
}

pub async fn bodies_are_read_by_their_keys(store: &dyn Store) {
    let journal = store.open().await;
    let body = |number: u8| Bytes::from(vec![number; 3_000 * usize::from(number)]);
    for number in 0..80_u8 {
        let given = Registration {
            body: body(number),
            ..registration(key(&number.to_string()))
        };
        keep(&*journal, registering_at(given, START_MS)).await;
    }
    let mut keys: Vec<_> = (0..80_u8)
        .rev()
        .map(|number| key(&number.to_string()))
        .collect();
    keys.insert(3, key("unknown"));
    keys.push(key("5"));
    let mut expected: Vec<_> = (0..80_u8).rev().map(|number| Some(body(number))).collect();
    expected.insert(3, None);
    expected.push(Some(body(5)));
    assert!(journal.bodies(&keys).await.expect("read") == expected);
    assert!(journal.bodies(&[]).await.expect("read").is_empty());
}

pub async fn what_cannot_be_read_delays_no_other(store: &dyn Store) {
    let journal = store.open().await;
    for number in 1..=5 {
        let id = number.to_string();
        keep(
            &*journal,
            registering_at(registration(key(&id)), START_MS + number),
        )
        .await;
    }
    journal.close().await;
    drop(journal);
    let damage = "UPDATE notifications SET ladder = 'rope' WHERE id IN ('2', '4')";
    store.damage(damage).await;
    let journal = store.open().await;
    // Whether it is within a page or its last one.
    for limit in [1, 2, 3, 10] {
        assert_eq!(ids(&*journal, limit).await, ["1", "3", "5"], "{limit}");
        for order in [Order::Registered, Order::Due] {
            let mut listed = Vec::new();
            let mut cursor = None;
            loop {
                let filter = Filter {
                    state: Some(State::Scheduled),
                    ..Filter::default()
                };
                let page = journal.list(&filter, order, cursor, limit).await;
                let page = page.expect("read");
                listed.extend(page.items.iter().map(|one| one.key.id().to_string()));
                match page.next {
                    Some(next) => cursor = Some(next),
                    None => break,
                }
            }
            assert_eq!(listed, ["5", "3", "1"], "{order:?}, {limit}");
        }
    }
}
