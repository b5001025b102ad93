//! Looks up host names with the resolver of the operating system.
//!
//! That resolver cannot be interrupted: if the name servers of a name do not answer, it occupies a thread for many
//! seconds. So look-ups run on threads of their own, and nothing else of the process waits for them.
//!
//! Usual look-ups end within milliseconds. At most `MOST_STARTING` look-ups run that began less than `STARTING` ago. One that
//! runs for longer leaves its place to the next, and keeps its thread. So if the name servers of many destinations stop to
//! answer at the same moment, which nobody can know before they are asked, the look-ups of the others wait for less than a
//! second. The threads are bounded too: `MOST_PROVEN` are for the names of destinations that answer, and `MOST_DOUBTFUL` for
//! those of the others. Names among the latter whose last look-up was slow get half of these: while the name servers of many
//! hang, those of a new destination are still asked.
//!
//! A call joins the look-up of its name that runs, whoever began it: a name whose look-up hangs takes one thread, however many
//! calls need it. If none runs, it joins the one that waits for a thread of the same kind. A look-up that waits for a thread is
//! dropped when its last call ends.

use crate::domain::lane_health::LaneClass;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

/// Maximum number of look-ups at a time that began less than [`STARTING`] ago. Without this bound, thousands of calls that
/// are due at once would start as many threads, and ask the name server as many questions at once.
const MOST_STARTING: usize = 128;
/// A look-up that runs for longer leaves its place to another. Usual ones take some milliseconds.
const STARTING: Duration = Duration::from_millis(100);
/// Maximum number of look-ups of proven names at a time, however long they run.
const MOST_PROVEN: usize = 1_024;
/// Likewise of doubtful names, slow ones included.
const MOST_DOUBTFUL: usize = 64;
/// Out of those, how many may be of slow names.
const MOST_SLOW_LOOKUPS: usize = MOST_DOUBTFUL / 2;
/// How long a thread without work is kept.
const KEEP_THREAD: Duration = Duration::from_secs(10);
/// A look-up that takes as long is slow.
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

/// Which of the threads a look-up may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LookupShare {
    /// The many that are for destinations that answer.
    Proven,
    /// The few that are for the others: the destination is not known to answer, or fails; or the last look-up of its name was
    /// slow.
    Doubtful,
    /// Half of these few: both.
    Slow,
}

impl LookupShare {
    const ALL: [Self; 3] = [Self::Proven, Self::Doubtful, Self::Slow];
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
    starting: Arc<Semaphore>,
    proven: Arc<Semaphore>,
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
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

/// The threads of look-ups: those for blocking work of a runtime that does nothing else.
struct Threads(Option<Runtime>);

impl Lookups {
    /// Look-ups with this resolver.
    pub fn new(resolver: Arc<dyn HostResolver>) -> Self {
        Self {
            resolver,
            names: Arc::default(),
            starting: Arc::new(Semaphore::new(MOST_STARTING)),
            proven: Arc::new(Semaphore::new(MOST_PROVEN)),
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
        let (key, lookup) = match names.running(name) {
            Some(running) => running,
            None => names.waiting(name, share),
        };
        Waiting {
            lookups: self,
            key,
            lookup,
        }
    }

    /// Starts a look-up as soon as there is a thread for it, and a place among those that start.
    async fn begin(&self, key: &LookupKey) -> watch::Receiver<Option<LookedUp>> {
        let parts = match key.1 {
            LookupShare::Proven => [None, Some(&self.proven)],
            LookupShare::Doubtful => [None, Some(&self.doubtful)],
            LookupShare::Slow => [Some(&self.slow), Some(&self.doubtful)],
        };
        let mut permits = [None, None];
        for (permit, part) in permits.iter_mut().zip(parts) {
            if let Some(part) = part {
                // It is never closed, so there is always a permit in the end.
                *permit = part.clone().acquire_owned().await.ok();
            }
        }
        let place = self.starting.clone().acquire_owned().await.ok();
        let running = Running {
            names: self.names.clone(),
            key: key.clone(),
            began: Instant::now(),
            _permits: permits,
        };
        let (report, found) = watch::channel(None);
        tokio::spawn(leave_place(place, found.clone()));
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

/// Leaves the place of a look-up that starts to another one, when the look-up has ended or has run for [`STARTING`].
async fn leave_place(
    place: Option<OwnedSemaphorePermit>,
    mut running: watch::Receiver<Option<LookedUp>>,
) {
    // A look-up that panicked has ended, too.
    let _ = timeout(STARTING, running.wait_for(Option::is_some)).await;
    drop(place);
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
    /// The look-up of a name that runs, if there is one.
    fn running(&self, name: &str) -> Option<(LookupKey, Arc<Lookup>)> {
        LookupShare::ALL.into_iter().find_map(|share| {
            let key: LookupKey = (Box::from(name), share);
            let lookup = self.current.get(&key)?.clone();
            lookup.0.initialized().then_some((key, lookup))
        })
    }

    /// The look-up of a name that waits for a thread of this share, or a new one.
    fn waiting(&mut self, name: &str, share: LookupShare) -> (LookupKey, Arc<Lookup>) {
        let share = match (share, self.is_slow(name)) {
            (share, false) => share,
            (LookupShare::Proven, true) => LookupShare::Doubtful,
            (LookupShare::Doubtful | LookupShare::Slow, true) => LookupShare::Slow,
        };
        let key: LookupKey = (Box::from(name), share);
        let lookup = self.current.entry(key.clone()).or_default().clone();
        (key, lookup)
    }

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
            .max_blocking_threads(MOST_PROVEN + MOST_DOUBTFUL)
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
