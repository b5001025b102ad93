//! Two entries of one order key are never leased for attempts together.

use super::fixture::*;
use super::lane_settings::limited;
use ringback::domain::notification::Notification;
use ringback::domain::order::{OrderMode, OrderPlace};
use ringback::domain::state::State;
use ringback::schedule::{BEHIND_MS, Entry, Lease, Limits, Registered, Settled, Settlement};
use std::sync::Arc;

pub async fn put(fixture: &Fixture, id: &str, order: (&str, i64, OrderMode), due_ms: i64) -> Entry {
    let plain = entry("shop", id, due_ms);
    let place = OrderPlace::new(order.0, order.1, order.2).expect("valid");
    let notification = Notification {
        order: Some(Box::new(place)),
        ..Notification::clone(&plain.notification)
    };
    let entry = Entry {
        notification: Arc::new(notification),
        ..plain
    };
    let registered = fixture.register(entry.clone()).await;
    assert_eq!(registered, Registered::Created, "{id}");
    entry
}

pub async fn of_one_order_key_one_is_in_flight(open: impl AsyncFn(Limits) -> Fixture) {
    for mode in [OrderMode::Latest, OrderMode::Strict] {
        let fixture = open(LIMITS).await;
        let first = put(&fixture, "1", ("o", 1, mode), 0).await;
        put(&fixture, "2", ("o", 2, mode), 0).await;
        put(&fixture, "other", ("p", 1, mode), 0).await;
        fixture.put("shop", "plain", 0).await;
        let leases = fixture.claim(9).await.leases;
        assert_eq!(ids(&leases), ["1", "other", "plain"]);
        assert_eq!(leases[0].entry, first);
        assert_eq!(fixture.claim_ids(9).await, [""; 0]);
        assert_eq!(fixture.lane_in_flight("shop").await, 3);
        fixture
            .done(&leases[0], end(&leases[0], State::Delivered, 0))
            .await;
        let second = fixture.claim_one().await;
        assert_eq!(id(&second), "2");
        assert!(second.entry.was_put_off, "it says that it waited");
        assert!(!leases[0].entry.was_put_off);
    }
}

pub async fn a_failed_attempt_makes_way_in_latest_alone(open: impl AsyncFn(Limits) -> Fixture) {
    for (mode, expected) in [(OrderMode::Latest, vec!["2"]), (OrderMode::Strict, vec![])] {
        let fixture = open(LIMITS).await;
        put(&fixture, "1", ("o", 1, mode), 0).await;
        put(&fixture, "2", ("o", 2, mode), 1).await;
        fixture.turn_to(1);
        let lease = fixture.claim_one().await;
        assert_eq!(fixture.claim_ids(9).await, [""; 0]);
        fixture.done(&lease, again(&lease, 500_000)).await;
        assert_eq!(fixture.claim_ids(9).await, expected);
    }
}

pub async fn the_next_goes_when_the_lease_before_has_expired(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    put(&fixture, "1", ("o", 1, OrderMode::Latest), 0).await;
    put(&fixture, "2", ("o", 2, OrderMode::Latest), 0).await;
    assert_eq!(fixture.claim_ids(9).await, ["1"]);
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    fixture.turn_to(LEASE_MS - 1);
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    fixture.turn_to(LEASE_MS);
    let next = fixture.claim(9).await.leases;
    assert_eq!(next.len(), 1, "{:?}", ids(&next));
    fixture
        .done(&next[0], end(&next[0], State::Delivered, LEASE_MS))
        .await;
    assert_eq!(fixture.claim(9).await.leases.len(), 1);
}

/// Of a lost lease it is not known whether its settlement was done before: its reply may have been lost.
pub async fn a_settlement_of_a_lost_lease_lets_no_two_go_together(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let settlements: [fn(&Lease) -> Settlement; 4] = [
        |lost| end(lost, State::Delivered, LEASE_MS),
        |lost| again(lost, LEASE_MS),
        |_| Settlement::Release,
        |_| Settlement::Defer(START_MS + 2 * LEASE_MS),
    ];
    for mode in [OrderMode::Latest, OrderMode::Strict] {
        for settlement in settlements {
            let fixture = open(LIMITS).await;
            put(&fixture, "1", ("o", 1, mode), 0).await;
            put(&fixture, "2", ("o", 2, mode), 0).await;
            let lost = fixture.claim_one().await;
            assert_eq!(fixture.claim_ids(9).await, [""; 0]);
            fixture.turn_to(LEASE_MS);
            let next = fixture.claim(9).await.leases;
            assert_eq!(next.len(), 1, "{:?}", ids(&next));
            let settled = fixture.settle(&lost, settlement(&lost)).await;
            assert_eq!(settled, Settled::Lost);
            assert_eq!(fixture.claim_ids(9).await, [""; 0], "{mode:?}");
            let ended = end(&next[0], State::Delivered, LEASE_MS);
            fixture.done(&next[0], ended).await;
            assert_eq!(fixture.claim(9).await.leases.len(), 1, "{mode:?}");
        }
    }
}

pub async fn a_renewed_lease_keeps_the_others_waiting(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    put(&fixture, "1", ("o", 1, OrderMode::Strict), 0).await;
    put(&fixture, "2", ("o", 2, OrderMode::Strict), 0).await;
    let mut lease = fixture.claim_one().await;
    fixture.turn_to(LEASE_MS - 1);
    let renewed = fixture.schedule.renew(&lease).await.expect("answered");
    lease.renewed(renewed.expect("in force"));
    fixture.turn_to(LEASE_MS + 5);
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    fixture
        .done(&lease, end(&lease, State::Dead, LEASE_MS + 5))
        .await;
    assert_eq!(fixture.claim_ids(9).await, ["2"]);
}

pub async fn what_was_deferred_goes_when_the_one_before_has_ended(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    put(&fixture, "1", ("o", 1, OrderMode::Strict), 100).await;
    put(&fixture, "2", ("o", 2, OrderMode::Strict), 0).await;
    put(&fixture, "3", ("o", 3, OrderMode::Strict), 0).await;
    let second = fixture.claim_one().await;
    assert_eq!(id(&second), "2");
    let later = Settlement::Defer(START_MS + 60_000);
    fixture.done(&second, later).await;
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    fixture.turn_to(100);
    let first = fixture.claim_one().await;
    assert_eq!(id(&first), "1");
    fixture
        .done(&first, end(&first, State::Delivered, 100))
        .await;
    let second = fixture.claim_one().await;
    assert_eq!(id(&second), "2");
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    // A change by hand ends it as well as an attempt.
    fixture
        .done(&second, Settlement::Defer(START_MS + 60_000))
        .await;
    let by_hand = fixture.lease_by_hand("2").await;
    fixture
        .done(&by_hand, end(&by_hand, State::Cancelled, 100))
        .await;
    assert_eq!(fixture.claim_ids(9).await, ["3"]);
}

pub async fn a_higher_number_makes_the_lowest_that_waits_no_later(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    // By key, the higher numbers come first, and all are due together. A quota of one claims them one by one.
    for quota in [1, 9] {
        let fixture = open(capped(2)).await;
        for (id, number) in [("d", 1), ("c", 2), ("b", 3), ("a", 4)] {
            put(&fixture, id, ("o", number, OrderMode::Strict), 0).await;
        }
        let mut asked = 0;
        for expected in ["d", "c", "b", "a"] {
            loop {
                let leases = fixture.claim(quota).await.leases;
                assert_eq!(leases.len(), 1, "before {expected}: {:?}", ids(&leases));
                if id(&leases[0]) == expected {
                    let delivered = end(&leases[0], State::Delivered, 0);
                    fixture.done(&leases[0], delivered).await;
                    break;
                }
                asked += 1;
                let later = Settlement::Defer(START_MS + 60_000);
                fixture.done(&leases[0], later).await;
            }
        }
        assert!(asked <= 3, "each is asked for once at most: {asked}");
        assert_eq!(fixture.counts().await.pending, 0);
    }
}

pub async fn what_comes_after_a_number_that_waits_is_not_claimed(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    put(&fixture, "1", ("o", 1, OrderMode::Strict), 50_000).await;
    for number in 2..40 {
        let id = format!("{number}");
        put(&fixture, &id, ("o", number, OrderMode::Strict), number).await;
    }
    fixture.turn_to(2);
    let second = fixture.claim_one().await;
    assert_eq!(id(&second), "2");
    let later = START_MS + 1_000_000;
    fixture.done(&second, Settlement::Defer(later)).await;
    fixture.turn_to(100);
    assert_eq!(fixture.claim_ids(99).await, [""; 0]);
    // Whoever asks for an attempt by hand does not get ahead.
    fixture.retry("7").await;
    assert_eq!(fixture.claim_ids(99).await, [""; 0]);
    fixture.turn_to(50_000);
    for number in 1..40 {
        let lease = fixture.claim_one().await;
        assert_eq!(id(&lease), format!("{number}"));
        assert_eq!(fixture.claim_ids(99).await, [""; 0]);
        let delivered = end(&lease, State::Delivered, 50_000);
        fixture.done(&lease, delivered).await;
    }
}

pub async fn what_waits_is_claimed_again_although_nothing_ended(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    put(&fixture, "2", ("o", 2, OrderMode::Strict), 0).await;
    put(&fixture, "3", ("o", 3, OrderMode::Strict), 0).await;
    let second = fixture.claim_one().await;
    fixture
        .done(&second, Settlement::Defer(START_MS + 5_000))
        .await;
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    fixture.turn_to(5_000);
    let again = fixture.claim_one().await;
    assert_eq!(id(&again), "2");
    fixture
        .done(&again, Settlement::Defer(START_MS + 10_000_000))
        .await;
    // As if the second had ended unnoticed: it is leased by hand for all that time.
    fixture.turn_to(BEHIND_MS - 1);
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    fixture.turn_to(BEHIND_MS + 5_000);
    fixture.lease_by_hand("2").await;
    assert_eq!(fixture.claim_ids(9).await, ["3"]);
}

pub async fn an_end_while_the_journal_is_asked_is_not_missed(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    put(&fixture, "1", ("o", 1, OrderMode::Strict), 50_000).await;
    put(&fixture, "2", ("o", 2, OrderMode::Strict), 0).await;
    let second = fixture.claim_one().await;
    // The journal still has the first one now.
    let first = fixture.lease_by_hand("1").await;
    fixture.done(&first, end(&first, State::Cancelled, 0)).await;
    let later = Settlement::Defer(START_MS + 60_000);
    fixture.done(&second, later).await;
    let second = fixture.claim_one().await;
    assert_eq!(id(&second), "2");
    // That was said once.
    let later = Settlement::Defer(START_MS + 60_000);
    fixture.done(&second, later).await;
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
}

pub async fn what_waits_for_its_order_uses_no_call_of_a_rate(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    fixture.configure("shop", limited(None, Some(1.0))).await;
    put(&fixture, "0", ("o", 0, OrderMode::Strict), 3_600_000).await;
    // Each of these comes before the one that is claimed before it, so each is asked for.
    for number in 1..=20 {
        let id = format!("{:02}", 21 - number);
        put(&fixture, &id, ("o", number, OrderMode::Strict), 0).await;
    }
    for number in 21..=100 {
        let id = format!("{number}");
        put(&fixture, &id, ("o", number, OrderMode::Strict), 0).await;
    }
    fixture.put("shop", "plain", 1).await;
    fixture.turn_to(1);
    let mut given = Vec::new();
    for _ in 0..50 {
        for lease in fixture.claim(9).await.leases {
            match lease.entry.notification.order {
                Some(_) => {
                    fixture
                        .done(&lease, Settlement::Defer(START_MS + 60_000))
                        .await
                }
                None => given.push(id(&lease)),
            }
        }
    }
    assert_eq!(given, ["plain"]);
    fixture.put("shop", "next", 2).await;
    fixture.turn_to(1_000);
    assert_eq!(fixture.claim_ids(9).await, [""; 0], "its call was counted");
    fixture.turn_to(1_001);
    assert_eq!(fixture.claim_ids(9).await, ["next"]);
}

/// A claim returns only some of many expired leases to their lanes. One that it leaves is over all the same.
pub async fn a_lease_that_is_over_keeps_nobody_waiting(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    for lane in ["a", "b", "c"] {
        fixture.put_many(lane, 100, 0).await;
    }
    // It comes after the others that expire at the same instant.
    put(&fixture, "z1", ("o", 1, OrderMode::Latest), 0).await;
    fixture.claim_all(301).await;
    put(&fixture, "z2", ("o", 2, OrderMode::Latest), 0).await;
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    fixture.turn_to(LEASE_MS);
    // All but one of the two of the order, in claims that end.
    let given = ids(&fixture.claim_all(301).await);
    let of_order = given.iter().filter(|id| id.starts_with('z'));
    assert_eq!(of_order.count(), 1, "{given:?}");
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
}
