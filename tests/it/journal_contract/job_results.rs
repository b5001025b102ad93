//! What a job has not changed is listed with its reason, in numbers that agree with those of the job; and what waits for its
//! turn is kept.

use super::Store;
use super::samples::{
    START_MS, changing, do_change, find, keep, key, raise_fence, registering_at, registration,
};
use ringback::domain::call_rate::CallRate;
use ringback::domain::change::Change;
use ringback::domain::job::{BulkJob, JobCounts, JobId, JobKind, JobState};
use ringback::domain::job_filter::JobFilter;
use ringback::domain::job_result::{JobReason, JobResult};
use ringback::domain::key::Key;
use ringback::domain::notification::Start;
use ringback::journal::{
    Changing, Cursor, JobEnd, JobStep, JobStepped, JobUnchanged, Journal, Prune, TakenJob, listed,
};

const LEASE_MS: i64 = 60_000;
const NOW_MS: i64 = START_MS + 1_000;

fn id() -> JobId {
    JobId::parse("01").expect("an id")
}

async fn begin(journal: &dyn Journal) -> TakenJob {
    let job = BulkJob {
        id: id(),
        kind: JobKind::Cancel,
        state: JobState::Running,
        lane: None,
        filter: Some(JobFilter::default()),
        failed_since_ms: None,
        counts: JobCounts {
            matched: 9,
            ..JobCounts::default()
        },
        rate: CallRate::per_second(100.0).expect("a rate"),
        actor: "anna".into(),
        reason: "wrong price".into(),
        problem: None,
        created_ms: NOW_MS,
        ended_ms: None,
    };
    journal.add_job(&job).await.expect("kept");
    take(journal).await
}

async fn take(journal: &dyn Journal) -> TakenJob {
    let taken = journal.take_job(LEASE_MS).await.expect("asked");
    taken.expect("it is free")
}

fn step(taken: &TakenJob, at_ms: i64) -> JobStep {
    JobStep {
        id: id(),
        fence: taken.fence,
        place: None,
        passed: None,
        begin_waiting: Vec::new(),
        end_waiting: Vec::new(),
        changes: Vec::new(),
        unchanged: Vec::new(),
        end: None,
        at_ms,
        lease_ms: LEASE_MS,
    }
}

fn unchanged(id: &str, reason: JobReason) -> JobUnchanged {
    JobUnchanged::new(key(id), reason)
}

async fn counts(journal: &dyn Journal) -> JobCounts {
    let job = journal.job(&id()).await.expect("read");
    job.expect("it is there").counts
}

/// The lists agree with the numbers of the job; says what is in them, as `number id reason`.
async fn lists(journal: &dyn Journal) -> [Vec<String>; 2] {
    let counts = counts(journal).await;
    let reasons = journal.job_reasons(&id()).await.expect("read");
    let mut lists = [Vec::new(), Vec::new()];
    for (list, (result, counted)) in lists.iter_mut().zip([
        (JobResult::Skipped, counts.skipped),
        (JobResult::Failed, counts.failed),
    ]) {
        let mut after = 0;
        loop {
            // In pages of two.
            let page = journal.job_unchanged(&id(), result, after, 2).await;
            let page = page.expect("read");
            let Some(last) = page.last() else {
                break;
            };
            after = last.number;
            list.extend(page.iter().map(|one| {
                let JobUnchanged { key, reason, .. } = &one.unchanged;
                format!("{} {} {reason}", one.number, key.id())
            }));
        }
        assert_eq!(listed(&reasons, result), list.len() as u64, "{result}");
        let of_result = reasons
            .iter()
            .filter(|(reason, _)| reason.result() == result);
        assert_eq!(of_result.map(|(_, many)| many).sum::<u64>(), counted);
    }
    lists
}

/// Registers one that is due an hour later.
async fn keep_later(journal: &dyn Journal, id: &str) {
    let mut later = registration(key(id));
    later.start = Start::After(3_600_000);
    keep(journal, registering_at(later, START_MS)).await;
}

pub async fn what_a_step_has_not_changed_is_listed_with_its_reason(store: &dyn Store) {
    let journal = store.open().await;
    for id in ["1", "2", "gone"] {
        keep_later(&*journal, id).await;
    }
    let taken = begin(&*journal).await;
    assert_eq!(lists(&*journal).await, [Vec::<String>::new(), Vec::new()]);
    do_change(&*journal, &key("gone"), Change::Cancel, NOW_MS).await;
    let mut first = step(&taken, NOW_MS + 1);
    let change = |id: &str| changing(&key(id), Change::Cancel, NOW_MS + 1);
    let gone = find(&*journal, &key("gone")).await.fence;
    first.changes = vec![
        change("1"),
        Changing {
            fence: gone,
            ..change("gone")
        },
        change("never"),
    ];
    first.unchanged = vec![
        unchanged("a", JobReason::Delivered),
        JobUnchanged {
            detail: "a row is damaged\0 here".to_string(),
            ..unchanged("b", JobReason::Unreadable)
        },
        unchanged("c", JobReason::SentAgain),
    ];
    let stepped = journal.step_job(&first).await.expect("kept");
    assert!(matches!(stepped, JobStepped::Kept(_)), "{stepped:?}");
    let expected = [
        vec![
            "1 a delivered",
            "2 c sent_again",
            "3 gone cancelled",
            "4 never missing",
        ],
        vec!["1 b unreadable"],
    ];
    assert_eq!(lists(&*journal).await, expected);
    assert_eq!(counts(&*journal).await.done, 1);
    let failed = journal.job_unchanged(&id(), JobResult::Failed, 0, 9).await;
    let failed = failed.expect("read").remove(0);
    assert_eq!(failed.at_ms, NOW_MS + 1);
    assert!(failed.unchanged.detail.starts_with("a row is damaged"));

    // Neither a step that lost a notification nor one of another server is counted or listed.
    raise_fence(&*journal, &key("2")).await;
    let mut stale = step(&taken, NOW_MS + 2);
    stale.changes = vec![change("2")];
    stale.unchanged = vec![unchanged("d", JobReason::Delivered)];
    let stepped = journal.step_job(&stale).await.expect("answered");
    assert_eq!(stepped, JobStepped::NotificationLost);
    let retaken = journal.retake_job(&id(), taken.fence, LEASE_MS).await;
    let next = retaken.expect("asked").expect("ours");
    first.unchanged.truncate(1);
    let stepped = journal.step_job(&first).await.expect("answered");
    assert_eq!(stepped, JobStepped::JobLost);
    assert_eq!(lists(&*journal).await, expected);

    // What the job has not met when it ends is counted, and in no list.
    let mut last = step(&next, NOW_MS + 3);
    last.unchanged = vec![unchanged("e", JobReason::Delivered)];
    last.end = Some(JobEnd::Done);
    journal.step_job(&last).await.expect("kept");
    let [mut all_skipped, failed_before] = expected;
    all_skipped.push("5 e delivered");
    assert_eq!(lists(&*journal).await, [all_skipped, failed_before]);
    let reasons = journal.job_reasons(&id()).await.expect("read");
    assert_eq!(reasons.get(&JobReason::Delivered), Some(&2));
    assert_eq!(reasons.get(&JobReason::EndedBefore), Some(&2));
    let JobCounts {
        matched,
        done,
        skipped,
        failed,
    } = counts(&*journal).await;
    assert_eq!([matched, done, skipped, failed], [9, 1, 7, 1]);

    // They are kept as long as the job is, and no longer.
    let prune = |before_ms| Prune {
        payloads_before_ms: 0,
        records_before_ms: before_ms,
        dead_before_ms: None,
    };
    let pruned = journal.prune(&prune(NOW_MS + 3), 10).await.expect("pruned");
    assert!(!pruned.more);
    assert_eq!(lists(&*journal).await[0].len(), 5);
    let pruned = journal.prune(&prune(NOW_MS + 4), 10).await.expect("pruned");
    assert!(pruned.more, "{pruned:?}");
    assert_eq!(journal.job(&id()).await.expect("read"), None);
    for result in [JobResult::Skipped, JobResult::Failed] {
        let left = journal.job_unchanged(&id(), result, 0, 9).await;
        assert_eq!(left.expect("read"), []);
    }
    assert!(journal.job_reasons(&id()).await.expect("read").is_empty());
}

pub async fn what_waits_for_its_turn_is_kept_with_the_job(store: &dyn Store) {
    let journal = store.open().await;
    let taken = begin(&*journal).await;
    let at = |row| Cursor { at_ms: 7, row };
    let waiting = |ids: &[i64]| -> Vec<(Key, Cursor)> {
        ids.iter()
            .map(|row| (key(&row.to_string()), at(*row)))
            .collect()
    };
    assert_eq!((taken.place, taken.passed), (None, None));
    assert_eq!(taken.waiting, []);
    let mut first = step(&taken, NOW_MS);
    (first.place, first.passed) = (Some(at(1)), Some(at(5)));
    first.begin_waiting = waiting(&[4, 2]);
    first.unchanged = vec![unchanged("3", JobReason::Leased)];
    journal.step_job(&first).await.expect("kept");
    let retaken = journal.retake_job(&id(), taken.fence, LEASE_MS).await;
    let again = retaken.expect("asked").expect("ours");
    assert_eq!((again.place, again.passed), (Some(at(1)), Some(at(5))));
    assert_eq!(
        again.waiting,
        waiting(&[2, 4]),
        "in the order of their places"
    );

    let mut second = step(&again, NOW_MS);
    (second.place, second.passed) = (Some(at(3)), Some(at(9)));
    second.begin_waiting = waiting(&[8]);
    second.end_waiting = vec![at(2)];
    journal.step_job(&second).await.expect("kept");
    let kept = journal.keep_job(&id(), again.fence, 0).await;
    assert!(kept.expect("given back"));
    journal.close().await;
    drop(journal);

    let journal = store.open().await;
    let next = take(&*journal).await;
    assert_eq!((next.place, next.passed), (Some(at(3)), Some(at(9))));
    assert_eq!(next.waiting, waiting(&[4, 8]));
}
