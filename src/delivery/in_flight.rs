//! Knows for which notifications this process has a worker, so that no notification has two workers here.
//!
//! A lease can expire while its worker waits for a store, and the same process may then claim the
//! notification again. Only the first worker knows the outcome of its call, so the first worker must settle
//! the notification. So no second worker begins; the newer lease waits here until the first worker takes it.

use crate::domain::key::Key;
use crate::schedule::ClaimedLease;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The notifications that have a worker in this process, each with the newest lease that waits for it.
#[derive(Debug, Default)]
pub struct InFlight {
    waiting: Mutex<HashMap<Key, Option<ClaimedLease>>>,
}

/// A notification that has a worker in this process. Dropping the entry ends the worker.
#[derive(Debug)]
pub struct InFlightEntry<'a> {
    among: &'a InFlight,
    key: Key,
    left: bool,
}

impl InFlight {
    /// Registers a worker for the notification of this lease. Returns `None` if the notification already
    /// has a worker: then the lease waits for that worker, and the caller has nothing to do.
    pub fn enter(&self, lease: ClaimedLease) -> Option<(InFlightEntry<'_>, ClaimedLease)> {
        let key = lease.key().clone();
        let mut waiting = self.waiting();
        if let Some(slot) = waiting.get_mut(&key) {
            *slot = Some(lease);
            return None;
        }
        waiting.insert(key.clone(), None);
        let entered = InFlightEntry {
            among: self,
            key,
            left: false,
        };
        Some((entered, lease))
    }

    /// Takes the newer lease that waits for the worker of this notification, if there is one.
    pub fn newer(&self, key: &Key) -> Option<ClaimedLease> {
        self.waiting().get_mut(key).and_then(Option::take)
    }

    /// Locks the map. It is valid after a panic under the lock too, because every change is one call.
    fn waiting(&self) -> MutexGuard<'_, HashMap<Key, Option<ClaimedLease>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightEntry<'_> {
    /// Ends the worker, unless a newer lease still waits for it. If one waits, the notification was claimed
    /// again, and the worker has to work on the returned lease.
    pub fn leave(&mut self) -> Option<ClaimedLease> {
        let mut waiting = self.among.waiting();
        let newer = waiting.get_mut(&self.key).and_then(Option::take);
        if newer.is_none() {
            waiting.remove(&self.key);
            self.left = true;
        }
        newer
    }
}

impl Drop for InFlightEntry<'_> {
    /// Runs after a panic too. Otherwise no worker could ever begin for this notification again.
    fn drop(&mut self) {
        if !self.left {
            self.among.waiting().remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ack::AckRule;
    use crate::domain::destination::Destination;
    use crate::domain::headers::Headers;
    use crate::domain::ladder::Ladder;
    use crate::domain::lease::Expiry;
    use crate::domain::notification::{Registration, Start, Target};
    use crate::domain::priority::Priority;
    use crate::domain::webhook_id::WebhookId;
    use crate::schedule::{Entry, Lease};
    use bytes::Bytes;
    use std::sync::Arc;

    fn lease(expires_ms: i64) -> ClaimedLease {
        let registration = Registration {
            key: Key::new("t", "1").expect("a key"),
            target: Target::Url(Destination::parse("https://shop.example/").expect("a url")),
            body: Bytes::new(),
            content_type: "text/plain".into(),
            headers: Headers::default(),
            start: Start::After(0),
            ladder: Some(Ladder::standard()),
            ack: Some(AckRule::standard()),
            priority: Priority::Normal,
            order: None,
        };
        let (notification, progress) = registration.accept(WebhookId::from_bytes([1; 16]), 0, None);
        let expiry = Expiry {
            at_ms: expires_ms,
            number: 0,
        };
        let entry = Entry::scheduled(Arc::new(notification), progress);
        Box::new(Lease::granted(entry, expiry)).into()
    }

    #[test]
    fn a_newer_lease_waits_for_the_worker_in_flight() {
        let key = Key::new("t", "1").expect("a key");
        let in_flight = InFlight::default();
        let (mut first, _) = in_flight.enter(lease(10)).expect("there is no worker");
        assert!(in_flight.newer(&key).is_none());
        assert!(in_flight.enter(lease(20)).is_none());
        assert!(in_flight.enter(lease(30)).is_none());
        let newer = in_flight.newer(&key).map(|lease| lease.expires_ms());
        assert_eq!(newer, Some(30));
        assert!(first.leave().is_none());
        let second = in_flight.enter(lease(40)).expect("the first has left");
        drop(first);
        assert!(
            in_flight.enter(lease(50)).is_none(),
            "the second has a worker"
        );
        drop(second);
        assert!(in_flight.enter(lease(60)).is_some());
    }

    #[test]
    fn a_newer_lease_that_was_not_taken_is_worked_on_before_leaving() {
        let in_flight = InFlight::default();
        let (mut first, _) = in_flight.enter(lease(10)).expect("there is no worker");
        assert!(in_flight.enter(lease(20)).is_none());
        assert_eq!(first.leave().map(|lease| lease.expires_ms()), Some(20));
        assert!(
            in_flight.enter(lease(30)).is_none(),
            "it still has a worker"
        );
        assert_eq!(first.leave().map(|lease| lease.expires_ms()), Some(30));
        assert!(first.leave().is_none());
    }
}
