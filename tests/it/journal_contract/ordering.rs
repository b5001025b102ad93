//! Notifications with a place in an order: what a registration of one does to the others of its order key.

use super::Store;
use super::samples::{
    START_MS, apply, changing, delivery, do_change, failure, find, history, keep, key, place,
    raise_fence, record, refusal, registering_at, registration,
};
use ringback::domain::call_rate::CallRate;
use ringback::domain::change::Change;
use ringback::domain::destination::Destination;
use ringback::domain::job::{BulkJob, JobCounts, JobId, JobKind, JobState};
use ringback::domain::notification::{Registration, Start, Target};
use ringback::domain::order::{OrderConflict, OrderMode, OrderPlace};
use ringback::domain::snapshot::Snapshot;
use ringback::domain::state::{Cause, State};
use ringback::journal::{
    ChangeResult, Changing, JobEnd, JobStep, JobStepped, Journal, Recorded, RegisterResult,
    Registering, SettingAside,
};
use ringback::maintenance::audit::balanced;

const LATER_MS: i64 = START_MS + 60_000;

/// A notification with a place in the order of the key `o`.
fn ordered(id: &str, number: i64, mode: OrderMode) -> Registration {
    Registration {
        order: Some(OrderPlace::new("o", number, mode).expect("a place")),
        ..registration(key(id))
    }
}

fn latest(id: &str, number: i64) -> Registering {
    registering_at(ordered(id, number, OrderMode::Latest), START_MS)
}

fn strict(id: &str, number: i64) -> Registering {
    registering_at(ordered(id, number, OrderMode::Strict), START_MS)
}

async fn register(journal: &dyn Journal, one: Registering) -> RegisterResult {
    let mut replies = journal.register(&[one]).await.expect("registered");
    assert_eq!(replies.len(), 1);
    replies.remove(0)
}

/// The ids of the lower ones that a registration has ended.
fn ended(reply: &RegisterResult) -> Vec<&str> {
    match reply {
        RegisterResult::CreatedOver(ended) => ended.iter().map(|one| one.key.id()).collect(),
        other => panic!("{other:?}"),
    }
}

fn is_superseded(snapshot: &Snapshot) -> bool {
    snapshot.state == State::Cancelled && snapshot.cause == Some(Cause::Superseded)
}

/// The reply to a registration that is refused because of this one.
fn refused(conflict: OrderConflict, other: &str) -> RegisterResult {
    RegisterResult::OutOfOrder {
        conflict,
        other: Some(key(other)),
    }
}

/// For which lower number it waits: when that one is due.
async fn waits_for(journal: &dyn Journal, id: &str) -> Option<i64> {
    let found = journal.snapshots(&[key(id)]).await.expect("read");
    let found = found.into_iter().flatten().next().expect("it is there");
    found.waits_for_ms
}

async fn check_counts(journal: &dyn Journal) {
    let examined = journal.examine(10).await.expect("examined");
    assert_eq!(examined.rows, examined.counters);
    assert!(balanced(&examined.counters), "{examined:?}");
    assert_eq!(examined.faulty, 0, "{examined:?}");
}

pub async fn the_highest_number_ends_the_lower_ones_of_its_key(store: &dyn Store) {
    let journal = store.open().await;
    keep(&*journal, latest("1", 1)).await;
    let other_key = Registration {
        order: Some(OrderPlace::new("p", 1, OrderMode::Latest).expect("a place")),
        ..registration(key("p1"))
    };
    keep(&*journal, registering_at(other_key, START_MS)).await;
    let url = Destination::parse("https://other.example/notify").expect("a url");
    let other_lane = Registration {
        target: Target::Url(url),
        ..ordered("other", 1, OrderMode::Latest)
    };
    keep(&*journal, registering_at(other_lane, START_MS)).await;
    let three = latest("3", 3);
    assert_eq!(ended(&register(&*journal, three.clone()).await), ["1"]);
    assert!(matches!(
        register(&*journal, three).await,
        RegisterResult::Existing(_)
    ));
    let two = register(&*journal, latest("2", 2)).await;
    assert!(
        matches!(&two, RegisterResult::Superseded(two) if is_superseded(two)),
        "{two:?}"
    );
    for (asked, conflict, other) in [
        (latest("3b", 3), OrderConflict::NumberTaken, "3"),
        (latest("2b", 2), OrderConflict::NumberTaken, "2"),
        (strict("4", 4), OrderConflict::OtherMode, "3"),
    ] {
        let key = asked.notification.key.clone();
        let reply = register(&*journal, asked).await;
        assert_eq!(reply, refused(conflict, other));
        let found = journal.find(&key).await.expect("read");
        assert_eq!(found, None, "nothing of it is kept");
    }
    drop(journal);
    let journal = store.open().await;
    for id in ["1", "2"] {
        let snapshot = find(&*journal, &key(id)).await;
        assert!(is_superseded(&snapshot), "{snapshot:?}");
        assert_eq!(snapshot.ended_ms, Some(START_MS));
        assert_eq!(
            history(&*journal, &key(id)).await,
            ["registered", "cancelled"]
        );
        let lines = journal.transitions(&key(id)).await.expect("read");
        let detail = "superseded by number 3 of its order";
        assert_eq!(lines.last().map(|line| line.detail.as_str()), Some(detail));
    }
    for id in ["3", "p1", "other"] {
        assert_eq!(
            find(&*journal, &key(id)).await.state,
            State::Scheduled,
            "{id}"
        );
    }
    let place = OrderPlace::new("o", 3, OrderMode::Latest).expect("a place");
    assert_eq!(
        find(&*journal, &key("3")).await.order.as_deref(),
        Some(&place)
    );
    check_counts(&*journal).await;
}

pub async fn a_batch_is_judged_in_its_order(store: &dyn Store) {
    let journal = store.open().await;
    let plain = || registering_at(registration(key("plain")), START_MS);
    keep(&*journal, plain()).await;
    let batch = [
        latest("1", 1),
        plain(),
        latest("3", 3),
        registering_at(registration(key("new")), START_MS),
        latest("2", 2),
        strict("4", 4),
        latest("3", 3),
    ];
    let replies = journal.register(&batch).await.expect("registered");
    assert_eq!(replies[0], RegisterResult::Created);
    assert!(
        matches!(replies[1], RegisterResult::Existing(_)),
        "{:?}",
        replies[1]
    );
    assert_eq!(ended(&replies[2]), ["1"]);
    assert_eq!(replies[3], RegisterResult::Created);
    assert!(
        matches!(replies[4], RegisterResult::Superseded(_)),
        "{:?}",
        replies[4]
    );
    assert_eq!(replies[5], refused(OrderConflict::OtherMode, "3"));
    assert!(
        matches!(replies[6], RegisterResult::Existing(_)),
        "{:?}",
        replies[6]
    );
    assert!(is_superseded(&find(&*journal, &key("1")).await));
    check_counts(&*journal).await;
}

pub async fn what_was_in_flight_when_it_was_ended_counts_if_it_was_accepted(store: &dyn Store) {
    let journal = store.open().await;
    for (id, next, number, is_accepted) in [("1", "2", 1, false), ("3", "4", 3, true)] {
        let given = latest(id, number);
        let progress = given.progress;
        let notification = given.notification.clone();
        register(&*journal, given).await;
        register(&*journal, latest(next, number + 1)).await;
        let outcome = match is_accepted {
            true => delivery(&notification, progress),
            false => failure(&notification, progress),
        };
        let reply = record(&*journal, outcome).await;
        let after = find(&*journal, &key(id)).await;
        match is_accepted {
            true => {
                assert_eq!(reply, Recorded::Applied);
                assert_eq!((after.state, after.cause), (State::Delivered, None));
            }
            false => {
                assert!(matches!(reply, Recorded::Stale(_)), "{reply:?}");
                assert!(is_superseded(&after), "{after:?}");
            }
        }
        assert_eq!(after.attempts.len(), 1, "the attempt is kept");
        check_counts(&*journal).await;
    }
}

pub async fn what_is_cancelled_by_hand_after_a_higher_number_ended_it_stays_so(store: &dyn Store) {
    let journal = store.open().await;
    for (id, number, change, line) in [
        ("1", 1, Change::Cancel, "cancelled"),
        ("3", 3, Change::Discard, "discarded"),
    ] {
        let given = latest(id, number);
        let (progress, notification) = (given.progress, given.notification.clone());
        let key = notification.key.clone();
        register(&*journal, given).await;
        register(&*journal, latest(&format!("{id} next"), number + 1)).await;
        let ended = find(&*journal, &key).await;
        assert!(ended.takes_late_delivery(), "{ended:?}");
        // Asked for before it was ended.
        let asked = changing(&key, change, LATER_MS);
        let reply = journal.change(asked.clone()).await.expect("answered");
        assert!(matches!(reply, ChangeResult::Fenced(_)), "{reply:?}");
        let cancelled = do_change(&*journal, &key, change, LATER_MS).await;
        let expected = Snapshot {
            fence: ended.fence + 1,
            cancelled_by_hand: true,
            ..ended.clone()
        };
        assert_eq!(cancelled, expected);
        let lines = ["registered", "cancelled", line];
        assert_eq!(history(&*journal, &key).await, lines);
        // It is written once.
        let fence = cancelled.fence;
        let again = Changing { fence, ..asked };
        let reply = journal.change(again).await.expect("answered");
        assert_eq!(reply, ChangeResult::Refused(Box::new(expected.clone())));
        // The acknowledgement comes too late, and comes again because its reply was lost.
        let late = delivery(&notification, progress);
        for _ in 0..2 {
            let reply = record(&*journal, late.clone()).await;
            assert_eq!(reply, Recorded::Stale(Box::new(expected.clone())));
        }
        assert_eq!(
            find(&*journal, &key).await,
            Snapshot {
                attempts: vec![(*late.attempt).clone()],
                ..expected
            }
        );
        assert_eq!(history(&*journal, &key).await, lines);
    }
    // What was acknowledged before is delivered.
    let given = latest("5", 5);
    let late = delivery(&given.notification, given.progress);
    register(&*journal, given).await;
    register(&*journal, latest("6", 6)).await;
    apply(&*journal, late.clone()).await;
    let delivered = find(&*journal, &late.key).await;
    assert_eq!((delivered.state, delivered.cause), (State::Delivered, None));
    let asked = Changing {
        fence: delivered.fence,
        ..changing(&late.key, Change::Cancel, LATER_MS)
    };
    let reply = journal.change(asked).await.expect("answered");
    assert!(matches!(reply, ChangeResult::Refused(_)), "{reply:?}");
    assert_eq!(record(&*journal, late).await, Recorded::Applied, "a repeat");
    assert_eq!(find(&*journal, &delivered.key).await, delivered);
    check_counts(&*journal).await;
}

pub async fn what_a_higher_number_follows_is_not_sent_again(store: &dyn Store) {
    let journal = store.open().await;
    for (mode, change, ids) in [
        (OrderMode::Latest, Change::Replay, ["l1", "l2"]),
        (OrderMode::Strict, Change::Replay, ["s1", "s2"]),
        (OrderMode::Latest, Change::Resend, ["l3", "l4"]),
        (OrderMode::Strict, Change::Resend, ["s3", "s4"]),
    ] {
        let order_key = format!("{mode} {change}");
        let at = |id, number| Registration {
            order: Some(OrderPlace::new(&order_key, number, mode).expect("a place")),
            ..registration(key(id))
        };
        let given = registering_at(at(ids[0], 1), START_MS);
        let progress = given.progress;
        let lower = keep(&*journal, given).await;
        let end = match change {
            Change::Replay => refusal(&lower, progress),
            _ => delivery(&lower, progress),
        };
        apply(&*journal, end).await;
        // It is sent again as long as it is the highest.
        do_change(&*journal, &lower.key, change, LATER_MS).await;
        let again = find(&*journal, &lower.key).await.progress;
        let end = match change {
            Change::Replay => refusal(&lower, again),
            _ => delivery(&lower, again),
        };
        apply(&*journal, end).await;
        keep(&*journal, registering_at(at(ids[1], 2), START_MS)).await;
        let before = find(&*journal, &lower.key).await;
        let asked = Changing {
            fence: before.fence,
            ..changing(&lower.key, change, LATER_MS)
        };
        if mode == OrderMode::Strict {
            do_change(&*journal, &lower.key, change, LATER_MS).await;
            assert_eq!(waits_for(&*journal, ids[1]).await, Some(LATER_MS));
            continue;
        }
        let reply = journal.change(asked.clone()).await.expect("answered");
        assert!(matches!(reply, ChangeResult::Superseded(_)), "{reply:?}");
        let results = step_with(&*journal, asked, &order_key).await;
        assert!(
            matches!(results[..], [ChangeResult::Superseded(_)]),
            "{results:?}"
        );
        assert_eq!(find(&*journal, &lower.key).await, before);
    }
    check_counts(&*journal).await;
}

/// Makes a change as a step of a job.
async fn step_with(journal: &dyn Journal, change: Changing, reason: &str) -> Vec<ChangeResult> {
    let number = if reason.contains("replay") { 1 } else { 2 };
    let id = JobId::parse(&format!("019aa3f2-7c1e-7000-8000-00000000000{number}")).expect("an id");
    let job = BulkJob {
        id: id.clone(),
        kind: JobKind::LaneRetry,
        state: JobState::Running,
        filter: None,
        lane: Some(place(&key("1")).lane),
        failed_since_ms: None,
        counts: JobCounts::default(),
        rate: CallRate::per_second(10.0).expect("a rate"),
        actor: "support".into(),
        reason: reason.into(),
        problem: None,
        created_ms: LATER_MS,
        ended_ms: None,
    };
    journal.add_job(&job).await.expect("added");
    let taken = journal
        .take_job(10_000)
        .await
        .expect("taken")
        .expect("there");
    let step = JobStep {
        id,
        fence: taken.fence,
        place: None,
        changes: vec![change],
        passed: None,
        begin_waiting: Vec::new(),
        end_waiting: Vec::new(),
        unchanged: Vec::new(),
        end: Some(JobEnd::Done),
        at_ms: LATER_MS,
        lease_ms: 10_000,
    };
    match journal.step_job(&step).await.expect("answered") {
        JobStepped::Kept(results) => results,
        other => panic!("{other:?}"),
    }
}

pub async fn a_strict_number_waits_for_the_lowest_that_is_pending(store: &dyn Store) {
    let journal = store.open().await;
    let first = Registration {
        start: Start::After(5_000),
        ..ordered("1", 1, OrderMode::Strict)
    };
    let first = registering_at(first, START_MS);
    let (due_ms, progress) = (first.progress.next_due_ms(), first.progress);
    keep(&*journal, strict("3", 3)).await;
    assert_eq!(waits_for(&*journal, "3").await, None);
    let first = keep(&*journal, first).await;
    keep(&*journal, strict("2", 2)).await;
    for (id, expected) in [("1", None), ("2", Some(due_ms)), ("3", Some(due_ms))] {
        assert_eq!(waits_for(&*journal, id).await, expected, "{id}");
    }
    let raised = raise_fence(&*journal, &key("3")).await;
    assert_eq!(raised.and_then(|raised| raised.waits_for_ms), Some(due_ms));
    // One that is set aside has not ended.
    let setting = SettingAside {
        key: key("1"),
        at_ms: LATER_MS,
        reason: "a test".to_string(),
    };
    journal.set_aside(&setting).await.expect("set aside");
    assert_eq!(waits_for(&*journal, "2").await, Some(due_ms));
    do_change(&*journal, &key("1"), Change::Retry, LATER_MS).await;
    apply(&*journal, refusal(&first, progress.retry(LATER_MS))).await;
    assert_eq!(find(&*journal, &key("1")).await.state, State::Dead);
    for (id, expected) in [("2", None), ("3", Some(START_MS))] {
        assert_eq!(waits_for(&*journal, id).await, expected, "{id}");
    }
    do_change(&*journal, &key("2"), Change::Cancel, LATER_MS).await;
    assert_eq!(waits_for(&*journal, "3").await, None);
    check_counts(&*journal).await;
}

pub async fn a_strict_number_is_refused_when_a_higher_one_was_sent(store: &dyn Store) {
    let journal = store.open().await;
    let given = strict("3", 3);
    let progress = given.progress;
    let third = keep(&*journal, given).await;
    keep(&*journal, strict("2", 2)).await;
    apply(&*journal, failure(&third, progress)).await;
    // The second one was not sent.
    let passed = refused(OrderConflict::Passed, "3");
    assert_eq!(register(&*journal, strict("1", 1)).await, passed);
    assert_eq!(journal.find(&key("1")).await.expect("read"), None);
    keep(&*journal, strict("4", 4)).await;
    check_counts(&*journal).await;
}

pub async fn numbers_registered_at_once_leave_the_highest(store: &dyn Store) {
    const MANY: i64 = 40;
    let journal = store.open().await;
    let mut registering = tokio::task::JoinSet::new();
    for number in 0..MANY {
        let journal = journal.clone();
        // Neither upwards nor downwards.
        let number = (number * 17) % MANY;
        registering.spawn(async move {
            let given = latest(&format!("n{number}"), number);
            register(&*journal, given).await
        });
    }
    while let Some(reply) = registering.join_next().await {
        let reply = reply.expect("it ran");
        assert!(
            !matches!(reply, RegisterResult::OutOfOrder { .. }),
            "{reply:?}"
        );
    }
    for number in 0..MANY {
        let found = find(&*journal, &key(&format!("n{number}"))).await;
        assert_eq!(is_superseded(&found), number < MANY - 1, "{found:?}");
    }
    check_counts(&*journal).await;
}
