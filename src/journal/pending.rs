//! Pending notifications, as a schedule is loaded with them.

use crate::domain::notification::Notification;
use crate::domain::progress::Progress;
use std::sync::Arc;

/// A pending notification as the schedule needs it.
#[derive(Debug, Clone)]
pub struct Pending {
    /// The notification; with its body, unless that was not asked for.
    pub notification: Arc<Notification>,
    /// How far it has come.
    pub progress: Progress,
}

/// Whether pending notifications are read with their bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingBodies {
    /// The bodies are read.
    Read,
    /// Only the lengths of the bodies are read.
    LengthOnly,
}
