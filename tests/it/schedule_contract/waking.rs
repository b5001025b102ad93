//! The wake says when there may be something to claim earlier than the last claim knew.

use super::fixture::*;
use ringback::domain::state::State;
use ringback::schedule::{CHANGE_LEASE_MS, Limits, Reservation, Settlement};
use std::time::Duration;

/// Far longer than any ring takes; only a failing test waits so long.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

impl Fixture {
    /// Claims as the dispatcher does, after which nothing is known but what the reply said.
    async fn sleep(&self) {
        self.wake().reset();
        self.claim(0).await;
        self.wake().reset();
        // A ring of before does not count.
        let _ = tokio::time::timeout(Duration::ZERO, self.wake().moved()).await;
    }

    /// Waits until the wake has rung for an instant no later than this. An earlier one is allowed:
    /// a wake too many costs a claim, a wake too few a delay.
    async fn rung(&self, by_ms: i64, what: &str) {
        let rung = async {
            while self.wake().at_ms() > START_MS + by_ms {
                self.wake().moved().await;
            }
        };
        let rung = tokio::time::timeout(LONGEST_WAIT, rung).await;
        assert!(rung.is_ok(), "{what}: no ring by {by_ms}");
    }
}

pub async fn a_registration_rings(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.sleep().await;
    fixture.put("shop", "1", 500).await;
    fixture.rung(500, "the first").await;
    fixture.put("shop", "2", 300).await;
    fixture.rung(300, "an earlier one").await;
}

pub async fn a_registration_elsewhere_rings(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.sleep().await;
    let registered = fixture.other.register(entry("shop", "1", 500)).await;
    registered.expect("registered");
    fixture.rung(500, "of another instance").await;
}

pub async fn what_becomes_claimable_again_rings(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 0).await;
    let lease = fixture.claim_one().await;
    fixture.sleep().await;
    fixture.done(&lease, again(&lease, 500)).await;
    fixture.rung(500, "again").await;
    fixture.turn_to(500);
    let lease = fixture.claim_one().await;
    fixture.sleep().await;
    fixture.done(&lease, Settlement::Release).await;
    fixture.rung(500, "release").await;
}

pub async fn a_place_in_a_full_lane_rings(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(capped(1)).await;
    fixture.put_many("shop", 2, 0).await;
    let lease = fixture.claim_one().await;
    fixture.turn_to(5);
    fixture.sleep().await;
    fixture.done(&lease, end(&lease, State::Delivered, 5)).await;
    fixture.rung(5, "a place").await;
    assert_eq!(fixture.claim_ids(9).await, ["shop-0001"]);
}

pub async fn an_attempt_by_hand_rings(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 5_000).await;
    fixture.turn_to(5);
    fixture.sleep().await;
    fixture.retry("1").await;
    fixture.rung(5, "retry").await;
}

pub async fn a_dead_entry_that_begins_anew_rings(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(REMEMBERING).await;
    fixture.put("shop", "1", 0).await;
    let lease = fixture.claim_one().await;
    fixture.done(&lease, end(&lease, State::Dead, 0)).await;
    fixture.sleep().await;
    let lease = fixture.lease_by_hand("1").await;
    fixture.sleep().await;
    let settlement = Settlement::Again(due(50));
    fixture.done(&lease, settlement).await;
    fixture.rung(50, "again").await;
}

pub async fn a_lease_by_hand_rings_for_its_expiry(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 10 * LEASE_MS).await;
    fixture.sleep().await;
    fixture.lease_by_hand("1").await;
    fixture.rung(CHANGE_LEASE_MS, "an entry").await;
    let fixture = open(LIMITS).await;
    fixture.sleep().await;
    fixture.reserve("1").await;
    fixture.rung(CHANGE_LEASE_MS, "a key alone").await;
}

pub async fn what_waited_for_a_reservation_rings(open: impl AsyncFn(Limits) -> Fixture) {
    let ends: [fn() -> Reservation; 2] = [
        || Reservation::Recheck,
        || Reservation::Put(Box::new(entry("shop", "1", 50))),
    ];
    for end in ends {
        let fixture = open(LIMITS).await;
        let lease = fixture.reserve("1").await;
        fixture.put("shop", "1", 50).await;
        fixture.sleep().await;
        fixture.end_reservation(&lease, end()).await;
        fixture.rung(50, "the end of it").await;
    }
}

pub async fn a_claim_does_not_ring(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put_many("shop", 90, 0).await;
    for _ in 0..30 {
        fixture.sleep().await;
        fixture.claim(3).await;
        let rung = tokio::time::timeout(Duration::ZERO, fixture.wake().moved()).await;
        if rung.is_err() {
            return;
        }
        // A late ring for one of the registrations; a claim that rings would do so every time.
    }
    panic!("claims ring, so the dispatcher would claim for ever");
}
