//! Waiting for a store that is away, without a crowd at its door.
//!
//! Hundreds of errands may wait for the same store. While it fails, one of them at a time has the
//! turn: it waits a little and tries. The first call that is answered wakes all the others. A slow
//! poll of each is the safety net for a turn that hangs in its call.

use super::{Health, Store};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// Every wait lasts this long at least, so that what keeps failing on a store that is there for all
/// others makes no busy loop.
const SHORTEST: Duration = Duration::from_millis(50);
/// Longest wait of the one who has the turn.
const LONGEST: Duration = Duration::from_millis(400);
/// The slow poll.
const POLL: Duration = Duration::from_secs(5);

/// The waits of one errand for one store.
#[derive(Debug)]
pub struct Patience {
    health: Arc<Health>,
    store: Store,
    next: Duration,
    /// Kept during the call that is made after the wait.
    turn: Option<OwnedSemaphorePermit>,
}

impl Patience {
    /// Nothing has been waited yet.
    #[must_use]
    pub fn new(health: &Arc<Health>, store: Store) -> Self {
        Self {
            health: health.clone(),
            store,
            next: SHORTEST,
            turn: None,
        }
    }

    /// Waits until the store is worth asking again: after a failed call.
    pub async fn wait(&mut self) {
        self.turn = None;
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        let watch = self.health.watch(self.store);
        let Some(watch) = watch.filter(|watch| watch.standing().is_failing()) else {
            tokio::time::sleep(pause).await;
            return;
        };
        let mut returned = watch.returned.subscribe();
        tokio::time::sleep(SHORTEST).await;
        if !watch.standing().is_failing() {
            return;
        }
        let turn = async {
            let turn = watch.turn.clone().acquire_owned().await.ok();
            tokio::time::sleep(pause.saturating_sub(SHORTEST)).await;
            turn
        };
        tokio::select! {
            // Fails only when the sender is gone, and the watch holds it.
            _ = returned.changed() => {}
            turn = turn => self.turn = turn,
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Ended, Work};
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;
    use tokio::sync::Barrier;
    use tokio::task::JoinSet;

    /// Errands that wait for one store.
    const ERRANDS: usize = 300;
    /// The store is back at the eleventh call that comes after all have failed once.
    const TRIES: usize = 10;

    fn call(health: &Health, ended: Ended) {
        health.begin(Store::Schedule, Work::Settle).ended(ended);
    }

    fn fail(health: &Health) {
        call(health, Ended::Failed("refused".to_string()));
    }

    #[tokio::test]
    async fn one_tries_at_a_time_and_the_first_success_wakes_the_rest() {
        let health = Health::new(false);
        let tries = Arc::new(AtomicUsize::new(0));
        let all_failed = Arc::new(Barrier::new(ERRANDS));
        let mut errands = JoinSet::new();
        for _ in 0..ERRANDS {
            let (health, tries, all_failed) = (health.clone(), tries.clone(), all_failed.clone());
            errands.spawn(async move {
                fail(&health);
                all_failed.wait().await;
                let mut patience = Patience::new(&health, Store::Schedule);
                loop {
                    patience.wait().await;
                    let before = tries.fetch_add(1, Ordering::Relaxed);
                    if before >= TRIES {
                        call(&health, Ended::Answered);
                        return;
                    }
                    fail(&health);
                }
            });
        }
        let begun = Instant::now();
        errands.join_all().await;
        // Nobody but those who had the turn tried in vain, and nobody waited for the slow poll.
        assert_eq!(tries.load(Ordering::Relaxed), ERRANDS + TRIES);
        assert!(begun.elapsed() < POLL, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn what_keeps_failing_alone_makes_no_busy_loop() {
        let health = Health::new(false);
        let mut patience = Patience::new(&health, Store::Schedule);
        let begun = Instant::now();
        for _ in 0..3 {
            fail(&health);
            call(&health, Ended::Answered);
            patience.wait().await;
        }
        assert!(begun.elapsed() >= 3 * SHORTEST);
    }
}
