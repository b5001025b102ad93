//! Keys of notifications, ordered alone or by an instant. They share the key's text and hold no body.

use crate::domain::key::Key;
use crate::domain::notification::Notification;
use std::borrow::Borrow;

/// A notification by its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ByKey(Key);

impl ByKey {
    pub(super) fn of(notification: &Notification) -> Self {
        Self(notification.key.clone())
    }

    pub(super) fn key(&self) -> &Key {
        &self.0
    }
}

impl Borrow<Key> for ByKey {
    fn borrow(&self) -> &Key {
        self.key()
    }
}

/// A notification at an instant; sorted by the instant, then by key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timed {
    pub(super) at_ms: i64,
    pub(super) name: ByKey,
}
