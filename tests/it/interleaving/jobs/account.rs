//! What has to be true of a job and its notifications once both servers have ended.

use super::run::{JobRun, MANY, actor, lane};
use super::{Meanwhile, Task};
use crate::interleaving::merchant::Call;
use crate::interleaving::world::{JUDGE, key, look};
use ringback::domain::job::{BulkJob, JobState};
use ringback::domain::job_result::{JobReason, JobResult};
use ringback::domain::key::Key;
use ringback::domain::snapshot::Snapshot;
use ringback::domain::state::State;
use ringback::journal::{JobUnchanged, Journal, ReasonCounts, Transition};
use ringback::maintenance::reconcile::Reconciler;
use std::collections::HashSet;

/// Time passes in so many parts until everything that a job has made due was called.
const ROUNDS: usize = 10;
const ROUND_MS: i64 = 10_000;
/// Likewise after the instant at which the notifications are due without the job.
const LATER_ROUNDS: usize = 10;
const LATER_MS: i64 = 2_000;

/// Everything that is known in the end.
pub struct Account<'run> {
    run: &'run JobRun<'run>,
    meanwhile: Meanwhile,
    job: BulkJob,
    ended: Vec<Ended>,
    lists: Lists,
    wrong: Vec<String>,
}

/// What the lists of the job say.
struct Lists {
    done: Vec<Key>,
    unchanged: Vec<JobUnchanged>,
    reasons: ReasonCounts,
}

impl Lists {
    async fn of(journal: &dyn Journal, job: &BulkJob) -> Self {
        let changes = journal
            .job_changes(&job.id, job.created_ms, None, 100)
            .await;
        let done = changes.expect("read").found.into_iter().map(|(key, _)| key);
        let mut unchanged = Vec::new();
        for result in [JobResult::Skipped, JobResult::Failed] {
            let page = journal.job_unchanged(&job.id, result, 0, 100).await;
            unchanged.extend(page.expect("read").into_iter().map(|one| one.unchanged));
        }
        Self {
            done: done.collect(),
            unchanged,
            reasons: journal.job_reasons(&job.id).await.expect("read"),
        }
    }
}

/// One notification in the end.
struct Ended {
    stands: Snapshot,
    calls: Vec<Call>,
    /// How often the job has made it due, by its history.
    by_job: usize,
}

impl<'run> Account<'run> {
    /// Lets time pass until all notifications have ended.
    pub async fn of(
        run: &'run JobRun<'run>,
        meanwhile: Meanwhile,
        reconciler: &mut Reconciler,
    ) -> Self {
        let (world, judge) = (run.world, &run.judge);
        let mut wrong = Vec::new();
        if run.told.is_held {
            for id in &run.ids {
                judge.reconcile(&key(id)).await;
            }
            judge.attempt().await.expect("attempted");
            for id in &run.ids {
                let calls = world.merchant.account.calls(id);
                let before = usize::from(run.task == Task::Replay);
                if calls.len() > before {
                    wrong.push(format!("the lane was held, and {id}: {calls:?}"));
                }
            }
            let released = judge.service.release_lane(&lane(world), actor(), "").await;
            released.expect("it is released");
        }
        for round in 0..ROUNDS + LATER_ROUNDS {
            look(&judge.schedule, Some(&judge.journal)).await;
            reconciler.pass(world.now_ms()).await.expect("reconciled");
            while judge.attempt().await.expect("attempted") > 0 {}
            if round + 1 == ROUNDS && world.now_ms() < run.due_ms {
                world.clock.advance(run.due_ms - world.now_ms());
            } else {
                world.clock.advance(match round < ROUNDS {
                    true => ROUND_MS,
                    false => LATER_MS,
                });
            }
        }
        let mut ended = Vec::new();
        for id in &run.ids {
            let key = key(id);
            let journal = &world.journals[JUDGE];
            let lines = journal.transitions(&key).await.expect("read");
            let detail = format!("job {}: they are back", run.job.id);
            let kind = match run.task {
                Task::Retry => "retried",
                Task::Replay => "replayed",
            };
            let by_job = |line: &&Transition| line.kind == kind && line.detail == detail;
            if let Some(held) = judge.schedule.find(&key).await.expect("found") {
                wrong.push(format!("{id} stands still in the schedule: {held:?}"));
            }
            ended.push(Ended {
                stands: journal.find(&key).await.expect("read").expect("there"),
                calls: world.merchant.account.calls(id),
                by_job: lines.iter().filter(by_job).count(),
            });
        }
        let job = run.job.now().await;
        Self {
            lists: Lists::of(world.journals[JUDGE].as_ref(), &job).await,
            run,
            meanwhile,
            job,
            ended,
            wrong,
        }
    }

    /// Says what is not as it should be.
    pub fn check(mut self) -> Vec<String> {
        self.check_counts();
        self.check_lists();
        for place in 0..MANY {
            self.check_one(place);
        }
        self.wrong
    }

    fn check_counts(&mut self) {
        let (counts, state) = (self.job.counts, self.job.state);
        let many = MANY as u64;
        let by_job: usize = self.ended.iter().map(|one| one.by_job).sum();
        // What was ended or made due by hand needs nothing any more.
        let most_skipped = match self.meanwhile {
            Meanwhile::Cancelled | Meanwhile::Retried => 1,
            _ => 0,
        };
        let seen_all = counts.done + counts.skipped == many && counts.skipped <= most_skipped;
        let is_stopped = self.meanwhile == Meanwhile::Stopped && self.run.told.ordered.is_some();
        let is_right = match state {
            JobState::Done => seen_all && !is_stopped,
            JobState::Stopped => is_stopped && counts.skipped == 0 && counts.done < many,
            JobState::Running | JobState::Paused | JobState::Failed => false,
        };
        let is_counted = counts.failed == 0 && counts.done == by_job as u64;
        if !is_right || !is_counted || counts.matched != many {
            let job = &self.job;
            self.wrong.push(format!(
                "made due {by_job} times by the job, and it is {job:?}"
            ));
        }
    }

    /// The lists have as many notifications as the numbers say, and none twice.
    fn check_lists(&mut self) {
        let Lists {
            done,
            unchanged,
            reasons,
        } = &self.lists;
        let counts = self.job.counts;
        let of_result = |result| {
            let of = reasons
                .iter()
                .filter(|(reason, _)| reason.result() == result);
            of.map(|(_, many)| many).sum::<u64>()
        };
        let not_met = reasons.get(&JobReason::EndedBefore).copied().unwrap_or(0);
        let keys = done.iter().chain(unchanged.iter().map(|one| &one.key));
        let different: HashSet<&Key> = keys.collect();
        let is_right = done.len() as u64 == counts.done
            && of_result(JobResult::Skipped) == counts.skipped
            && of_result(JobResult::Failed) == counts.failed
            && unchanged.len() as u64 + not_met == counts.skipped + counts.failed
            && different.len() == done.len() + unchanged.len();
        // Only the first one is ended or sent by hand.
        let first = key(&self.run.ids[0]);
        let known = match self.meanwhile {
            Meanwhile::Cancelled => &[JobReason::Cancelled][..],
            Meanwhile::Retried => &[
                JobReason::SentAgain,
                JobReason::Due,
                JobReason::InFlight,
                JobReason::Delivered,
            ],
            _ => &[],
        };
        let is_known = |one: &JobUnchanged| one.key == first && known.contains(&one.reason);
        if !is_right || !unchanged.iter().all(is_known) {
            self.wrong.push(format!(
                "the lists {done:?}, {unchanged:?}, {reasons:?} of {:?}",
                self.job
            ));
        }
    }

    fn check_one(&mut self, place: usize) {
        let Ended {
            stands,
            calls,
            by_job,
        } = &self.ended[place];
        let is_by_hand = place == 0 && self.run.told.is_sent;
        let is_cancelled = place == 0 && self.run.told.is_cancelled;
        let due_ms = self.run.due_ms;
        let early = calls.iter().filter(|call| call.at_ms < due_ms).count();
        let asked = usize::from(*by_job > 0 || is_by_hand);
        let good = self.run.good[place] as usize;
        let (state, expected, expected_early) = match (self.run.task, is_cancelled) {
            (Task::Retry, true) => (State::Cancelled, 0, 0),
            (Task::Retry, false) => (State::Delivered, good, asked),
            // The first call was before the job. What was sent again has one more.
            (Task::Replay, true) => (State::Cancelled, 1, 1),
            (Task::Replay, false) if asked == 1 && good == 2 => (State::Delivered, 2, 1),
            (Task::Replay, false) => (State::Dead, 1 + asked, 1),
        };
        let numbers: Vec<u32> = calls.iter().map(|call| call.attempt).collect();
        let noted: Vec<u32> = stands.attempts.iter().map(|one| one.number).collect();
        let is_right = *by_job <= 1
            && stands.state == state
            && calls.len() == expected
            && early == expected_early
            && numbers == noted;
        if !is_right {
            let id = &self.run.ids[place];
            self.wrong.push(format!(
                "{id}, made due {by_job} times by the job: {calls:?}, {stands:?}"
            ));
        }
    }
}
