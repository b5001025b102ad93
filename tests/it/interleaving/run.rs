//! One interleaving of two operations.

use super::account::settle_accounts;
use super::operations::{Answer, Before, Operation, Registered};
use super::play::Play;
use super::world::{JUDGE, Most, World};
use crate::support::chance::Chance;
use std::collections::HashMap;
use std::sync::Arc;

/// What goes wrong during a run, besides the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    Nothing,
    /// One of the two servers dies at one of its calls, before or after it is made.
    Death,
    /// One reply of a store is lost.
    LostReply,
    /// Redis is killed, and comes back with what it held before one of the calls to it. What failed is
    /// asked for again.
    SetBack,
    /// Likewise, and one of the two servers dies with it, or both.
    PowerCut,
}

impl Trouble {
    /// Whether Redis forgets something.
    pub fn sets_back(self) -> bool {
        match self {
            Self::SetBack | Self::PowerCut => true,
            Self::Nothing | Self::Death | Self::LostReply => false,
        }
    }
}

/// What is tried.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    pub pair: [Operation; 2],
    pub before: Before,
    pub trouble: Trouble,
}

/// What an operation was answered, and where that stands among all that happened.
pub type Answered = (Answer, u64);

/// What became of a run.
#[derive(Default)]
pub struct Outcome {
    /// What each operation was answered; `None` if its server died.
    pub answers: [Option<Answered>; 2],
    /// The servers that died.
    pub died: Vec<usize>,
    /// By the numbers of attempts: calls that were in flight, as far as the journal knows, when Redis
    /// forgot whose lease they had.
    pub without_lease: HashMap<u32, usize>,
    /// Servers that had a lease then, and had not called yet.
    pub about_to_call: usize,
}

/// Tries one interleaving, drawn by `chance`. Gives the order of the calls, and what was wrong.
pub async fn run(
    world: &Arc<World>,
    trial: Trial,
    id: &str,
    mut chance: Chance,
) -> (String, Vec<String>) {
    let most = match trial.before {
        Before::Dead | Before::Replayed | Before::Delivered | Before::Resent => Most::One,
        Before::Unknown
        | Before::Due
        | Before::Later
        | Before::Unscheduled
        | Before::Postponed
        | Before::Advanced => *chance.pick(&[Most::One, Most::Three]),
    };
    let good = match trial.before {
        Before::Dead | Before::Replayed => 2,
        Before::Delivered | Before::Resent => 1,
        _ => *chance.pick(&[1, 1, 2]),
    };
    let registration = Registered { good, most };
    let judge = world.server(JUDGE, None);
    world.prepare(id, trial.before, &judge, registration).await;
    // What was prepared is old enough to be compared, and late if it is registered now.
    if trial.before != Before::Unknown && chance.percent(50) {
        world.clock.advance(4_000);
    }
    let mut play = Play::begin(world, trial, id, registration, chance);
    let wrong = match play.go().await {
        Ok(()) => settle_accounts(world, trial, id, play.outcome()).await,
        Err(what) => vec![what],
    };
    let (order, outcome) = play.over();
    let answers = &outcome.answers;
    let said = wrong.into_iter();
    let said = said.map(|what| format!("{trial:?} {id}: {what}\n    {order}\n    {answers:?}"));
    let said = said.collect();
    (order, said)
}
