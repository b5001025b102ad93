//! Two entries of one order key are never leased for attempts together.

use super::fixture::*;
use ringback::domain::notification::Notification;
use ringback::domain::order::{OrderMode, OrderPlace};
use ringback::domain::state::State;
use ringback::schedule::{Entry, Limits, Registered, Settlement};
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
    for id in ["2", "3"] {
        let lease = fixture.claim_one().await;
        assert_eq!(lease.entry.notification.key.id(), id);
        let later = Settlement::Defer(START_MS + 60_000);
        fixture.done(&lease, later).await;
        // The other one waited for its lease only, if it was claimed at all.
        fixture.turn_to(if id == "2" { 0 } else { 100 });
    }
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
