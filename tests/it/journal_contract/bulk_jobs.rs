//! The jobs of a filter: which notifications they concern, that there is one of the same request, and how those fare that
//! they replay.

use super::Store;
use super::order_of_endpoints::{make_again, new, old, set};
use super::samples::{
    START_MS, all_of, apply, changing, delivery, do_change, failure, find, keep, key, refusal,
    registering_at, registration,
};
use ringback::domain::call_rate::CallRate;
use ringback::domain::change::Change;
use ringback::domain::destination::Destination;
use ringback::domain::job::{BulkJob, JobCounts, JobId, JobKind, JobOrder, JobSelection, JobState};
use ringback::domain::job_filter::{FilteredSelection, JobFilter};
use ringback::domain::key::Key;
use ringback::domain::notification::{Start, Target};
use ringback::domain::priority::Priority;
use ringback::domain::state::{Cause, State};
use ringback::journal::{
    Actor, ChangeResult, Changing, Cursor, JobAdded, JobEnd, JobMatches, JobStep, JobStepped,
    JobTrial, Journal, Prune,
};

/// When the jobs of these tests are made.
const NOW_MS: i64 = START_MS + 100_000;

fn job(number: usize, kind: JobKind, filter: JobFilter) -> BulkJob {
    BulkJob {
        id: JobId::parse(&format!("{number:08}")).expect("an id"),
        kind,
        state: JobState::Running,
        lane: None,
        filter: Some(filter),
        failed_since_ms: None,
        counts: JobCounts::default(),
        rate: CallRate::per_second(0.5).expect("a rate"),
        actor: "anna".into(),
        reason: "they are back".into(),
        problem: None,
        created_ms: NOW_MS,
        ended_ms: None,
    }
}

fn of_topic(topic: &str) -> JobFilter {
    JobFilter {
        topic: Some(topic.into()),
        ..JobFilter::default()
    }
}

fn selection(filter: JobFilter) -> FilteredSelection {
    let until_ms = NOW_MS;
    FilteredSelection { filter, until_ms }
}

/// All keys of a selection, in pages of two.
async fn keys(journal: &dyn Journal, selection: &JobSelection) -> Vec<Key> {
    let (mut found, mut cursor): (Vec<Key>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = journal.job_page(selection, cursor, 2).await.expect("read");
        assert!(page.found.len() <= 2);
        found.extend(page.found.into_iter().map(|(key, _)| key));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let counted = journal.job_matches(selection, None).await.expect("counted");
    assert_eq!(counted, all_of(found.len() as u64));
    found
}

/// Registers one that is refused at its first attempt: it dies 20 ms after its registration.
async fn keep_dead(journal: &dyn Journal, key: Key, at_ms: i64) {
    let registering = registering_at(registration(key), at_ms);
    let before = registering.progress;
    let notification = keep(journal, registering).await;
    apply(journal, refusal(&notification, before)).await;
}

async fn keep_elsewhere(journal: &dyn Journal, key: Key, at_ms: i64) {
    let mut elsewhere = registration(key);
    let other = Destination::parse("https://other.example/").expect("a url");
    elsewhere.target = Target::Url(other);
    let registering = registering_at(elsewhere, at_ms);
    let before = registering.progress;
    let notification = keep(journal, registering).await;
    apply(journal, refusal(&notification, before)).await;
}

pub async fn it_is_counted_which_dead_letters_can_never_be_replayed(store: &dyn Store) {
    let journal = store.open().await;
    set(&*journal, "https://a.example/n", START_MS).await;
    let before = old(&*journal, "l1 old").await;
    apply(&*journal, refusal(&before.notification, before.progress)).await;
    make_again(&*journal).await;
    // `l2` is superseded by `l3`, which can be replayed. `l1` counts once, although both have higher numbers.
    for id in ["l2 new", "l3 new"] {
        let one = new(&*journal, id).await;
        apply(&*journal, refusal(&one.notification, one.progress)).await;
    }
    keep_dead(&*journal, key("plain"), START_MS).await;
    let count = async |filter| {
        let dead = JobSelection::Dead(selection(filter));
        journal.job_matches(&dead, None).await.expect("counted")
    };
    let all = JobMatches {
        many: 4,
        endpoint_made_again: 1,
        superseded: 1,
        next: None,
    };
    assert_eq!(count(JobFilter::default()).await, all);
    let of_id = |id: &str| JobFilter {
        id_contains: Some(id.into()),
        ..JobFilter::default()
    };
    assert_eq!(count(of_id("plain")).await, all_of(1));
    assert_eq!(count(of_id("l3")).await, all_of(1));
    let pending = JobSelection::Pending(selection(JobFilter::default()));
    let counted = journal.job_matches(&pending, None).await;
    assert_eq!(counted.expect("counted"), all_of(0));
}

pub async fn the_same_request_is_one_job_until_that_has_ended(store: &dyn Store) {
    let journal = store.open().await;
    let first = job(1, JobKind::Replay, of_topic("paid"));
    for _ in 0..2 {
        let added = journal.add_job(&first).await.expect("kept");
        assert_eq!(added, JobAdded::Added, "it can be repeated");
    }
    journal.close().await;
    drop(journal);
    let journal = store.open().await;
    let kept = journal.job(&first.id).await.expect("read");
    assert_eq!(kept.as_ref(), Some(&first));

    let again = job(2, JobKind::Replay, of_topic("paid"));
    let same = JobAdded::Same(Box::new(first.clone()));
    assert_eq!(journal.add_job(&again).await.expect("answered"), same);
    let obstacle = journal.job_obstacle(&again).await.expect("answered");
    assert_eq!(obstacle, Some(same));
    // Another filter, or another kind, is another request.
    let others = [
        job(3, JobKind::Replay, of_topic("refunded")),
        job(4, JobKind::Replay, JobFilter::default()),
        job(5, JobKind::Cancel, of_topic("paid")),
    ];
    for other in &others {
        assert_eq!(journal.job_obstacle(other).await.expect("answered"), None);
        let added = journal.add_job(other).await.expect("answered");
        assert_eq!(added, JobAdded::Added);
    }
    let paused = journal
        .order_job(
            &first.id,
            JobOrder::Pause,
            &Actor::named("anna"),
            "",
            NOW_MS,
        )
        .await;
    paused.expect("paused");
    let added = journal.add_job(&again).await.expect("answered");
    assert!(matches!(added, JobAdded::Same(_)), "{added:?}");
    let stopped = journal
        .order_job(&first.id, JobOrder::Stop, &Actor::named("anna"), "", NOW_MS)
        .await;
    stopped.expect("stopped");
    let added = journal.add_job(&again).await.expect("answered");
    assert_eq!(added, JobAdded::Added);
}

pub async fn a_replay_concerns_what_was_dead_when_it_was_made(store: &dyn Store) {
    let journal = store.open().await;
    // The order is that of the ends, which are that of the registrations here.
    for (id, at_ms) in [
        ("b", START_MS + 40),
        ("a", START_MS + 20),
        ("c", START_MS + 60),
    ] {
        keep_dead(&*journal, key(id), at_ms).await;
    }
    keep_elsewhere(&*journal, key("elsewhere"), START_MS + 80).await;
    let refunded = Key::new("refunded", "a").expect("a key");
    keep_dead(&*journal, refunded.clone(), START_MS + 100).await;
    keep_dead(&*journal, key("last"), NOW_MS - 20).await;
    // Dead a millisecond too late; pending; replayed; replayed, and dead again before and after the job was made.
    keep_dead(&*journal, key("later"), NOW_MS - 19).await;
    keep(
        &*journal,
        registering_at(registration(key("pending")), START_MS),
    )
    .await;
    for (id, replayed_ms) in [
        ("replayed", NOW_MS - 90),
        ("again", NOW_MS - 50),
        ("at once", NOW_MS),
        ("again later", NOW_MS + 10),
    ] {
        let registering = registering_at(registration(key(id)), START_MS);
        let before = registering.progress;
        let notification = keep(&*journal, registering).await;
        apply(&*journal, refusal(&notification, before)).await;
        let after = do_change(&*journal, &key(id), Change::Replay, replayed_ms).await;
        match id {
            "replayed" => {}
            "at once" => {
                // As a server writes it whose clock is behind.
                let mut refused = refusal(&notification, after.progress);
                refused.at_ms = NOW_MS - 5;
                apply(&*journal, refused).await;
            }
            _ => apply(&*journal, refusal(&notification, after.progress)).await,
        }
    }
    // Each was tried by hand before it was due, and died then: the first attempt of its series was still to come.
    for (id, is_sent_again) in [("early", false), ("early again", true)] {
        let mut asked = registration(key(id));
        let start = Start::After(if is_sent_again { 0 } else { 3_600_000 });
        asked.start = start;
        let registering = registering_at(asked, START_MS);
        let before = registering.progress;
        let notification = keep(&*journal, registering).await;
        if is_sent_again {
            apply(&*journal, refusal(&notification, before)).await;
            do_change(&*journal, &key(id), Change::Replay, NOW_MS - 400).await;
            let later = Change::Reschedule(Start::After(3_600_000));
            do_change(&*journal, &key(id), later, NOW_MS - 350).await;
        }
        let retried = do_change(&*journal, &key(id), Change::Retry, NOW_MS - 300).await;
        apply(&*journal, refusal(&notification, retried.progress)).await;
        assert_eq!(find(&*journal, &key(id)).await.state, State::Dead, "{id}");
    }
    let of = |filter: JobFilter| JobSelection::Dead(selection(filter));
    let all = [
        key("a"),
        key("b"),
        key("c"),
        key("elsewhere"),
        refunded.clone(),
        key("early"),
        key("early again"),
        key("again"),
        key("last"),
    ];
    assert_eq!(keys(&*journal, &of(JobFilter::default())).await, all);
    let check = async |filter: JobFilter, expected: &[Key]| {
        assert_eq!(
            keys(&*journal, &of(filter.clone())).await,
            expected,
            "{filter:?}"
        );
    };
    check(of_topic("refunded"), &[refunded]).await;
    let lane = JobFilter {
        lane: Some("https://other.example".into()),
        ..JobFilter::default()
    };
    check(lane, &[key("elsewhere")]).await;
    let id = JobFilter {
        id_contains: Some("as".into()),
        ..JobFilter::default()
    };
    check(id, &[key("last")]).await;
    let cause = |cause| JobFilter {
        cause: Some(cause),
        topic: Some("payment.succeeded".into()),
        to_ms: Some(START_MS + 80),
        ..JobFilter::default()
    };
    check(cause(Cause::Refused), &[key("a"), key("b")]).await;
    check(cause(Cause::Blocked), &[]).await;
    let span = JobFilter {
        from_ms: Some(START_MS + 60),
        to_ms: Some(START_MS + 100),
        ..JobFilter::default()
    };
    check(span, &[key("b"), key("c")]).await;
    // The set does not grow, whatever has died since.
    let to_come = JobFilter {
        from_ms: Some(NOW_MS),
        to_ms: Some(i64::MAX),
        ..JobFilter::default()
    };
    check(to_come, &[key("last")]).await;
}

pub async fn a_cancellation_concerns_what_was_pending_when_it_was_made(store: &dyn Store) {
    let journal = store.open().await;
    for (id, at_ms) in [
        ("b", START_MS + 40),
        ("a", START_MS + 20),
        ("last", NOW_MS),
        ("later", NOW_MS + 1),
    ] {
        keep(&*journal, registering_at(registration(key(id)), at_ms)).await;
    }
    let refunded = Key::new("refunded", "a").expect("a key");
    keep(
        &*journal,
        registering_at(registration(refunded.clone()), START_MS + 60),
    )
    .await;
    keep_dead(&*journal, key("dead"), START_MS).await;
    // Sent again before the job was made, and after it.
    for (id, replayed_ms) in [("again", NOW_MS), ("again later", NOW_MS + 1)] {
        keep_dead(&*journal, key(id), START_MS).await;
        do_change(&*journal, &key(id), Change::Replay, replayed_ms).await;
    }
    let of = |filter: JobFilter| JobSelection::Pending(selection(filter));
    let all = [
        key("again"),
        key("a"),
        key("b"),
        refunded.clone(),
        key("last"),
    ];
    assert_eq!(keys(&*journal, &of(JobFilter::default())).await, all);
    assert_eq!(keys(&*journal, &of(of_topic("refunded"))).await, [refunded]);
    let span = JobFilter {
        from_ms: Some(START_MS + 40),
        to_ms: Some(NOW_MS),
        topic: Some("payment.succeeded".into()),
        ..JobFilter::default()
    };
    assert_eq!(keys(&*journal, &of(span)).await, [key("b")]);
    let id = JobFilter {
        id_contains: Some("gai".into()),
        lane: Some("https://shop.example".into()),
        ..JobFilter::default()
    };
    assert_eq!(keys(&*journal, &of(id)).await, [key("again")]);
}

pub async fn what_cannot_be_sent_again_counts_as_failed(store: &dyn Store) {
    let journal = store.open().await;
    for id in ["delivered", "pending"] {
        let registering = registering_at(registration(key(id)), START_MS);
        let before = registering.progress;
        let notification = keep(&*journal, registering).await;
        if id == "delivered" {
            apply(&*journal, delivery(&notification, before)).await;
        }
    }
    let prune = Prune {
        payloads_before_ms: START_MS + 1_000,
        records_before_ms: 0,
        dead_before_ms: None,
    };
    let pruned = journal.prune(&prune, 10).await.expect("pruned");
    assert_eq!(pruned.payloads, 1);
    let first = job(1, JobKind::Replay, JobFilter::default());
    journal.add_job(&first).await.expect("kept");
    let taken = journal.take_job(10_000).await.expect("asked");
    let taken = taken.expect("a job is free");
    let mut changes = Vec::new();
    for (id, change) in [("delivered", Change::Resend), ("pending", Change::Replay)] {
        changes.push(Changing {
            fence: find(&*journal, &key(id)).await.fence,
            ..changing(&key(id), change, NOW_MS)
        });
    }
    let step = JobStep {
        id: first.id.clone(),
        fence: taken.fence,
        place: None,
        changes,
        passed: None,
        begin_waiting: Vec::new(),
        end_waiting: Vec::new(),
        unchanged: Vec::new(),
        end: Some(JobEnd::Done),
        at_ms: NOW_MS,
        lease_ms: 10_000,
    };
    let stepped = journal.step_job(&step).await.expect("answered");
    assert!(matches!(stepped, JobStepped::Kept(_)), "{stepped:?}");
    let after = journal.job(&first.id).await.expect("read");
    let expected = JobCounts {
        matched: 2,
        done: 0,
        skipped: 1,
        failed: 1,
    };
    assert_eq!(after.map(|job| job.counts), Some(expected));
}

pub async fn it_is_told_how_those_have_fared_that_a_job_has_replayed(store: &dyn Store) {
    let journal = store.open().await;
    let (one, other) = (
        JobId::parse("0a").expect("an id"),
        JobId::parse("0a1").expect("an id"),
    );
    let trial = async || journal.job_trial(&one, NOW_MS, 100).await.expect("read");
    assert_eq!(trial().await, JobTrial::default());
    let replay = async |id: &str, by: &JobId, at_ms: i64| {
        let registering = registering_at(registration(key(id)), START_MS);
        let before = registering.progress;
        let notification = keep(&*journal, registering).await;
        apply(&*journal, refusal(&notification, before)).await;
        let changing = Changing {
            fence: find(&*journal, &key(id)).await.fence,
            reason: format!("{}: they are back", by.in_history()),
            ..changing(&key(id), Change::Replay, at_ms)
        };
        journal.change(changing).await.expect("changed");
        let after = find(&*journal, &key(id)).await;
        assert_eq!(after.state, State::Scheduled);
        (notification, after.progress)
    };
    let (delivered, at) = replay("delivered", &one, NOW_MS).await;
    apply(&*journal, delivery(&delivered, at)).await;
    let (failed, at) = replay("failed", &one, NOW_MS + 1).await;
    apply(&*journal, failure(&failed, at)).await;
    let (refused, at) = replay("refused", &one, NOW_MS + 2).await;
    apply(&*journal, refusal(&refused, at)).await;
    replay("waits", &one, NOW_MS + 3).await;
    let (elsewhere, at) = replay("of another job", &other, NOW_MS + 4).await;
    apply(&*journal, failure(&elsewhere, at)).await;
    let expected = JobTrial {
        replayed: 4,
        delivered: 1,
        failed: 2,
        dead: 1,
        cancelled: 0,
        last_ms: Some(NOW_MS + 3),
    };
    assert_eq!(trial().await, expected);
    let changes = async |since_ms, cursor, limit| {
        let page = journal.job_changes(&one, since_ms, cursor, limit).await;
        let page = page.expect("read");
        let ids: Vec<String> = (page.found.iter())
            .map(|(key, _)| key.id().to_string())
            .collect();
        (ids, page.next)
    };
    let all = ["delivered", "failed", "refused", "waits"];
    assert_eq!(
        changes(NOW_MS, None, 5).await,
        (all.map(String::from).to_vec(), None)
    );
    let (first, next) = changes(NOW_MS, None, 3).await;
    assert_eq!(first, all[..3]);
    let (last, next) = changes(NOW_MS, next, 3).await;
    assert_eq!((last, next), (vec!["waits".to_string()], None));
    assert_eq!(changes(NOW_MS + 3, None, 5).await.0, all[3..]);
}

pub async fn a_series_may_have_a_priority_of_its_own(store: &dyn Store) {
    let journal = store.open().await;
    for own in Priority::ALL {
        let id = own.as_str();
        let mut asked = registration(key(id));
        asked.priority = *own;
        let registering = registering_at(asked, START_MS);
        let before = registering.progress;
        let notification = keep(&*journal, registering).await;
        apply(&*journal, refusal(&notification, before)).await;
        let replay = async |series_priority| {
            let changing = Changing {
                fence: find(&*journal, &key(id)).await.fence,
                series_priority,
                ..changing(&key(id), Change::Replay, NOW_MS)
            };
            match journal.change(changing).await.expect("changed") {
                ChangeResult::Done(after) => *after,
                other => panic!("{other:?}"),
            }
        };
        let after = replay(Some(Priority::Low)).await;
        assert_eq!(after.priority, Priority::Low, "{own}");
        apply(&*journal, failure(&notification, after.progress)).await;
        let failed = find(&*journal, &key(id)).await;
        assert_eq!((failed.priority, failed.progress.step), (Priority::Low, 1));
        let pending = journal.pending(&key(id)).await.expect("read");
        let pending = pending.expect("it is pending");
        assert_eq!(pending.notification.priority, Priority::Low);
        apply(&*journal, refusal(&notification, failed.progress)).await;
        // The next series has that of the registration again.
        assert_eq!(replay(None).await.priority, *own);
        assert_eq!(find(&*journal, &key(id)).await.priority, *own);
    }
}
