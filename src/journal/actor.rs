//! The actor of a change: the user or the part of the server that asked for it.

use std::sync::Arc;

/// The name of the user, or of the part of the server, that asked for a change, and whether what they do is an act of a
/// person, which the audit log keeps ([`super::PersonAct`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    name: Arc<str>,
    is_audited: bool,
}

const DISPATCHER: &str = "dispatcher";
const MAINTENANCE: &str = "maintenance";

impl Actor {
    /// A person, or a key that a person uses. The audit log keeps what they do.
    #[must_use]
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            is_audited: true,
        }
    }

    /// The audit log does not keep what is done under this name here. Beside the parts of the server, there are three
    /// such cases: a service that
    /// registers, moves and cancels its own notifications; a step of a job, whose making is the act of the person; a line
    /// of a history that is written once more.
    #[must_use]
    pub fn unaudited(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            is_audited: false,
        }
    }

    /// The dispatcher, which makes the attempts.
    #[must_use]
    pub fn dispatcher() -> Self {
        Self::unaudited(DISPATCHER)
    }

    /// The maintenance tasks, which keep the journal and the schedule in agreement.
    #[must_use]
    pub fn maintenance() -> Self {
        Self::unaudited(MAINTENANCE)
    }

    /// The name, as histories show it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name, for a statement that owns its values.
    pub(super) fn shared_name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// Whether the audit log keeps what the actor does.
    #[must_use]
    pub fn is_audited(&self) -> bool {
        self.is_audited
    }

    /// Whether a name is that of a part of the server. Callers must not use these names.
    #[must_use]
    pub fn is_name_of_the_server(name: &str) -> bool {
        [DISPATCHER, MAINTENANCE].contains(&name)
    }
}
