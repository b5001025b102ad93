use super::*;
use crate::clock::ManualClock;
use crate::journal::Journal;
use crate::journal::decorator::{JournalCall, JournalDecorator};
use crate::schedule::ScheduleError;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;

#[test]
fn rests_differ_and_stay_near() {
    let rests: Vec<_> = (0..100)
        .map(|_| jittered(Duration::from_secs(10)))
        .collect();
    let (shortest, longest) = (rests.iter().min(), rests.iter().max());
    assert!(shortest >= Some(&Duration::from_secs(8)), "{rests:?}");
    assert!(longest <= Some(&Duration::from_secs(12)), "{rests:?}");
    assert_ne!(shortest, longest);
}

/// What an instance cannot do that reaches the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// Its steps fail, because the schedule is away.
    StepsFail,
    /// Its runs end, without a part of the schedule.
    PartsAreAway,
}

/// Two instances with the same duty.
struct TwoInstances {
    trouble: Trouble,
    /// Which of them is in trouble.
    troubled: AtomicUsize,
    /// Who has the duty, and until when.
    held: Mutex<(usize, Instant)>,
    /// Who gave it back, in order.
    given_back: Mutex<Vec<usize>>,
    /// How many runs each has ended that left out nothing.
    whole_runs: watch::Sender<[u32; 2]>,
}

impl TwoInstances {
    /// The first one has the duty, and is in trouble.
    fn with(trouble: Trouble) -> Arc<Self> {
        let until = Instant::now() + Duration::from_millis(DUTY_MS.unsigned_abs());
        Arc::new(Self {
            trouble,
            troubled: AtomicUsize::new(0),
            held: Mutex::new((0, until)),
            given_back: Mutex::default(),
            whole_runs: watch::Sender::new([0, 0]),
        })
    }

    /// Waits until an instance has ended so many runs that left out nothing.
    async fn until_runs(&self, instance: usize, many: u32) {
        let mut runs = self.whole_runs.subscribe();
        let reached = runs.wait_for(|runs| runs[instance] >= many);
        let Ok(reached) = tokio::time::timeout(Duration::from_secs(300), reached).await else {
            panic!("{:?}: instance {instance} does not run", self.trouble);
        };
        drop(reached.expect("the sender is here"));
    }

    fn given_back(&self) -> Vec<usize> {
        self.given_back.lock().expect("no panic").clone()
    }
}

/// The journal as one of them sees it: it gives the duty to one of them at a time, as PostgreSQL does.
struct SharedDuty {
    instance: usize,
    all: Arc<TwoInstances>,
}

impl JournalDecorator for SharedDuty {
    fn inner(&self) -> &dyn Journal {
        unreachable!("only the duty is asked for")
    }

    async fn around<T: Send>(
        &self,
        _: JournalCall,
        calling: impl Future<Output = Result<T, JournalError>> + Send,
    ) -> Result<T, JournalError> {
        calling.await
    }

    async fn duty(&self, _: &str, ttl_ms: i64) -> Result<bool, JournalError> {
        let now = Instant::now();
        let mut held = self.all.held.lock().expect("no panic");
        let (holder, until) = *held;
        if holder != self.instance && until > now {
            return Ok(false);
        }
        let ttl = Duration::from_millis(ttl_ms.unsigned_abs());
        *held = (self.instance, now + ttl);
        if ttl.is_zero() {
            let mut given_back = self.all.given_back.lock().expect("no panic");
            given_back.push(self.instance);
        }
        Ok(true)
    }
}

/// The duty of one of them: a run has one step.
struct OneStep {
    instance: usize,
    all: Arc<TwoInstances>,
    lacks_parts: bool,
}

impl Duty for OneStep {
    type Outcome = ();

    const NAME: &'static str = "one step";
    const STEP_REST: Duration = Duration::ZERO;

    async fn step(&mut self, _: i64) -> Result<Step<()>, MaintenanceError> {
        let is_troubled = self.all.troubled.load(Ordering::Relaxed) == self.instance;
        if is_troubled && self.all.trouble == Trouble::StepsFail {
            return Err(ScheduleError::Unavailable("it is away".into()).into());
        }
        self.lacks_parts = is_troubled;
        if !is_troubled {
            let instance = self.instance;
            self.all.whole_runs.send_modify(|runs| runs[instance] += 1);
        }
        Ok(Step::Done(()))
    }

    fn start_over(&mut self) {}

    fn lacks_parts(&self) -> bool {
        self.lacks_parts
    }

    fn rest(_: Duration) -> Duration {
        Duration::from_secs(1)
    }

    fn report((): ()) {}
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_cannot_do_its_duty_leaves_it_to_the_other() {
    for trouble in [Trouble::StepsFail, Trouble::PartsAreAway] {
        let all = TwoInstances::with(trouble);
        let (_always, healthy) = watch::channel(true);
        let mut running = JoinSet::new();
        for instance in 0..2 {
            let journal = Arc::new(SharedDuty {
                instance,
                all: all.clone(),
            });
            let duty = OneStep {
                instance,
                all: all.clone(),
                lacks_parts: false,
            };
            let clock = Arc::new(ManualClock::at(0));
            running.spawn(run(duty, journal, clock, healthy.clone()));
        }
        // Meanwhile the first one asks for it several times.
        all.until_runs(1, 60).await;
        assert_eq!(all.given_back(), [0], "{trouble:?}");
        assert_eq!(all.whole_runs.borrow()[0], 0, "{trouble:?}");
        // It works again, and the other one does not.
        all.troubled.store(1, Ordering::Relaxed);
        all.until_runs(0, 1).await;
        assert_eq!(all.given_back(), [0, 1], "{trouble:?}");
        running.shutdown().await;
    }
}
