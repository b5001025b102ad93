//! Pending notifications, in the form in which a schedule is loaded with them.

use crate::domain::notification::Notification;
use crate::domain::progress::Progress;
use std::sync::Arc;

/// A pending notification, with everything that a schedule needs.
#[derive(Debug, Clone)]
pub struct Pending {
    /// The notification. Its body is left out if the caller did not ask for bodies.
    pub notification: Arc<Notification>,
    /// The attempts so far, and when the next one is due.
    pub progress: Progress,
}
