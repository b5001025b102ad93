//! Entries are claimed some time before they are due, so that their calls begin on time.

use super::damage::scene;
use super::fixture::*;
use super::lane_settings::limited;
use ringback::domain::call_rate::CallRate;
use ringback::schedule::Limits;

const EARLY_MS: i64 = 10;
const EARLY: Limits = Limits {
    early_ms: EARLY_MS,
    ..LIMITS
};
const DUE_MS: i64 = 1_000;

#[tokio::test]
async fn an_entry_is_claimed_before_it_is_due() {
    let scene = scene(EARLY).await;
    let fixture = &scene.fixture;
    let mut entry = fixture.put("shop", "a", DUE_MS).await;
    for due_ms in [DUE_MS, 500_000] {
        let claimed_ms = due_ms - EARLY_MS;
        fixture.turn_to(claimed_ms - 1);
        let claimed = fixture.claim(9).await;
        assert!(claimed.leases.is_empty(), "{due_ms}");
        assert_eq!(claimed.next_due_ms, Some(START_MS + claimed_ms));
        fixture.turn_to(claimed_ms);
        let lease = fixture.claim_one().await;
        assert_eq!(lease.entry.progress, entry.progress);
        assert_eq!(lease.expires_ms(), START_MS + claimed_ms + LEASE_MS);
        fixture.done(&lease, again(&lease, 500_000)).await;
        entry = fixture.entry("a").await;
        assert_eq!(entry.progress.next_due_ms(), START_MS + 500_000);
    }
}

#[tokio::test]
async fn a_lane_shows_when_its_oldest_entry_is_due_and_not_when_it_is_claimed() {
    let scene = scene(EARLY).await;
    let fixture = &scene.fixture;
    fixture.put("shop", "a", DUE_MS).await;
    let oldest = async || {
        let lane = fixture.schedule.lane(&lane_of("shop")).await;
        lane.expect("answered").oldest_due_ms
    };
    assert_eq!(oldest().await, None);
    fixture.turn_to(DUE_MS - 1);
    assert_eq!(
        oldest().await,
        Some(START_MS + DUE_MS - 1),
        "never later than now"
    );
    fixture.turn_to(DUE_MS + 5);
    assert_eq!(oldest().await, Some(START_MS + DUE_MS));
}

/// A call that is claimed early counts for the rate of its lane when it begins.
#[tokio::test]
async fn a_rate_holds_between_the_calls_and_not_between_the_claims() {
    let scene = scene(EARLY).await;
    let fixture = &scene.fixture;
    fixture.configure("shop", limited(None, Some(10.0))).await;
    for id in ["a", "b", "c"] {
        fixture.put("shop", id, DUE_MS).await;
    }
    let interval_ms = CallRate::per_second(10.0).expect("a rate").interval_us() / 1_000;
    fixture.turn_to(DUE_MS - EARLY_MS);
    assert_eq!(fixture.claim_ids(9).await, ["a"]);
    for (id, after_ms) in [("b", interval_ms), ("c", 2 * interval_ms)] {
        fixture.turn_to(DUE_MS + after_ms - 1);
        assert_eq!(fixture.claim_ids(9).await, [""; 0], "{id}");
        fixture.turn_to(DUE_MS + after_ms);
        assert_eq!(fixture.claim_ids(9).await, [id]);
    }
}
