//! One change of a notification at a time, across both stores.
//!
//! Registering and every change by hand write the journal and then the schedule.
//! These locks serialise the requests of one process, so that they need not wait for each other's leases in the
//! schedule. Between servers, the leases do that ([`super::held`]).

use super::ServiceError;
use super::timeouts::with_timeout;
use crate::domain::key::Key;
use std::hash::{BuildHasher, RandomState};
use tokio::sync::{Mutex, MutexGuard};

/// Number of locks. Two keys rarely share one; then one waits for the other, which does no harm.
const STRIPES: usize = 4_096;

/// A lock for every key.
pub struct KeyLocks {
    stripes: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl Default for KeyLocks {
    fn default() -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            // Callers choose the keys; a random hash prevents that they choose keys of one stripe.
            hasher: RandomState::new(),
        }
    }
}

impl KeyLocks {
    /// Waits for the key's lock. The waiting requests get it in order.
    ///
    /// # Errors
    /// [`ServiceError::Unsettled`] if the requests before take too long, as they do while a store is
    /// unavailable.
    pub async fn lock(&self, key: &Key) -> Result<MutexGuard<'_, ()>, ServiceError> {
        let hash = self.hasher.hash_one(key);
        let stripe = usize::try_from(hash % STRIPES as u64).expect("invariant: below STRIPES");
        with_timeout(async { Ok(self.stripes[stripe].lock().await) }).await
    }
}
