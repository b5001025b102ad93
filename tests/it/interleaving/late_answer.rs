//! A server that is cut off while it records that an attempt was acknowledged. Its lease expires, another server makes the
//! attempt again, and the merchant refuses this second call: it has booked the payment already.

use super::account::until_ended;
use super::gate::{Gate, Held, Verdict};
use super::operations::Registered;
use super::world::{JUDGE, Kind, LEASE_MS, Most, Redis, Server, World, key};
use crate::support::within;
use ringback::domain::attempt::Outcome;
use ringback::domain::snapshot::Snapshot;
use ringback::domain::state::State;
use ringback::journal::Actor;
use ringback::schedule::window::Window;
use ringback::service::ServiceError;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

const ID: &str = "1";
const KINDS: [Kind; 3] = [
    Kind::MemoryAndSqlite,
    Kind::RedisAndSqlite,
    Kind::RedisAndPostgres,
];
/// How often the other server looks for what is due, a second apart, until the lease has been taken back.
const MOST_TRIES: usize = 5;

/// The server that is cut off, before it records the outcome.
struct CutOff {
    gate: Gate,
    calls: UnboundedReceiver<Held>,
    attempting: JoinHandle<()>,
    recording: Held,
}

impl CutOff {
    /// Lets it make its call and get the answer.
    async fn after_the_answer(world: &World) -> Self {
        let (held, mut calls) = unbounded_channel();
        let gate = Gate::closed(0, held);
        let server: Server = world.server(0, Some(&gate));
        let attempting = tokio::spawn(async move {
            server.attempt().await.expect("attempted");
        });
        loop {
            let held = within("the next call of the server", calls.recv()).await;
            let held = held.expect("it attempts");
            if held.name == "journal.record" {
                return Self {
                    gate,
                    calls,
                    attempting,
                    recording: held,
                };
            }
            let _ = held.go.send(Verdict::Made);
        }
    }

    /// It reaches the journal again, and everything else.
    async fn comes_back(self) {
        let Self {
            gate,
            calls,
            attempting,
            recording,
        } = self;
        let _ = recording.go.send(Verdict::Made);
        let _ = recording.made.await;
        gate.open();
        // So the others of its calls go on too.
        drop(calls);
        within("the server to end", attempting)
            .await
            .expect("no panic");
    }
}

/// A notification with one attempt, which the first server has made and could not record. The other one has made it again,
/// and it has failed.
async fn died_meanwhile(kind: Kind) -> (World, Server, CutOff) {
    let world = World::of(kind, Redis::Shared, Window::WHOLE).await;
    let judge = world.server(JUDGE, None);
    world.merchant.account.refuse_copies(ID);
    let once = Registered {
        good: 1,
        most: Most::One,
        order: None,
    };
    let asked = world.registration(ID, once, 0);
    let registered = judge.service.register(asked, Actor::named("test")).await;
    registered.expect("registered");
    let cut_off = CutOff::after_the_answer(&world).await;
    world.clock.advance(LEASE_MS + 1);
    for _ in 0..MOST_TRIES {
        judge.attempt().await.expect("attempted");
        if stands(&judge).await.state == State::Dead {
            break;
        }
        world.clock.advance(1_000);
    }
    let stands = stands(&judge).await;
    assert_eq!(stands.state, State::Dead, "{kind:?}: {stands:?}");
    let calls = world.merchant.account.calls(ID);
    let acknowledged: Vec<bool> = calls.iter().map(|call| call.acknowledged).collect();
    assert_eq!(acknowledged, [true, false], "{kind:?}: {calls:?}");
    (world, judge, cut_off)
}

async fn stands(judge: &Server) -> Snapshot {
    let found = judge.journal.find(&key(ID)).await;
    found.expect("read").expect("there")
}

fn outcomes(stands: &Snapshot) -> Vec<Outcome> {
    let attempts = stands.attempts.iter();
    attempts.map(|attempt| attempt.answer.outcome).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_counts_although_the_repetition_was_refused() {
    for kind in KINDS {
        let (world, judge, cut_off) = died_meanwhile(kind).await;
        cut_off.comes_back().await;
        let stands = stands(&judge).await;
        assert_eq!(
            (stands.state, stands.cause),
            (State::Delivered, None),
            "{kind:?}: {stands:?}"
        );
        assert_eq!(
            outcomes(&stands),
            [
                Outcome::Interrupted,
                Outcome::WrongAnswer,
                Outcome::Acknowledged
            ]
        );
        let lines = judge.journal.transitions(&key(ID)).await.expect("read");
        let kinds: Vec<&str> = lines.iter().map(|line| line.kind.as_str()).collect();
        assert_eq!(kinds, ["registered", "parked", "delivered"], "{kind:?}");
        // Nobody calls the merchant again by mistake.
        let (lost, somebody) = (key(ID), Actor::named("test"));
        let replayed = judge.service.replay(&lost, somebody, "").await;
        assert!(
            matches!(replayed, Err(ServiceError::Refused { .. })),
            "{kind:?}: {replayed:?}"
        );
        until_ended(&world, &[ID]).await.expect("nothing is left");
        assert_eq!(world.merchant.account.calls(ID).len(), 2, "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_of_a_series_that_was_replayed_changes_nothing() {
    for kind in KINDS {
        let (world, judge, cut_off) = died_meanwhile(kind).await;
        let (dead, somebody) = (key(ID), Actor::named("test"));
        let replayed = judge.service.replay(&dead, somebody, "").await;
        assert_eq!(replayed.expect("replayed").progress.series, 2);
        cut_off.comes_back().await;
        let pending = stands(&judge).await;
        assert_eq!(
            (pending.state, pending.progress.series),
            (State::Scheduled, 2),
            "{kind:?}: {pending:?}"
        );
        until_ended(&world, &[ID]).await.expect("nothing is left");
        let ended = stands(&judge).await;
        assert_eq!(
            (ended.state, ended.progress.series),
            (State::Delivered, 2),
            "{kind:?}: {ended:?}"
        );
        assert_eq!(world.merchant.account.calls(ID).len(), 3, "{kind:?}");
    }
}
