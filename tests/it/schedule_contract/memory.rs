//! The in-memory schedule under test, and what only it promises.

use super::fixture::*;
use ringback::clock::ManualClock;
use ringback::schedule::memory::MemorySchedule;
use ringback::schedule::{Limits, Settled, Settlement};
use std::sync::Arc;

pub async fn open(limits: Limits) -> Fixture {
    let clock = ManualClock::at(START_MS);
    let schedule = Arc::new(MemorySchedule::new(Arc::new(clock.clone()), limits));
    Fixture {
        other: schedule.clone(),
        schedule,
        clock,
        guard: Box::new(()),
    }
}

#[tokio::test]
async fn leases_of_the_same_millisecond_have_fences_of_their_own() {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 0).await;
    let first = fixture.claim_one().await;
    fixture.done(&first, Settlement::Release).await;
    let second = fixture.claim_one().await;
    assert_ne!(first.expires_ms, second.expires_ms);
    let late = fixture.settle(&first, Settlement::Release).await;
    assert_eq!(late, Settled::Lost);
    fixture.done(&second, Settlement::Release).await;
}
