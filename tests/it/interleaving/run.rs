//! One interleaving of two operations.

use super::account::{Told, check, until_ended};
use super::operations::{Answer, Before, Operation, Registered, perform};
use super::play::Play;
use super::plot::{Plot, Policy, TroubleAt, Work};
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
    /// By the notification and the numbers of its attempts: calls that were in flight, as far as the journal knows,
    /// when Redis forgot whose lease they had.
    pub without_lease: HashMap<String, HashMap<u32, usize>>,
    /// Servers that had a lease then, and had not called yet.
    pub about_to_call: usize,
}

/// A registration that suits how a notification stands before.
pub fn registered(before: Before, chance: &mut Chance) -> Registered {
    let most = match before {
        Before::Dead | Before::Replayed | Before::Delivered | Before::Resent => Most::One,
        Before::Unknown
        | Before::Due
        | Before::Later
        | Before::Unscheduled
        | Before::Postponed
        | Before::Advanced
        | Before::Loadable => *chance.pick(&[Most::One, Most::Three]),
    };
    let good = match before {
        Before::Dead | Before::Replayed => 2,
        Before::Delivered | Before::Resent => 1,
        Before::Unknown
        | Before::Due
        | Before::Later
        | Before::Unscheduled
        | Before::Postponed
        | Before::Advanced
        | Before::Loadable => *chance.pick(&[1, 1, 2]),
    };
    Registered {
        good,
        most,
        order: None,
    }
}

/// Draws how the calls go, and when the trouble comes.
pub fn plot(works: [Work; 2], ids: Vec<String>, trouble: Trouble, chance: &mut Chance) -> Plot {
    let trouble_at = chance.below(if trouble.sets_back() { 8 } else { 14 });
    Plot {
        works,
        ids,
        trouble,
        trouble_at: TroubleAt::Step(trouble_at),
        policy: Policy::draw(chance),
    }
}

/// Tries one interleaving, drawn by `chance`. Gives the order of the calls, and what was wrong.
pub async fn run(
    world: &Arc<World>,
    trial: Trial,
    id: &str,
    mut chance: Chance,
) -> (String, Vec<String>) {
    let registration = registered(trial.before, &mut chance);
    let judge = world.server(JUDGE, None);
    world.prepare(id, trial.before, &judge, registration).await;
    // What was prepared is old enough to be compared, and late if it is registered now.
    if trial.before != Before::Unknown && chance.percent(50) {
        world.clock.advance(4_000);
    }
    let works = trial.pair.map(|operation| -> Work {
        let (world, id) = (world.clone(), id.to_string());
        Arc::new(move |server| {
            let (world, id) = (world.clone(), id.clone());
            Box::pin(async move { perform(&world, &server, operation, &id, registration).await })
        })
    });
    let plot = plot(works, vec![id.to_string()], trial.trouble, &mut chance);
    let mut play = Play::begin(world, plot, chance);
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

/// Lets time pass until nothing is left to do, and says what is not as it should be.
async fn settle_accounts(world: &World, trial: Trial, id: &str, outcome: &Outcome) -> Vec<String> {
    if let Err(stands_still) = until_ended(world, &[id]).await {
        return vec![stands_still];
    }
    let answers = outcome.answers.iter().cloned();
    let told = Told {
        before: trial.before,
        answers: trial.pair.into_iter().zip(answers).collect(),
    };
    check(world, &told, id, outcome).await
}
