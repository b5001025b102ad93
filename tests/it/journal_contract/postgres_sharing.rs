//! What holds of PostgreSQL alone: several instances on one database.

use super::PostgresStore;
use super::samples::{
    START_MS, apply, attempts, changing, delivery, failure, find, history, keep, raise_fence,
    recording, refusal, registering,
};
use crate::support::postgres::{connect, run, signal};
use crate::support::redis_node::until;
use crate::support::{short_pause, within};
use ringback::domain::attempt::Outcome;
use ringback::domain::change::Change;
use ringback::domain::state::State;
use ringback::journal::postgres::{PostgresJournal, Sharing};
use ringback::journal::{
    ChangeResult, JournalError, JournalMaintenance, JournalReads, JournalWrites, Prune, Recorded,
    Recording, RegisterResult,
};
use sqlx::postgres::PgConnection;
use std::sync::Arc;
use std::task::{Context, Waker};
use tokio::task::JoinSet;

const INSTANCES: usize = 4;

pub async fn open(store: &PostgresStore, instance: usize) -> Arc<PostgresJournal> {
    let name = format!("instance-{instance}");
    let journal = PostgresJournal::open(&store.url, &name, true).await;
    Arc::new(journal.expect("it opens"))
}

async fn instances(store: &PostgresStore) -> Vec<Arc<PostgresJournal>> {
    let mut journals = Vec::new();
    for instance in 0..INSTANCES {
        journals.push(open(store, instance).await);
    }
    journals
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_registered_once_whoever_asks() {
    let store = PostgresStore::new();
    let mut tasks = JoinSet::new();
    for (instance, journal) in instances(&store).await.into_iter().enumerate() {
        tasks.spawn(async move {
            let mut created = 0;
            for batch in 0..10 {
                // The same hundred keys for all, each in an order of its own.
                let mut batch: Vec<_> = (0..100)
                    .map(|number| registering(&format!("{}", batch * 100 + number)))
                    .collect();
                batch.rotate_left(instance * 23);
                if instance % 2 == 1 {
                    batch.reverse();
                }
                let replies = journal.register(&batch).await.expect("kept");
                created += replies
                    .iter()
                    .filter(|reply| **reply == RegisterResult::Created)
                    .count();
            }
            created
        });
    }
    let created: usize = within("all to register", tasks.join_all())
        .await
        .into_iter()
        .sum();
    assert_eq!(created, 1_000);
    let counts = open(&store, 9).await.counts().await.expect("read");
    assert_eq!((counts.registered, counts.scheduled), (1_000, 1_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_is_kept_once_whoever_records_it() {
    let store = PostgresStore::new();
    let journals = instances(&store).await;
    let batch: Vec<_> = (0..200).map(|id| registering(&id.to_string())).collect();
    journals[0].register(&batch).await.expect("kept");
    let recordings: Vec<Recording> = batch
        .iter()
        .enumerate()
        .map(|(number, one)| match number % 3 {
            0 => failure(&one.notification, one.progress),
            1 => delivery(&one.notification, one.progress),
            _ => refusal(&one.notification, one.progress),
        })
        .collect();
    let mut tasks = JoinSet::new();
    for (instance, journal) in journals.into_iter().enumerate() {
        let mut recordings = recordings.clone();
        recordings.rotate_left(instance * 41);
        tasks.spawn(async move { journal.record(&recordings).await.expect("kept") });
    }
    let replies = within("all to record", tasks.join_all()).await.concat();
    assert!(replies.iter().all(|reply| *reply == Recorded::Applied));
    let journal = open(&store, 9).await;
    for one in &recordings {
        let snapshot = find(&*journal, &one.key).await;
        assert_eq!(snapshot.attempts, std::slice::from_ref(&*one.attempt));
        assert_eq!(snapshot.state, one.decision.state);
        let lines = history(&*journal, &one.key).await.len();
        assert_eq!(lines, 1 + usize::from(snapshot.state != State::Scheduled));
    }
    let counts = journal.counts().await.expect("read");
    assert_eq!(
        (counts.scheduled, counts.delivered, counts.dead),
        (67, 67, 66)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_changes_that_exclude_each_other_one_is_applied() {
    let store = PostgresStore::new();
    let journals = instances(&store).await;
    for number in 0..30 {
        let given = registering(&number.to_string());
        let progress = given.progress;
        let notification = keep(&*journals[0], given).await;
        let delivered = delivery(&notification, progress);
        let mut tasks = JoinSet::new();
        for journal in &journals[1..] {
            let (journal, key) = (journal.clone(), notification.key.clone());
            tasks.spawn(async move {
                let change = changing(&key, Change::Cancel, START_MS + 5);
                let result = journal.change(change).await.expect("asked");
                matches!(result, ChangeResult::Done(_))
            });
        }
        let reply = journals[0].record(&[delivered]).await.expect("kept");
        let cancelled = tasks.join_all().await.into_iter().filter(|done| *done);
        let delivered = reply == [Recorded::Applied];
        assert_eq!(cancelled.count() + usize::from(delivered), 1);
        let snapshot = find(&*journals[0], &notification.key).await;
        let expected = if delivered {
            State::Delivered
        } else {
            State::Cancelled
        };
        assert_eq!(snapshot.state, expected);
        assert_eq!(snapshot.attempts.len(), 1, "kept whatever came first");
        let lines = history(&*journals[0], &notification.key).await;
        assert_eq!(lines, ["registered", expected.as_str()]);
    }
}

#[tokio::test]
async fn a_duty_is_one_instances_until_it_runs_out_or_is_given_back() {
    let store = PostgresStore::new();
    let (one, other) = (open(&store, 1).await, open(&store, 1).await);
    let asked = async |journal: &PostgresJournal, ttl_ms| {
        journal.duty("reconcile", ttl_ms).await.expect("asked")
    };
    assert!(asked(&one, 60_000).await);
    assert!(
        !asked(&other, 60_000).await,
        "although its name is the same"
    );
    assert!(other.duty("prune", 60_000).await.expect("asked"));
    assert!(asked(&one, 0).await, "it may be kept for less");
    assert!(asked(&other, 60_000).await, "it has run out");
    assert!(!asked(&one, 60_000).await);
    other.close().await;
    assert!(asked(&one, 60_000).await, "it was given back");
}

#[tokio::test]
async fn a_server_with_its_schedule_in_memory_shares_with_nobody() {
    let store = PostgresStore::new();
    let (one, other) = (open(&store, 1).await, open(&store, 2).await);
    one.hold(Sharing::WithOthers).await.expect("held");
    other.hold(Sharing::WithOthers).await.expect("held");
    other.close().await;
    let alone = open(&store, 3).await;
    match alone.hold(Sharing::WithNobody).await {
        Err(JournalError::Refused(text)) => assert!(text.contains("in use by another"), "{text}"),
        other => panic!("{other:?}"),
    }
    one.close().await;
    alone.hold(Sharing::WithNobody).await.expect("held");
}

/// Ends the session with the lock of a journal, as a fail-over does, or a pooler.
async fn end_locks(store: &PostgresStore) {
    let mut beside = connect(&store.url).await;
    let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory'
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    run(&mut beside, end).await;
}

#[tokio::test]
async fn a_lock_whose_session_ended_is_taken_again() {
    let store = PostgresStore::new();
    let alone = open(&store, 1).await;
    alone.hold(Sharing::WithNobody).await.expect("held");
    end_locks(&store).await;
    alone.keep_holding().await.expect("held again");
    let other = open(&store, 2).await;
    let refused = other.hold(Sharing::WithNobody).await;
    assert!(
        matches!(refused, Err(JournalError::Refused(_))),
        "{refused:?}"
    );
    // Another one was faster.
    end_locks(&store).await;
    other.hold(Sharing::WithOthers).await.expect("held");
    let refused = alone.keep_holding().await;
    assert!(
        matches!(refused, Err(JournalError::Refused(_))),
        "{refused:?}"
    );
    other.close().await;
    alone.keep_holding().await.expect("held again");
}

/// The session hangs and keeps the lock, as when its connection broke and PostgreSQL does not know that yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_before_that_still_has_the_lock_is_ended() {
    let store = PostgresStore::new();
    let alone = open(&store, 1).await;
    alone.hold(Sharing::WithNobody).await.expect("held");
    let mut beside = connect(&store.url).await;
    let pid: i32 = sqlx::query_scalar(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory'
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
    .fetch_one(&mut beside)
    .await
    .expect("it has the lock");
    let session = pid.to_string();
    signal("STOP", &session);
    let ended = alone.keep_holding().await;
    // It goes on, and learns that it is ended.
    signal("CONT", &session);
    let Err(JournalError::Unavailable(why)) = ended else {
        panic!("{ended:?}");
    };
    assert!(why.contains("earlier session"), "{why}");
    until("the lock", async || {
        let held = alone.keep_holding().await;
        assert!(!matches!(held, Err(JournalError::Refused(_))), "{held:?}");
        held.ok()
    })
    .await;
    let other = open(&store, 2).await;
    let refused = other.hold(Sharing::WithNobody).await;
    assert!(
        matches!(refused, Err(JournalError::Refused(_))),
        "{refused:?}"
    );
}

/// It will be refused, and stands in the way until then.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_waits_for_the_lock_ends_nobody() {
    let store = PostgresStore::new();
    let (one, other) = (open(&store, 1).await, open(&store, 2).await);
    one.hold(Sharing::WithOthers).await.expect("held");
    other.hold(Sharing::WithOthers).await.expect("held");
    let alone = open(&store, 3).await;
    let waiting = tokio::spawn(async move { alone.hold(Sharing::WithNobody).await });
    let mut beside = connect(&store.url).await;
    until_waits(&mut beside).await;
    let end = "SELECT pg_terminate_backend(min(pid), 5000) FROM pg_locks
               WHERE locktype = 'advisory' AND granted
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    run(&mut beside, end).await;
    for journal in [&one, &other] {
        let held = journal.keep_holding().await;
        assert!(!matches!(held, Err(JournalError::Refused(_))), "{held:?}");
    }
    let refused = waiting.await.expect("no panic");
    assert!(
        matches!(refused, Err(JournalError::Refused(_))),
        "{refused:?}"
    );
    for journal in [&one, &other] {
        journal.keep_holding().await.expect("held again");
    }
}

async fn until_waits(beside: &mut PgConnection) {
    let waits = async {
        let asked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        loop {
            let many: i64 = sqlx::query_scalar(asked)
                .fetch_one(&mut *beside)
                .await
                .expect("answered");
            if many > 0 {
                return;
            }
            short_pause().await;
        }
    };
    within("somebody to wait for the lock", waits).await;
}

#[tokio::test]
async fn a_note_after_the_delivery_stands_after_it() {
    let store = PostgresStore::new();
    let journal = open(&store, 1).await;
    let given = registering("1");
    let progress = given.progress;
    let notification = keep(&*journal, given).await;
    let delivered = delivery(&notification, progress);
    let at_ms = delivered.at_ms;
    apply(&*journal, delivered).await;
    for (kind, at_ms) in [("before", at_ms - 1), ("with", at_ms), ("after", at_ms + 1)] {
        let note = ringback::journal::Noting {
            key: notification.key.clone(),
            kind,
            actor: ringback::journal::Actor::dispatcher(),
            detail: String::new(),
            at_ms,
        };
        journal.note(&[note]).await.expect("kept");
    }
    assert_eq!(
        history(&*journal, &notification.key).await,
        ["registered", "before", "with", "delivered", "after"]
    );
}

/// Sessions that sit in a transaction, as another session sees them.
async fn sitting(store: &PostgresStore) -> i64 {
    let mut beside = connect(&store.url).await;
    sqlx::query_scalar(
        "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
    )
    .fetch_one(&mut beside)
    .await
    .expect("read")
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_no_transaction_open() {
    let store = PostgresStore::new();
    let journal = open(&store, 1).await;
    let given = registering("1");
    let progress = given.progress;
    let notification = keep(&*journal, given).await;
    let interrupted = recording(&notification, progress, Outcome::Interrupted, None);
    // Dropped at every point at which the call can wait.
    for polls in 0..60 {
        let batch = [interrupted.clone()];
        let mut call: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = if polls % 2 == 0 {
            let call = journal.record(&batch);
            Box::pin(async move { drop(call.await) })
        } else {
            let call = journal.change(changing(&notification.key, Change::Retry, START_MS));
            Box::pin(async move { drop(call.await) })
        };
        for _ in 0..polls {
            let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if polled.is_ready() {
                break;
            }
            short_pause().await;
        }
        drop(call);
    }
    let ended = async {
        while sitting(&store).await > 0 {
            short_pause().await;
        }
    };
    within("the sessions to end", ended).await;
    apply(&*journal, delivery(&notification, progress)).await;
    let snapshot = find(&*journal, &notification.key).await;
    let last = attempts(&snapshot).pop();
    assert_eq!(last, Some((1, 1, Outcome::Acknowledged)));
}

/// A journal with one notification that was delivered, and a prune that deletes its body, or all of it.
async fn one_delivered(store: &PostgresStore, wholly: bool) -> (Arc<PostgresJournal>, Prune) {
    let journal = open(store, 1).await;
    let given = registering("1");
    let progress = given.progress;
    let notification = keep(&*journal, given).await;
    apply(&*journal, delivery(&notification, progress)).await;
    let prune = Prune {
        payloads_before_ms: START_MS + 1_000,
        records_before_ms: if wholly { START_MS + 1_000 } else { 0 },
        dead_before_ms: None,
    };
    (journal, prune)
}

/// Waits until a session of this database waits for a lock.
pub async fn until_one_waits(store: &PostgresStore) {
    let mut looking = connect(&store.url).await;
    let waiting = async {
        loop {
            let many: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'",
            )
            .fetch_one(&mut looking)
            .await
            .expect("read");
            if many > 0 {
                return;
            }
            short_pause().await;
        }
    };
    within("a session to wait", waiting).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_being_sent_again_is_not_pruned() {
    for wholly in [false, true] {
        let store = PostgresStore::new();
        let (journal, prune) = one_delivered(&store, wholly).await;
        // Another instance is in the middle of it.
        let mut other = connect(&store.url).await;
        run(
            &mut other,
            "BEGIN; UPDATE statuses SET state = 'scheduled', ended_ms = NULL, series = 2",
        )
        .await;
        let pruning = {
            let journal = journal.clone();
            tokio::spawn(async move { journal.prune(&prune, 10).await })
        };
        until_one_waits(&store).await;
        run(&mut other, "COMMIT").await;
        let pruned = pruning.await.expect("no panic").expect("pruned");
        assert_eq!((pruned.payloads, pruned.records), (0, 0));
        let key = registering("1").notification.key.clone();
        let pending = journal.pending(&key).await.expect("read");
        assert!(pending.is_some(), "its body is there");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_being_pruned_is_not_sent_again() {
    let store = PostgresStore::new();
    let (journal, _) = one_delivered(&store, false).await;
    let mut other = connect(&store.url).await;
    run(
        &mut other,
        "BEGIN; SELECT FROM statuses FOR UPDATE; DELETE FROM payloads",
    )
    .await;
    let key = registering("1").notification.key.clone();
    let resending = {
        let journal = journal.clone();
        let change = changing(&key, Change::Resend, START_MS + 2_000);
        tokio::spawn(async move { journal.change(change).await })
    };
    until_one_waits(&store).await;
    run(&mut other, "COMMIT").await;
    let result = resending.await.expect("no panic").expect("answered");
    assert!(
        matches!(result, ChangeResult::PayloadDeleted(_)),
        "{result:?}"
    );
    assert_eq!(find(&*journal, &key).await.state, State::Delivered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_is_raised_of_what_another_session_leaves() {
    const ENDED: &str = "UPDATE statuses SET state = 'delivered', ended_ms = 1";
    const FENCED: &str = "UPDATE statuses SET fence = fence + 5";
    const AGAIN: &str = "UPDATE statuses SET state = 'scheduled', ended_ms = NULL";
    for (before, meanwhile, state, fence) in [
        (None, FENCED, State::Scheduled, 6),
        (None, ENDED, State::Delivered, 0),
        (Some(ENDED), AGAIN, State::Scheduled, 1),
        (Some(ENDED), FENCED, State::Delivered, 5),
    ] {
        let store = PostgresStore::new();
        let journal = open(&store, 1).await;
        let key = keep(&*journal, registering("1")).await.key.clone();
        let mut other = connect(&store.url).await;
        if let Some(before) = before {
            run(&mut other, before).await;
        }
        run(&mut other, "BEGIN").await;
        run(&mut other, meanwhile).await;
        let raising = {
            let (journal, key) = (journal.clone(), key.clone());
            tokio::spawn(async move { raise_fence(&*journal, &key).await })
        };
        until_one_waits(&store).await;
        run(&mut other, "COMMIT").await;
        let raised = raising.await.expect("no panic").expect("it is known");
        assert_eq!(
            (raised.state, raised.fence),
            (state, fence),
            "{before:?} {meanwhile}"
        );
        assert_eq!(find(&*journal, &key).await.fence, fence);
    }
}
