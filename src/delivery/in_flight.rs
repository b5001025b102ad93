//! Which notifications this process has a worker for, so that it never has two for one.
//!
//! A lease can run out while its worker waits for a store, and the same process may claim the
//! notification again. The worker that made the call holds its outcome, so it must be the one to
//! settle: the newer lease waits here for it, and no second worker begins beside the first.

use crate::domain::key::Key;
use crate::schedule::Lease;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The notifications in flight, each with the newest lease that waits for its worker.
#[derive(Debug, Default)]
pub struct InFlight {
    waiting: Mutex<HashMap<Key, Option<Lease>>>,
}

/// One notification in flight.
#[derive(Debug)]
pub struct InFlightEntry<'a> {
    among: &'a InFlight,
    key: Key,
    left: bool,
}

impl InFlight {
    /// Begins a worker with a lease. If one is in flight, the lease waits for it, and there is
    /// nothing to begin.
    pub fn enter(&self, lease: Lease) -> Option<(InFlightEntry<'_>, Lease)> {
        let key = lease.entry.notification.key.clone();
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

    /// Takes the newer lease that waits for this notification's worker, if there is one.
    pub fn newer(&self, key: &Key) -> Option<Lease> {
        self.waiting().get_mut(key).and_then(Option::take)
    }

    /// A panic elsewhere leaves the map whole: every change to it is one call.
    fn waiting(&self) -> MutexGuard<'_, HashMap<Key, Option<Lease>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightEntry<'_> {
    /// Ends the worker, unless a newer lease was waiting for it and has not been taken: then the
    /// notification was settled and claimed again, and that lease is to be worked on.
    pub fn leave(&mut self) -> Option<Lease> {
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
    /// After a panic too, or the notification could never be worked on again.
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
    use crate::domain::notification::{Registration, Start};
    use crate::domain::webhook_id::WebhookId;
    use crate::schedule::Entry;
    use bytes::Bytes;
    use std::sync::Arc;

    fn lease(expires_ms: i64) -> Lease {
        let registration = Registration {
            key: Key::new("t", "1").expect("a key"),
            destination: Destination::parse("https://shop.example/").expect("a url"),
            body: Bytes::new(),
            content_type: "text/plain".into(),
            headers: Headers::default(),
            start: Start::After(0),
            ladder: Ladder::standard(),
            ack: AckRule::standard(),
        };
        let (notification, progress) = registration.accept(WebhookId::from_bytes([1; 16]), 0);
        let expiry = Expiry {
            at_ms: expires_ms,
            number: 0,
        };
        Lease::granted(Entry::scheduled(Arc::new(notification), progress), expiry)
    }

    #[test]
    fn a_newer_lease_waits_for_the_worker_in_flight() {
        let key = Key::new("t", "1").expect("a key");
        let in_flight = InFlight::default();
        let (mut first, _) = in_flight.enter(lease(10)).expect("no worker has it");
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
    fn a_newer_lease_that_nobody_took_is_worked_on_before_leaving() {
        let in_flight = InFlight::default();
        let (mut first, _) = in_flight.enter(lease(10)).expect("no worker has it");
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
