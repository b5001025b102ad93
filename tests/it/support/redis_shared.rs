//! Sentinels and a cluster that tests share, since starting them takes seconds.
//!
//! With sentinels, each test has a database of its own. A cluster has one alone, so the tests have it one after
//! another, each from its first use to the end of its thread.

use super::redis_cluster::RedisCluster;
use super::sentinels::Sentinels;
use std::cell::RefCell;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Databases of the servers behind the sentinels.
pub const SENTINEL_DATABASES: usize = 2_048;

/// The URL of an empty database behind the sentinels that all tests share.
pub fn fresh_sentinel_database() -> String {
    static SHARED: OnceLock<Sentinels> = OnceLock::new();
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let database = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(database < SENTINEL_DATABASES, "raise SENTINEL_DATABASES");
    let shared = SHARED.get_or_init(|| blocking(Sentinels::start()));
    format!("{}/{database}", shared.url())
}

/// The URL of the cluster that all tests share, emptied. Nobody else has it until this thread ends, which is that of
/// one test.
pub fn fresh_cluster() -> String {
    static SHARED: OnceLock<RedisCluster> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    thread_local! {
        static HELD: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
    }
    HELD.with_borrow_mut(|held| {
        // A test that failed leaves nothing behind that matters to the next.
        held.get_or_insert_with(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    });
    let shared = SHARED.get_or_init(|| blocking(RedisCluster::start_patient()));
    blocking(shared.flush());
    shared.url()
}

/// Runs something on a runtime of its own, so that nothing of it is left in that of a test.
fn blocking<Output: Send>(work: impl Future<Output = Output> + Send) -> Output {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(work)
    };
    std::thread::scope(|scope| scope.spawn(run).join().expect("no panic"))
}
