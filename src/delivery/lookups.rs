//! Looks up host names with the resolver of the operating system.
//!
//! That resolver cannot be interrupted: if the name servers of a name do not answer, it occupies a thread for many
//! seconds. So look-ups run on threads of their own, of which there are at most `MOST_LOOKUPS`, and nothing else of the
//! process waits for them. Destinations that are not known to answer get half of the threads, and those of them whose last
//! look-up was slow get half of that: while the name servers of many hang, those of a new destination are still asked.
//! There is one look-up of a name at a time, shared by all calls that wait for it. A look-up that waits for a
//! thread is dropped when its last call ends.

use crate::domain::lane_health::LaneClass;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, watch};

/// Maximum number of look-ups at a time.
const MOST_LOOKUPS: usize = 128;
/// Out of these, how many may be of doubtful names, slow ones included.
const MOST_DOUBTFUL: usize = MOST_LOOKUPS / 2;
/// Out of those, how many may be of slow names.
const MOST_SLOW_LOOKUPS: usize = MOST_DOUBTFUL / 2;
/// How long a thread without work is kept.
const KEEP_THREAD: Duration = Duration::from_secs(10);
/// A look-up that takes as long is slow. Usual ones take some milliseconds.
const SLOW: Duration = Duration::from_secs(1);
/// How long a name counts as slow after a slow look-up, unless a later one is not. Longer than the time between two probes
/// of a destination, however many are probed.
const DOUBTED: Duration = Duration::from_secs(600);
/// Maximum number of names that are remembered as slow.
const MOST_SLOW: usize = 16_384;

/// Finds the addresses of a host name.
pub trait HostResolver: Send + Sync + 'static {
    /// The addresses of a name, whatever their port. May block the thread.
    ///
    /// # Errors
    /// Why the name cannot be resolved.
    fn resolve(&self, name: &str) -> io::Result<Vec<SocketAddr>>;
}

/// The resolver of the operating system.
pub struct SystemResolver;

impl HostResolver for SystemResolver {
    fn resolve(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        Ok((name, 0).to_socket_addrs()?.collect())
    }
}

/// Which part of the threads a look-up may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LookupShare {
    /// All of them: the destination answers.
    Proven,
    /// Half of them: the destination is not known to answer, or fails; or the last look-up of its name was slow.
    Doubtful,
    /// A quarter of them: both.
    Slow,
}

impl From<LaneClass> for LookupShare {
    fn from(class: LaneClass) -> Self {
        match class {
            LaneClass::Idle | LaneClass::Busy => Self::Proven,
            LaneClass::Doubtful | LaneClass::Probing => Self::Doubtful,
        }
    }
}

/// The result of a look-up. Calls share it.
pub type LookedUp = Result<Arc<[SocketAddr]>, Arc<io::Error>>;

/// The look-ups of one client. See the documentation of the module.
pub struct Lookups {
    resolver: Arc<dyn HostResolver>,
    names: Arc<Mutex<Names>>,
    all: Arc<Semaphore>,
    doubtful: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    threads: Threads,
}

/// A look-up of a doubtful name does not make one wait that may have a thread at once.
type LookupKey = (Box<str>, LookupShare);

#[derive(Default)]
struct Names {
    /// The look-ups that run or wait for a thread.
    current: HashMap<LookupKey, Arc<Lookup>>,
    /// Until when the names count as slow whose last look-up was slow.
    slow: HashMap<Box<str>, Instant>,
}

/// A look-up. It runs as soon as the cell is set.
#[derive(Default)]
struct Lookup(OnceCell<watch::Receiver<Option<LookedUp>>>);

/// A call that waits for a look-up.
struct Waiting<'lookups> {
    lookups: &'lookups Lookups,
    key: LookupKey,
    lookup: Arc<Lookup>,
}

/// A look-up that runs. When it is dropped, it is no longer there, and its thread is free.
struct Running {
    names: Arc<Mutex<Names>>,
    key: LookupKey,
    began: Instant,
    _permits: [Option<OwnedSemaphorePermit>; 3],
}

/// The threads of look-ups: those for blocking work of a runtime that does nothing else.
struct Threads(Option<Runtime>);

impl Lookups {
    /// Look-ups with this resolver.
    pub fn new(resolver: Arc<dyn HostResolver>) -> Self {
        Self {
            resolver,
            names: Arc::default(),
            all: Arc::new(Semaphore::new(MOST_LOOKUPS)),
            doubtful: Arc::new(Semaphore::new(MOST_DOUBTFUL)),
            slow: Arc::new(Semaphore::new(MOST_SLOW_LOOKUPS)),
            threads: Threads::new(),
        }
    }

    /// Looks a name up, or waits for the look-up of the same name that runs already.
    ///
    /// # Errors
    /// Why the name cannot be resolved.
    pub async fn look_up(&self, name: &str, share: LookupShare) -> LookedUp {
        self.look_up_and_tell(name, share, || ()).await
    }

    /// As [`Lookups::look_up`]. `begun` is called when the wait is the name's own: the look-up has a thread, or it has none
    /// because those before were slow.
    ///
    /// # Errors
    /// Why the name cannot be resolved.
    pub async fn look_up_and_tell(
        &self,
        name: &str,
        share: LookupShare,
        begun: impl Fn(),
    ) -> LookedUp {
        let waiting = self.join(name, share);
        if waiting.key.1 == LookupShare::Slow {
            begun();
        }
        let beginning = waiting.lookup.0.get_or_init(|| self.begin(&waiting.key));
        let mut running = beginning.await.clone();
        begun();
        let ended = running.wait_for(Option::is_some).await;
        let found = ended.ok().and_then(|found| found.clone());
        found.unwrap_or_else(|| Err(Arc::new(io::Error::other("the look-up broke off"))))
    }

    fn join(&self, name: &str, share: LookupShare) -> Waiting<'_> {
        let mut names = lock(&self.names);
        let share = match (share, names.is_slow(name)) {
            (share, false) => share,
            (LookupShare::Proven, true) => LookupShare::Doubtful,
            (LookupShare::Doubtful | LookupShare::Slow, true) => LookupShare::Slow,
        };
        let key = (Box::from(name), share);
        let lookup = names.current.entry(key.clone()).or_default().clone();
        Waiting {
            lookups: self,
            key,
            lookup,
        }
    }

    /// Starts a look-up as soon as there is a thread for it.
    async fn begin(&self, key: &LookupKey) -> watch::Receiver<Option<LookedUp>> {
        let parts = match key.1 {
            LookupShare::Proven => [None, None, Some(&self.all)],
            LookupShare::Doubtful => [None, Some(&self.doubtful), Some(&self.all)],
            LookupShare::Slow => [Some(&self.slow), Some(&self.doubtful), Some(&self.all)],
        };
        let mut permits = [None, None, None];
        for (permit, part) in permits.iter_mut().zip(parts) {
            if let Some(part) = part {
                // It is never closed, so there is always a permit in the end.
                *permit = part.clone().acquire_owned().await.ok();
            }
        }
        let running = Running {
            names: self.names.clone(),
            key: key.clone(),
            began: Instant::now(),
            _permits: permits,
        };
        let (report, found) = watch::channel(None);
        let resolver = self.resolver.clone();
        self.threads.run(move || {
            let looked_up = resolver.resolve(&running.key.0);
            // Before the calls go on: one that asks again gets a look-up of its own.
            drop(running);
            report.send_replace(Some(looked_up.map(Arc::from).map_err(Arc::new)));
        });
        found
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut names = lock(&self.lookups.names);
        // The map and this call have it. Others could join only under the lock.
        let is_last = Arc::strong_count(&self.lookup) == 2 && !self.lookup.0.initialized();
        let current = names.current.get(&self.key);
        if is_last && current.is_some_and(|current| Arc::ptr_eq(current, &self.lookup)) {
            names.current.remove(&self.key);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut names = lock(&self.names);
        names.current.remove(&self.key);
        names.ended(&self.key.0, self.began, Instant::now());
    }
}

impl Names {
    fn is_slow(&self, name: &str) -> bool {
        let until = self.slow.get(name);
        until.is_some_and(|until| Instant::now() < *until)
    }

    /// Remembers whether the look-up of a name was slow.
    fn ended(&mut self, name: &str, began: Instant, now: Instant) {
        if now.saturating_duration_since(began) < SLOW {
            self.slow.remove(name);
            return;
        }
        if self.slow.len() >= MOST_SLOW {
            self.slow.retain(|_, until| now < *until);
        }
        if self.slow.len() < MOST_SLOW {
            self.slow.insert(name.into(), now + DOUBTED);
        }
    }
}

impl Threads {
    fn new() -> Self {
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(MOST_LOOKUPS)
            .thread_keep_alive(KEEP_THREAD)
            .thread_name("lookup")
            .build();
        let runtime = runtime.expect("invariant: a runtime without drivers needs no resources");
        Self(Some(runtime))
    }

    fn run(&self, work: impl FnOnce() + Send + 'static) {
        if let Some(runtime) = &self.0 {
            runtime.spawn_blocking(work);
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Does not wait for look-ups that run.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn lock(names: &Mutex<Names>) -> MutexGuard<'_, Names> {
    // No step under the lock can panic half-way.
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
