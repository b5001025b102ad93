use super::*;
use futures_util::FutureExt as _;
use std::cell::Cell;
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

async fn until_waiting(lookups: &Lookups, many: usize) {
    while lookups_waiting(lookups) < many {
        tokio::task::yield_now().await;
    }
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
async fn names_that_were_slow_leave_threads_to_new_destinations() {
    let (stub, lookups) = lookups();
    let (began, ended) = (Instant::now(), Instant::now() + SLOW);
    let mut hanging = JoinSet::new();
    for number in 0..600 {
        let lookups = lookups.clone();
        let name = format!("hang-{number}.example");
        lock(&lookups.names).ended(&name, began, ended);
        hanging.spawn(async move { lookups.look_up(&name, LookupShare::Doubtful).await });
    }
    stub.until_begun(MOST_SLOW_LOOKUPS).await;
    let new = lookups.look_up("new.example", LookupShare::Doubtful).await;
    assert_eq!(new.expect("resolved").len(), 1);
    // Nor do they keep a destination waiting that answers, and whose last look-up was slow.
    lock(&lookups.names).ended("good.example", began, ended);
    let good = lookups.look_up("good.example", LookupShare::Proven).await;
    assert_eq!(good.expect("resolved").len(), 1);
    assert_eq!(stub.begun(), MOST_SLOW_LOOKUPS + 2);
    hanging.shutdown().await;
    stub.open();
}

#[tokio::test(start_paused = true)]
async fn proven_names_that_begin_to_hang_leave_threads_to_all_others() {
    const HANGING: usize = 1_000;
    let (stub, lookups) = lookups();
    let mut hanging = JoinSet::new();
    for number in 0..HANGING {
        let lookups = lookups.clone();
        // They have no parent in common, and may still have the same name servers.
        let name = format!("hang.shop-{number}");
        hanging.spawn(async move { lookups.look_up(&name, LookupShare::Proven).await });
    }
    until_waiting(&lookups, HANGING).await;
    let began = tokio::time::Instant::now();
    for (name, share) in [
        ("good.other", LookupShare::Proven),
        ("new.other", LookupShare::Doubtful),
        ("good.other", LookupShare::Proven),
    ] {
        let found = lookups.look_up(name, share).await;
        assert_eq!(found.expect("resolved").len(), 1, "{name}");
    }
    let took = began.elapsed();
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    assert!(hanging.try_join_next().is_none(), "the others still hang");
    // Nor do more hang at a time than may.
    for number in HANGING..HANGING + 100 {
        let lookups = lookups.clone();
        let name = format!("hang.shop-{number}");
        hanging.spawn(async move { lookups.look_up(&name, LookupShare::Proven).await });
    }
    while stub.begun() < MOST_PROVEN + 3 {
        tokio::time::advance(STARTING).await;
    }
    let new = lookups.look_up("new.other", LookupShare::Doubtful).await;
    assert_eq!(new.expect("resolved").len(), 1);
    assert_eq!(stub.begun(), MOST_PROVEN + 4);
    hanging.shutdown().await;
    stub.open();
}

#[tokio::test(start_paused = true)]
async fn look_ups_that_start_are_bounded_and_those_that_run_for_long_make_room() {
    const HANGING: usize = 3 * MOST_STARTING;
    let (stub, lookups) = lookups();
    let mut hanging = JoinSet::new();
    for number in 0..HANGING {
        let lookups = lookups.clone();
        let name = format!("hang-{number}.example");
        hanging.spawn(async move { lookups.look_up(&name, LookupShare::Proven).await });
    }
    until_waiting(&lookups, HANGING).await;
    stub.until_begun(MOST_STARTING).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(stub.begun(), MOST_STARTING, "the clock stands still");
    while stub.begun() < HANGING {
        tokio::time::advance(STARTING).await;
    }
    hanging.shutdown().await;
    stub.open();
}

#[tokio::test]
async fn calls_of_every_share_join_a_look_up_that_runs() {
    let (stub, lookups) = lookups();
    for first in LookupShare::ALL {
        let name = format!("hang-{first:?}");
        let begun = stub.begun();
        let mut joining = JoinSet::new();
        for share in [first].into_iter().chain(LookupShare::ALL) {
            let (lookups, name) = (lookups.clone(), name.clone());
            joining.spawn(async move { lookups.look_up(&name, share).await });
            stub.until_begun(begun + 1).await;
        }
        until_waiting(&lookups, joining.len()).await;
        let is_told = Cell::new(false);
        let told = || is_told.set(true);
        let joined = lookups.look_up_and_tell(&name, LookupShare::Doubtful, told);
        assert!(joined.now_or_never().is_none());
        assert!(is_told.get(), "it waits for its own name alone");
        joining.shutdown().await;
        assert_eq!(stub.begun(), begun + 1, "{first:?}");
    }
    stub.open();
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
    until_waiting(&lookups, waiting.len()).await;
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
    assert_eq!(lookups.proven.available_permits(), MOST_PROVEN);
    while lookups.starting.available_permits() < MOST_STARTING {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_name_whose_look_up_was_slow_counts_as_slow_for_some_time() {
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
