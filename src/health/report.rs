//! The report of the stores' health that callers get.

use super::{Store, Work};
use std::time::Duration;

/// The state of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreState {
    /// The store does all kinds of work.
    Up,
    /// The store does no work.
    Away,
    /// The store does some kinds of work and not others.
    Refusing,
    /// The store has lost data and is being loaded again.
    Rebuilding,
}

impl StoreState {
    /// The name of the state.
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

/// The health of one store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreReport {
    /// The state of the store.
    pub state: StoreState,
    /// The kinds of work that the store does not do.
    pub failing: Vec<Work>,
    /// For how long the store has not done them.
    pub lasted: Option<Duration>,
    /// The error text of the store, for the log. Callers without an API key get it shortened by
    /// [`super::words_of`].
    pub cause: Option<String>,
    /// The number of failed calls that are not counted in a log line yet.
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

/// The health of the stores and of the dispatcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthReport {
    /// The report of each store that this server has.
    pub stores: Vec<(Store, StoreReport)>,
    /// For how long no claim has succeeded although the stores work, if that is too long. The reason is a
    /// bug, or attempts that do not end.
    pub stalled: Option<Duration>,
}

impl HealthReport {
    /// Whether registrations can be accepted and due notifications delivered.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let up = |(_, report): &(Store, StoreReport)| report.state == StoreState::Up;
        self.stalled.is_none() && self.stores.iter().all(up)
    }
}

/// The names of these kinds of work, separated by commas.
#[must_use]
pub fn names(work: &[Work]) -> String {
    let names: Vec<&str> = work.iter().map(|work| work.as_str()).collect();
    names.join(", ")
}
