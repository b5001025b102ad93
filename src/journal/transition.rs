//! The lines of histories: those that are shown, and those that are added without a change of the
//! notification.

use super::actor::Actor;
use crate::domain::key::Key;

/// Maximum number of lines that are read for the history of one notification, apart from the lines for
/// rebuilds. A notification can be sent again any number of times, so its history has no bound.
pub const MOST_TRANSITIONS_SHOWN: usize = 500;

/// One line of a notification's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// `registered`, `delivered`, `parked`, `cancelled`, `discarded`, `replayed`, `resent`, `retried`,
    /// `rescheduled`, `restored` or `set_aside`.
    pub kind: String,
    /// When it happened, in milliseconds since 1970.
    pub at_ms: i64,
    /// Who asked for the change.
    pub actor: String,
    /// The instance that made the change.
    pub instance: String,
    /// The cause or reason, or from when to when the notification was moved; may be empty.
    pub detail: String,
}

/// A line to be added to a notification's history, without a change of the notification.
#[derive(Debug, Clone)]
pub struct Noting {
    /// The notification to whose history the line is added.
    pub key: Key,
    /// What happened, such as `restored`.
    pub kind: &'static str,
    /// The actor that the line names.
    pub actor: Actor,
    /// The cause or reason; may be empty.
    pub detail: String,
    /// When it happened, in milliseconds since 1970.
    pub at_ms: i64,
}

/// A rebuild of the schedule from the journal, to be recorded.
#[derive(Debug, Clone)]
pub struct Rebuild {
    /// When the rebuild began, in milliseconds since 1970.
    pub at_ms: i64,
    /// Who asked for the rebuild, or noticed that it was needed.
    pub actor: Actor,
    /// Why the schedule is rebuilt.
    pub reason: String,
}
