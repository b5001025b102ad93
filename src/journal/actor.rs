//! The actor of a change: the user or the part of the server that asked for it.

use std::sync::Arc;

/// The name of the user, or of the part of the server, that asked for a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor(pub Arc<str>);

impl Actor {
    /// The dispatcher, which makes the attempts.
    #[must_use]
    pub fn dispatcher() -> Self {
        Self("dispatcher".into())
    }

    /// The maintenance tasks, which keep the journal and the schedule in agreement.
    #[must_use]
    pub fn maintenance() -> Self {
        Self("maintenance".into())
    }

    /// Whether the actor is a part of the server. Callers must not use these names.
    #[must_use]
    pub fn is_the_server(&self) -> bool {
        [Self::dispatcher(), Self::maintenance()].contains(self)
    }
}
