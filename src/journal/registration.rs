//! The registration of a notification, and what the journal answers to it.

use super::actor::Actor;
use crate::domain::notification::Notification;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use std::sync::Arc;

/// A notification to be kept.
#[derive(Debug, Clone)]
pub struct Registering {
    /// The notification, with its body.
    pub notification: Arc<Notification>,
    /// The start of its first series; further only if the journal had forgotten it.
    pub progress: Progress,
    /// Who registered it.
    pub actor: Actor,
}

/// What a registration found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegisterResult {
    /// It is new, and kept.
    Created,
    /// One of that key is here already; without its attempts.
    Existing(Box<Snapshot>),
}
