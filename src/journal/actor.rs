//! Who makes a change of a notification.

use std::sync::Arc;

/// Who asked for a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor(pub Arc<str>);

impl Actor {
    /// The dispatcher itself.
    #[must_use]
    pub fn dispatcher() -> Self {
        Self("dispatcher".into())
    }

    /// Whatever keeps the journal and the schedule in step.
    #[must_use]
    pub fn maintenance() -> Self {
        Self("maintenance".into())
    }

    /// Whether it is the server itself; no caller may use that name.
    #[must_use]
    pub fn is_the_server(&self) -> bool {
        [Self::dispatcher(), Self::maintenance()].contains(self)
    }
}
