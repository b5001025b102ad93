//! Two servers and a job over three notifications of a lane, two in its first step and one in its second.
//!
//! The first server is stopped before each of its calls to a store in turn. There it waits, or dies, or does not hear the
//! reply. Meanwhile the other server takes the job, or a person orders something: to pause, resume or stop the job, to
//! hold the lane, or to change one of the notifications. Then the first one goes on, if it lives, while the other one is
//! anywhere in its own steps. Afterwards maintenance repairs what is left, and then: the job has made each notification
//! due once, its counts say so, the merchant was called as often as that and as the ladder says, and both stores agree. Likewise with a job that replays dead letters,
//! some of which die again.
//!
//! `RINGBACK_INTERLEAVING_CASE` tries one of [`MEANWHILE`] alone: its place, from 0.

mod account;
mod carrier;
mod run;

use super::operations::Registered;
use super::report::{Found, report};
use super::requested;
use super::world::{JUDGE, Kind, Most, Redis, World, key};
use crate::support::chance::Chance;
use crate::support::within;
use account::Account;
use carrier::{Carrier, Course, FATES, Fate, Watched};
use ringback::domain::call_rate::CallRate;
use ringback::domain::job::{JobCounts, JobKind, JobOrder};
use ringback::domain::job_filter::JobFilter;
use ringback::domain::job_result::{JobReason, JobResult};
use ringback::journal::JobUnchanged;
use ringback::maintenance::reconcile::Reconciler;
use ringback::schedule::window::Window;
use ringback::schedule::{CHANGE_LEASE_MS, ClaimQuota, LeaseRequest, LeasedOne, Settlement};
use ringback::service::{BulkReply, BulkRequest};
use run::{JobRun, actor};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// More calls than a server makes here.
const MOST_CALLS: usize = 40;
/// How many calls are between two stops in the short form.
const APART: usize = 5;
/// By how much fewer runs are tried in the long form than are asked for.
const FEWER: u64 = 25;

/// What happens while the first server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    /// Nothing: the first server goes on alone, unless it has died.
    Nothing,
    /// Its time is over, and the other one takes the job.
    TakenOver,
    /// Likewise, and what is due by then is called before the first one goes on.
    TakenOverAndCalled,
    /// A person pauses the job and resumes it at once, so the other one takes it at once.
    PausedAndResumed,
    /// A person pauses it, and resumes it after the first one has gone on.
    Paused,
    Stopped,
    /// A person holds the lane until all is over; the other one takes the job.
    Held,
    /// A person cancels the first notification, whose lease has expired, or discards it if it is dead.
    Cancelled,
    /// Likewise with an attempt by hand, or a replay.
    Retried,
}

const MEANWHILE: &[Meanwhile] = &[
    Meanwhile::Nothing,
    Meanwhile::TakenOver,
    Meanwhile::TakenOverAndCalled,
    Meanwhile::PausedAndResumed,
    Meanwhile::Paused,
    Meanwhile::Stopped,
    Meanwhile::Held,
    Meanwhile::Cancelled,
    Meanwhile::Retried,
];

/// What the job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// It makes due what is pending in the lane.
    Retry,
    /// It replays dead letters.
    Replay,
}

/// What is tried.
#[derive(Debug, Clone, Copy)]
struct Trial {
    meanwhile: Meanwhile,
    fate: Fate,
    /// After how many calls the first server is stopped.
    after: usize,
}

/// Stops the first server before each of its calls. In the short form, before every fifth one, beginning with one that the
/// seed draws for each case, and one fate is drawn for each stop; in the long form, each of them is tried.
async fn stop_everywhere(kind: Kind, task: Task) {
    let seed = requested::seed();
    let many = requested::runs();
    // A run takes longer than those of one notification.
    let tries = many.map_or(1, |many| many.div_ceil(FEWER) * FATES.len() as u64);
    let apart = if many.is_none() { APART } else { 1 };
    let world = World::of(kind, Redis::Shared, Window::WHOLE).await;
    let mut reconciler = reconciler(&world);
    let mut found = Found::default();
    for meanwhile in requested::cases(MEANWHILE) {
        let mut drawing = Chance::of_one(seed, found.runs + 1);
        let first = drawing.below(apart as u64) as usize;
        for after in (first..MOST_CALLS).step_by(apart) {
            let mut is_stopped = false;
            for run in 0..tries {
                let mut chance = Chance::of_one(seed, found.runs + 1);
                let fate = match many {
                    None => *chance.pick(FATES),
                    Some(_) => FATES[run as usize % FATES.len()],
                };
                let trial = Trial {
                    meanwhile: *meanwhile,
                    fate,
                    after,
                };
                is_stopped |=
                    try_one(&world, task, trial, &mut reconciler, &mut found, chance).await;
            }
            if !is_stopped {
                break;
            }
        }
    }
    report(kind, &world, seed, found, "with a job").await;
}

/// Tries one. Says whether the first server was stopped.
async fn try_one(
    world: &World,
    task: Task,
    trial: Trial,
    reconciler: &mut Reconciler,
    found: &mut Found,
    mut chance: Chance,
) -> bool {
    found.runs += 1;
    let name = format!("j{}", found.runs);
    let mut run = JobRun::prepare(world, task, &name, &mut chance).await;
    let order = String::new();
    let mut course = Course { order, chance };
    let played = run.play(trial, &mut course).await;
    let (is_stopped, wrong) = match played {
        Ok(is_stopped) => {
            let account = Account::of(&run, trial.meanwhile, reconciler).await;
            (is_stopped, account.check())
        }
        Err(what) => (true, vec![what]),
    };
    let order = &course.order;
    let said = wrong.into_iter();
    let said = said.map(|what| format!("{trial:?} {name}: {what}\n    {order}"));
    found.wrong.extend(said);
    is_stopped
}

/// Repairs what is left between the stores, as maintenance does.
fn reconciler(world: &World) -> Reconciler {
    let (journal, schedule) = (&world.journals[JUDGE], &world.schedules[JUDGE]);
    Reconciler::new(journal.clone(), schedule.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_memory_with_sqlite() {
    stop_everywhere(Kind::MemoryAndSqlite, Task::Retry).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_with_sqlite() {
    stop_everywhere(Kind::RedisAndSqlite, Task::Retry).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_with_postgres() {
    stop_everywhere(Kind::RedisAndPostgres, Task::Retry).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaying_in_memory_with_sqlite() {
    stop_everywhere(Kind::MemoryAndSqlite, Task::Replay).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaying_on_redis_with_postgres() {
    stop_everywhere(Kind::RedisAndPostgres, Task::Replay).await;
}

/// How long a change by hand waits for a lease, and a little.
const ONE_WAIT: Duration = Duration::from_millis(4_200);

/// The server that carries on the job dies with a notification leased, and a person pauses and resumes the job: the next
/// server is there before that lease has expired. It waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_waits_for_what_a_dead_server_has_leased() {
    let world = World::of(Kind::MemoryAndSqlite, Redis::Shared, Window::WHOLE).await;
    let mut reconciler = reconciler(&world);
    let mut chance = Chance::of_one(1, 1);
    let run = JobRun::prepare(&world, Task::Retry, "leased", &mut chance).await;
    let order = String::new();
    let mut course = Course { order, chance };
    let mut first = Carrier::begin(&world, 0);
    while !course.order.contains("schedule.lease_one") {
        let calls = first.made() + 1;
        let stopped = first.drive(calls, &run.job, &world, &mut course).await;
        assert_eq!(stopped, Ok(true));
    }
    first.meet(Fate::DiesBefore, &mut course).await;
    run.order(JobOrder::Pause, &mut course).await;
    run.order(JobOrder::Resume, &mut course).await;
    let stop = CancellationToken::new();
    let other = world.server(1, None);
    let running = tokio::spawn(other.service.run_jobs(stop.clone()));
    let begun = Instant::now();
    while begun.elapsed() < ONE_WAIT {
        tokio::task::yield_now().await;
    }
    world.clock.advance(CHANGE_LEASE_MS);
    run.until_ended().await;
    stop.cancel();
    running.await.expect("it ran");
    let account = Account::of(&run, Meanwhile::PausedAndResumed, &mut reconciler).await;
    assert_eq!(account.check(), [""; 0]);
}

/// One notification is in flight, and another server has leased one behind it for as long as the job asks. So the job counts
/// the second one as failed and waits for the first one. Then its server dies. The next one meets the first one again, and
/// not the second one, although that could be changed by now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_failed_behind_one_that_waits_is_counted_once() {
    let world = World::of(Kind::MemoryAndSqlite, Redis::Shared, Window::WHOLE).await;
    let judge = world.server(JUDGE, None);
    let (journal, schedule) = (&world.journals[JUDGE], &world.schedules[JUDGE]);
    for (id, delay_ms) in [("w-1", 0), ("w-2", 3_600_000), ("w-3", 3_600_000)] {
        let registered = Registered {
            good: 1,
            most: Most::Three,
            order: None,
        };
        let asked = world.registration(id, registered, delay_ms);
        let registering = judge.service.register(asked, actor());
        registering.await.expect("registered");
    }
    let claimed = schedule.claim(ClaimQuota::of(1)).await.expect("claimed");
    let in_flight = claimed.leases.into_iter().next().expect("it is due");
    let found = journal.snapshots(&[key("w-2")]).await.expect("read");
    let found = found.into_iter().flatten().next().expect("it is there");
    let request = LeaseRequest::new(found.key_in_lane());
    let LeasedOne::Leased(held) = schedule.lease_one(&request).await.expect("answered") else {
        panic!("it is free");
    };
    let request = BulkRequest {
        kind: JobKind::Cancel,
        filter: JobFilter::default(),
        rate: CallRate::per_second(100.0).expect("a rate"),
        actor: actor(),
        reason: String::new(),
    };
    let BulkReply::Made(job) = judge.service.start_bulk(request).await.expect("made") else {
        panic!("it is the first one");
    };
    let job = Watched {
        journal: journal.as_ref(),
        id: job.id,
    };
    let first = world.server(0, None).service;
    let first = tokio::spawn(first.run_jobs(CancellationToken::new()));
    within("one to fail", async {
        while job.now().await.counts.failed == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    first.abort();
    let _ = first.await;
    for lease in [in_flight, *held] {
        let settled = schedule.settle(lease, Settlement::Release).await;
        settled.expect("settled");
    }
    job.let_lease_expire().await;
    let stop = CancellationToken::new();
    let other = world.server(1, None).service;
    let running = tokio::spawn(other.run_jobs(stop.clone()));
    within("the job to end", async {
        while !job.now().await.state.has_ended() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    stop.cancel();
    running.await.expect("it ran");
    let counts = job.now().await.counts;
    let expected = JobCounts {
        matched: 3,
        done: 2,
        skipped: 0,
        failed: 1,
    };
    assert_eq!(counts, expected);
    let failed = journal
        .job_unchanged(&job.id, JobResult::Failed, 0, 9)
        .await;
    let failed = failed.expect("read").into_iter().map(|one| one.unchanged);
    let expected = JobUnchanged::new(key("w-2"), JobReason::Leased);
    assert_eq!(failed.collect::<Vec<_>>(), [expected]);
}
