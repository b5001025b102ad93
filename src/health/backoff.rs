//! Makes workers wait for a store that fails, so that they do not all retry at once.
//!
//! Hundreds of workers may wait for the same store. While the store fails, one worker at a time waits a
//! little, gets the turn and tries. The first success of a kind of work that failed wakes all workers.
//!
//! A turn ends as soon as any call has ended that began after the turn was given. It does not matter who made
//! the call, or whether it failed. So a worker does not keep the turn while it does other things after its
//! call. If no call ends, each other worker tries when it has waited for [`POLL_INTERVAL`].

use super::{Health, Store, StoreWatch, lock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Shortest wait. It prevents a busy loop if one call keeps failing while the store answers all others.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
/// Longest wait of the worker that has the turn.
const LONGEST_WAIT: Duration = Duration::from_millis(400);
/// Longest wait for the turn.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Gives the turn to try a failing store to one worker at a time.
#[derive(Debug)]
pub(super) struct Turns {
    /// Has one permit, while no worker has the turn.
    free: Arc<Semaphore>,
    given: Mutex<Given>,
    /// Whether a turn may be given now. Every call that ends looks at it, and a lock that all calls take costs more than
    /// the rest of watching them. A call that sees an old value leaves the turn to the next call, or to its worker.
    is_given: AtomicBool,
}

#[derive(Debug, Default)]
struct Given {
    /// How many turns were given. The number of a turn is this count.
    count: u64,
    /// The last turn, until it is over.
    turn: Option<Turn>,
}

/// The permission of one waiting worker to try the store.
#[derive(Debug)]
struct Turn {
    since: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            free: Arc::new(Semaphore::new(1)),
            given: Mutex::default(),
            is_given: AtomicBool::new(false),
        }
    }

    /// Notes that a call has ended that began at `begun`. Ends the turn if it was given before.
    pub(super) fn call_ended(&self, begun: Instant) {
        if self.is_given.load(Ordering::Acquire) {
            let mut given = lock(&self.given);
            given.turn.take_if(|turn| turn.since <= begun);
            self.note(&given);
        }
    }

    /// Gives a turn, and returns its number.
    fn give(&self, permit: OwnedSemaphorePermit) -> u64 {
        let mut given = lock(&self.given);
        given.count += 1;
        given.turn = Some(Turn {
            since: Instant::now(),
            _permit: permit,
        });
        self.note(&given);
        given.count
    }

    /// Ends the turn with this number, if it is not over.
    fn end(&self, number: u64) {
        let mut given = lock(&self.given);
        if given.count == number {
            given.turn = None;
        }
        self.note(&given);
    }

    /// Notes whether a turn is given, under the lock.
    fn note(&self, given: &Given) {
        self.is_given.store(given.turn.is_some(), Ordering::Release);
    }
}

/// The waits of one worker for one store.
#[derive(Debug)]
pub struct Backoff {
    health: Arc<Health>,
    store: Store,
    next: Duration,
    /// The number of the last turn that this worker got.
    turn: Option<u64>,
}

impl Backoff {
    /// A worker that has not waited yet.
    #[must_use]
    pub fn new(health: &Arc<Health>, store: Store) -> Self {
        Self {
            health: health.clone(),
            store,
            next: SHORTEST_WAIT,
            turn: None,
        }
    }

    /// Waits after a failed call, until the worker should try the store again.
    pub async fn wait(&mut self) {
        self.end_turn();
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST_WAIT);
        let watch = self.health.watch(self.store);
        let Some(watch) = watch.filter(|watch| watch.store_health().is_failing()) else {
            tokio::time::sleep(pause).await;
            return;
        };
        let mut returned = watch.returned.subscribe();
        tokio::time::sleep(SHORTEST_WAIT).await;
        if !watch.store_health().is_failing() {
            return;
        }
        let turn = async {
            let permit = watch.turns.free.clone().acquire_owned().await;
            let permit = permit.expect("invariant: the turns are never closed");
            tokio::time::sleep(pause.saturating_sub(SHORTEST_WAIT)).await;
            watch.turns.give(permit)
        };
        tokio::select! {
            // `changed` fails only after the sender is dropped, and `watch` holds the sender.
            _ = returned.changed() => {}
            turn = turn => self.turn = Some(turn),
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }

    /// Ends the turn of this worker. So a worker that is dropped before its call does not keep the turn.
    fn end_turn(&mut self) {
        let watch: Option<&StoreWatch> = self.health.watch(self.store);
        if let (Some(turn), Some(watch)) = (self.turn.take(), watch) {
            watch.turns.end(turn);
        }
    }
}

impl Drop for Backoff {
    fn drop(&mut self) {
        self.end_turn();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CallResult, Work};
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Barrier;
    use tokio::task::JoinSet;

    /// Workers that wait for one store.
    const WORKERS: usize = 300;
    /// After each worker has failed once, the store fails this many calls, and then answers.
    const TRIES: usize = 10;

    fn call(health: &Health, ended: CallResult) {
        health.begin(Store::Schedule, Work::Settle).ended(ended);
    }

    fn fail(health: &Health) {
        call(health, CallResult::Failed("refused".to_string()));
    }

    #[tokio::test]
    async fn one_tries_at_a_time_and_the_first_success_wakes_the_rest() {
        let health = Health::new(false);
        let tries = Arc::new(AtomicUsize::new(0));
        let all_failed = Arc::new(Barrier::new(WORKERS));
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            let (health, tries, all_failed) = (health.clone(), tries.clone(), all_failed.clone());
            workers.spawn(async move {
                fail(&health);
                all_failed.wait().await;
                let mut backoff = Backoff::new(&health, Store::Schedule);
                loop {
                    backoff.wait().await;
                    let before = tries.fetch_add(1, Ordering::Relaxed);
                    if before >= TRIES {
                        call(&health, CallResult::Answered);
                        return;
                    }
                    fail(&health);
                }
            });
        }
        let begun = Instant::now();
        workers.join_all().await;
        // Only the workers with the turn failed again, and no worker waited as long as the poll interval.
        assert_eq!(tries.load(Ordering::Relaxed), WORKERS + TRIES);
        assert!(begun.elapsed() < POLL_INTERVAL, "{:?}", begun.elapsed());
    }

    /// A worker that has failed and has the turn now.
    async fn with_the_turn(health: &Arc<Health>) -> Backoff {
        fail(health);
        let mut backoff = Backoff::new(health, Store::Schedule);
        backoff.wait().await;
        assert!(backoff.turn.is_some());
        backoff
    }

    /// Whether another worker that fails gets the turn before the poll interval has passed.
    async fn others_get_their_turn(health: &Arc<Health>) -> bool {
        fail(health);
        let mut other = Backoff::new(health, Store::Schedule);
        other.wait().await;
        other.turn.is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn the_turn_is_over_when_the_call_has_ended() {
        let ends: [fn(&Health); 3] = [
            |health| call(health, CallResult::Answered),
            fail,
            |health| drop(health.begin(Store::Schedule, Work::Settle)),
        ];
        for end in ends {
            let health = Health::new(false);
            // The worker stays alive, like a worker that renews a lease and then sleeps.
            let _living = with_the_turn(&health).await;
            end(&health);
            assert!(others_get_their_turn(&health).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_turn_lasts_as_long_as_the_call() {
        let health = Health::new(false);
        let before = health.begin(Store::Schedule, Work::Settle);
        let _trying = with_the_turn(&health).await;
        let call = health.begin(Store::Schedule, Work::Settle);
        // A call that was in flight before does not end the turn.
        before.ended(CallResult::Failed("refused".to_string()));
        let mut other = Backoff::new(&health, Store::Schedule);
        other.wait().await;
        assert!(other.turn.is_none());
        drop(call);
        assert!(others_get_their_turn(&health).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_goes_away_before_its_call_leaves_the_turn_to_the_next() {
        let health = Health::new(false);
        let waiting = with_the_turn(&health).await;
        // The call of this worker has failed before, so no call ends the turn.
        let mut other = Backoff::new(&health, Store::Schedule);
        drop(waiting);
        other.wait().await;
        assert!(other.turn.is_some());
    }

    #[tokio::test]
    async fn a_call_that_keeps_failing_alone_makes_no_busy_loop() {
        let health = Health::new(false);
        let mut backoff = Backoff::new(&health, Store::Schedule);
        let begun = Instant::now();
        for _ in 0..3 {
            fail(&health);
            call(&health, CallResult::Answered);
            backoff.wait().await;
        }
        assert!(begun.elapsed() >= 3 * SHORTEST_WAIT);
    }
}
