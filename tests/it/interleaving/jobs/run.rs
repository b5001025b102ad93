//! One run: a job that two servers carry on, and what a person orders meanwhile.

use super::carrier::{Carrier, Course, Fate, Watched};
use super::{Meanwhile, Task, Trial};
use crate::interleaving::operations::Registered;
use crate::interleaving::world::{JUDGE, Most, Server, World, key};
use crate::support::chance::Chance;
use crate::support::within;
use ringback::domain::call_rate::CallRate;
use ringback::domain::job::{BulkJob, JobKind, JobOrder, JobState};
use ringback::domain::job_filter::JobFilter;
use ringback::domain::lane::Lane;
use ringback::journal::Actor;
use ringback::schedule::CHANGE_LEASE_MS;
use ringback::service::{BulkReply, BulkRequest, LaneRetryRequest, ServiceError};
use tokio_util::sync::CancellationToken;

/// How many notifications the job concerns.
pub const MANY: usize = 3;
/// Two of them are in the first step, and the rest between the steps is short.
const RATE: f64 = 14.9;
/// When they are due, from their registration.
const DELAY_MS: i64 = 3_600_000;
/// For how long a server has a job, and a little.
const JOB_LEASE_MS: i64 = 10_100;

/// What is known of a run besides what the stores have.
#[derive(Default)]
pub struct Told {
    /// The job as a pause or a stop has answered it.
    pub ordered: Option<BulkJob>,
    /// Whether the lane is held.
    pub is_held: bool,
    /// Whether the first notification was cancelled.
    pub is_cancelled: bool,
    /// Whether it was sent by hand.
    pub is_sent: bool,
}

/// One run.
pub struct JobRun<'a> {
    pub world: &'a World,
    pub task: Task,
    pub judge: Server,
    pub job: Watched<'a>,
    pub ids: [String; MANY],
    /// By notification: the attempt that is acknowledged.
    pub good: [u32; MANY],
    /// When they are due without the job. Dead letters are not, and were called before.
    pub due_ms: i64,
    pub told: Told,
}

impl<'a> JobRun<'a> {
    /// Registers the notifications and makes the job.
    pub async fn prepare(world: &'a World, task: Task, name: &str, chance: &mut Chance) -> Self {
        let judge = world.server(JUDGE, None);
        let ids = [1, 2, 3].map(|number| format!("{name}-{number}"));
        // The first attempt of a dead letter has failed, and so does its second one if it dies again.
        let (goods, most, delay_ms) = match task {
            Task::Retry => (&[1, 2], Most::Three, DELAY_MS),
            Task::Replay => (&[2, 3], Most::One, 0),
        };
        let good = [(); MANY].map(|()| *chance.pick(goods));
        for (id, good) in ids.iter().zip(good) {
            let registered = Registered {
                good,
                most,
                order: None,
            };
            let asked = world.registration(id, registered, delay_ms);
            let registering = judge.service.register(asked, actor());
            registering.await.expect("registered");
        }
        if task == Task::Replay {
            while judge.attempt().await.expect("attempted") > 0 {}
        }
        let due_ms = match task {
            Task::Retry => world.now_ms() + DELAY_MS,
            Task::Replay => world.now_ms() + 1,
        };
        world.clock.advance(4_000);
        let rate = CallRate::per_second(RATE).expect("a rate");
        let reason = "they are back".to_string();
        let job = match task {
            Task::Retry => {
                let request = LaneRetryRequest {
                    lane: lane(world),
                    rate,
                    actor: actor(),
                    reason,
                };
                judge.service.retry_lane(request).await.expect("made")
            }
            Task::Replay => {
                let request = BulkRequest {
                    kind: JobKind::Replay,
                    filter: JobFilter {
                        id_contains: Some(format!("{name}-")),
                        ..JobFilter::default()
                    },
                    rate,
                    actor: actor(),
                    reason,
                };
                match judge.service.start_bulk(request).await.expect("made") {
                    BulkReply::Made(job) => job,
                    BulkReply::Runs(other) => panic!("{other:?}"),
                }
            }
        };
        Self {
            world,
            task,
            judge,
            job: Watched {
                journal: world.journals[JUDGE].as_ref(),
                id: job.id,
            },
            ids,
            good,
            due_ms,
            told: Told::default(),
        }
    }

    /// Lets the servers do what the trial says. Says whether the first one was stopped; the error is what stands still.
    pub async fn play(&mut self, trial: Trial, course: &mut Course) -> Result<bool, String> {
        let world = self.world;
        let mut first = Carrier::begin(world, 0);
        let is_stopped = first.drive(trial.after, &self.job, world, course).await?;
        if is_stopped {
            let met = first.meet(trial.fate, course).await;
            // Whoever does not know that it has a job does nothing with it.
            let knows = trial.fate != Fate::ReplyLost || met != "journal.take_job";
            self.go_on(trial.meanwhile, &mut first, knows, course)
                .await?;
            if first.is_alive() {
                first.finish(&self.job, world, course).await?;
            }
        }
        first.let_all_go();
        self.end_job().await;
        Ok(is_stopped)
    }

    /// What happens after the first server was stopped.
    async fn go_on(
        &mut self,
        meanwhile: Meanwhile,
        first: &mut Carrier,
        knows: bool,
        course: &mut Course,
    ) -> Result<(), String> {
        let goes_alone = first.is_alive() && knows;
        let world = self.world;
        match meanwhile {
            Meanwhile::Nothing => {}
            Meanwhile::TakenOver | Meanwhile::TakenOverAndCalled => {
                self.let_lease_expire(course).await;
            }
            Meanwhile::PausedAndResumed => {
                self.order(JobOrder::Pause, course).await;
                self.order(JobOrder::Resume, course).await;
            }
            Meanwhile::Paused | Meanwhile::Stopped => {
                let is_pause = meanwhile == Meanwhile::Paused;
                let order = match is_pause {
                    true => JobOrder::Pause,
                    false => JobOrder::Stop,
                };
                self.told.ordered = self.order(order, course).await;
                if first.is_alive() {
                    first.finish(&self.job, world, course).await?;
                }
                if let Some(ordered) = &self.told.ordered
                    && *ordered != self.job.now().await
                {
                    let now = self.job.now().await;
                    return Err(format!("it changed after the answer {ordered:?}: {now:?}"));
                }
                if is_pause {
                    self.order(JobOrder::Resume, course).await;
                }
                return Ok(());
            }
            Meanwhile::Held => {
                let (lane, service) = (lane(world), &self.judge.service);
                let holding = service.hold_lane(&lane, actor(), "");
                holding.await.expect("it is held");
                self.told.is_held = true;
                self.let_lease_expire(course).await;
            }
            Meanwhile::Cancelled | Meanwhile::Retried => {
                world.clock.advance(CHANGE_LEASE_MS + 1);
                let (key, service) = (key(&self.ids[0]), &self.judge.service);
                course.order.push_str("by hand ");
                let is_sent = meanwhile == Meanwhile::Retried;
                let changed = match (self.task, is_sent) {
                    (Task::Retry, true) => service.retry(&key, actor()).await,
                    (Task::Retry, false) => service.cancel(&key, actor()).await,
                    (Task::Replay, true) => service.replay(&key, actor(), "").await,
                    (Task::Replay, false) => service.discard(&key, actor()).await,
                };
                match changed {
                    Ok(_) if is_sent => self.told.is_sent = true,
                    Ok(_) => self.told.is_cancelled = true,
                    // The job has replayed it.
                    Err(ServiceError::Refused { .. }) if self.task == Task::Replay => {}
                    Err(error) => panic!("by hand: {error}"),
                }
            }
        }
        let is_alone = matches!(
            meanwhile,
            Meanwhile::Nothing | Meanwhile::Cancelled | Meanwhile::Retried
        );
        if is_alone && goes_alone {
            let driven = first.drive(usize::MAX, &self.job, world, course);
            driven.await.map(drop)
        } else {
            self.take_over(meanwhile, first, course).await
        }
    }

    /// The other server takes the job, if it runs; the first one goes on at any of the other one's calls.
    async fn take_over(
        &mut self,
        meanwhile: Meanwhile,
        first: &mut Carrier,
        course: &mut Course,
    ) -> Result<(), String> {
        if self.job.now().await.state != JobState::Running {
            return Ok(());
        }
        self.job.let_lease_expire().await;
        let world = self.world;
        let mut other = Carrier::begin(world, 1);
        let calls = match course.chance.percent(50) {
            true => usize::MAX,
            false => 1 + course.chance.below(12) as usize,
        };
        other.drive(calls, &self.job, world, course).await?;
        if meanwhile == Meanwhile::TakenOverAndCalled {
            course.order.push_str("calls ");
            for id in &self.ids {
                self.judge.reconcile(&key(id)).await;
            }
            self.judge.attempt().await.expect("attempted");
        }
        if first.is_alive() {
            first.finish(&self.job, world, course).await?;
        }
        if other.is_alive() {
            other.drive(usize::MAX, &self.job, world, course).await?;
        }
        other.let_all_go();
        Ok(())
    }

    /// So much time passes that the job and everything that is leased for it is free.
    async fn let_lease_expire(&self, course: &mut Course) {
        self.world.clock.advance(JOB_LEASE_MS);
        course.order.push_str("+10s ");
        self.job.let_lease_expire().await;
    }

    /// Gives an order. `None` if the job has ended already.
    pub async fn order(&self, order: JobOrder, course: &mut Course) -> Option<BulkJob> {
        course.order.push_str(order.as_str());
        course.order.push(' ');
        let (id, actor) = (&self.job.id, actor());
        match self.judge.service.order_job(id, order, &actor, "").await {
            Ok(job) => Some(job),
            Err(ServiceError::JobEnded(_)) => None,
            Err(error) => panic!("{order}: {error}"),
        }
    }

    /// Waits for the end of the job.
    pub async fn until_ended(&self) {
        within("the job to end", async {
            while !self.job.now().await.state.has_ended() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// A third server ends the job, if both have given it back.
    async fn end_job(&self) {
        if self.job.now().await.state != JobState::Running {
            return;
        }
        self.world.clock.advance(JOB_LEASE_MS);
        self.job.let_lease_expire().await;
        let stop = CancellationToken::new();
        let running = tokio::spawn(self.judge.service.clone().run_jobs(stop.clone()));
        self.until_ended().await;
        stop.cancel();
        running.await.expect("it ran");
    }
}

/// Who asks for everything here.
pub fn actor() -> Actor {
    Actor::named("test")
}

/// The lane of all notifications here.
pub fn lane(world: &World) -> Lane {
    Lane::from_name(&world.merchant.origin)
}
