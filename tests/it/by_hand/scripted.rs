//! A schedule in memory of which a test says what becomes of the next requests for a lease by hand.

use futures_util::future::BoxFuture;
use ringback::clock::{Clock, ManualClock};
use ringback::schedule::decorator::{ScheduleCall, ScheduleDecorator};
use ringback::schedule::memory::MemorySchedule;
use ringback::schedule::{Limits, Schedule, ScheduleError};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// What becomes of a request that was executed.
pub enum Then {
    /// Its reply is lost.
    Lost,
    /// This happens before the reply arrives: the server was suspended.
    After(BoxFuture<'static, ()>),
}

/// The schedule.
pub struct Scripted {
    pub inner: MemorySchedule,
    /// What a server takes for the schedule's time.
    shown: ManualClock,
    /// How many requests were made.
    pub requests: AtomicUsize,
    /// Whether the replies to all further requests are lost.
    pub deaf: AtomicBool,
    /// What the next registration waits for before it is executed.
    pub late: Mutex<Option<oneshot::Receiver<()>>>,
    then: Mutex<VecDeque<Then>>,
}

impl Scripted {
    pub fn over_journal(clock: &ManualClock, limits: Limits) -> Arc<Self> {
        Self::shown_by(clock, clock, limits)
    }

    /// One that goes by `clock`, while its servers reckon its time by another.
    pub fn shown_by(clock: &ManualClock, shown: &ManualClock, limits: Limits) -> Arc<Self> {
        let memory = ringback::schedule::memory::MEMORY_BYTES;
        Arc::new(Self {
            inner: MemorySchedule::over_journal(Arc::new(clock.clone()), limits, memory),
            shown: shown.clone(),
            requests: AtomicUsize::new(0),
            deaf: AtomicBool::new(false),
            late: Mutex::default(),
            then: Mutex::default(),
        })
    }

    /// Says what becomes of the next request that nothing was said of.
    pub fn then(&self, then: Then) {
        self.then.lock().expect("no panic").push_back(then);
    }
}

impl ScheduleDecorator for Scripted {
    fn inner(&self) -> &dyn Schedule {
        &self.inner
    }

    async fn around<T: Send>(
        &self,
        call: ScheduleCall,
        calling: impl Future<Output = Result<T, ScheduleError>> + Send,
    ) -> Result<T, ScheduleError> {
        if call == ScheduleCall::Register {
            let late = self.late.lock().expect("no panic").take();
            if let Some(late) = late {
                late.await.expect("somebody lets it go on");
            }
        }
        if call != ScheduleCall::LeaseOne {
            return calling.await;
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        let leased = calling.await;
        let then = self.then.lock().expect("no panic").pop_front();
        let lost = || Err(ScheduleError::Unavailable("the reply is lost".into()));
        match then {
            Some(Then::Lost) => lost(),
            None if self.deaf.load(Ordering::Relaxed) => lost(),
            Some(Then::After(happens)) => {
                happens.await;
                leased
            }
            None => leased,
        }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.shown.clone())
    }
}
