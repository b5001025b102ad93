//! A server that carries jobs on, one call to a store after the other.

use crate::interleaving::gate::{Gate, Held, Verdict};
use crate::interleaving::play::{MORE, sleep_briefly};
use crate::interleaving::world::World;
use crate::support::chance::Chance;
use ringback::domain::job::{BulkJob, JobId};
use ringback::journal::Journal;
use std::fmt::Write as _;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longest wait for the next call. A server rests between two steps, and for a second after one that failed.
const LONGEST: Duration = Duration::from_secs(8);
/// By how much each call moves the clock of the stores, so that a server that asks again and again outlasts the lease for
/// which it waits.
const CALL_MS: i64 = 200;

/// What becomes of a server at the call before which it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It goes on later.
    GoesOn,
    DiesBefore,
    /// It dies when the call has been made.
    DiesAfter,
    /// The call is made, and the server does not hear the reply. It goes on later.
    ReplyLost,
}

/// All of them.
pub const FATES: &[Fate] = &[
    Fate::GoesOn,
    Fate::DiesBefore,
    Fate::DiesAfter,
    Fate::ReplyLost,
];

/// One of the two servers, while it carries jobs on.
pub struct Carrier {
    name: &'static str,
    gate: Gate,
    calls: mpsc::UnboundedReceiver<Held>,
    held: Vec<Held>,
    stop: CancellationToken,
    task: JoinHandle<()>,
    made: usize,
    is_over: bool,
}

/// The order of the calls, as it is shown, and what decides which goes next.
pub struct Course {
    pub order: String,
    pub chance: Chance,
}

impl Carrier {
    /// Begins; the server is held at its first call.
    pub fn begin(world: &World, number: usize) -> Self {
        let (sender, calls) = mpsc::unbounded_channel();
        let gate = Gate::closed(number, sender);
        let service = world.server(number, Some(&gate)).service;
        let stop = CancellationToken::new();
        Self {
            name: ["A", "B"][number],
            gate,
            calls,
            held: Vec::new(),
            task: tokio::spawn(service.run_jobs(stop.clone())),
            stop,
            made: 0,
            is_over: false,
        }
    }

    /// How many calls it has made.
    pub fn made(&self) -> usize {
        self.made
    }

    /// Whether it may still make a call.
    pub fn is_alive(&self) -> bool {
        !self.is_over
    }

    /// Lets it make so many calls in all, and stops it before the next one. If the job ends, the server is stopped after
    /// what it does. Says whether it stands before a call.
    pub async fn drive(
        &mut self,
        calls: usize,
        job: &Watched<'_>,
        world: &World,
        course: &mut Course,
    ) -> Result<bool, String> {
        self.stop_after_end(job).await;
        loop {
            self.wait_for_call().await?;
            if self.is_over || self.made >= calls {
                return Ok(!self.is_over);
            }
            world.clock.advance(CALL_MS);
            let name = self.let_go(Verdict::Made, course).await;
            if name == "journal.step_job" {
                self.stop_after_end(job).await;
            }
        }
    }

    /// Lets it go on until it is over: it does what it has begun, and gives the job back.
    pub async fn finish(
        &mut self,
        job: &Watched<'_>,
        world: &World,
        course: &mut Course,
    ) -> Result<(), String> {
        self.stop.cancel();
        self.drive(usize::MAX, job, world, course).await?;
        Ok(())
    }

    /// Does with it what has to be done at the call before which it stands. Gives the name of the call.
    pub async fn meet(&mut self, fate: Fate, course: &mut Course) -> &'static str {
        let name = match fate {
            Fate::GoesOn => "",
            Fate::DiesBefore => self.held.first().map_or("", |held| held.name),
            Fate::DiesAfter => self.let_go(Verdict::Died, course).await,
            Fate::ReplyLost => {
                let name = self.let_go(Verdict::ReplyLost, course).await;
                course.order.push_str("unanswered ");
                name
            }
        };
        if matches!(fate, Fate::DiesBefore | Fate::DiesAfter) {
            let _ = write!(course.order, "{} dies ", self.name);
            self.gate.die();
            self.task.abort();
            self.is_over = true;
        }
        name
    }

    /// Holds nothing any more, if it lives: what it does in the background goes on.
    pub fn let_all_go(self) {
        self.gate.open();
    }

    async fn stop_after_end(&self, job: &Watched<'_>) {
        if job.now().await.state.has_ended() {
            self.stop.cancel();
        }
    }

    /// Waits until it stands before a call or is over, and for the calls that it makes together with that one.
    async fn wait_for_call(&mut self) -> Result<(), String> {
        while !self.is_over && self.held.is_empty() {
            tokio::select! {
                biased;
                Some(held) = self.calls.recv() => self.held.push(held),
                ended = &mut self.task => {
                    ended.map_err(|error| format!("{}: {error}", self.name))?;
                    self.is_over = true;
                }
                () = tokio::time::sleep(LONGEST) => return Err(format!("{} is stuck", self.name)),
            }
        }
        if !self.is_over {
            sleep_briefly(MORE).await;
            while let Ok(held) = self.calls.try_recv() {
                self.held.push(held);
            }
        }
        Ok(())
    }

    /// Lets one of its calls go, and waits until the store has executed it.
    async fn let_go(&mut self, verdict: Verdict, course: &mut Course) -> &'static str {
        let which = course.chance.below(self.held.len() as u64) as usize;
        let held = self.held.remove(which);
        self.made += 1;
        let _ = write!(course.order, "{}:{} ", self.name, held.name);
        let _ = held.go.send(verdict);
        let _ = held.made.await;
        held.name
    }
}

/// A job, looked at past the servers.
pub struct Watched<'a> {
    pub journal: &'a dyn Journal,
    pub id: JobId,
}

impl Watched<'_> {
    /// The job now.
    pub async fn now(&self) -> BulkJob {
        let job = self.journal.job(&self.id).await.expect("read");
        job.expect("it is there")
    }

    /// The time runs out for which a server has the job. That time is by the clock of the database.
    pub async fn let_lease_expire(&self) {
        // More often than it is taken here.
        for fence in 1..40 {
            let given_back = self.journal.keep_job(&self.id, fence, 0).await;
            if given_back.expect("answered") {
                return;
            }
        }
    }
}
