//! How the proxy is doing. While it fails, one call per [`PAUSE`] tries it, and no other is made.
//!
//! Without this, everything that is due would try a broken proxy at the same time, again and again.

use crate::domain::attempt_reason::ProxyFault;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long no call tries the proxy after it failed.
const PAUSE: Duration = Duration::from_secs(1);
/// A proxy that answered within this time works, although it closes the connection to one call.
const LATELY: Duration = Duration::from_secs(10);
/// How long it is remembered that the proxy closed the connection when it was asked for an address.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);
/// Maximum number of such addresses.
const MOST_CLOSED: usize = 4_096;

/// See the documentation of the module. At first, the proxy is taken to be well.
#[derive(Debug, Default)]
pub struct ProxyHealth(Mutex<ProxyRecord>);

#[derive(Debug, Default)]
struct ProxyRecord {
    /// How it fails.
    failure: Option<ProxyFailure>,
    /// When a call last reached it.
    reached: Option<Instant>,
    /// When it last answered a request.
    answered: Option<Instant>,
    /// The addresses for which it closed the connection instead of an answer, and when it did so first.
    closed: HashMap<SocketAddr, Instant>,
    /// Whether it is tried aside from the calls.
    is_tried_aside: bool,
}

#[derive(Debug)]
struct ProxyFailure {
    /// When it may be tried again.
    again: Instant,
    why: ProxyFault,
    stage: Stage,
}

/// Where the proxy failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It could not be reached, or did not agree on how to speak.
    Reaching,
    /// It was reached, and did not answer a request properly.
    Asking,
}

/// What it means that the proxy closed the connection instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// It closes the connection for this receiver only, so it cannot reach the receiver.
    ReceiverFailed,
    /// It answered lately. The next time for this receiver tells.
    Unclear,
    /// It does not answer others either.
    ProxyFailed,
}

impl ProxyHealth {
    /// Whether a call may try the proxy now.
    ///
    /// # Errors
    /// How the proxy failed.
    pub fn may_try(&self, now: Instant) -> Result<(), ProxyFault> {
        match &mut self.lock().failure {
            Some(failing) if now < failing.again => Err(failing.why.clone()),
            Some(failing) => {
                failing.again = now + PAUSE;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// How the proxy fails; `None` if it is well.
    pub fn failure(&self) -> Option<ProxyFault> {
        let record = self.lock();
        record.failure.as_ref().map(|failing| failing.why.clone())
    }

    /// Notes that the proxy failed. Returns whether it was well before, or failed in another way.
    pub fn failed(&self, now: Instant, why: &ProxyFault, stage: Stage) -> bool {
        let failing = ProxyFailure {
            again: now + PAUSE,
            why: why.clone(),
            stage,
        };
        let before = self.lock().failure.replace(failing);
        before.is_none_or(|before| before.why != *why)
    }

    /// Notes that a call that began at `began` could not reach the proxy. Returns whether that is new. If another call has
    /// reached the proxy since then, it says nothing about the proxy.
    pub fn unreachable(&self, began: Instant, now: Instant, why: &ProxyFault) -> bool {
        let reached = self.lock().reached;
        reached.is_none_or(|reached| reached < began) && self.failed(now, why, Stage::Reaching)
    }

    /// Notes that the proxy was reached. Returns whether it could not be before.
    pub fn reached(&self, now: Instant) -> bool {
        let mut record = self.lock();
        record.reached = Some(now);
        let failure = record
            .failure
            .take_if(|failing| failing.stage == Stage::Reaching);
        failure.is_some()
    }

    /// Notes that the proxy answered. Returns whether it failed before.
    pub fn answered(&self, now: Instant) -> bool {
        let mut record = self.lock();
        record.answered = Some(now);
        record.failure.take().is_some()
    }

    /// Notes that the proxy connected to this address.
    pub fn connected(&self, address: SocketAddr) {
        self.lock().closed.remove(&address);
    }

    /// Notes that the proxy closed the connection instead of an answer when it was asked for this address, and says what
    /// that means.
    pub fn closed(&self, now: Instant, address: SocketAddr) -> Closed {
        let mut record = self.lock();
        let answered = record.answered;
        let is_old = |first: &Instant| now.saturating_duration_since(*first) >= REMEMBERED;
        if let Some(first) = record.closed.get(&address).filter(|first| !is_old(first)) {
            return match answered.is_some_and(|answered| answered > *first) {
                true => Closed::ReceiverFailed,
                false => Closed::ProxyFailed,
            };
        }
        if record.closed.len() >= MOST_CLOSED {
            record.closed.retain(|_, first| !is_old(first));
        }
        if record.closed.len() < MOST_CLOSED {
            record.closed.insert(address, now);
        }
        let lately = |answered: Instant| now.saturating_duration_since(answered) < LATELY;
        match answered.is_some_and(lately) {
            true => Closed::Unclear,
            false => Closed::ProxyFailed,
        }
    }

    /// Whether the proxy may be tried aside from the calls. Then [`ProxyHealth::ended_aside`] follows.
    pub fn begins_aside(&self) -> bool {
        !std::mem::replace(&mut self.lock().is_tried_aside, true)
    }

    /// The trial aside from the calls has ended.
    pub fn ended_aside(&self) {
        self.lock().is_tried_aside = false;
    }

    fn lock(&self) -> MutexGuard<'_, ProxyRecord> {
        // No step in here can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn while_the_proxy_fails_one_call_at_a_time_tries_it() {
        let (health, start) = (ProxyHealth::default(), Instant::now());
        let closed = ProxyFault::Closed;
        let failed = |why: &ProxyFault| health.failed(start, why, Stage::Asking);
        assert_eq!(health.may_try(start), Ok(()));
        assert_eq!(health.may_try(start), Ok(()));
        assert!(!health.answered(start));
        assert!(failed(&closed));
        assert!(!failed(&closed), "it is logged once");
        let just_before = start + PAUSE - MILLISECOND;
        assert_eq!(health.may_try(just_before), Err(closed.clone()));
        assert_eq!(health.may_try(start + PAUSE), Ok(()));
        let again = health.may_try(start + PAUSE);
        assert_eq!(again, Err(closed), "one is enough");
        assert!(!health.reached(start), "that was no problem");
        assert!(health.answered(start + PAUSE));
        assert_eq!(health.may_try(start + PAUSE), Ok(()));
        let (began, now) = (start + MILLISECOND, start + PAUSE);
        let late = ProxyFault::NotInTime;
        assert!(health.unreachable(began, now, &late));
        assert!(health.reached(now));
        assert_eq!(health.failure(), None);
        assert!(!health.unreachable(began, now, &late), "others reached it");
        assert_eq!(health.failure(), None);
    }

    #[test]
    fn a_closed_connection_is_about_the_receiver_if_others_get_answers() {
        let (health, start) = (ProxyHealth::default(), Instant::now());
        let [one, other] = [1, 2].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        assert_eq!(health.closed(start, one), Closed::ProxyFailed);
        assert_eq!(health.closed(start, one), Closed::ProxyFailed);
        health.answered(start + MILLISECOND);
        assert_eq!(health.closed(start, one), Closed::ReceiverFailed);
        let later = start + 2 * MILLISECOND;
        assert_eq!(health.closed(later, other), Closed::Unclear);
        assert_eq!(health.closed(later, other), Closed::ProxyFailed);
        health.connected(other);
        assert_eq!(health.closed(later + LATELY, other), Closed::ProxyFailed);
        health.connected(one);
        assert_eq!(health.closed(later, one), Closed::Unclear);
        assert_eq!(health.closed(later + REMEMBERED, one), Closed::ProxyFailed);
    }
}
