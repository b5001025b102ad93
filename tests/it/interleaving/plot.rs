//! What is tried in a run: what both servers do, what goes wrong, and whose call goes next.

use super::operations::Answer;
use super::run::Trouble;
use super::world::{LEASE_MS, Server};
use crate::support::chance::Chance;
use ringback::schedule::CHANGE_LEASE_MS;
use std::pin::Pin;
use std::sync::Arc;

/// What a server does, over stores that are held: begun anew for each try. Gives what was answered at the end.
pub type Work = Arc<dyn Fn(Server) -> Working + Send + Sync>;
/// A server at work.
pub type Working = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// How the next call is chosen.
#[derive(Debug, Clone, Copy)]
pub enum Policy {
    /// By chance.
    Random,
    /// One server is stopped before one of its calls. Time passes, the other one makes some of its calls or
    /// all of them, and then the first one goes on to its end.
    Stop {
        server: usize,
        after: usize,
        pause_ms: i64,
        /// How many calls the other one makes meanwhile.
        meanwhile: usize,
    },
}

impl Policy {
    /// Any.
    pub fn draw(chance: &mut Chance) -> Self {
        if chance.percent(20) {
            return Self::Random;
        }
        let (server, after) = (chance.below(2) as usize, chance.below(9) as usize);
        Self::stop(server, after, chance)
    }

    /// Stops this server after so many of its calls.
    pub fn stop(server: usize, after: usize, chance: &mut Chance) -> Self {
        Self::Stop {
            server,
            after,
            pause_ms: *chance.pick(&[0, 3_100, CHANGE_LEASE_MS + 1, LEASE_MS + 1]),
            meanwhile: match chance.percent(40) {
                true => usize::MAX,
                false => 1 + chance.below(8) as usize,
            },
        }
    }
}

/// When the trouble comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TroubleAt {
    /// At this step of all.
    Step(u64),
    /// At the call before which the policy stops a server.
    Stop,
}

/// A play to begin.
pub struct Plot {
    pub works: [Work; 2],
    /// The notifications that it is about.
    pub ids: Vec<String>,
    pub trouble: Trouble,
    pub trouble_at: TroubleAt,
    pub policy: Policy,
}
