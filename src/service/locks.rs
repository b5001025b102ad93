//! One change of a notification at a time, across both stores.
//!
//! Registering, cancelling, retrying and replaying each touch the journal and then the schedule. These
//! locks keep those of one process in order, so that they need not wait for each other's leases in the
//! schedule; between servers it is the leases that do ([`super::held`]).

use super::ServiceError;
use super::timeouts::with_timeout;
use crate::domain::key::Key;
use std::hash::{BuildHasher, RandomState};
use tokio::sync::{Mutex, MutexGuard};

/// Locks; two keys share one by chance only, and then wait for each other for no harm.
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
            // Keys come from outside; nobody may choose them to meet in one stripe.
            hasher: RandomState::new(),
        }
    }
}

impl KeyLocks {
    /// Waits for the key's lock. Waiters come in their order.
    ///
    /// # Errors
    /// [`ServiceError::Unsettled`] if those before take too long, which they do while a store is away.
    pub async fn lock(&self, key: &Key) -> Result<MutexGuard<'_, ()>, ServiceError> {
        let hash = self.hasher.hash_one(key);
        let stripe = usize::try_from(hash % STRIPES as u64).expect("invariant: below STRIPES");
        with_timeout(async { Ok(self.stripes[stripe].lock().await) }).await
    }
}
