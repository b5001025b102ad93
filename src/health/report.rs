//! How the stores are doing, for callers.

use super::{Store, Work};
use std::time::Duration;

/// The state of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreState {
    /// It does all that is asked of it.
    Up,
    /// It does nothing that is asked of it.
    Away,
    /// It does some of it.
    Refusing,
    /// It has lost what it held and is being loaded again.
    Rebuilding,
}

impl StoreState {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Away => "away",
            Self::Refusing => "refusing",
            Self::Rebuilding => "rebuilding",
        }
    }
}

/// How a store is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreReport {
    /// In a word.
    pub state: StoreState,
    /// What it does not do.
    pub failing: Vec<Work>,
    /// For how long.
    pub lasted: Option<Duration>,
    /// Why, in the store's own words. For the log; [`super::words_of`] makes it fit for callers outside.
    pub cause: Option<String>,
    /// How many calls have failed since.
    pub failed_calls: u64,
}

impl StoreReport {
    pub(super) fn up() -> Self {
        Self {
            state: StoreState::Up,
            failing: Vec::new(),
            lasted: None,
            cause: None,
            failed_calls: 0,
        }
    }
}

/// How everything is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthReport {
    /// The stores that there are.
    pub stores: Vec<(Store, StoreReport)>,
    /// For how long nothing could be claimed although the stores are well. A bug, or attempts that
    /// do not end.
    pub stalled: Option<Duration>,
}

impl HealthReport {
    /// Whether registrations can be accepted and work can drain.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let up = |(_, report): &(Store, StoreReport)| report.state == StoreState::Up;
        self.stalled.is_none() && self.stores.iter().all(up)
    }
}

/// The names of kinds of work, for a sentence.
#[must_use]
pub fn names(work: &[Work]) -> String {
    let names: Vec<&str> = work.iter().map(|work| work.as_str()).collect();
    names.join(", ")
}
