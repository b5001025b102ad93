//! Looks up host names with the resolver of the operating system.
//!
//! That resolver cannot be interrupted: if the name servers of a name do not answer, it occupies a thread for many
//! seconds. So look-ups run on threads of their own, of which there are at most `MOST_LOOKUPS`, and nothing else of the
//! process waits for them. Destinations that are not known to answer, and names whose last look-up was slow, get half of
//! the threads. There is one look-up of a name at a time, shared by all calls that wait for it. A look-up that waits for a
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
/// Out of these, how many may be of doubtful names.
const MOST_DOUBTFUL: usize = MOST_LOOKUPS / 2;
/// How long a thread without work is kept.
const KEEP_THREAD: Duration = Duration::from_secs(10);
/// A look-up that takes as long is slow. Usual ones take some milliseconds.
const SLOW: Duration = Duration::from_secs(1);
/// How long a name is doubtful after a slow look-up.
const DOUBTED: Duration = Duration::from_secs(60);
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
    /// Half of them: the destination is not known to answer, or fails.
    Doubtful,
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
    threads: Threads,
}

/// A look-up of a doubtful name does not make one wait that may have a thread at once.
type LookupKey = (Box<str>, LookupShare);

#[derive(Default)]
struct Names {
    /// The look-ups that run or wait for a thread.
    current: HashMap<LookupKey, Arc<Lookup>>,
    /// Until when the names are doubtful whose last look-up was slow.
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
    _permits: (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>),
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
            threads: Threads::new(),
        }
    }

    /// Looks a name up, or waits for the look-up of the same name that runs already.
    ///
    /// # Errors
    /// Why the name cannot be resolved.
    pub async fn look_up(&self, name: &str, share: LookupShare) -> LookedUp {
        let waiting = self.join(name, share);
        let beginning = waiting.lookup.0.get_or_init(|| self.begin(&waiting.key));
        let mut running = beginning.await.clone();
        let ended = running.wait_for(Option::is_some).await;
        let found = ended.ok().and_then(|found| found.clone());
        found.unwrap_or_else(|| Err(Arc::new(io::Error::other("the look-up broke off"))))
    }

    fn join(&self, name: &str, share: LookupShare) -> Waiting<'_> {
        let mut names = lock(&self.names);
        let share = match names.is_slow(name) {
            true => LookupShare::Doubtful,
            false => share,
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
        // They are never closed, so there is always a permit in the end.
        let of_share = match key.1 {
            LookupShare::Proven => None,
            LookupShare::Doubtful => self.doubtful.clone().acquire_owned().await.ok(),
        };
        let of_all = self.all.clone().acquire_owned().await.ok();
        let running = Running {
            names: self.names.clone(),
            key: key.clone(),
            began: Instant::now(),
            _permits: (of_share, of_all),
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
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use std::sync::Condvar;
    use tokio::task::JoinSet;

    /// Blocks for every name that begins with `hang`, until it is opened.
    #[derive(Default)]
    struct Stub {
        begun: Mutex<Vec<String>>,
        is_open: Mutex<bool>,
        opened: Condvar,
    }

    impl HostResolver for Stub {
        fn resolve(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
            self.begun.lock().expect("sound").push(name.to_string());
            assert!(!name.starts_with("panic"), "as asked");
            if name.starts_with("hang") {
                let is_open = self.is_open.lock().expect("sound");
                let opened = self.opened.wait_while(is_open, |is_open| !*is_open);
                drop(opened.expect("sound"));
                return Err(io::Error::other("no such name"));
            }
            Ok(vec![SocketAddr::from(([127, 0, 0, 1], 0))])
        }
    }

    impl Stub {
        fn begun(&self) -> usize {
            self.begun.lock().expect("sound").len()
        }

        async fn until_begun(&self, many: usize) {
            while self.begun() < many {
                tokio::task::yield_now().await;
            }
        }

        fn open(&self) {
            *self.is_open.lock().expect("sound") = true;
            self.opened.notify_all();
        }
    }

    /// Number of calls that wait for look-ups.
    fn lookups_waiting(lookups: &Lookups) -> usize {
        let names = lock(&lookups.names);
        let waiting = names
            .current
            .values()
            .map(|lookup| Arc::strong_count(lookup) - 1);
        waiting.sum()
    }

    fn lookups() -> (Arc<Stub>, Arc<Lookups>) {
        let stub = Arc::new(Stub::default());
        (stub.clone(), Arc::new(Lookups::new(stub)))
    }

    #[tokio::test]
    async fn names_that_hang_leave_threads_to_destinations_that_answer() {
        let (stub, lookups) = lookups();
        let mut hanging = JoinSet::new();
        for number in 0..600 {
            let lookups = lookups.clone();
            let name = format!("hang-{number}.example");
            hanging.spawn(async move { lookups.look_up(&name, LookupShare::Doubtful).await });
        }
        stub.until_begun(MOST_DOUBTFUL).await;
        let good = lookups.look_up("good.example", LookupShare::Proven).await;
        assert_eq!(good.expect("resolved").len(), 1);
        assert_eq!(stub.begun(), MOST_DOUBTFUL + 1);
        // Those that wait for a thread are not made after their calls have ended.
        hanging.shutdown().await;
        stub.open();
        while !lock(&lookups.names).current.is_empty() {
            tokio::task::yield_now().await;
        }
        let good = lookups.look_up("good.example", LookupShare::Doubtful).await;
        assert!(good.is_ok());
        assert_eq!(stub.begun(), MOST_DOUBTFUL + 2);
    }

    #[tokio::test]
    async fn calls_for_one_name_share_a_look_up() {
        let (stub, lookups) = lookups();
        // The call that began the look-up ends, and the look-up goes on for the others.
        let mut first = Box::pin(lookups.look_up("hang", LookupShare::Proven));
        assert!((&mut first).now_or_never().is_none());
        drop(first);
        let mut waiting = JoinSet::new();
        for _ in 0..10 {
            let lookups = lookups.clone();
            waiting.spawn(async move { lookups.look_up("hang", LookupShare::Proven).await });
        }
        while waiting.len() > lookups_waiting(&lookups) {
            tokio::task::yield_now().await;
        }
        stub.until_begun(1).await;
        stub.open();
        for result in waiting.join_all().await {
            assert!(result.is_err());
        }
        assert_eq!(stub.begun(), 1);
    }

    #[tokio::test]
    async fn a_look_up_that_panics_is_over() {
        let (stub, lookups) = lookups();
        for _ in 0..2 {
            assert!(
                (lookups.look_up("panic", LookupShare::Proven).await).is_err(),
                "the same name is looked up again"
            );
        }
        assert_eq!(stub.begun(), 2);
        assert_eq!(lookups.all.available_permits(), MOST_LOOKUPS);
    }

    #[test]
    fn a_name_whose_look_up_was_slow_is_doubtful_for_some_time() {
        let mut names = Names::default();
        let now = Instant::now();
        names.ended("fast", now, now + SLOW - Duration::from_millis(1));
        names.ended("slow", now, now + SLOW);
        assert!(names.is_slow("slow") && !names.is_slow("fast"));
        names.ended("slow", now, now);
        assert!(!names.is_slow("slow"));
        for number in 0..MOST_SLOW + 10 {
            names.ended(&number.to_string(), now, now + SLOW);
        }
        assert_eq!(names.slow.len(), MOST_SLOW);
        let later = now + DOUBTED + SLOW;
        names.ended("later", later, later + SLOW);
        assert_eq!(names.slow.len(), 1);
    }
}
