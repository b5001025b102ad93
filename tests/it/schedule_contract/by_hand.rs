//! Asking for one particular entry: leasing it out of turn, and making it due at once.

use super::fixture::*;
use ringback::domain::progress::Progress;
use ringback::domain::state::State;
use ringback::schedule::{Entry, Found, Limits, Settlement, Taken};

pub async fn take_leases_an_entry_due_or_not(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let later = fixture.put("shop", "later", 9_000).await;
    let due = fixture.put("shop", "due", 0).await;
    let lease = fixture.take_lease("later").await;
    assert_eq!(
        (lease.entry, lease.expires_ms),
        (later, START_MS + LEASE_MS)
    );
    assert_eq!(fixture.take_lease("due").await.entry, due);
    assert_eq!(fixture.lane_in_flight("shop").await, 2);
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
}

pub async fn take_disregards_the_cap_and_counts_as_a_lease(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(capped(2)).await;
    fixture.put_many("shop", 6, 0).await;
    let first = fixture.take_lease("shop-0005").await;
    assert_eq!(fixture.claim_ids(9).await, ["shop-0000"], "one place left");
    let third = fixture.take_lease("shop-0004").await;
    assert_eq!(fixture.lane_in_flight("shop").await, 3);
    fixture.done(&first, again(&first, 999)).await;
    assert_eq!(fixture.claim_ids(9).await, [""; 0], "still at the cap");
    fixture.done(&third, again(&third, 999)).await;
    assert_eq!(fixture.claim_ids(9).await, ["shop-0001"]);
}

pub async fn take_finds_an_attempt_under_way(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 0).await;
    fixture.put("shop", "2", 50).await;
    fixture.claim_one().await;
    fixture.take_lease("2").await;
    // Also past the expiry: until a claim returns it, the attempt may still be settled.
    for after_ms in [0, LEASE_MS, 2 * LEASE_MS] {
        fixture.turn_to(after_ms);
        for id in ["1", "2"] {
            let taken = fixture.take(id).await;
            assert!(matches!(taken, Taken::InFlight), "{taken:?}");
        }
    }
    assert_eq!(fixture.counts().await.in_flight, 2);
}

pub async fn take_finds_an_ended_entry(open: impl AsyncFn(Limits) -> Fixture) {
    for state in [State::Delivered, State::Dead, State::Cancelled] {
        let fixture = open(REMEMBERING).await;
        fixture.put("shop", "1", 0).await;
        let lease = fixture.claim_one().await;
        fixture.done(&lease, end(&lease, state, 3)).await;
        match fixture.take("1").await {
            Taken::Ended(entry) => assert_eq!(*entry, ended(&lease, state, 3)),
            taken @ (Taken::Leased(_) | Taken::InFlight | Taken::Missing) => panic!("{taken:?}"),
        }
        let fixture = open(LIMITS).await;
        fixture.put("shop", "1", 0).await;
        let lease = fixture.claim_one().await;
        fixture.done(&lease, end(&lease, state, 3)).await;
        assert!(matches!(fixture.take("1").await, Taken::Missing));
    }
}

pub async fn what_was_taken_early_waits_again_for_its_time(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let due_ms = 2 * LEASE_MS;
    let entry = fixture.put("shop", "1", due_ms).await;
    let lease = fixture.take_lease("1").await;
    fixture.done(&lease, Settlement::Release).await;
    let claimed = fixture.claim(9).await;
    assert_eq!(ids(&claimed.leases), [""; 0]);
    assert_eq!(claimed.next_due_ms, Some(START_MS + due_ms));
    fixture.turn_to(1);
    fixture.take_lease("1").await;
    let claimed = fixture.claim(9).await;
    assert_eq!(claimed.next_due_ms, Some(START_MS + 1 + LEASE_MS));
    fixture.turn_to(1 + LEASE_MS);
    let claimed = fixture.claim(9).await;
    assert_eq!(ids(&claimed.leases), [""; 0], "returned, but not due");
    assert_eq!(claimed.next_due_ms, Some(START_MS + due_ms));
    assert!(!fixture.find("1").await.expect("here").in_flight);
    fixture.turn_to(due_ms);
    let interrupted = Entry {
        interrupted_ms: Some(START_MS + 1),
        verify: true,
        ..entry
    };
    assert_eq!(fixture.claim_one().await.entry, interrupted);
}

pub async fn of_concurrent_takes_one_gets_the_lease(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 0).await;
    let key = key("1");
    let (here, there, claimed) = tokio::join!(
        fixture.schedule.take(&key),
        fixture.other.take(&key),
        fixture.other.claim(9),
    );
    let taken = [here, there]
        .into_iter()
        .filter(|taken| matches!(taken, Ok(Taken::Leased(_))))
        .count();
    assert_eq!(taken + claimed.expect("answered").leases.len(), 1);
    assert_eq!(fixture.lane_in_flight("shop").await, 1);
}

pub async fn advance_makes_a_waiting_entry_due_at_once(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let entry = fixture.put("shop", "1", 9_000).await;
    fixture.put("shop", "2", 8_000).await;
    fixture.turn_to(5);
    let by_hand = Entry {
        progress: Progress {
            retry_at_ms: Some(START_MS + 5),
            ..entry.progress
        },
        ..entry
    };
    let found = Some(Found {
        entry: by_hand.clone(),
        in_flight: false,
    });
    assert_eq!(fixture.advance("1").await, found);
    fixture.turn_to(6);
    assert_eq!(
        fixture.advance("1").await,
        found,
        "asking again changes nothing"
    );
    assert_eq!(fixture.claim(0).await.leases.len(), 0);
    let lease = fixture.claim_one().await;
    assert_eq!(lease.entry, by_hand);
    fixture.done(&lease, again(&lease, 9_000)).await;
    fixture.turn_to(8_999);
    assert_eq!(fixture.claim_ids(9).await, ["2"], "the ladder goes on");
    fixture.turn_to(9_000);
    assert_eq!(fixture.claim_ids(9).await, ["1"]);
}

pub async fn advance_leaves_a_due_or_leased_entry_alone(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let due = fixture.put("shop", "due", 5).await;
    let leased = fixture.put("shop", "leased", 9_000).await;
    fixture.take_lease("leased").await;
    fixture.turn_to(5);
    let found = Some(Found {
        entry: due,
        in_flight: false,
    });
    assert_eq!(fixture.advance("due").await, found, "due exactly now");
    fixture.turn_to(6);
    assert_eq!(fixture.advance("due").await, found);
    let found = Some(Found {
        entry: leased,
        in_flight: true,
    });
    assert_eq!(fixture.advance("leased").await, found);
    assert_eq!(fixture.claim_ids(9).await, ["due"]);
}

pub async fn advance_shows_an_ended_entry(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(REMEMBERING).await;
    for state in [State::Delivered, State::Dead, State::Cancelled] {
        fixture.put("shop", state.as_str(), 0).await;
        let lease = fixture.claim_one().await;
        fixture.done(&lease, end(&lease, state, 0)).await;
        let found = Some(Found {
            entry: ended(&lease, state, 0),
            in_flight: false,
        });
        assert_eq!(fixture.advance(state.as_str()).await, found);
        assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    }
}
