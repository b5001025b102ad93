use super::*;
use crate::clock::ManualClock;
use crate::domain::call_rate::CallRate;
use crate::domain::destination::Destination;
use crate::domain::headers::Headers;
use crate::domain::job::JobState;
use crate::domain::job_filter::JobFilter;
use crate::domain::lane::Lane;
use crate::domain::notification::{Registration, Start, Target};
use crate::domain::priority::Priority;
use crate::domain::state::State;
use crate::journal::Actor;
use crate::journal::recorder::Recorder;
use crate::journal::sqlite::SqliteJournal;
use crate::schedule::memory::MemorySchedule;
use crate::schedule::{CLOCKS_APART_MS, Limits, ScheduleError};
use crate::service::{BulkRequest, LaneRetryRequest};
use bytes::Bytes;

fn schedule() -> Arc<MemorySchedule> {
    schedule_with(ManualClock::at(1_000_000))
}

fn schedule_with(clock: ManualClock) -> Arc<MemorySchedule> {
    Arc::new(MemorySchedule::new(Arc::new(clock), Limits::OF_TESTS))
}

fn rate(per_second: f64) -> CallRate {
    CallRate::per_second(per_second).expect("a rate")
}

/// A job with so many notifications per second, which this server has.
fn run_at(per_second: f64) -> JobRun {
    let service = Arc::new(Service::new(None, schedule()));
    let anna = Actor::named("anna");
    let job = service.new_job(JobKind::LaneRetry, rate(per_second), &anna, "");
    let taken = TakenJob {
        job,
        fence: 1,
        place: None,
        passed: None,
        waiting: Vec::new(),
    };
    JobRun::of(service, taken)
}

/// The sizes of steps that all fail with this error: until the job is left to others, but of `most` steps at most.
async fn sizes_of_failing(run: &mut JobRun, error: &ServiceError, most: usize) -> Vec<usize> {
    let mut sizes = Vec::new();
    while sizes.len() < most {
        sizes.push(run.most);
        match run.after_failure(error).await {
            JobTurn::StepAt(_) => {}
            JobTurn::LeftToOthers => break,
            JobTurn::Over => panic!("the job goes on"),
        }
    }
    sizes
}

fn schedule_away() -> ServiceError {
    ScheduleError::Unavailable("it is away".to_string()).into()
}

#[tokio::test]
async fn a_job_is_left_to_others_after_its_smallest_step_has_failed() {
    for (per_second, expected) in [
        (5.0, vec![1, 1, 1]),
        (10.0, vec![2, 1, 1]),
        (40.0, vec![8, 4, 2, 1]),
        (500.0, vec![100, 50, 25, 12, 6, 3, 1]),
    ] {
        let mut run = run_at(per_second);
        let sizes = sizes_of_failing(&mut run, &schedule_away(), 20).await;
        assert_eq!(sizes, expected, "{per_second}");
    }
}

/// No other server could go on with it.
#[tokio::test]
async fn a_job_is_not_left_to_others_while_the_journal_is_away() {
    let away = ServiceError::Journal(JournalError::Unavailable("it is away".to_string()));
    let sizes = sizes_of_failing(&mut run_at(40.0), &away, 9).await;
    assert_eq!(sizes, [8, 4, 2, 1, 1, 1, 1, 1, 1]);
}

/// It is due in two hours.
fn registration(number: usize) -> Registration {
    let url = Destination::parse("https://shop.example/notify").expect("a URL");
    Registration {
        key: Key::new("t", &number.to_string()).expect("a key"),
        target: Target::Url(url),
        body: Bytes::from_static(b"paid"),
        content_type: "text/plain".to_string(),
        headers: Headers::default(),
        start: Start::After(7_200_000),
        ladder: None,
        ack: None,
        priority: Priority::Normal,
        order: None,
    }
}

#[tokio::test]
async fn the_steps_of_a_job_grow_again_with_each_that_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
    let journal: Arc<dyn Journal> = Arc::new(journal.expect("it opens"));
    let recorder = Arc::new(Recorder::start(journal.clone()));
    let service = Arc::new(Service::new(Some(recorder), schedule()));
    for number in 0..15 {
        let registering = service.register(registration(number), Actor::unaudited("shop"));
        registering.await.expect("registered");
    }
    let request = LaneRetryRequest {
        lane: Lane::from_name("https://shop.example"),
        rate: rate(40.0),
        actor: Actor::named("anna"),
        reason: String::new(),
    };
    service.retry_lane(request).await.expect("made");
    let taken = journal.take_job(LEASE_MS).await.expect("asked");
    let mut run = JobRun::of(service, taken.expect("it is free"));
    let sizes = sizes_of_failing(&mut run, &schedule_away(), 3).await;
    assert_eq!((sizes, run.most), (vec![8, 4, 2], 1));
    let mut kept = Vec::new();
    while kept.len() < 9 {
        let before = run.current.job.counts.done;
        let turn = run.step().await.expect("no store is away");
        kept.push(run.current.job.counts.done - before);
        if let JobTurn::Over = turn {
            break;
        }
    }
    assert_eq!(kept, [1, 2, 4, 8]);
}

/// Another request of this server has the notification, and waits for a store.
#[tokio::test(start_paused = true)]
async fn a_notification_waits_for_the_lock_of_this_server_and_has_not_failed() {
    let service = Arc::new(Service::new(None, schedule()));
    let registering = service.register(registration(1), Actor::unaudited("shop"));
    registering.await.expect("registered");
    let key = registration(1).key;
    let anna = Actor::named("anna");
    let job = Arc::new(service.new_job(JobKind::LaneRetry, rate(5.0), &anna, ""));
    let lock = service.locks.lock(&key).await.expect("it is free");
    let preparing = service.prepare_job_step(&job, vec![key.clone()]);
    let step = preparing.await.expect("no store is away");
    assert_eq!(step.in_flight, std::slice::from_ref(&key));
    assert_eq!((step.leased.len(), step.unchanged.len()), (0, 0));
    drop(lock);
    let step = service.prepare_job_step(&job, vec![key]).await;
    let step = step.expect("no store is away");
    assert_eq!((step.leased.len(), step.in_flight.len()), (1, 0));
}

/// A job cancels the only notification that is pending, and the clock is set back before its first step. Then others are
/// registered.
async fn check_set_back(back_ms: i64, others: &[usize], (job_state, state): (JobState, State)) {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
    let journal: Arc<dyn Journal> = Arc::new(journal.expect("it opens"));
    let recorder = Arc::new(Recorder::start(journal.clone()));
    let clock = ManualClock::at(10_000_000);
    let service = Arc::new(Service::new(Some(recorder), schedule_with(clock.clone())));
    let register = async |number| {
        let registering = service.register(registration(number), Actor::unaudited("shop"));
        registering.await.expect("registered");
    };
    register(1).await;
    let request = BulkRequest {
        kind: JobKind::Cancel,
        filter: JobFilter::default(),
        rate: rate(40.0),
        actor: Actor::named("anna"),
        reason: String::new(),
    };
    service.start_bulk(request).await.expect("made");
    clock.set_back_to(10_000_000 - back_ms);
    for number in others {
        register(*number).await;
    }
    let taken = journal.take_job(LEASE_MS).await.expect("asked");
    let mut run = JobRun::of(service.clone(), taken.expect("it is free"));
    let turn = run.step().await.expect("no store is away");
    assert!(matches!(turn, JobTurn::Over), "{back_ms}");
    let job = service.job(&run.current.job.id).await.expect("kept");
    assert_eq!(job.state, job_state, "{back_ms}");
    let says = job.problem.as_deref().unwrap_or("");
    let is_said = says.contains("the clock was set back");
    assert_eq!(is_said, job_state == JobState::Failed, "{says}");
    for number in others.iter().chain(&[1]) {
        let found = journal.find(&registration(*number).key).await;
        let found = found.expect("asked").expect("kept");
        assert_eq!(found.state, state, "{back_ms} {number}");
    }
}

/// What was registered after the job would look as if it had been registered before.
#[tokio::test]
async fn a_cancellation_ends_when_the_clock_was_set_back_to_before_it() {
    let ends = (JobState::Failed, State::Scheduled);
    check_set_back(CLOCKS_APART_MS + 1, &[2], ends).await;
    check_set_back(3_600_000, &[2, 3], ends).await;
}

/// The clocks of two servers may be as far apart.
#[tokio::test]
async fn a_cancellation_goes_on_when_the_clock_is_a_little_behind() {
    check_set_back(CLOCKS_APART_MS, &[], (JobState::Done, State::Cancelled)).await;
}

#[tokio::test]
async fn jobs_of_persons_end_when_the_clock_was_set_back() {
    let clock = ManualClock::at(10_000_000);
    let service = Service::new(None, schedule_with(clock.clone()));
    let anna = Actor::named("anna");
    let job = |kind| service.new_job(kind, rate(5.0), &anna, "");
    let jobs: Vec<BulkJob> = JobKind::ALL.iter().map(|kind| job(*kind)).collect();
    clock.set_back_to(5_000_000);
    let ending = jobs.iter().filter(|job| is_set_back(&service, job));
    let ending: Vec<JobKind> = ending.map(|job| job.kind).collect();
    assert_eq!(
        ending,
        [JobKind::LaneRetry, JobKind::Replay, JobKind::Cancel]
    );
}
