//! Jobs are kept, one server has each at a time, and a step is kept whole or not at all.

use super::Store;
use super::samples::{
    START_MS, all_of, changing, do_change, find, history, keep, key, registering_at, registration,
};
use ringback::domain::call_rate::CallRate;
use ringback::domain::change::Change;
use ringback::domain::destination::Destination;
use ringback::domain::job::{
    BulkJob, JobCounts, JobId, JobKind, JobOrder, JobSelection, JobState, MOST_JOBS,
    MOST_JOBS_AFTER_OUTAGES, PendingOfLane,
};
use ringback::domain::job_result::JobReason;
use ringback::domain::lane::Lane;
use ringback::domain::notification::{Start, Target};
use ringback::domain::state::State;
use ringback::journal::{
    Actor, ChangeResult, Cursor, JobAdded, JobEnd, JobOrdered, JobStep, JobStepped, JobUnchanged,
    Journal, Prune, Pruned, TakenJob,
};

pub const LEASE_MS: i64 = 60_000;
/// When the jobs of these tests are made.
const NOW_MS: i64 = START_MS + 1_000;

pub fn id(number: usize) -> JobId {
    JobId::parse(&format!("{number:08}")).expect("an id")
}

pub fn job(number: usize, lane: &str) -> BulkJob {
    BulkJob {
        id: id(number),
        kind: JobKind::LaneRetry,
        state: JobState::Running,
        lane: Some(Lane::from_name(lane)),
        filter: None,
        failed_since_ms: None,
        counts: JobCounts {
            matched: 3,
            ..JobCounts::default()
        },
        rate: CallRate::per_second(0.5).expect("a rate"),
        actor: "anna".into(),
        reason: "they are back".into(),
        problem: None,
        created_ms: NOW_MS,
        ended_ms: None,
    }
}

fn selection() -> JobSelection {
    selection_since(None)
}

fn selection_since(failed_since_ms: Option<i64>) -> JobSelection {
    JobSelection::OfLane(PendingOfLane {
        lane: Lane::from_name("https://shop.example"),
        registered_until_ms: NOW_MS,
        due_after_ms: NOW_MS,
        failed_since_ms,
    })
}

fn step(taken: &TakenJob, changes: Vec<&str>) -> JobStep {
    let change = |id: &str| changing(&key(id), Change::Retry, NOW_MS);
    JobStep {
        id: taken.job.id.clone(),
        fence: taken.fence,
        place: None,
        changes: changes.into_iter().map(change).collect(),
        passed: None,
        begin_waiting: Vec::new(),
        end_waiting: Vec::new(),
        unchanged: Vec::new(),
        end: None,
        at_ms: NOW_MS,
        lease_ms: LEASE_MS,
    }
}

fn unchanged(number: usize, reason: JobReason) -> JobUnchanged {
    JobUnchanged::new(key(&number.to_string()), reason)
}

fn anna() -> Actor {
    Actor::named("anna")
}

pub async fn take(journal: &dyn Journal) -> TakenJob {
    let taken = journal.take_job(LEASE_MS).await.expect("asked");
    taken.expect("a job is free")
}

async fn shown(journal: &dyn Journal, number: usize) -> BulkJob {
    let found = journal.job(&id(number)).await.expect("read");
    found.expect("it is there")
}

/// Registers one that is due an hour later.
async fn keep_later(journal: &dyn Journal, id: &str, at_ms: i64) {
    let mut later = registration(key(id));
    later.start = Start::After(3_600_000);
    keep(journal, registering_at(later, at_ms)).await;
}

pub async fn a_job_is_kept_and_listed_newest_first(store: &dyn Store) {
    let journal = store.open().await;
    assert_eq!(journal.job(&id(1)).await.expect("read"), None);
    let mut second = job(2, "https://b.example");
    second.state = JobState::Done;
    second.ended_ms = Some(NOW_MS);
    for one in [&job(1, "https://a.example"), &second] {
        for _ in 0..2 {
            let added = journal.add_job(one).await.expect("kept");
            assert_eq!(added, JobAdded::Added, "it can be repeated");
        }
    }
    journal.close().await;
    drop(journal);

    let journal = store.open().await;
    assert_eq!(shown(&*journal, 1).await, job(1, "https://a.example"));
    let list = async |state, before: Option<usize>, limit| {
        let before = before.map(id);
        let jobs = journal.jobs(state, before.as_ref(), limit).await;
        let jobs = jobs.expect("read");
        jobs.into_iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(list(None, None, 10).await, [id(2), id(1)]);
    assert_eq!(list(None, None, 1).await, [id(2)]);
    assert_eq!(list(None, Some(2), 10).await, [id(1)]);
    assert_eq!(list(Some(JobState::Running), None, 10).await, [id(1)]);
    assert_eq!(list(Some(JobState::Failed), None, 10).await, []);
}

pub async fn a_job_that_cannot_be_read_keeps_no_other_back(store: &dyn Store) {
    let journal = store.open().await;
    for number in 1..=5 {
        let lane = format!("https://{number}.example");
        let added = journal.add_job(&job(number, &lane)).await;
        assert_eq!(added.expect("kept"), JobAdded::Added);
    }
    for damage in [
        "UPDATE jobs SET rate = 0 WHERE id = '00000001'",
        "UPDATE jobs SET filter = '?' WHERE id = '00000004'",
        "UPDATE jobs SET done = -1 WHERE id = '00000005'",
    ] {
        store.damage(damage).await;
    }
    // The oldest one is the first in turn.
    assert_eq!(take(&*journal).await.job.id, id(2));
    assert_eq!(take(&*journal).await.job.id, id(3));
    let none = journal.take_job(LEASE_MS).await.expect("asked");
    assert_eq!(none.map(|taken| taken.job.id), None);
    for limit in [1, 2, 3, 10] {
        let listed = journal.jobs(None, None, limit).await.expect("read");
        let ids: Vec<JobId> = listed.into_iter().map(|job| job.id).collect();
        assert_eq!(ids, [id(3), id(2)][..limit.min(2)]);
    }
    let listed = journal.jobs(None, Some(&id(2)), 10).await.expect("read");
    assert_eq!(listed, []);
    let error = journal.job(&id(1)).await.expect_err("it is damaged");
    let expected = "the job 00000001: `0` is not a valid rate";
    assert!(error.to_string().contains(expected), "{error}");
}

pub async fn a_lane_has_one_job_at_a_time_and_all_have_a_bound(store: &dyn Store) {
    let journal = store.open().await;
    let first = job(1, "https://a.example");
    journal.add_job(&first).await.expect("kept");
    let second = job(2, "https://a.example");
    let again = journal.add_job(&second).await;
    let taken = JobAdded::LaneTaken(Box::new(first));
    assert_eq!(again.expect("answered"), taken);
    for number in 3..MOST_JOBS + 2 {
        let one = job(number, &format!("https://{number}.example"));
        // Repeated, as if the first answer was lost: also the last one that there may be.
        for _ in 0..2 {
            let added = journal.add_job(&one).await;
            assert_eq!(added.expect("kept"), JobAdded::Added, "{number}");
        }
    }
    let other = journal.add_job(&second).await.expect("answered");
    assert!(matches!(other, JobAdded::LaneTaken(_)), "{other:?}");
    let one_more = job(900, "https://more.example");
    let full = journal.add_job(&one_more).await.expect("answered");
    assert_eq!(full, JobAdded::Full);
    let obstacle = async |job: &BulkJob| journal.job_obstacle(job).await.expect("answered");
    assert_eq!(obstacle(&one_more).await, Some(JobAdded::Full));
    // Those after outages have a limit of their own.
    let after_outage = |number| BulkJob {
        kind: JobKind::AfterOutage,
        ..job(number, &format!("https://{number}.example"))
    };
    for number in 1_000..1_000 + MOST_JOBS_AFTER_OUTAGES {
        let one = after_outage(number);
        assert_eq!(obstacle(&one).await, None);
        let added = journal.add_job(&one).await;
        assert_eq!(added.expect("kept"), JobAdded::Added, "{number}");
        assert_eq!(obstacle(&one).await, Some(JobAdded::Added));
    }
    let full = journal.add_job(&after_outage(2_000)).await;
    assert_eq!(full.expect("answered"), JobAdded::Full);
    assert_eq!(obstacle(&second).await, Some(other));
    let stopped = journal
        .order_job(&id(1), JobOrder::Stop, &anna(), "", NOW_MS)
        .await;
    assert!(matches!(stopped, Ok(JobOrdered::Done(_))), "{stopped:?}");
    let added = journal.add_job(&second).await;
    assert_eq!(added.expect("kept"), JobAdded::Added);
}

pub async fn an_order_changes_a_job_until_it_has_ended(store: &dyn Store) {
    let journal = store.open().await;
    journal
        .add_job(&job(1, "https://a.example"))
        .await
        .expect("kept");
    let order = async |order, at_ms| {
        journal
            .order_job(&id(1), order, &anna(), "", at_ms)
            .await
            .expect("done")
    };
    let state = |ordered: &JobOrdered| match ordered {
        JobOrdered::Done(job) | JobOrdered::Refused(job) => (job.state, job.ended_ms),
        JobOrdered::Missing => panic!("it is there"),
    };
    for (asked, expected) in [
        (JobOrder::Resume, (JobState::Running, None)),
        (JobOrder::Pause, (JobState::Paused, None)),
        (JobOrder::Pause, (JobState::Paused, None)),
        (JobOrder::Resume, (JobState::Running, None)),
        (JobOrder::Stop, (JobState::Stopped, Some(5))),
    ] {
        let ordered = order(asked, 5).await;
        assert!(matches!(ordered, JobOrdered::Done(_)), "{ordered:?}");
        assert_eq!(state(&ordered), expected);
    }
    for asked in JobOrder::ALL {
        let ordered = order(*asked, 9).await;
        assert!(matches!(ordered, JobOrdered::Refused(_)), "{ordered:?}");
        assert_eq!(state(&ordered), (JobState::Stopped, Some(5)));
    }
    let missing = journal
        .order_job(&id(7), JobOrder::Stop, &anna(), "", 5)
        .await;
    assert_eq!(missing.expect("answered"), JobOrdered::Missing);
}

pub async fn one_server_has_a_job_at_a_time(store: &dyn Store) {
    let journal = store.open().await;
    assert_eq!(journal.take_job(LEASE_MS).await.expect("asked"), None);
    for (number, lane) in [(1, "https://a.example"), (2, "https://b.example")] {
        journal.add_job(&job(number, lane)).await.expect("kept");
    }
    let first = take(&*journal).await;
    assert_eq!((&first.job.id, first.place), (&id(1), None));
    assert_eq!(take(&*journal).await.job.id, id(2), "oldest first");
    assert_eq!(journal.take_job(LEASE_MS).await.expect("asked"), None);
    let keep = async |fence, ms| journal.keep_job(&id(1), fence, ms).await.expect("asked");
    assert!(keep(first.fence, LEASE_MS).await);
    assert!(keep(first.fence, 0).await, "given back");
    let second = take(&*journal).await;
    assert!(second.fence > first.fence, "{second:?}");
    assert!(!keep(first.fence, LEASE_MS).await, "it has another fence");
    let retaken = journal.retake_job(&id(1), second.fence, LEASE_MS).await;
    let third = retaken.expect("asked").expect("ours");
    assert!(third.fence > second.fence, "{third:?}");
    let late = journal.step_job(&step(&second, vec![])).await;
    assert_eq!(late.expect("answered"), JobStepped::JobLost);
    let paused = journal
        .order_job(&id(1), JobOrder::Pause, &anna(), "", 5)
        .await;
    assert!(matches!(paused, Ok(JobOrdered::Done(_))), "{paused:?}");
    assert!(!keep(third.fence, LEASE_MS).await, "it is paused");
    let late = journal.step_job(&step(&third, vec![])).await;
    assert_eq!(late.expect("answered"), JobStepped::JobLost);
    assert_eq!(journal.take_job(LEASE_MS).await.expect("asked"), None);
}

pub async fn a_step_is_kept_whole_or_not_at_all(store: &dyn Store) {
    let journal = store.open().await;
    for id in ["1", "2", "3", "4"] {
        keep_later(&*journal, id, START_MS).await;
    }
    let one = job(1, "https://shop.example");
    journal.add_job(&one).await.expect("kept");
    let taken = take(&*journal).await;

    let place = Some(Cursor { at_ms: 7, row: 8 });
    let mut first = step(&taken, vec!["1", "2", "nothing"]);
    first.place = place;
    let reasons = [JobReason::Due; 5].into_iter().chain([JobReason::Leased]);
    first.unchanged = (5..)
        .zip(reasons)
        .map(|(at, reason)| unchanged(at, reason))
        .collect();
    let JobStepped::Kept(results) = journal.step_job(&first).await.expect("kept") else {
        panic!("not kept");
    };
    let done = |result: &ChangeResult| matches!(result, ChangeResult::Done(_));
    assert!(done(&results[0]) && done(&results[1]), "{results:?}");
    assert_eq!(results[2], ChangeResult::Missing);
    for id in ["1", "2"] {
        let snapshot = find(&*journal, &key(id)).await;
        assert_eq!(snapshot.progress.retry_at_ms, Some(NOW_MS));
        let lines = history(&*journal, &key(id)).await;
        assert_eq!(lines.len(), 2, "{lines:?}");
    }
    let counts = |job: &BulkJob| {
        let JobCounts {
            matched,
            done,
            skipped,
            failed,
        } = job.counts;
        [matched, done, skipped, failed]
    };
    // It has seen more than were counted when it was made.
    assert_eq!(counts(&shown(&*journal, 1).await), [9, 2, 6, 1]);

    // The fence of "1" was raised by the change, so a second one from before is refused, and all with it.
    let stale = step(&taken, vec!["3", "1"]);
    let stepped = journal.step_job(&stale).await.expect("answered");
    assert_eq!(stepped, JobStepped::NotificationLost);
    let third = find(&*journal, &key("3")).await;
    assert_eq!(third.progress.retry_at_ms, None);
    // It has seen more than were counted when it was made.
    assert_eq!(counts(&shown(&*journal, 1).await), [9, 2, 6, 1]);

    // The next server goes on at the place of the last step that was kept.
    let kept = journal.keep_job(&id(1), taken.fence, 0).await;
    assert!(kept.expect("given back"));
    let next = take(&*journal).await;
    assert_eq!(next.place, place);
    let late = journal.step_job(&step(&taken, vec!["3"])).await;
    assert_eq!(late.expect("answered"), JobStepped::JobLost);

    do_change(&*journal, &key("4"), Change::Cancel, NOW_MS).await;
    let mut last = step(&next, vec!["3", "4"]);
    last.end = Some(JobEnd::Done);
    last.at_ms = NOW_MS + 9;
    let JobStepped::Kept(results) = journal.step_job(&last).await.expect("kept") else {
        panic!("not kept");
    };
    assert!(done(&results[0]), "{results:?}");
    assert!(matches!(results[1], ChangeResult::Refused(_)));
    let ended = shown(&*journal, 1).await;
    assert_eq!(ended.state, JobState::Done);
    assert_eq!(ended.ended_ms, Some(NOW_MS + 9));
    assert_eq!(counts(&ended), [11, 3, 7, 1]);
    let again = journal.step_job(&last).await.expect("answered");
    assert_eq!(again, JobStepped::JobLost);
}

pub async fn a_job_that_cannot_go_on_says_why(store: &dyn Store) {
    let journal = store.open().await;
    let one = job(1, "https://shop.example");
    journal.add_job(&one).await.expect("kept");
    let mut step = step(&take(&*journal).await, vec![]);
    step.end = Some(JobEnd::Failed("a row is damaged".to_string()));
    journal.step_job(&step).await.expect("kept");
    let ended = shown(&*journal, 1).await;
    assert_eq!(ended.state, JobState::Failed);
    assert_eq!(ended.problem.as_deref(), Some("a row is damaged"));
    assert_eq!(ended.counts, one.counts);
}

pub async fn jobs_that_ended_long_ago_are_pruned(store: &dyn Store) {
    let journal = store.open().await;
    for (number, ended_ms) in [(1, Some(5)), (2, Some(10)), (3, None)] {
        let mut one = job(number, "https://shop.example");
        one.ended_ms = ended_ms;
        one.state = ended_ms.map_or(JobState::Running, |_| JobState::Done);
        journal.add_job(&one).await.expect("kept");
    }
    let before = Prune {
        payloads_before_ms: 10,
        records_before_ms: 10,
        dead_before_ms: None,
    };
    let pruned = journal.prune(&before, 10).await.expect("pruned");
    assert_eq!(pruned, Pruned::default(), "jobs are no notifications");
    let jobs = journal.jobs(None, None, 10).await.expect("read");
    let left: Vec<_> = jobs.into_iter().map(|job| job.id).collect();
    assert_eq!(left, [id(3), id(2)]);
}

pub async fn a_job_concerns_what_was_pending_and_not_due(store: &dyn Store) {
    let journal = store.open().await;
    for number in 0..5 {
        keep_later(&*journal, &format!("n{number}"), START_MS + number).await;
    }
    // Due already, registered later, of another lane, ended, and made due by hand.
    keep(
        &*journal,
        registering_at(registration(key("due")), START_MS),
    )
    .await;
    keep_later(&*journal, "later", NOW_MS + 1).await;
    let mut elsewhere = registration(key("elsewhere"));
    elsewhere.start = Start::After(3_600_000);
    let other = Destination::parse("https://other.example/").expect("a url");
    elsewhere.target = Target::Url(other);
    keep(&*journal, registering_at(elsewhere, START_MS)).await;
    keep_later(&*journal, "ended", START_MS).await;
    let ended = do_change(&*journal, &key("ended"), Change::Cancel, NOW_MS).await;
    assert_eq!(ended.state, State::Cancelled);
    keep_later(&*journal, "asked", START_MS).await;
    do_change(&*journal, &key("asked"), Change::Retry, NOW_MS).await;

    let matches = journal.job_matches(&selection(), None).await;
    assert_eq!(matches.expect("counted"), all_of(5));
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = journal.job_page(&selection(), cursor, 2).await;
        let page = page.expect("read");
        assert!(page.found.len() <= 2);
        found.extend(page.found.into_iter().map(|(key, _)| key));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let expected: Vec<_> = (0..5).map(|number| key(&format!("n{number}"))).collect();
    assert_eq!(found, expected, "oldest first");
    let failed = selection_since(Some(START_MS));
    let none = journal.job_matches(&failed, None).await.expect("counted");
    assert_eq!(none, all_of(0), "none was attempted");
}
