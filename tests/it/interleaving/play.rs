//! Letting the calls of two servers go, one after the other, with what goes wrong meanwhile.

use super::gate::{Gate, Held, Verdict};
use super::operations::Answer;
use super::plot::{Plot, Policy, TroubleAt};
use super::run::{Answered, Outcome, Trouble};
use super::world::{JUDGE, LEASE_MS, World, look};
use crate::support::chance::Chance;
use ringback::schedule::CHANGE_LEASE_MS;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Longest wait for a server's next call. It may sleep before it, up to a few hundred milliseconds.
const LONGEST: Duration = Duration::from_secs(8);
/// Calls that a server makes without any of the other's until it counts as waiting for it.
const WAITS: usize = 12;
/// Longest wait for a further call of a server that is held already. Those that it makes together come at the same
/// moment.
pub const MORE: Duration = Duration::from_micros(300);
/// Likewise after time has passed, which wakes tasks that wait for an instant.
const MORE_LATER: Duration = Duration::from_millis(3);
/// How long a server makes no call until it counts as waiting for a Redis that was set back to be looked at, in this run
/// or the one before.
const LOOKS_AFTER: Duration = Duration::from_millis(25);
/// How often an operation is asked for while it fails, where Redis is set back.
const TRIES: usize = 4;
/// How both servers, and the one who looks afterwards, are shown.
const NAMES: [&str; 3] = ["A", "B", "C"];

/// An operation that is in the middle of something, or has ended.
struct Actor {
    gate: Gate,
    task: JoinHandle<()>,
    held: Vec<Held>,
    alive: bool,
    /// How many calls it made since the other one made any.
    alone: usize,
}

struct Ended {
    server: usize,
    answered: Answered,
}

/// Whether Redis was set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Past {
    /// It keeps what it holds before the first call to it from this step on.
    From(u64),
    /// It has kept it, and is set back after so many steps.
    Kept(u64),
    Over,
}

/// Both servers at work.
pub struct Play<'a> {
    world: &'a Arc<World>,
    trouble: Trouble,
    ids: Vec<String>,
    chance: Chance,
    policy: Policy,
    actors: Vec<Actor>,
    calls: mpsc::UnboundedReceiver<Held>,
    ended: mpsc::UnboundedReceiver<Ended>,
    outcome: Outcome,
    /// The order, as it is shown.
    order: String,
    trouble_at: TroubleAt,
    past: Past,
    step: u64,
    made: [usize; 2],
    /// Which server has claimed something.
    claimed: [bool; 2],
    /// How many calls the other server had made when one was stopped.
    before_stop: Option<usize>,
    /// How often time has passed.
    turns: usize,
    /// Whether time has passed since the last call.
    has_passed: bool,
    /// Whether a server that waits for a Redis that was set back looks at it. If it does not, it waits until it gives up.
    looks_itself: bool,
}

impl<'a> Play<'a> {
    /// What has become of it so far.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The order of the calls, as it is shown, and what became of it.
    pub fn over(self) -> (String, Outcome) {
        (self.order, self.outcome)
    }

    /// Lets both servers begin; each is held at its first call.
    pub fn begin(world: &'a Arc<World>, plot: Plot, mut chance: Chance) -> Self {
        let (sender, calls) = mpsc::unbounded_channel();
        let (done, ended) = mpsc::unbounded_channel();
        let mut actors = Vec::new();
        let sets_back = plot.trouble.sets_back();
        for (server, work) in plot.works.into_iter().enumerate() {
            let gate = Gate::closed(server, sender.clone());
            let over = world.server(server, Some(&gate));
            let (world, done) = (world.clone(), done.clone());
            let tries = if sets_back { TRIES } else { 1 };
            let task = tokio::spawn(async move {
                let mut answer = Answer::Nothing;
                for _ in 0..tries {
                    answer = work(over.clone()).await;
                    if !matches!(answer, Answer::Failed(_)) {
                        break;
                    }
                }
                let answered = (answer, world.merchant.account.now());
                let _ = done.send(Ended { server, answered });
            });
            actors.push(Actor {
                gate,
                task,
                held: Vec::new(),
                alive: true,
                alone: 0,
            });
        }
        Self {
            world,
            trouble: plot.trouble,
            ids: plot.ids,
            policy: plot.policy,
            looks_itself: sets_back && chance.percent(90),
            chance,
            actors,
            calls,
            ended,
            outcome: Outcome::default(),
            order: String::new(),
            trouble_at: plot.trouble_at,
            past: match plot.trouble_at {
                TroubleAt::Step(step) if sets_back => Past::From(step),
                TroubleAt::Step(_) | TroubleAt::Stop => Past::Over,
            },
            step: 0,
            made: [0, 0],
            claimed: [false, false],
            before_stop: None,
            turns: 0,
            has_passed: false,
        }
    }

    /// Whether the policy has stopped a server.
    pub fn has_stopped(&self) -> bool {
        self.before_stop.is_some()
    }

    /// Lets one call go after the other, until both have ended.
    pub async fn go(&mut self) -> Result<(), String> {
        loop {
            self.until_quiet().await?;
            if self.past == Past::Kept(0) {
                self.set_back().await;
            }
            let ready: Vec<usize> = (0..2).filter(|server| self.is_held(*server)).collect();
            if ready.is_empty() {
                break;
            }
            if self.somebody_looks().await || self.time_passes(&ready) {
                continue;
            }
            if let Some(server) = self.choose(&ready) {
                self.let_go(server).await;
            }
        }
        if let Past::Kept(_) = self.past {
            self.set_back().await;
        }
        for actor in &self.actors {
            if actor.alive {
                actor.gate.open();
            }
        }
        Ok(())
    }

    fn is_held(&self, server: usize) -> bool {
        self.actors[server].alive && !self.actors[server].held.is_empty()
    }

    /// Waits until everybody who can go on is held or has ended.
    async fn until_quiet(&mut self) -> Result<(), String> {
        let mut may_look = self.looks_itself;
        loop {
            let running = (0..2).find(|server| {
                let ended = self.outcome.answers[*server].is_some();
                self.actors[*server].alive && !ended && !self.is_held(*server)
            });
            let wait = match running {
                Some(_) if may_look => sleep(LOOKS_AFTER),
                Some(_) => sleep(LONGEST),
                None if self.has_passed => sleep(MORE_LATER),
                None => sleep_briefly(MORE),
            };
            tokio::select! {
                biased;
                Some(end) = self.ended.recv() => {
                    self.outcome.answers[end.server] = Some(end.answered);
                }
                Some(held) = self.calls.recv() => self.actors[held.server].held.push(held),
                () = wait => match running {
                    Some(server) if may_look => {
                        may_look = false;
                        self.looks(server).await;
                    }
                    Some(_) => return Err("stuck".to_string()),
                    None => {
                        self.has_passed = false;
                        return Ok(());
                    }
                },
            }
        }
    }

    /// Whether a server waits for the other one, or for time to pass: it asks again and again.
    fn waits(&self, server: usize) -> bool {
        self.actors[server].alone >= WAITS
    }

    /// May let time pass; says whether it did.
    fn time_passes(&mut self, ready: &[usize]) -> bool {
        let all_wait = ready.iter().all(|one| self.waits(*one));
        let percent = match (self.policy, all_wait) {
            (_, true) => 60,
            (Policy::Random, false) => 10,
            (Policy::Stop { .. }, false) => 1,
        };
        let may = self.turns < 3 && self.chance.percent(percent);
        let must = all_wait && self.turns < 40;
        if !may && !must {
            return false;
        }
        self.turns += 1;
        let by_ms = *self
            .chance
            .pick(&[3_100, CHANGE_LEASE_MS + 1, LEASE_MS + 1]);
        self.advance(by_ms);
        for actor in &mut self.actors {
            actor.alone = 0;
        }
        true
    }

    fn advance(&mut self, by_ms: i64) {
        self.world.clock.advance(by_ms);
        self.has_passed = true;
        let _ = write!(self.order, "+{by_ms} ");
    }

    /// Whose call goes next; `None` if time passed instead.
    fn choose(&mut self, ready: &[usize]) -> Option<usize> {
        let patient: Vec<usize> = (ready.iter().copied())
            .filter(|one| !self.waits(*one))
            .collect();
        let any = if patient.is_empty() { ready } else { &patient };
        let drawn = *self.chance.pick(any);
        let Policy::Stop {
            server: stopped,
            after,
            pause_ms,
            meanwhile,
        } = self.policy
        else {
            return Some(drawn);
        };
        let other = 1 - stopped;
        let wanted = if self.made[stopped] < after {
            stopped
        } else {
            let Some(before) = self.before_stop else {
                self.before_stop = Some(self.made[other]);
                if pause_ms > 0 {
                    self.advance(pause_ms);
                }
                return None;
            };
            match self.made[other] - before < meanwhile {
                true => other,
                false => stopped,
            }
        };
        if ready.contains(&wanted) && !self.waits(wanted) {
            return Some(wanted);
        }
        Some(drawn)
    }

    /// Lets a call of this server go, or what the trouble makes of it.
    async fn let_go(&mut self, server: usize) {
        let many = self.actors[server].held.len() as u64;
        let which = self.chance.below(many) as usize;
        let held = self.actors[server].held.remove(which);
        self.made[server] += 1;
        for (other, actor) in self.actors.iter_mut().enumerate() {
            actor.alone = if other == server { actor.alone + 1 } else { 0 };
        }
        self.claimed[server] |= held.name == "schedule.claim";
        let strikes = self.strikes(server);
        self.step += 1;
        let _ = write!(self.order, "{}:{} ", NAMES[server], held.name);
        let is_to_redis = held.name.starts_with("schedule.");
        match self.past {
            Past::From(step) if is_to_redis && self.step > step => {
                self.world.keep_redis().await;
                self.order.push_str("(kept before) ");
                self.past = Past::Kept(*self.chance.pick(&[0, 0, 1, 2, 4, 100]));
            }
            Past::Kept(steps) => self.past = Past::Kept(steps - 1),
            Past::From(_) | Past::Over => {}
        }
        let verdict = match self.trouble {
            Trouble::Death if strikes => {
                let before = self.chance.percent(50);
                if !before {
                    let _ = held.go.send(Verdict::Died);
                    // It is executed before the stores are compared.
                    let _ = held.made.await;
                }
                self.die(server);
                return;
            }
            Trouble::LostReply if strikes && held.name != "merchant" => {
                self.order.push_str("unanswered ");
                Verdict::ReplyLost
            }
            // The reply may be lost with the server that gave it.
            Trouble::SetBack | Trouble::PowerCut
                if self.past == Past::Kept(0) && is_to_redis && self.chance.percent(50) =>
            {
                self.order.push_str("unanswered ");
                Verdict::ReplyLost
            }
            Trouble::Nothing
            | Trouble::Death
            | Trouble::LostReply
            | Trouble::SetBack
            | Trouble::PowerCut => Verdict::Made,
        };
        let _ = held.go.send(verdict);
    }

    /// Whether the trouble comes at the call that this server makes now.
    fn strikes(&self, server: usize) -> bool {
        match (self.trouble_at, self.policy) {
            (TroubleAt::Step(step), _) => self.step == step,
            (
                TroubleAt::Stop,
                Policy::Stop {
                    server: stopped,
                    after,
                    ..
                },
            ) => server == stopped && self.made[server] == after + 1,
            (TroubleAt::Stop, Policy::Random) => false,
        }
    }

    fn die(&mut self, server: usize) {
        let _ = write!(self.order, "{} dies ", NAMES[server]);
        self.outcome.died.push(server);
        let actor = &mut self.actors[server];
        actor.gate.die();
        actor.alive = false;
        actor.task.abort();
    }

    /// Has Redis killed, and started with what it has kept.
    async fn set_back(&mut self) {
        self.past = Past::Over;
        if self.trouble == Trouble::PowerCut {
            for server in self.chance.pick(&[&[0][..], &[1], &[0, 1]]).iter() {
                self.die(*server);
            }
        }
        self.order.push_str("Redis is set back ");
        // First, so that a call that arrives meanwhile is not overlooked: it counts twice at the most.
        let calls = self.ids.iter();
        let calls: Vec<_> = calls
            .flat_map(|id| self.world.merchant.account.calls(id))
            .collect();
        for id in &self.ids {
            let many = self.world.calls_without_outcome(id).await;
            self.outcome.without_lease.insert(id.clone(), many);
        }
        // One that dies with Redis too: its task may be on its way to the merchant when it is stopped.
        let about_to_call = (0..2).filter(|server| {
            self.claimed[*server]
                && self.outcome.answers[*server].is_none()
                && calls.iter().all(|call| call.server != *server)
        });
        self.outcome.about_to_call = about_to_call.count();
        let mut leases = Vec::new();
        for id in &self.ids {
            leases.push(self.world.lease_of_attempt(id).await);
        }
        self.world.set_redis_back().await;
        for (id, lease) in self.ids.iter().zip(leases) {
            if lease.is_some() && self.world.lease_of_attempt(id).await == lease {
                // It is in force still, so nothing excuses a second call.
                self.outcome.about_to_call = 0;
                self.outcome.without_lease.remove(id);
            }
        }
    }

    /// After Redis was set back, a server may look at it, and do what is to be done; says whether one
    /// did.
    async fn somebody_looks(&mut self) -> bool {
        let is_back = self.trouble.sets_back() && self.past == Past::Over;
        if !is_back || !self.chance.percent(15) {
            return false;
        }
        let server = self.chance.below(3) as usize;
        if server != JUDGE && !self.actors[server].alive {
            return false;
        }
        self.looks(server).await;
        true
    }

    /// A server looks at Redis, and does what is to be done.
    async fn looks(&mut self, server: usize) {
        let _ = write!(self.order, "{} looks ", NAMES[server]);
        let (schedules, journals) = (&self.world.schedules, &self.world.journals);
        look(&schedules[server], Some(&journals[server])).await;
    }
}

/// A wait for some time.
pub type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

fn sleep(wait: Duration) -> Waiting {
    Box::pin(tokio::time::sleep(wait))
}

/// Waits for less time than a timer can measure, while other tasks go on.
pub fn sleep_briefly(wait: Duration) -> Waiting {
    Box::pin(async move {
        let begun = Instant::now();
        while begun.elapsed() < wait {
            tokio::task::yield_now().await;
        }
    })
}
