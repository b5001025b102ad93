//! A claim takes what is due, longest due first, as much as was asked for and no lane over its cap.

use super::fixture::*;
use ringback::domain::state::State;
use ringback::schedule::{ClaimQuota, Lease, Limits, Settlement};
use std::collections::HashSet;

pub async fn due_exactly_now_is_claimed_and_a_millisecond_later_is_not(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    let entry = fixture.put("shop", "1", 50).await;
    fixture.turn_to(49);
    let claimed = fixture.claim(9).await;
    assert_eq!(ids(&claimed.leases), [""; 0]);
    assert_eq!(claimed.next_due_ms, Some(START_MS + 50));
    fixture.turn_to(50);
    let lease = fixture.claim_one().await;
    assert_eq!(lease.entry, entry);
    assert_eq!(lease.expires_ms(), START_MS + 50 + LEASE_MS);
}

pub async fn within_a_lane_what_is_due_longest_comes_first_then_by_key(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    for (id, due_ms) in [
        ("e", 30),
        ("b", 10),
        ("a", 20),
        ("z", 5),
        ("B", 20),
        ("aa", 20),
        ("f", 29),
    ] {
        fixture.put("shop", id, due_ms).await;
    }
    fixture.turn_to(29);
    assert_eq!(fixture.claim_ids(2).await, ["z", "b"]);
    assert_eq!(fixture.claim_ids(9).await, ["B", "a", "aa", "f"]);
    fixture.turn_to(30);
    assert_eq!(fixture.claim_ids(9).await, ["e"]);
}

pub async fn the_lane_that_is_due_longest_comes_first(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    for (lane, due_ms) in [("c", 30), ("a", 20), ("d", 40), ("b", 10)] {
        fixture.put(lane, lane, due_ms).await;
    }
    fixture.put("d", "d-earlier", 5).await;
    fixture.turn_to(35);
    assert_eq!(fixture.claim_ids(9).await, ["d-earlier", "b", "a", "c"]);
}

pub async fn a_claim_takes_as_many_as_were_asked_for(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    for lane in ["a", "b", "c"] {
        fixture.put_many(lane, 7, 0).await;
    }
    let mut seen = HashSet::new();
    for (most, expected) in [(1, 1), (0, 0), (3, 3), (5, 5), (11, 11), (5, 1), (5, 0)] {
        let claimed = fixture.claim(most).await;
        assert_eq!(claimed.leases.len(), expected, "of {most}");
        seen.extend(ids(&claimed.leases));
    }
    assert_eq!(seen.len(), 21, "each of them once");
}

pub async fn everything_that_is_due_is_brought_once(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    for lane in 0..60 {
        fixture.put_many(&format!("lane-{lane}"), 10, lane).await;
    }
    fixture.turn_to(60);
    let leases = fixture.claim_all(600).await;
    let distinct: HashSet<String> = ids(&leases).into_iter().collect();
    assert_eq!((leases.len(), distinct.len()), (600, 600));
    let claimed = fixture.claim(600).await;
    assert_eq!(ids(&claimed.leases), [""; 0]);
    assert_eq!(claimed.next_due_ms, Some(START_MS + 60 + LEASE_MS));
}

pub async fn a_claim_says_when_there_is_next_something(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    assert_eq!(fixture.claim(9).await.next_due_ms, None, "nothing at all");
    fixture.put("a", "1", 70).await;
    fixture.put("b", "2", 60).await;
    fixture.put("b", "3", 0).await;
    fixture.put("c", "4", 0).await;
    let claimed = fixture.claim(1).await;
    let next_ms = claimed.next_due_ms.expect("more is due");
    assert!(next_ms <= START_MS, "more is due now");
    let claimed = fixture.claim(1).await;
    assert_eq!(claimed.next_due_ms, Some(START_MS + 60));
    let claimed = fixture.claim(1).await;
    assert_eq!(ids(&claimed.leases), [""; 0]);
    assert_eq!(claimed.next_due_ms, Some(START_MS + 60));
    fixture.turn_to(70);
    let claimed = fixture.claim(9).await;
    assert_eq!(claimed.leases.len(), 2);
    let expires_ms = Some(START_MS + LEASE_MS);
    assert_eq!(claimed.next_due_ms, expires_ms, "the first lease to expire");
    for lease in &claimed.leases {
        fixture.done(lease, again(lease, 2 * LEASE_MS)).await;
    }
    assert_eq!(fixture.claim(9).await.next_due_ms, expires_ms);
}

pub async fn nothing_is_next_once_everything_has_ended(open: impl AsyncFn(Limits) -> Fixture) {
    for limits in [LIMITS, REMEMBERING] {
        let fixture = open(limits).await;
        fixture.put_many("shop", 2, 0).await;
        let leases = fixture.claim(9).await.leases;
        fixture
            .done(&leases[0], end(&leases[0], State::Delivered, 0))
            .await;
        fixture
            .done(&leases[1], end(&leases[1], State::Dead, 0))
            .await;
        let claimed = fixture.claim(9).await;
        assert_eq!(ids(&claimed.leases), [""; 0]);
        assert_eq!(claimed.next_due_ms, None);
    }
}

pub async fn a_lane_is_never_over_its_cap(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(capped(6)).await;
    fixture.put_many("shop", 9, 0).await;
    assert_eq!(fixture.claim(5).await.leases.len(), 5, "below the cap");
    let there = fixture
        .other
        .claim(ClaimQuota::of(9))
        .await
        .expect("claimed");
    assert_eq!(there.leases.len(), 1, "up to it, for both instances");
    assert_eq!(
        there.next_due_ms,
        Some(START_MS + LEASE_MS),
        "what waits in a full lane is not next"
    );
    assert_eq!(fixture.claim(9).await.leases.len(), 0, "and no further");
    assert_eq!(fixture.lane_in_flight("shop").await, 6);
    fixture.put("shop", "late", 0).await;
    assert_eq!(fixture.claim(9).await.leases.len(), 0);
}

pub async fn a_cap_below_a_visit_holds(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(capped(1)).await;
    fixture.put_many("a", 3, 0).await;
    fixture.put_many("b", 3, 0).await;
    assert_eq!(fixture.claim_ids(9).await, ["a-0000", "b-0000"]);
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
}

pub async fn a_full_lane_goes_on_when_a_lease_is_settled(open: impl AsyncFn(Limits) -> Fixture) {
    let check = async |settlement: fn(&Lease) -> Settlement, expected: &str| {
        let fixture = open(capped(1)).await;
        fixture.put("shop", "1", 0).await;
        fixture.put("shop", "2", 0).await;
        let lease = fixture.claim_one().await;
        assert_eq!(fixture.claim_ids(9).await, [""; 0], "full");
        fixture.done(&lease, settlement(&lease)).await;
        assert_eq!(fixture.claim_ids(9).await, [expected]);
        assert_eq!(fixture.lane_in_flight("shop").await, 1);
    };
    check(|lease| again(lease, 999), "2").await;
    check(|_| Settlement::Release, "1").await;
    check(|lease| end(lease, State::Delivered, 0), "2").await;
    check(|lease| end(lease, State::Dead, 0), "2").await;
    check(|lease| end(lease, State::Cancelled, 0), "2").await;
}

pub async fn an_expired_lease_makes_room_in_a_full_lane(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(capped(1)).await;
    fixture.put("shop", "1", 0).await;
    fixture.put("shop", "2", 0).await;
    fixture.claim_one().await;
    fixture.turn_to(LEASE_MS - 1);
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    fixture.turn_to(LEASE_MS);
    assert_eq!(
        fixture.claim_ids(9).await,
        ["1"],
        "due as long, first by key"
    );
    assert_eq!(fixture.lane_in_flight("shop").await, 1);
}

pub async fn concurrent_claims_share_nothing(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(capped(20)).await;
    for lane in ["a", "b", "c"] {
        fixture.put_many(lane, 30, 0).await;
    }
    let claims = tokio::join!(
        fixture.schedule.claim(ClaimQuota::of(25)),
        fixture.other.claim(ClaimQuota::of(25)),
        fixture.schedule.claim(ClaimQuota::of(25)),
        fixture.other.claim(ClaimQuota::of(25)),
    );
    let mut seen = Vec::new();
    for claimed in [claims.0, claims.1, claims.2, claims.3] {
        seen.extend(ids(&claimed.expect("claimed").leases));
    }
    let distinct: HashSet<&String> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "no entry twice");
    assert_eq!(seen.len(), 60, "every lane up to its cap");
    for lane in ["a", "b", "c"] {
        assert_eq!(fixture.lane_in_flight(lane).await, 20);
    }
}
