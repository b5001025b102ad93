//! One interleaving of two operations, and its account.

use super::gate::{Gate, Held, Verdict};
use super::operations::{Answer, Before, Operation, Registered, perform};
use super::world::{JUDGE, LEASE_MS, Most, World, key, look};
use crate::support::chance::Chance;
use ringback::domain::attempt::Outcome;
use ringback::domain::snapshot::Snapshot;
use ringback::domain::state::State;
use ringback::schedule::CHANGE_LEASE_MS;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// What goes wrong during a run, besides the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    Nothing,
    /// One of the two servers dies at one of its calls, before or after it is made.
    Death,
    /// One reply of a store is lost.
    LostReply,
}

/// What is tried.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    pub pair: [Operation; 2],
    pub before: Before,
    pub trouble: Trouble,
}

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
    answer: Answer,
    /// Where it stands among all that happened.
    at: u64,
}

/// Longest wait for a server's next call. It may sleep before it, up to a few hundred milliseconds.
const LONGEST: Duration = Duration::from_secs(8);
/// Calls that a server makes without any of the other's until it counts as waiting for it.
const WAITS: usize = 12;

/// How the next call is chosen.
#[derive(Debug, Clone, Copy)]
enum Policy {
    /// By chance.
    Random,
    /// One server is stopped before one of its calls, and goes on when the other one has ended. Time
    /// passes in between.
    Stop {
        server: usize,
        after: usize,
        pause_ms: i64,
    },
}

impl Policy {
    fn draw(chance: &mut Chance) -> Self {
        if chance.percent(35) {
            return Self::Random;
        }
        Self::Stop {
            server: chance.below(2) as usize,
            after: chance.below(9) as usize,
            pause_ms: *chance.pick(&[0, 3_100, CHANGE_LEASE_MS + 1, LEASE_MS + 1]),
        }
    }
}

/// Tries one interleaving, drawn by `chance`. Gives the order of the calls, and what was wrong.
pub async fn run(
    world: &Arc<World>,
    trial: Trial,
    id: &str,
    mut chance: Chance,
) -> (String, Vec<String>) {
    let most = match trial.before {
        Before::Dead | Before::Replayed => Most::One,
        Before::Unknown | Before::Due | Before::Later | Before::Unscheduled => {
            *chance.pick(&[Most::One, Most::Three])
        }
    };
    let good = match trial.before {
        Before::Dead | Before::Replayed => 2,
        _ => *chance.pick(&[1, 1, 2]),
    };
    let registration = Registered { good, most };
    let judge = world.server(JUDGE, None);
    world.prepare(id, trial.before, &judge, registration).await;
    // What was prepared is old enough to be compared, and late if it is registered now.
    if trial.before != Before::Unknown && chance.percent(50) {
        world.clock.advance(4_000);
    }

    let (sender, mut calls) = mpsc::unbounded_channel();
    let (ended_sender, mut ended) = mpsc::unbounded_channel();
    let mut actors = Vec::new();
    for (server, operation) in trial.pair.into_iter().enumerate() {
        let gate = Gate::closed(server, sender.clone());
        let over = world.server(server, Some(&gate));
        let (world, id, done) = (world.clone(), id.to_string(), ended_sender.clone());
        let task = tokio::spawn(async move {
            let answer = perform(&world, &over, operation, &id, registration).await;
            let at = world.merchant.account.now();
            let _ = done.send(Ended { server, answer, at });
        });
        actors.push(Actor {
            gate,
            task,
            held: Vec::new(),
            alive: true,
            alone: 0,
        });
    }
    drop(sender);
    drop(ended_sender);

    let mut order = String::new();
    let mut answers: Vec<Option<(Answer, u64)>> = vec![None, None];
    let trouble_at = chance.below(14);
    let policy = Policy::draw(&mut chance);
    let mut made = [0, 0];
    let mut paused = false;
    let (mut step, mut turns) = (0, 0);
    let mut died = None;
    loop {
        // Until whoever can go on is held or has ended.
        let mut quiet = false;
        while !quiet {
            let running = (0..2).any(|server| {
                let actor = &actors[server];
                actor.alive && answers[server].is_none() && actor.held.is_empty()
            });
            let wait = if running {
                LONGEST
            } else {
                Duration::from_millis(3)
            };
            tokio::select! {
                biased;
                Some(end) = ended.recv() => {
                    answers[end.server] = Some((end.answer, end.at));
                }
                Some(held) = calls.recv() => actors[held.server].held.push(held),
                () = tokio::time::sleep(wait) => {
                    if running {
                        return (order, vec![format!("{trial:?} {id}: stuck")]);
                    }
                    quiet = true;
                }
            }
            if !running && ended.is_empty() && calls.is_empty() {
                quiet = true;
            }
        }
        let ready: Vec<usize> = (0..2)
            .filter(|server| actors[*server].alive && !actors[*server].held.is_empty())
            .collect();
        if ready.is_empty() {
            break;
        }
        // One that asks again and again waits for the other, or for time to pass.
        let waits = |server: usize| actors[server].alone >= WAITS;
        let may_turn = turns < 3
            && chance.percent(match (policy, ready.iter().all(|one| waits(*one))) {
                (_, true) => 60,
                (Policy::Random, false) => 10,
                (Policy::Stop { .. }, false) => 1,
            });
        if may_turn || (ready.iter().all(|one| waits(*one)) && turns < 40) {
            turns += 1;
            let by_ms = *chance.pick(&[3_100, CHANGE_LEASE_MS + 1, LEASE_MS + 1]);
            world.clock.advance(by_ms);
            order.push_str(&format!("+{by_ms} "));
            for actor in &mut actors {
                actor.alone = 0;
            }
            continue;
        }
        let patient: Vec<usize> = ready.iter().copied().filter(|one| !waits(*one)).collect();
        let mut server = *chance.pick(if patient.is_empty() { &ready } else { &patient });
        if let Policy::Stop {
            server: stopped,
            after,
            pause_ms,
        } = policy
        {
            let wanted = if made[stopped] < after {
                stopped
            } else {
                1 - stopped
            };
            if wanted != stopped && !paused {
                paused = true;
                if pause_ms > 0 {
                    world.clock.advance(pause_ms);
                    order.push_str(&format!("+{pause_ms} "));
                    continue;
                }
            }
            if ready.contains(&wanted) && !waits(wanted) {
                server = wanted;
            }
        }
        made[server] += 1;
        let which = chance.below(actors[server].held.len() as u64) as usize;
        let held = actors[server].held.remove(which);
        for (other, actor) in actors.iter_mut().enumerate() {
            actor.alone = if other == server { actor.alone + 1 } else { 0 };
        }
        let strikes = step == trouble_at;
        step += 1;
        order.push_str(&format!("{}:{} ", ["A", "B"][server], held.name));
        match trial.trouble {
            Trouble::Death if strikes => {
                died = Some(server);
                order.push_str("dies ");
                // Before the call, or after it.
                if chance.percent(50) {
                    let _ = held.go.send(Verdict::Died);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                actors[server].gate.die();
                actors[server].alive = false;
                actors[server].task.abort();
            }
            Trouble::LostReply if strikes && held.name != "merchant" => {
                order.push_str("unanswered ");
                let _ = held.go.send(Verdict::ReplyLost);
            }
            Trouble::Nothing | Trouble::Death | Trouble::LostReply => {
                let _ = held.go.send(Verdict::Made);
            }
        }
    }
    for actor in &actors {
        if actor.alive {
            actor.gate.open();
        }
    }
    let wrong = settle_accounts(world, trial, id, &answers, died).await;
    let wrong = wrong.into_iter();
    let said = wrong.map(|what| format!("{trial:?} {id}: {what}\n    {order}\n    {answers:?}"));
    let said = said.collect();
    (order, said)
}

/// Lets time pass until nothing is left to do, and says what is not as it should be.
async fn settle_accounts(
    world: &World,
    trial: Trial,
    id: &str,
    answers: &[Option<(Answer, u64)>],
    died: Option<usize>,
) -> Vec<String> {
    let judge = world.server(JUDGE, None);
    let key = key(id);
    let mut wrong = Vec::new();
    let mut left = None;
    for round in 0..40 {
        look(&judge.schedule, Some(&judge.journal)).await;
        while judge.attempt().await.is_ok_and(|many| many > 0) {}
        let stands = judge.journal.find(&key).await.expect("read");
        let held = judge.schedule.find(&key).await.expect("found");
        let pending = stands
            .as_ref()
            .is_some_and(|stands| stands.state == State::Scheduled);
        if !pending && held.is_none() {
            left = None;
            break;
        }
        left = Some((stands.map(|stands| stands.state), held));
        if round % 4 == 3 {
            judge.reconcile(&key).await;
        }
        world.clock.advance(2_000);
    }
    if let Some((state, held)) = left {
        wrong.push(format!("it stands still: {state:?}, {held:?}"));
        return wrong;
    }
    let stands = judge.journal.find(&key).await.expect("read");
    let calls = world.merchant.account.calls(id);
    let Some(stands) = stands else {
        let accepted = answers
            .iter()
            .flatten()
            .any(|(answer, _)| matches!(answer, Answer::Registered));
        if accepted || !calls.is_empty() {
            wrong.push("it is lost".to_string());
        }
        return wrong;
    };
    // What was answered is what the merchant saw.
    for (operation, answer) in trial.pair.iter().zip(answers) {
        let Some((Answer::Changed(shown), at)) = answer else {
            continue;
        };
        let after = calls.iter().filter(|call| call.at > *at).count();
        match operation {
            Operation::Cancel | Operation::Discard => {
                // An attempt in flight cannot be called back; unless its lease had run out, which is
                // noted.
                let during = calls.iter().find(|call| {
                    call.at < *at && call.answered_at.is_none_or(|answered| answered > *at)
                });
                if let Some(call) = during
                    && died != Some(call.server)
                    && interrupted(&stands, call.attempt) == 0
                {
                    wrong.push(format!("{operation:?} was answered during {call:?}"));
                }
                if after > 0 {
                    wrong.push(format!("{operation:?} was answered, then it was called"));
                }
                if stands.state != State::Cancelled {
                    wrong.push(format!(
                        "{operation:?} was answered, and it is {}",
                        stands.state
                    ));
                }
            }
            Operation::Replay => {
                if stands.progress.series != 2 || !calls.iter().any(|call| call.attempt >= 2) {
                    // Unless it was called off right away.
                    if stands.state != State::Cancelled {
                        wrong.push(format!("a replay was answered, and {calls:?}"));
                    }
                }
            }
            Operation::Retry => {
                let called = !calls.is_empty() || shown.in_flight;
                if !called && stands.state != State::Cancelled {
                    wrong.push("a retry was answered, and it was never called".to_string());
                }
            }
            Operation::Register
            | Operation::RegisterAgain
            | Operation::Attempt
            | Operation::Reconcile => {}
        }
    }
    // The history tells what happened.
    let acknowledged = calls.iter().any(|call| call.acknowledged);
    if stands.state == State::Delivered && !acknowledged {
        wrong.push("it is delivered, and nobody acknowledged it".to_string());
    }
    if stands.state == State::Dead && acknowledged {
        wrong.push("it is dead, and was acknowledged".to_string());
    }
    for call in &calls {
        let noted = stands
            .attempts
            .iter()
            .any(|attempt| attempt.number == call.attempt);
        if !noted && died != Some(call.server) {
            wrong.push(format!("a call is in no history: {call:?}"));
        }
    }
    for number in 1..=stands.progress.attempts.max(3) {
        let made = calls.iter().filter(|call| call.attempt == number).count();
        // A call whose lease ran out while the merchant took its time is made again, and noted.
        if made > 1 + interrupted(&stands, number) {
            wrong.push(format!("attempt {number} was made {made} times: {calls:?}"));
        }
    }
    for attempt in &stands.attempts {
        if attempt.started_ms < attempt.due_ms && attempt.answer.outcome != Outcome::Interrupted {
            wrong.push(format!("an attempt began before it was due: {attempt:?}"));
        }
    }
    wrong
}

/// How often an attempt is noted as interrupted.
fn interrupted(stands: &Snapshot, number: u32) -> usize {
    let of_this = stands.attempts.iter().filter(|attempt| {
        attempt.number == number && attempt.answer.outcome == Outcome::Interrupted
    });
    of_this.count()
}
