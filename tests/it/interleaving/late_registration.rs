//! A registration that one server accepted arrives late in the schedule, while it is repeated at another server, sent there or
//! cancelled, and forgotten.

use super::gate::{Gate, Held, Verdict};
use super::operations::Registered;
use super::world::{JUDGE, Kind, Most, Redis, Server, World, key};
use ringback::domain::attempt::Outcome;
use ringback::domain::state::State;
use ringback::journal::Actor;
use ringback::schedule::HAND_LEASE_WAIT_MS;
use ringback::schedule::window::Window;
use ringback::service::{RegisterReply, ServiceError};
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

const ID: &str = "1";
const KINDS: [Kind; 2] = [Kind::RedisAndSqlite, Kind::RedisAndPostgres];

type Registering = JoinHandle<Result<RegisterReply, ServiceError>>;

/// A server that registers it, and whose calls are held.
struct Registrant {
    gate: Gate,
    calls: UnboundedReceiver<Held>,
    registering: Registering,
}

impl Registrant {
    fn begin(world: &World, number: usize) -> Self {
        let (held, calls) = unbounded_channel();
        let gate = Gate::closed(number, held);
        let server: Server = world.server(number, Some(&gate));
        let once = Registered {
            good: 1,
            most: Most::One,
            order: None,
        };
        let asked = world.registration(ID, once, 0);
        let registering = async move { server.service.register(asked, Actor::named("test")).await };
        Self {
            gate,
            calls,
            registering: tokio::spawn(registering),
        }
    }

    /// The first server, whose registration the journal has, and its call that would put it into the schedule.
    async fn accepted(world: &World) -> (Self, Held) {
        let mut first = Self::begin(world, 0);
        let late = first.until("schedule.register", 1).await;
        (first, late.expect("it is held"))
    }

    /// Lets its calls go until it makes this one for the given time, which stays held. `None` if it has ended before.
    async fn until(&mut self, name: &str, time: usize) -> Option<Held> {
        let mut seen = 0;
        loop {
            let held = tokio::select! {
                held = self.calls.recv() => held?,
                _ = &mut self.registering => return None,
            };
            seen += usize::from(held.name == name);
            if held.name == name && seen == time {
                return Some(held);
            }
            let _ = held.go.send(Verdict::Made);
        }
    }

    async fn over(self) {
        self.gate.open();
        drop(self.calls);
        if !self.registering.is_finished() {
            self.registering
                .await
                .expect("no panic")
                .expect("registered");
        }
    }
}

async fn judge(kind: Kind) -> (Arc<World>, Server) {
    let world = Arc::new(World::of(kind, Redis::Shared, Window::WHOLE).await);
    let judge = world.server(JUDGE, None);
    (world, judge)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_repeated_elsewhere_is_called_once() {
    for kind in KINDS {
        let (world, judge) = judge(kind).await;
        let (first, late) = Registrant::accepted(&world).await;
        // It is accepted, and not in the schedule. The other server finds that, and again.
        let mut second = Registrant::begin(&world, 1);
        let asks_again = second.until("schedule.holds", 3).await;
        judge.attempt().await.expect("attempted");
        let _ = late.go.send(Verdict::Made);
        let _ = late.made.await;
        first.over().await;
        judge.attempt().await.expect("attempted");
        if let Some(held) = asks_again {
            let _ = held.go.send(Verdict::Made);
        }
        second.over().await;
        judge.attempt().await.expect("attempted");
        let calls = world.merchant.account.calls(ID);
        assert_eq!(calls.len(), 1, "{kind:?}: {calls:?}");
        let known = judge
            .journal
            .find(&key(ID))
            .await
            .expect("read")
            .expect("there");
        assert_eq!(known.state, State::Delivered);
        let outcomes: Vec<Outcome> = (known.attempts.iter())
            .map(|attempt| attempt.answer.outcome)
            .collect();
        assert_eq!(outcomes, [Outcome::Acknowledged]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_repeated_elsewhere_and_cancelled_is_not_called() {
    for kind in KINDS {
        let (world, judge) = judge(kind).await;
        let (first, late) = Registrant::accepted(&world).await;
        let mut second = Registrant::begin(&world, 1);
        let asks_again = second.until("schedule.holds", 3).await;
        // Its lease is given as soon as no registration can be on its way that would be sent without a question.
        world.clock.advance(if asks_again.is_some() {
            HAND_LEASE_WAIT_MS + 1
        } else {
            0
        });
        if let Some(held) = asks_again {
            let _ = held.go.send(Verdict::Made);
        }
        second.over().await;
        let cancelled = judge.service.cancel(&key(ID), Actor::named("test")).await;
        assert_eq!(cancelled.expect("cancelled").state, State::Cancelled);
        let _ = late.go.send(Verdict::Made);
        let _ = late.made.await;
        first.over().await;
        judge.attempt().await.expect("attempted");
        assert_eq!(world.merchant.account.calls(ID).len(), 0, "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_never_arrives_is_put_in_by_its_repetition() {
    for kind in KINDS {
        let (world, judge) = judge(kind).await;
        let (first, lost) = Registrant::accepted(&world).await;
        // Its server dies here.
        first.gate.die();
        first.registering.abort();
        drop(lost);
        let mut second = Registrant::begin(&world, 1);
        let asks_again = second.until("schedule.holds", 3).await.expect("it waits");
        world.clock.advance(HAND_LEASE_WAIT_MS + 1);
        let _ = asks_again.go.send(Verdict::Made);
        second.over().await;
        judge.attempt().await.expect("attempted");
        assert_eq!(world.merchant.account.calls(ID).len(), 1, "{kind:?}");
    }
}
