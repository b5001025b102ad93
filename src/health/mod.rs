//! Decides whether each store works, and logs its outages. No other module does that.
//!
//! `journal::watched` and `schedule::watched` wrap the stores and report the result of every call.
//! `maintenance::probe` checks a store that has failed. A request for `/readyz` makes a check too, unless one
//! ended a moment ago. From these results, `store_health` decides what is an outage. Other modules rely on
//! this:
//!
//! * The log has at most one line when an outage begins, and one when it is over. A caller handles a failed
//!   call and does not log the outage again.
//! * Workers that wait for a store do not all retry at once ([`Backoff`]). One worker at a time tries, and
//!   the first success of a kind of work that failed wakes all.
//! * [`Health::report`] says whether registrations can be accepted and due notifications delivered.
//!
//! This module does not know the stores, their requests or their answers.
//!
//! Each constant exists for one reason:
//!
//! | constant | without this constant |
//! |---|---|
//! | `store_health::CONFIRM` | one broken connection would count as an outage, and one success would end an outage |
//! | `store_health::LONG` | calls that hang would never count as an outage, or a single slow call would count as one |
//! | `store_health::OUTAGE_LOG_INTERVAL` | a store that fails and recovers every second would fill the log |
//! | `store_health::BRIEF_LOG_INTERVAL` | single failures, which are no outage, would fill the log |
//! | `CHECK_TIMEOUT` | a request for `/readyz` would wait until the store answers |
//! | `CHECK_SHARED_FOR` | every request for `/readyz` would make its own check |
//! | `backoff::SHORTEST_WAIT` | a call that fails while all others succeed would be repeated in a busy loop |
//! | `backoff::LONGEST_WAIT` | the waits would double without end, and work would continue long after the store has recovered |
//! | `backoff::POLL_INTERVAL` | one worker whose call hangs would keep all others waiting |
//! | `cause::LONGEST` | `/readyz` would show causes of any length |
//! | `cause::LONGEST_NUMBER` | `/readyz` would show keys and passwords that begin with a digit |

mod backoff;
mod cause;
mod event;
mod log;
mod report;
mod store_health;
mod work;

pub use backoff::Backoff;
pub use cause::words_of;
pub use report::{HealthReport, StoreReport, StoreState, names};
pub use work::{CallResult, Store, Work};

use crate::domain::call_durations::CallDurations;
use backoff::Turns;
use log::write;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use store_health::{HealthChange, StoreHealth};
use tokio::sync::{Notify, watch};

/// Time limit of a check. A check that takes longer has failed.
const CHECK_TIMEOUT: Duration = Duration::from_millis(1_500);
/// For how long after a check no other check of the same store is made.
const CHECK_SHARED_FOR: Duration = Duration::from_millis(100);

/// The health of the stores of one server.
#[derive(Debug)]
pub struct Health {
    journal: Option<StoreWatch>,
    schedule: StoreWatch,
    dispatching: Mutex<Option<Dispatching>>,
}

#[derive(Debug)]
struct StoreWatch {
    store_health: Mutex<StoreHealth>,
    /// Notified whenever a kind of work that failed succeeds again.
    returned: watch::Sender<()>,
    /// Lets one of the waiting workers at a time try the store while it fails.
    turns: Turns,
    /// Notified when a kind of work begins to fail.
    troubled: Notify,
    /// When the last check ended. Locked during a check.
    checked: tokio::sync::Mutex<Option<Instant>>,
}

/// What is expected of a running dispatcher.
#[derive(Debug, Clone, Copy)]
struct Dispatching {
    since: Instant,
    /// Maximum time between two claims.
    within: Duration,
    /// Whether the log already says that claims have stalled.
    logged: bool,
}

/// A call to a store, in flight. If it is dropped without [`WatchedCall::ended`], its caller has stopped
/// waiting for it.
#[derive(Debug)]
pub struct WatchedCall<'health> {
    health: &'health Health,
    store: Store,
    work: Work,
    begun: Instant,
    ended: bool,
}

impl Health {
    /// The health of a server with or without a journal. No failure is known yet.
    #[must_use]
    pub fn new(journal: bool) -> Arc<Self> {
        Arc::new(Self {
            journal: journal.then(StoreWatch::new),
            schedule: StoreWatch::new(),
            dispatching: Mutex::new(None),
        })
    }

    /// Notes that a call to a store begins.
    #[must_use]
    pub fn begin(&self, store: Store, work: Work) -> WatchedCall<'_> {
        let begun = Instant::now();
        if let Some(watch) = self.watch(store) {
            watch.store_health().begin(work, begun);
        }
        WatchedCall {
            health: self,
            store,
            work,
            begun,
            ended: false,
        }
    }

    /// Checks a store by the call `check`, for at most 1.5 s. Callers at about the same time share one check.
    pub async fn check(&self, store: Store, check: impl Future<Output = CallResult>) {
        let Some(watch) = self.watch(store) else {
            return;
        };
        let mut checked = watch.checked.lock().await;
        if checked.is_some_and(|checked| checked.elapsed() < CHECK_SHARED_FOR) {
            return;
        }
        let begun = Instant::now();
        let ended = tokio::time::timeout(CHECK_TIMEOUT, check).await.ok();
        *checked = Some(Instant::now());
        self.change(store, |store_health, now| {
            store_health.checked(begun, now, ended)
        });
    }

    /// From now on, claims that are further apart than `within` mean that attempts are stuck. `None` when
    /// the dispatcher is about to stop.
    pub fn expect_claims(&self, within: Option<Duration>) {
        *lock(&self.dispatching) = within.map(|within| Dispatching {
            since: Instant::now(),
            within,
            logged: false,
        });
    }

    /// Logs the outages and stalls that have begun or ended because time has passed. Must be called regularly.
    pub fn review(&self) {
        for store in [Store::Journal, Store::Schedule] {
            self.change(store, |store_health, now| HealthChange {
                event: store_health.review(now),
                ..HealthChange::default()
            });
        }
        let stalled = self.report().stalled;
        if let Some(dispatching) = lock(&self.dispatching).as_mut() {
            match stalled {
                Some(stalled) if !dispatching.logged => {
                    dispatching.logged = true;
                    let stalled_ms = millis(stalled);
                    tracing::error!(
                        stalled_ms,
                        "this server has not claimed due notifications for too long although its stores work; its \
                         attempts may be stuck; restart this server if /readyz keeps failing"
                    );
                }
                Some(_) => {}
                None => dispatching.logged = false,
            }
        }
    }

    /// The present state of the stores and of the dispatcher.
    #[must_use]
    pub fn report(&self) -> HealthReport {
        let now = Instant::now();
        let mut stores = Vec::new();
        for store in [Store::Journal, Store::Schedule] {
            if let Some(watch) = self.watch(store) {
                stores.push((store, watch.store_health().report(now)));
            }
        }
        let mut report = HealthReport {
            stores,
            stalled: None,
        };
        if report.is_ready() {
            report.stalled = self.stalled(now);
        }
        report
    }

    /// How many calls to a store have failed since the start.
    #[must_use]
    pub fn failed_calls(&self, store: Store) -> u64 {
        self.watch(store)
            .map_or(0, |watch| watch.store_health().failed_ever())
    }

    /// How long the calls to a store took since the start, by the kind of work. A call that its caller gave up
    /// counts with the time until then. Empty if there is no such store.
    #[must_use]
    pub fn call_durations(&self, store: Store) -> Vec<(&'static str, CallDurations)> {
        let Some(watch) = self.watch(store) else {
            return Vec::new();
        };
        let store_health = watch.store_health();
        let durations = |work: &Work| (work.as_str(), store_health.durations(*work).clone());
        Work::ALL.iter().map(durations).collect()
    }

    /// Whether calls to the store fail, or an outage of it is not over yet.
    #[must_use]
    pub fn is_troubled(&self, store: Store) -> bool {
        self.watch(store)
            .is_some_and(|watch| watch.store_health().is_troubled())
    }

    /// Completes when calls to the store begin to fail, or at once if that has happened since this function
    /// last completed. Only one task may wait here.
    pub async fn troubled(&self, store: Store) {
        match self.watch(store) {
            Some(watch) => watch.troubled.notified().await,
            None => std::future::pending().await,
        }
    }

    fn stalled(&self, now: Instant) -> Option<Duration> {
        let dispatching = (*lock(&self.dispatching))?;
        let claimed = self.schedule.store_health().answered(Work::Claim);
        let last = claimed.map_or(dispatching.since, |at| at.max(dispatching.since));
        Some(now.saturating_duration_since(last)).filter(|stalled| *stalled > dispatching.within)
    }

    fn change(&self, store: Store, change: impl FnOnce(&mut StoreHealth, Instant) -> HealthChange) {
        let Some(watch) = self.watch(store) else {
            return;
        };
        let HealthChange {
            event,
            failing,
            returned,
        } = change(&mut watch.store_health(), Instant::now());
        if failing {
            watch.troubled.notify_one();
        }
        if returned {
            watch.returned.send_replace(());
        }
        if let Some(event) = event {
            write(store, event);
        }
    }

    fn watch(&self, store: Store) -> Option<&StoreWatch> {
        match store {
            Store::Journal => self.journal.as_ref(),
            Store::Schedule => Some(&self.schedule),
        }
    }
}

impl StoreWatch {
    fn new() -> Self {
        Self {
            store_health: Mutex::default(),
            returned: watch::Sender::new(()),
            turns: Turns::new(),
            troubled: Notify::new(),
            checked: tokio::sync::Mutex::default(),
        }
    }

    fn store_health(&self) -> std::sync::MutexGuard<'_, StoreHealth> {
        lock(&self.store_health)
    }
}

impl WatchedCall<'_> {
    /// Notes that the call has ended, with this result.
    pub fn ended(mut self, ended: CallResult) {
        self.over(Some(ended));
    }

    fn over(&mut self, ended: Option<CallResult>) {
        self.ended = true;
        let (work, begun) = (self.work, self.begun);
        self.health
            .change(self.store, |store_health, now| match ended {
                Some(ended) => store_health.end(work, begun, now, ended),
                None => store_health.abandoned(work, begun, now),
            });
        if let Some(watch) = self.health.watch(self.store) {
            watch.turns.call_ended(begun);
        }
    }
}

impl Drop for WatchedCall<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.over(None);
        }
    }
}

/// Locks a mutex. Its value is valid after a panic under the lock too, because no change stops half-way.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_that_do_not_come_are_noticed_unless_a_store_explains_it() {
        let health = Health::new(true);
        let stalled = || health.report().stalled.is_some();
        assert!(health.report().is_ready());
        // With a limit of zero, any time without a claim is too long.
        health.expect_claims(Some(Duration::ZERO));
        assert!(stalled() && !health.report().is_ready());
        health.expect_claims(Some(Duration::from_secs(3_600)));
        assert!(!stalled());
        health.expect_claims(Some(Duration::ZERO));
        let journal = health.journal.as_ref().expect("there is one");
        let refused = Some(CallResult::Failed("refused".to_string()));
        let now = Instant::now();
        journal.store_health().checked(now, now, refused);
        assert!(!stalled() && !health.report().is_ready());
        health.expect_claims(None);
        journal
            .store_health()
            .checked(now, now, Some(CallResult::Answered));
        assert!(health.report().is_ready());
    }

    #[tokio::test]
    async fn callers_at_the_same_time_share_one_check() {
        let health = Health::new(false);
        let checks = std::sync::atomic::AtomicUsize::new(0);
        let ask = || {
            health.check(Store::Schedule, async {
                checks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                tokio::task::yield_now().await;
                CallResult::Answered
            })
        };
        tokio::join!(ask(), ask(), ask());
        assert_eq!(checks.into_inner(), 1);
        // This server has no journal, so the check of the journal ends at once.
        let never = std::future::pending();
        health.check(Store::Journal, never).await;
    }
}
