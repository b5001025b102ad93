//! How the proxy is doing. While it fails, one call per [`PAUSE`] tries it, and no other is made.
//!
//! Without this, everything that is due would try a broken proxy at the same time, again and again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long no call tries the proxy after it failed.
const PAUSE: Duration = Duration::from_secs(1);

/// See the documentation of the module. At first, the proxy is taken to be well.
#[derive(Debug, Default)]
pub struct ProxyHealth(Mutex<Option<ProxyFailure>>);

#[derive(Debug)]
struct ProxyFailure {
    /// When it may be tried again.
    again: Instant,
    why: String,
}

impl ProxyHealth {
    /// Whether a call may try the proxy now.
    ///
    /// # Errors
    /// How the proxy failed.
    pub fn may_try(&self, now: Instant) -> Result<(), String> {
        match &mut *self.lock() {
            Some(failing) if now < failing.again => Err(failing.why.clone()),
            Some(failing) => {
                failing.again = now + PAUSE;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Notes that the proxy failed. Returns whether it was well before, or failed in another way.
    pub fn failed(&self, now: Instant, why: &str) -> bool {
        let failing = ProxyFailure {
            again: now + PAUSE,
            why: why.to_string(),
        };
        let before = self.lock().replace(failing);
        before.is_none_or(|before| before.why != why)
    }

    /// Notes that the proxy answered. Returns whether it failed before.
    pub fn succeeded(&self) -> bool {
        self.lock().take().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Option<ProxyFailure>> {
        // No step in here can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_the_proxy_fails_one_call_at_a_time_tries_it() {
        let (health, start) = (ProxyHealth::default(), Instant::now());
        assert_eq!(health.may_try(start), Ok(()));
        assert_eq!(health.may_try(start), Ok(()));
        assert!(!health.succeeded());
        assert!(health.failed(start, "is away"));
        assert!(!health.failed(start, "is away"), "it is logged once");
        let just_before = start + PAUSE - Duration::from_millis(1);
        assert_eq!(health.may_try(just_before), Err("is away".to_string()));
        assert_eq!(health.may_try(start + PAUSE), Ok(()));
        let again = health.may_try(start + PAUSE);
        assert_eq!(again, Err("is away".to_string()), "one is enough");
        assert!(health.succeeded());
        assert_eq!(health.may_try(start + PAUSE), Ok(()));
    }
}
