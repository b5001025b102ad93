//! The in-memory schedule under test.

use super::fixture::*;
use super::orders::put;
use ringback::clock::ManualClock;
use ringback::domain::order::OrderMode;
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

/// Everybody waits while a claim works, so it does not look at all that wait for their order.
#[tokio::test]
async fn a_claim_puts_off_some_of_many_that_wait_for_their_order() {
    let fixture = open(LIMITS).await;
    for number in 0..600 {
        let id = format!("{number:03}");
        put(&fixture, &id, ("o", number, OrderMode::Strict), 0).await;
    }
    assert_eq!(fixture.claim_ids(1).await, ["000"]);
    fixture.put("plain", "plain", 1).await;
    fixture.turn_to(1);
    let mut given = Vec::new();
    for is_last in [false, false, true] {
        let claimed = fixture.claim(9).await;
        given.extend(ids(&claimed.leases));
        let is_due = claimed
            .next_due_ms
            .is_some_and(|at_ms| at_ms <= START_MS + 1);
        assert_ne!(is_due, is_last, "{:?}", claimed.next_due_ms);
    }
    assert_eq!(given, ["plain"]);
}
