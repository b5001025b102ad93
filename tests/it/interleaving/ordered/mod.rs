//! Two servers and two notifications of one order key, number 1 and number 2.
//!
//! Each server is stopped before each of its calls to a store or to the merchant in turn, while the other one does some
//! or all of what it has to do; then the first one goes on, or dies there, or does not hear the reply. Afterwards
//! maintenance repairs what is left, and then: no two attempts of the key were made side by side, no lower number was
//! sent after a higher one where the order forbids it, nothing waits for ever, and both stores agree.
//!
//! `RINGBACK_INTERLEAVING_CASE` tries one case alone: its place in [`CASES`], from 0.

mod account;
mod cases;

use super::operations::{Answer, Numbered, Operation, Registered, perform};
use super::play::Play;
use super::plot::{Plot, Policy, TroubleAt, Work};
use super::report::{Found, report};
use super::requested;
use super::run::{Answered, Outcome, Trouble, plot, registered};
use super::world::{JUDGE, Kind, Redis, World};
use super::{OF_REDIS, OF_SERVERS};
use crate::support::chance::Chance;
use account::settle_accounts;
use cases::{CASES, Case, Which};
use ringback::schedule::window::Window;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// More calls than any server makes here.
const MOST_CALLS: usize = 60;
/// How many calls are between two stops in the short form.
const APART: usize = 3;

/// Something that was done.
#[derive(Debug, Clone)]
struct Done {
    which: Which,
    operation: Operation,
    /// Where its beginning stands among all that happened.
    began: u64,
    /// What was answered; `None` if its server died.
    answered: Option<Answered>,
}

/// Everything that was done, by the server and the place among what that server does.
type Deeds = Arc<Mutex<BTreeMap<(usize, usize), Done>>>;

/// One run.
struct OrderRun<'a> {
    world: &'a Arc<World>,
    case: &'static Case,
    order_key: String,
    registrations: [Registered; 2],
}

impl<'a> OrderRun<'a> {
    /// Brings both notifications to where the run begins.
    async fn prepare(
        world: &'a Arc<World>,
        case: &'static Case,
        order_key: String,
        chance: &mut Chance,
    ) -> Self {
        let registrations = Which::BOTH.map(|which| {
            let before = case.before_of(which);
            let place = Numbered {
                number: which.number(),
                mode: case.mode,
            };
            let mut registration = registered(before, chance);
            registration.order = Some(place);
            registration
        });
        let run = Self {
            world,
            case,
            order_key,
            registrations,
        };
        let judge = world.server(JUDGE, None);
        for (which, before) in case.before {
            let (id, registration) = (run.id(*which), run.registration(*which));
            world.prepare(&id, *before, &judge, registration).await;
        }
        if !case.before.is_empty() && chance.percent(50) {
            world.clock.advance(4_000);
        }
        run
    }

    fn id(&self, which: Which) -> String {
        format!("{}-{}", self.order_key, which.number())
    }

    fn registration(&self, which: Which) -> Registered {
        self.registrations[which as usize]
    }

    /// What the servers do, and where it is written down.
    fn works(&self) -> ([Work; 2], Deeds) {
        let deeds = Deeds::default();
        let works = [0, 1].map(|server| {
            let todo: Vec<_> = (self.case.works[server].iter())
                .map(|(which, operation)| {
                    let (id, registration) = (self.id(*which), self.registration(*which));
                    (*which, *operation, id, registration)
                })
                .collect();
            let (world, deeds) = (self.world.clone(), deeds.clone());
            let work: Work = Arc::new(move |stores| {
                let (world, deeds, todo) = (world.clone(), deeds.clone(), todo.clone());
                Box::pin(async move {
                    let mut last = Answer::Nothing;
                    for (place, (which, operation, id, registration)) in todo.iter().enumerate() {
                        let place = (server, place);
                        if is_answered(&deeds, place) {
                            continue;
                        }
                        let mut done = Done {
                            which: *which,
                            operation: *operation,
                            began: world.merchant.account.now(),
                            answered: None,
                        };
                        deeds
                            .lock()
                            .expect("not poisoned")
                            .insert(place, done.clone());
                        let answer = perform(&world, &stores, *operation, id, *registration).await;
                        let has_failed = matches!(answer, Answer::Failed(_));
                        if has_failed || !matches!(last, Answer::Failed(_)) {
                            last = answer.clone();
                        }
                        done.answered = Some((answer, world.merchant.account.now()));
                        deeds.lock().expect("not poisoned").insert(place, done);
                    }
                    last
                })
            });
            work
        });
        (works, deeds)
    }

    fn ids(&self) -> Vec<String> {
        Which::BOTH.map(|which| self.id(which)).to_vec()
    }

    /// Lets both servers do what they have to do. Gives whether one was stopped, and what is wrong.
    async fn play(&self, plot: Plot, deeds: Deeds, chance: Chance) -> (bool, Vec<String>) {
        let trouble = plot.trouble;
        let mut play = Play::begin(self.world, plot, chance);
        let all_done = || -> Vec<Done> {
            let deeds = deeds.lock().expect("not poisoned");
            deeds.values().cloned().collect()
        };
        let wrong = match play.go().await {
            Ok(()) => settle_accounts(self, &all_done(), play.outcome()).await,
            Err(what) => vec![what],
        };
        let has_stopped = play.has_stopped();
        let (order, Outcome { died, .. }) = play.over();
        let deeds = all_done();
        let said = wrong.into_iter().map(|what| {
            let (case, key) = (self.case, &self.order_key);
            format!("{case:?} {trouble:?} {key}: {what}\n    {order}\n    {deeds:?} died: {died:?}")
        });
        (has_stopped, said.collect())
    }
}

fn is_answered(deeds: &Deeds, place: (usize, usize)) -> bool {
    let deeds = deeds.lock().expect("not poisoned");
    let answered = deeds.get(&place).and_then(|done| done.answered.as_ref());
    answered.is_some_and(|(answer, _)| !matches!(answer, Answer::Failed(_)))
}

/// Stops each server before each of its calls. In the short form, before every third one, beginning with one that the
/// seed draws for each case, and one trouble is drawn for each stop; in the long form, each of them is tried.
async fn stop_everywhere(kind: Kind) {
    let seed = requested::seed();
    let many = requested::runs();
    let world = Arc::new(World::of(kind, Redis::Shared, Window::WHOLE).await);
    let mut found = Found::default();
    for case in requested::cases(CASES) {
        for server in 0..2 {
            let apart = if many.is_none() { APART } else { 1 };
            let mut drawing = Chance::of_one(seed, found.runs + 1);
            let first = drawing.below(apart as u64) as usize;
            for after in (first..MOST_CALLS).step_by(apart) {
                let mut has_stopped = false;
                for run in 0..many.map_or(1, |many| many * OF_SERVERS.len() as u64) {
                    found.runs += 1;
                    let mut chance = Chance::of_one(seed, found.runs);
                    let trouble = match many {
                        None => *chance.pick(OF_SERVERS),
                        Some(_) => OF_SERVERS[run as usize % OF_SERVERS.len()],
                    };
                    let stop = (server, after, trouble);
                    has_stopped |= stop_once(&world, case, stop, &mut found, chance).await;
                }
                if !has_stopped {
                    break;
                }
            }
        }
    }
    report(kind, &world, seed, found, "with an order").await;
}

/// Stops a server after so many calls. Says whether it made so many.
async fn stop_once(
    world: &Arc<World>,
    case: &'static Case,
    (server, after, trouble): (usize, usize, Trouble),
    found: &mut Found,
    mut chance: Chance,
) -> bool {
    let key = format!("n{}", found.runs);
    let run = OrderRun::prepare(world, case, key, &mut chance).await;
    let (works, deeds) = run.works();
    let plot = Plot {
        works,
        ids: run.ids(),
        trouble,
        trouble_at: TroubleAt::Stop,
        policy: Policy::stop(server, after, &mut chance),
    };
    let (has_stopped, wrong) = run.play(plot, deeds, chance).await;
    found.wrong.extend(wrong);
    has_stopped
}

/// Sets Redis back at any of the calls.
async fn set_redis_back(kind: Kind) {
    let seed = requested::seed();
    let many = requested::runs().unwrap_or(1);
    let world = Arc::new(World::of(kind, Redis::Own, Window::WHOLE).await);
    let mut found = Found::default();
    for case in requested::cases(CASES) {
        for trouble in OF_REDIS {
            for _ in 0..many {
                found.runs += 1;
                let mut chance = Chance::of_one(seed, found.runs);
                world.outlast_the_last_loss();
                let key = format!("n{}", found.runs);
                let run = OrderRun::prepare(&world, case, key, &mut chance).await;
                let (works, deeds) = run.works();
                let plot = plot(works, run.ids(), *trouble, &mut chance);
                found.wrong.extend(run.play(plot, deeds, chance).await.1);
            }
        }
    }
    report(kind, &world, seed, found, "with an order").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_memory_with_sqlite() {
    stop_everywhere(Kind::MemoryAndSqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_with_sqlite() {
    stop_everywhere(Kind::RedisAndSqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_with_postgres() {
    stop_everywhere(Kind::RedisAndPostgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_that_is_set_back_with_sqlite() {
    set_redis_back(Kind::RedisAndSqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_that_is_set_back_with_postgres() {
    set_redis_back(Kind::RedisAndPostgres).await;
}
