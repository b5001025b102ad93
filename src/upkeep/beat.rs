//! When a duty is seen to, and by whom.
//!
//! Every instance keeps asking the journal for each duty; the one that gets it sees to it for as long
//! as it asks again in time. Dies it, another has the duty [`DUTY_MS`] later. Beats are jittered, so
//! that instances which were started together do not ask together.

use super::error::UpkeepError;
use crate::journal::Journal;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// For how long a duty is taken on, in milliseconds.
const DUTY_MS: i64 = 25_000;
/// A duty is kept by asking again after this time; well below [`DUTY_MS`].
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// One duty of this instance.
pub(super) struct Duty {
    name: &'static str,
    had: Option<Instant>,
    /// Whether the log was told that it cannot be seen to.
    complained: bool,
}

impl Duty {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            had: None,
            complained: false,
        }
    }

    /// Whether the duty is this instance's at the moment.
    pub(super) async fn is_ours(&mut self, journal: &dyn Journal) -> Result<bool, UpkeepError> {
        if self.had.is_some_and(|had| had.elapsed() < ASK_AGAIN) {
            return Ok(true);
        }
        let asked = Instant::now();
        let ours = journal.duty(self.name, DUTY_MS).await?;
        self.had = ours.then_some(asked);
        Ok(ours)
    }

    /// Says in the log that the duty could not be seen to; once, until it could.
    pub(super) fn complain(&mut self, error: &UpkeepError) {
        let duty = self.name;
        match (self.complained, error.may_pass()) {
            (false, true) => tracing::info!(%error, duty, "upkeep waits"),
            (false, false) => tracing::error!(%error, duty, "upkeep cannot go on; trying again"),
            (true, _) => tracing::debug!(%error, duty, "upkeep waits still"),
        }
        self.complained = true;
    }

    /// It could be seen to.
    pub(super) fn content(&mut self) {
        self.complained = false;
    }
}

/// Waits for this long, a fifth more or less.
pub(super) async fn rest(about: Duration) {
    tokio::time::sleep(jittered(about)).await;
}

fn jittered(about: Duration) -> Duration {
    // Keyed anew each time, so the hash of nothing is chance enough.
    let chance = RandomState::new().hash_one(()) % 401;
    about * (800 + u32::try_from(chance).unwrap_or(0)) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_differ_and_stay_near() {
        let rests: Vec<_> = (0..100)
            .map(|_| jittered(Duration::from_secs(10)))
            .collect();
        let (shortest, longest) = (rests.iter().min(), rests.iter().max());
        assert!(shortest >= Some(&Duration::from_secs(8)), "{rests:?}");
        assert!(longest <= Some(&Duration::from_secs(12)), "{rests:?}");
        assert_ne!(shortest, longest);
    }
}
