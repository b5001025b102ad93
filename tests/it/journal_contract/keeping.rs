//! What stays whatever happens, what the counts say, and many callers at once.

use super::Store;
use super::samples::{
    START_MS, apply, changing, delivery, do_change, failure, find, history, keep, key, refusal,
    registering,
};
use ringback::domain::attempt::Outcome;
use ringback::domain::change::Change;
use ringback::domain::state::State;
use ringback::journal::recorder::Recorder;
use ringback::journal::{
    Fault, Filter, JournalCounts, JournalError, Order, PageBodies, Recorded, RegisterResult,
};
use std::sync::Arc;
use std::task::{Context, Waker};
use tokio::task::JoinSet;

pub async fn what_was_answered_is_there_after_an_abrupt_end(store: &dyn Store) {
    let journal = store.open().await;
    let id = journal.id().to_string();
    let batch: Vec<_> = (0..100)
        .map(|number| registering(&number.to_string()))
        .collect();
    let notifications: Vec<_> = batch
        .iter()
        .map(|one| (one.notification.clone(), one.progress))
        .collect();
    journal.register(&batch).await.expect("kept");
    for (notification, progress) in &notifications[..10] {
        apply(&*journal, failure(notification, *progress)).await;
    }
    do_change(&*journal, &key("50"), Change::Cancel, START_MS + 9).await;
    let mut before = Vec::new();
    for (notification, _) in &notifications {
        before.push(find(&*journal, &notification.key).await);
    }
    drop(journal);
    let journal = store.open().await;
    assert_eq!(journal.id(), id);
    for (snapshot, (notification, _)) in before.iter().zip(&notifications) {
        assert_eq!(find(&*journal, &snapshot.key).await, *snapshot);
        let pending = journal.pending(&snapshot.key).await.expect("read");
        let body = pending.map(|pending| pending.notification.body.clone());
        let expected = (snapshot.state == State::Scheduled).then(|| notification.body.clone());
        assert_eq!(body, expected);
    }
    assert_eq!(
        history(&*journal, &key("50")).await,
        ["registered", "cancelled"]
    );
    journal.close().await;
    assert_eq!(store.open().await.id(), id);
}

pub async fn counts_follow_every_change(store: &dyn Store) {
    let journal = store.open().await;
    let check = async |registered, scheduled, delivered, dead, cancelled| {
        let expected = JournalCounts {
            registered,
            scheduled,
            delivered,
            dead,
            cancelled,
        };
        assert_eq!(journal.counts().await.expect("read"), expected);
        let examined = journal.examine(9).await.expect("read");
        assert_eq!((examined.counters, examined.rows), (expected, expected));
        assert_eq!((examined.faults, examined.faulty), (vec![], 0));
        // And what is counted is what is there.
        for (state, many) in [
            (State::Scheduled, scheduled),
            (State::Delivered, delivered),
            (State::Dead, dead),
            (State::Cancelled, cancelled),
        ] {
            let filter = Filter {
                state: Some(state),
                ..Filter::default()
            };
            let page = journal.list(&filter, Order::Registered, None, 100).await;
            assert_eq!(page.expect("read").items.len() as u64, many, "{state}");
        }
    };
    check(0, 0, 0, 0, 0).await;
    let mut kept = Vec::new();
    for id in ["1", "2", "3", "4"] {
        let given = registering(id);
        let progress = given.progress;
        kept.push((keep(&*journal, given).await, progress));
    }
    journal.register(&[registering("1")]).await.expect("kept");
    check(4, 4, 0, 0, 0).await;
    apply(&*journal, failure(&kept[0].0, kept[0].1)).await;
    check(4, 4, 0, 0, 0).await;
    let ends = vec![
        delivery(&kept[0].0, kept[0].1),
        refusal(&kept[1].0, kept[1].1),
        refusal(&kept[2].0, kept[2].1),
    ];
    journal.record(&ends).await.expect("kept");
    check(4, 1, 1, 2, 0).await;
    do_change(&*journal, &key("2"), Change::Replay, START_MS + 90).await;
    do_change(&*journal, &key("3"), Change::Discard, START_MS + 90).await;
    check(4, 2, 1, 0, 1).await;
    do_change(&*journal, &key("4"), Change::Cancel, START_MS + 90).await;
    let refused = changing(&key("4"), Change::Replay, START_MS + 91);
    journal.change(refused).await.expect("read");
    check(4, 1, 1, 0, 2).await;
}

pub async fn what_is_wrong_is_counted_and_named(store: &dyn Store) {
    let journal = store.open().await;
    for id in ["1", "2", "3"] {
        let given = registering(id);
        let progress = given.progress;
        let notification = keep(&*journal, given).await;
        // No server would record a delivery that nobody acknowledged.
        let mut wrong = delivery(&notification, progress);
        Arc::make_mut(&mut wrong.attempt).answer.outcome = Outcome::HttpStatus;
        apply(&*journal, wrong).await;
    }
    let check = async |limit: usize| {
        let examined = journal.examine(limit).await.expect("read");
        assert_eq!(examined.counters, examined.rows);
        assert_eq!(examined.faulty, 3);
        let expected = ["1", "2", "3"].map(|id| (key(id), Fault::NoAcknowledgement));
        assert_eq!(examined.faults, expected[..limit.min(3)]);
    };
    for limit in [0, 1, 3, 9] {
        check(limit).await;
    }
}

pub async fn many_tasks_can_write_at_once(store: &dyn Store) {
    let journal = store.open().await;
    let recorder = Arc::new(Recorder::start(journal.clone()));
    let mut tasks = JoinSet::new();
    for task in 0..40 {
        let recorder = recorder.clone();
        tasks.spawn(async move {
            let mut created = 0;
            for number in 0..10 {
                // Each key is registered by two tasks.
                let given = registering(&format!("{}-{number}", task / 2));
                let (notification, progress) = (given.notification.clone(), given.progress);
                match recorder.register(given).await.expect("kept") {
                    RegisterResult::Created => created += 1,
                    RegisterResult::Existing(_) => continue,
                    ordered @ (RegisterResult::CreatedOver(_)
                    | RegisterResult::Superseded(_)
                    | RegisterResult::OutOfOrder { .. }) => panic!("{ordered:?}"),
                }
                let failed = failure(&notification, progress);
                let then = failed.decision.progress;
                let reply = recorder.record(failed).await.expect("kept");
                assert_eq!(reply, Recorded::Applied);
                let delivered = delivery(&notification, then);
                let reply = recorder.record(delivered).await.expect("kept");
                assert_eq!(reply, Recorded::Applied);
                let journal = recorder.journal();
                assert_eq!(find(journal, &notification.key).await.attempts.len(), 2);
            }
            created
        });
    }
    let created: u64 = tasks.join_all().await.into_iter().sum();
    assert_eq!(created, 200);
    let expected = JournalCounts {
        registered: 200,
        delivered: 200,
        ..JournalCounts::default()
    };
    assert_eq!(journal.counts().await.expect("read"), expected);
}

pub async fn a_caller_that_goes_away_disturbs_nobody(store: &dyn Store) {
    let journal = store.open().await;
    // Dropped at every point at which the call can wait.
    for polls in 0..40 {
        let id = format!("gone-{polls}");
        let batch = [registering(&id)];
        let mut call = journal.register(&batch);
        for _ in 0..polls {
            let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if polled.is_ready() {
                break;
            }
            crate::support::short_pause().await;
        }
        drop(call);
        keep(&*journal, registering(&format!("next-{polls}"))).await;
    }
    let counts = journal.counts().await.expect("read");
    assert!((40..=80).contains(&counts.registered), "{counts:?}");
    // Whatever became of them, each is there whole or not at all.
    for polls in 0..40 {
        let key = key(&format!("gone-{polls}"));
        let snapshot = journal.find(&key).await.expect("read");
        let pending = journal.pending(&key).await.expect("read");
        assert_eq!(snapshot.is_some(), pending.is_some());
        let lines = journal.transitions(&key).await.expect("read").len();
        assert_eq!(lines, usize::from(snapshot.is_some()));
    }
}

pub async fn a_check_keeps_nothing(store: &dyn Store) {
    let journal = store.open().await;
    keep(&*journal, registering("1")).await;
    for _ in 0..3 {
        journal.check().await.expect("works");
    }
    let counts = journal.counts().await.expect("read");
    assert_eq!((counts.registered, counts.scheduled), (1, 1));
    let examined = journal.examine(10).await.expect("read");
    assert_eq!(examined.counters, examined.rows);
    assert_eq!(examined.faulty, 0);
    for order in [Order::Registered, Order::Ended] {
        let page = journal.list(&Filter::default(), order, None, 10).await;
        let page = page.expect("read").items;
        assert!(page.iter().all(|item| item.key == key("1")), "{page:?}");
    }
    let (pending, _) = journal
        .pending_page(None, i64::MAX, 10, PageBodies::All)
        .await
        .expect("read");
    assert_eq!(pending.len(), 1);
}

pub async fn a_closed_journal_says_so(store: &dyn Store) {
    let journal = store.open().await;
    journal.check().await.expect("works");
    keep(&*journal, registering("1")).await;
    journal.check().await.expect("works");
    journal.close().await;
    journal.close().await;
    let unavailable = |error: Option<JournalError>| {
        assert!(
            matches!(error, Some(JournalError::Unavailable(_))),
            "{error:?}"
        );
    };
    unavailable(journal.register(&[registering("2")]).await.err());
    unavailable(journal.check().await.err());
    unavailable(journal.find(&key("1")).await.err());
    unavailable(journal.counts().await.err());
}
