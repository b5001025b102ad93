//! Notifications filed under their key, without a copy of it.

use crate::domain::key::Key;
use crate::domain::notification::Notification;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A notification that is compared and looked up by its key alone.
#[derive(Debug, Clone)]
pub(super) struct Named(Arc<Notification>);

impl Named {
    pub(super) fn of(notification: &Arc<Notification>) -> Self {
        Self(notification.clone())
    }

    pub(super) fn key(&self) -> &Key {
        &self.0.key
    }
}

impl Borrow<Key> for Named {
    fn borrow(&self) -> &Key {
        self.key()
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Named {}

impl Hash for Named {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.key().hash(hasher);
    }
}

impl Ord for Named {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(other.key())
    }
}

impl PartialOrd for Named {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A notification at an instant; sorted by the instant, then by key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timed {
    pub(super) at_ms: i64,
    pub(super) name: Named,
}
