//! Leasing one particular entry for a change by hand: out of turn, due or not, ended or not.

use super::fixture::*;
use ringback::domain::progress::Progress;
use ringback::domain::state::State;
use ringback::schedule::{
    CHANGE_LEASE_MS, ClaimQuota, Entry, FoundEntry, LeaseRequest, LeasedOne, Limits, Settled,
    Settlement,
};

fn is_changing(one: &LeasedOne) -> bool {
    matches!(one, LeasedOne::Changing)
}

fn is_in_flight(one: &LeasedOne) -> bool {
    matches!(one, LeasedOne::InFlight)
}

pub async fn an_entry_is_leased_by_hand_due_or_not(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let later = fixture.put("shop", "later", 9_000).await;
    let due = fixture.put("shop", "due", 0).await;
    let lease = fixture.lease_by_hand("later").await;
    assert_eq!(lease.expires_ms(), START_MS + CHANGE_LEASE_MS);
    assert_eq!(lease.token().key(), &key("later"));
    assert_eq!(lease.token().expiry(), lease.expiry());
    assert_eq!(lease.entry, later);
    let found = FoundEntry {
        entry: later,
        in_flight: true,
    };
    assert_eq!(fixture.find("later").await, Some(found));
    assert_eq!(fixture.lease_by_hand("due").await.entry, due);
    assert_eq!(fixture.lane_in_flight("shop").await, 2);
    fixture.turn_to(CHANGE_LEASE_MS - 1);
    let claimed = fixture.claim(9).await;
    assert_eq!(ids(&claimed.leases), [""; 0]);
    assert_eq!(claimed.next_due_ms, Some(START_MS + CHANGE_LEASE_MS));
}

pub async fn a_lease_by_hand_disregards_the_cap_and_counts(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(capped(2)).await;
    fixture.put_many("shop", 6, 0).await;
    let first = fixture.lease_by_hand("shop-0005").await;
    assert_eq!(fixture.claim_ids(9).await, ["shop-0000"], "one place left");
    let third = fixture.lease_by_hand("shop-0004").await;
    assert_eq!(fixture.lane_in_flight("shop").await, 3);
    fixture.done(&first, again(&first, 999)).await;
    assert_eq!(fixture.claim_ids(9).await, [""; 0], "still at the cap");
    fixture.done(&third, again(&third, 999)).await;
    assert_eq!(fixture.claim_ids(9).await, ["shop-0001"]);
}

pub async fn a_leased_entry_is_nobody_elses(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 0).await;
    fixture.put("shop", "2", 50).await;
    let attempt = fixture.claim_one().await;
    let by_hand = fixture.lease_by_hand("2").await;
    for after_ms in [0, CHANGE_LEASE_MS - 1] {
        fixture.turn_to(after_ms);
        for (id, is_told) in [
            ("1", is_in_flight as fn(&LeasedOne) -> bool),
            ("2", is_changing),
        ] {
            for request in [LeaseRequest::new(place(id)), known(id)] {
                let here = fixture.ask(&request).await;
                let there = fixture.other.lease_one(&request).await.expect("answered");
                assert!(is_told(&here), "{id}: {here:?}");
                assert!(is_told(&there), "{id}: {there:?}");
            }
        }
    }
    assert_eq!(fixture.counts().await.in_flight, 2);
    fixture.done(&attempt, again(&attempt, 9)).await;
    fixture.done(&by_hand, again(&by_hand, 9)).await;
}

pub async fn an_attempt_that_expired_is_returned_to_whoever_asks(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(capped(1)).await;
    let entry = fixture.put("shop", "1", 0).await;
    fixture.put("shop", "2", 0).await;
    fixture.turn_to(5);
    let attempt = fixture.claim_one().await;
    fixture.turn_to(5 + LEASE_MS - 1);
    let one = fixture.lease_one("1").await;
    assert!(is_in_flight(&one), "{one:?}");
    fixture.turn_to(5 + LEASE_MS);
    let interrupted = Entry {
        interrupted_ms: Some(START_MS + 5),
        ..to_verify(entry)
    };
    let lease = fixture.lease_by_hand("1").await;
    assert_eq!(lease.entry, interrupted);
    assert_eq!(fixture.lane_in_flight("shop").await, 1);
    let late = fixture.settle(&attempt, again(&attempt, 0)).await;
    assert_eq!(late, Settled::Lost);
    fixture.done(&lease, Settlement::Release).await;
    let lease = fixture.claim_one().await;
    assert_eq!(lease.entry, interrupted, "it is to be told still");
    fixture.done(&lease, again(&lease, LEASE_MS * 9)).await;
    assert_eq!(fixture.claim_ids(9).await, ["2"], "its lane has room again");
}

pub async fn of_many_that_expired_any_can_be_leased(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(Limits {
        lane_start: 1_000,
        lane_cap: 1_000,
        ..LIMITS
    })
    .await;
    fixture.put_many("shop", 600, 0).await;
    fixture.claim_all(600).await;
    fixture.turn_to(LEASE_MS);
    for id in ["shop-0599", "shop-0300", "shop-0000"] {
        let lease = fixture.lease_by_hand(id).await;
        assert_eq!(lease.entry.interrupted_ms, Some(START_MS), "{id}");
    }
}

pub async fn a_lease_by_hand_that_expired_has_the_journal_fenced(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    for by_hand in [false, true] {
        let fixture = open(LIMITS).await;
        let entry = fixture.put("shop", "1", 0).await;
        let lost = fixture.lease_by_hand("1").await;
        fixture.turn_to(CHANGE_LEASE_MS - 1);
        assert_eq!(fixture.claim_ids(9).await, [""; 0]);
        let one = fixture.lease_one("1").await;
        assert!(is_changing(&one), "{one:?}");
        fixture.turn_to(CHANGE_LEASE_MS);
        let lease = match by_hand {
            true => fixture.lease_by_hand("1").await,
            false => fixture.claim_one().await,
        };
        assert_eq!(lease.entry, to_fence(entry), "no attempt was interrupted");
        for way in [again(&lost, 0), Settlement::Release, Settlement::Recheck] {
            assert_eq!(fixture.settle(&lost, way).await, Settled::Lost);
        }
        fixture.done(&lease, Settlement::Release).await;
        let lease = fixture.claim_one().await;
        assert!(lease.entry.verify && lease.entry.raise_fence, "released");
        fixture.done(&lease, again(&lease, CHANGE_LEASE_MS)).await;
        let lease = fixture.claim_one().await;
        assert!(!lease.entry.verify && !lease.entry.raise_fence, "settled");
        assert_eq!(fixture.lane_in_flight("shop").await, 1);
    }
}

pub async fn an_interruption_outlasts_a_lease_by_hand_that_expires(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    let entry = fixture.put("shop", "1", 0).await;
    fixture.claim_one().await;
    fixture.turn_to(LEASE_MS);
    fixture.lease_by_hand("1").await;
    fixture.turn_to(LEASE_MS + CHANGE_LEASE_MS);
    let expected = Entry {
        interrupted_ms: Some(START_MS),
        ..to_fence(entry)
    };
    assert_eq!(fixture.claim_one().await.entry, expected);
}

pub async fn a_lease_by_hand_that_expired_unnoticed_still_settles(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    for limits in [LIMITS, REMEMBERING] {
        let fixture = open(limits).await;
        fixture.put("shop", "1", 0).await;
        let lease = fixture.lease_by_hand("1").await;
        fixture.turn_to(CHANGE_LEASE_MS + 1);
        fixture
            .done(&lease, end(&lease, State::Cancelled, CHANGE_LEASE_MS))
            .await;
        assert_eq!(fixture.lane_in_flight("shop").await, 0);
        assert_eq!(fixture.counts().await, Default::default());
        assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    }
}

pub async fn a_request_made_again_gets_its_lease_again(open: impl AsyncFn(Limits) -> Fixture) {
    for (limits, state) in [
        (LIMITS, State::Scheduled),
        (REMEMBERING, State::Dead),
        (REMEMBERING, State::Cancelled),
    ] {
        let fixture = open(limits).await;
        fixture.put("shop", "1", 50).await;
        if state != State::Scheduled {
            let lease = fixture.lease_by_hand("1").await;
            fixture.done(&lease, end(&lease, state, 0)).await;
        }
        let entry = fixture.entry("1").await;
        let request = LeaseRequest::new(place("1"));
        let first = leased(fixture.ask(&request).await);
        let second = leased(fixture.ask(&request).await);
        fixture.turn_to(100);
        let third = leased(fixture.ask(&request.clone()).await);
        assert_eq!(third.expires_ms(), START_MS + 100 + CHANGE_LEASE_MS);
        for lease in [&first, &second, &third] {
            assert_eq!(lease.entry, entry, "{state}");
        }
        let counted = usize::from(state == State::Scheduled);
        assert_eq!(fixture.lane_in_flight("shop").await, counted);
        assert_eq!(fixture.counts().await.in_flight, 1);
        let one = fixture.lease_one("1").await;
        assert!(is_changing(&one), "{one:?}");
        fixture.turn_to(CHANGE_LEASE_MS);
        assert_eq!(fixture.claim_ids(9).await, [""; 0], "{state}: its own end");
        for lost in [&first, &second] {
            let settled = fixture.settle(lost, Settlement::Release).await;
            assert_eq!(settled, Settled::Lost, "{state}");
        }
        fixture.done(&third, Settlement::Release).await;
        assert_eq!(fixture.entry("1").await, entry);
        assert_eq!(fixture.lane_in_flight("shop").await, 0);
        assert_eq!(fixture.counts().await.in_flight, 0);
    }
}

pub async fn a_request_made_again_too_late_finds_what_others_find(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    let entry = fixture.put("shop", "1", 0).await;
    let request = LeaseRequest::new(place("1"));
    fixture.ask(&request).await;
    fixture.turn_to(CHANGE_LEASE_MS);
    let lease = leased(fixture.ask(&request).await);
    assert_eq!(lease.entry, to_fence(entry), "its first lease expired");
    fixture.done(&lease, Settlement::Release).await;
    fixture.claim_one().await;
    let one = fixture.ask(&request).await;
    assert!(is_in_flight(&one), "{one:?}");
}

pub async fn what_has_ended_is_leased_where_it_is_remembered(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    for state in [State::Delivered, State::Dead, State::Cancelled] {
        let fixture = open(REMEMBERING).await;
        fixture.put("shop", "1", 0).await;
        let lease = fixture.claim_one().await;
        fixture.done(&lease, end(&lease, state, 3)).await;
        let by_hand = fixture.lease_by_hand("1").await;
        assert_eq!(by_hand.entry, ended(&lease, state, 3));
        assert_eq!(by_hand.expires_ms(), START_MS + CHANGE_LEASE_MS);
        let one = fixture.lease_one("1").await;
        assert!(is_changing(&one), "{one:?}");
        let fixture = open(LIMITS).await;
        fixture.put("shop", "1", 0).await;
        let lease = fixture.claim_one().await;
        fixture.done(&lease, end(&lease, state, 3)).await;
        let one = fixture.lease_one("1").await;
        assert!(matches!(one, LeasedOne::Missing), "{one:?}");
    }
}

pub async fn what_was_leased_early_waits_again_for_its_time(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let due_ms = 2 * LEASE_MS;
    let entry = fixture.put("shop", "1", due_ms).await;
    let lease = fixture.lease_by_hand("1").await;
    fixture.done(&lease, Settlement::Release).await;
    let claimed = fixture.claim(9).await;
    assert_eq!(ids(&claimed.leases), [""; 0]);
    assert_eq!(claimed.next_due_ms, Some(START_MS + due_ms));
    fixture.turn_to(1);
    fixture.lease_by_hand("1").await;
    let claimed = fixture.claim(9).await;
    assert_eq!(claimed.next_due_ms, Some(START_MS + 1 + CHANGE_LEASE_MS));
    fixture.turn_to(1 + CHANGE_LEASE_MS);
    let claimed = fixture.claim(9).await;
    assert_eq!(ids(&claimed.leases), [""; 0], "returned, but not due");
    assert_eq!(claimed.next_due_ms, Some(START_MS + due_ms));
    assert!(!fixture.find("1").await.expect("here").in_flight);
    fixture.turn_to(due_ms);
    assert_eq!(fixture.claim_one().await.entry, to_fence(entry));
}

pub async fn of_concurrent_requests_one_gets_the_lease(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 0).await;
    let (one, other) = (LeaseRequest::new(place("1")), LeaseRequest::new(place("1")));
    let (here, there, claimed) = tokio::join!(
        fixture.schedule.lease_one(&one),
        fixture.other.lease_one(&other),
        fixture.other.claim(ClaimQuota::of(9)),
    );
    let leased = [here, there]
        .into_iter()
        .filter(|one| matches!(one, Ok(LeasedOne::Leased(_))))
        .count();
    assert_eq!(leased + claimed.expect("answered").leases.len(), 1);
    assert_eq!(fixture.lane_in_flight("shop").await, 1);
}

pub async fn another_instance_can_settle_a_change(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 50).await;
    let request = LeaseRequest::new(place("1"));
    let there = leased(fixture.other.lease_one(&request).await.expect("answered"));
    fixture.done(&there, again(&there, 0)).await;
    assert_eq!(fixture.claim_ids(9).await, ["1"]);
}

pub async fn a_retry_makes_a_waiting_entry_due_at_once(open: impl AsyncFn(Limits) -> Fixture) {
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
    let found = Some(FoundEntry {
        entry: by_hand.clone(),
        in_flight: false,
    });
    fixture.retry("1").await;
    assert_eq!(fixture.find("1").await, found);
    fixture.turn_to(6);
    fixture.retry("1").await;
    assert_eq!(
        fixture.find("1").await,
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

pub async fn a_retry_of_a_due_entry_is_the_attempt_of_its_ladder(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    let due = fixture.put("shop", "due", 5).await;
    for after_ms in [5, 6] {
        fixture.turn_to(after_ms);
        fixture.retry("due").await;
        let mut expected = due.clone();
        expected.progress.retry_at_ms = Some(START_MS + 5);
        let found = Some(FoundEntry {
            entry: expected,
            in_flight: false,
        });
        assert_eq!(fixture.find("due").await, found, "due since {after_ms}");
    }
    let lease = fixture.claim_one().await;
    assert!(!lease.entry.progress.next_is_by_hand(), "it uses a step");
}
