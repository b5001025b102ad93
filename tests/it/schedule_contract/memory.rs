//! The in-memory schedule under test.

use super::fixture::*;
use ringback::clock::ManualClock;
use ringback::schedule::Limits;
use ringback::schedule::memory::MemorySchedule;
use std::sync::Arc;

pub async fn open(limits: Limits) -> Fixture {
    let clock = ManualClock::at(START_MS);
    let schedule = Arc::new(MemorySchedule::new(Arc::new(clock.clone()), limits));
    Fixture {
        other: schedule.clone(),
        schedule,
        clock,
        keeps_alive: Box::new(()),
    }
}
