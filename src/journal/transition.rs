//! The lines of histories: as they are shown, and those that are added without a change.

use super::actor::Actor;
use crate::domain::key::Key;

/// Maximum number of lines of one notification's history that are read at a time. It may be replayed for ever.
pub const MOST_TRANSITIONS_SHOWN: usize = 500;

/// One line of a notification's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// `registered`, `delivered`, `parked`, `cancelled`, `discarded`, `replayed`, `retried`,
    /// `restored` or `set_aside`.
    pub kind: String,
    /// When it happened, in milliseconds since 1970.
    pub at_ms: i64,
    /// Who asked for it.
    pub actor: String,
    /// The instance that applied it.
    pub instance: String,
    /// Its cause or reason; may be empty.
    pub detail: String,
}

/// A line to be added to a notification's history without any change.
#[derive(Debug, Clone)]
pub struct Noting {
    /// The notification to whose history the line is added.
    pub key: Key,
    /// What happened, such as `restored`.
    pub kind: &'static str,
    /// Who did what the line says.
    pub actor: Actor,
    /// The cause or reason of it; may be empty.
    pub detail: String,
    /// When it happened, in milliseconds since 1970.
    pub at_ms: i64,
}

/// The schedule is being rebuilt from the journal.
#[derive(Debug, Clone)]
pub struct Rebuild {
    /// When it began, in milliseconds since 1970.
    pub at_ms: i64,
    /// Who asked for it, or noticed that it was needed.
    pub actor: Actor,
    /// Why it is rebuilt.
    pub reason: String,
}
