//! Taking notifications in.

use super::samples::{
    START_MS, failure, find, history, keep, key, registering, registering_at, registration,
};
use super::{INSTANCE, Store};
use bytes::Bytes;
use ringback::domain::ack::AckRule;
use ringback::domain::headers::Headers;
use ringback::domain::ladder::{CustomLadder, Ladder};
use ringback::domain::notification::{LARGEST_BODY_BYTES, Registration, Start};
use ringback::domain::progress::Progress;
use ringback::domain::snapshot::Snapshot;
use ringback::domain::state::State;
use ringback::journal::{Filter, Order, RegisterResult, Registering};

pub async fn a_key_is_registered_once(store: &dyn Store) {
    let journal = store.open().await;
    let first = registering("1");
    keep(&*journal, first.clone()).await;
    let second = registering_at(
        Registration {
            body: Bytes::from_static(b"other"),
            ..registration(key("1"))
        },
        START_MS + 5,
    );
    let other = registering("2");
    let replies = journal.register(&[second, other]).await.expect("kept");
    let known = Snapshot::of_new(&first.notification, first.progress);
    assert_eq!(
        replies,
        [
            RegisterResult::Existing(Box::new(known.clone())),
            RegisterResult::Created
        ]
    );
    assert_eq!(find(&*journal, &key("1")).await, known);
    assert_eq!(history(&*journal, &key("1")).await, ["registered"]);
    let pending = journal.pending(&key("1")).await.expect("read");
    assert_eq!(
        pending.expect("pending").notification.body,
        first.notification.body
    );
}

pub async fn the_first_of_two_in_a_batch_wins(store: &dyn Store) {
    let journal = store.open().await;
    let first = registering("1");
    let second = registering_at(
        Registration {
            body: Bytes::from_static(b"other"),
            ..registration(key("1"))
        },
        START_MS,
    );
    let batch = vec![first.clone(), second.clone(), second];
    let replies = journal.register(&batch).await.expect("kept");
    let known = Snapshot::of_new(&first.notification, first.progress);
    let existing = RegisterResult::Existing(Box::new(known.clone()));
    assert_eq!(
        replies,
        [RegisterResult::Created, existing.clone(), existing]
    );
    assert_eq!(find(&*journal, &key("1")).await, known);
    assert_eq!(history(&*journal, &key("1")).await, ["registered"]);
    assert_eq!(journal.counts().await.expect("read").registered, 1);
}

pub async fn a_new_one_is_scheduled_and_has_one_line_of_history(store: &dyn Store) {
    let journal = store.open().await;
    assert_eq!(journal.find(&key("1")).await.expect("read"), None);
    assert!(journal.pending(&key("1")).await.expect("read").is_none());
    assert_eq!(journal.transitions(&key("1")).await.expect("read"), []);
    keep(&*journal, registering("1")).await;
    let snapshot = find(&*journal, &key("1")).await;
    assert_eq!((snapshot.state, snapshot.cause), (State::Scheduled, None));
    assert_eq!((snapshot.ended_ms, snapshot.in_flight), (None, false));
    let lines = journal.transitions(&key("1")).await.expect("read");
    let [line] = lines.as_slice() else {
        panic!("{lines:?}");
    };
    assert_eq!(line.kind, "registered");
    assert_eq!(line.at_ms, START_MS);
    assert_eq!((&*line.actor, &*line.instance), ("orders", INSTANCE));
    assert_eq!(line.detail, "");
}

pub async fn every_field_is_kept(store: &dyn Store) {
    let journal = store.open().await;
    let mut headers = Headers::default();
    headers
        .insert("X-Request-Id", "a \"quoted\" \\ one")
        .expect("a header");
    headers.insert("empty", "").expect("a header");
    let ladder = Ladder::custom(&CustomLadder {
        intervals: vec!["10s".into(), "1m".into()],
        window: Some("1h".into()),
        repeat_last: true,
        jitter: 0.1,
    })
    .expect("a ladder");
    let given = registering_at(
        Registration {
            content_type: "text/plain; charset=utf-8".into(),
            headers,
            ladder: Some(ladder),
            ack: Some(AckRule::by_name("exact").expect("known")),
            start: Start::After(1_800_000),
            ..registration(key("order/1?x=%20 '; DROP TABLE notifications --"))
        },
        START_MS,
    );
    let notification = keep(&*journal, given.clone()).await;
    let pending = journal.pending(&notification.key).await.expect("read");
    let pending = pending.expect("pending");
    assert_eq!(pending.notification, notification);
    assert_eq!(pending.progress, given.progress);
    assert_eq!(
        find(&*journal, &notification.key).await,
        Snapshot::of_new(&notification, given.progress)
    );
}

pub async fn bodies_are_kept_byte_for_byte(store: &dyn Store) {
    let journal = store.open().await;
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let largest = every_byte.repeat(LARGEST_BODY_BYTES / every_byte.len());
    assert_eq!(largest.len(), LARGEST_BODY_BYTES);
    for (id, body) in [
        ("empty", Vec::new()),
        ("bytes", every_byte),
        ("largest", largest),
    ] {
        let given = Registration {
            body: body.clone().into(),
            ..registration(key(id))
        };
        keep(&*journal, registering_at(given, START_MS)).await;
        let pending = journal.pending(&key(id)).await.expect("read");
        let read = &pending.expect("pending").notification.body;
        assert!(read.here().is_some_and(|read| *read == body), "{id}");
    }
}

pub async fn batches_of_any_size_are_kept_whole(store: &dyn Store) {
    let journal = store.open().await;
    let mut registered = 0;
    for size in [0, 1, 7, 8, 9, 64, 73, 256, 1_000] {
        let batch: Vec<_> = (0..size)
            .map(|number| registering(&format!("{size}-{number}")))
            .collect();
        let replies = journal.register(&batch).await.expect("kept");
        assert_eq!(replies, vec![RegisterResult::Created; size]);
        registered += size;
    }
    let page = journal
        .list(&Filter::default(), Order::Registered, None, 2_000)
        .await;
    assert_eq!(page.expect("read").items.len(), registered);
}

pub async fn one_that_was_forgotten_goes_on_where_it_was(store: &dyn Store) {
    let journal = store.open().await;
    let check = async |id: &str, further: fn(&Registering) -> Progress| {
        let new = registering(id);
        let given = Registering {
            progress: further(&new),
            ..new
        };
        let beside = registering(&format!("beside {id}"));
        let batch = [beside.clone(), given.clone()];
        journal.register(&batch).await.expect("kept");
        for one in [given, beside] {
            let found = find(&*journal, &one.notification.key).await;
            assert_eq!(found.progress, one.progress, "{id}");
            let pending = journal.pending(&one.notification.key).await;
            let pending = pending.expect("read").expect("pending");
            assert_eq!(pending.progress, one.progress, "{id}");
        }
    };
    check("attempted", |new| {
        failure(&new.notification, new.progress).decision.progress
    })
    .await;
    check("replayed", |new| {
        new.progress
            .next_series(&new.notification.ladder, START_MS + 77)
    })
    .await;
    check("by hand", |new| new.progress.retry(START_MS - 5)).await;
}
