//! Of the due entries of a lane, those of higher priority come first; when they are due stays the same.

use super::fixture::*;
use ringback::clock::Clock as _;
use ringback::domain::priority::Priority;
use ringback::domain::state::State;
use ringback::schedule::{Entry, Limits, Registered, Settlement};

async fn put(fixture: &Fixture, lane: &str, id: &str, priority: Priority, due_ms: i64) -> Entry {
    let entry = of_priority(entry(lane, id, due_ms), priority);
    let registered = fixture.register(entry.clone()).await;
    assert_eq!(registered, Registered::Created, "{id}");
    entry
}

pub async fn higher_priorities_come_first_and_then_what_is_due_longest(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    for (id, priority, due_ms) in [
        ("low-1", Priority::Low, 1),
        ("low-2", Priority::Low, 2),
        ("normal-3", Priority::Normal, 3),
        ("normal-4", Priority::Normal, 4),
        ("high-6", Priority::High, 6),
        ("high-5", Priority::High, 5),
        ("high-9", Priority::High, 9),
    ] {
        let entry = put(&fixture, "shop", id, priority, due_ms).await;
        assert_eq!(fixture.entry(id).await, entry);
    }
    fixture.turn_to(6);
    assert_eq!(fixture.claim_ids(1).await, ["high-5"]);
    assert_eq!(fixture.claim_ids(2).await, ["high-6", "normal-3"]);
    assert_eq!(fixture.claim_ids(9).await, ["normal-4", "low-1", "low-2"]);
    let claimed = fixture.claim(9).await;
    assert_eq!(
        claimed.next_due_ms,
        Some(START_MS + 9),
        "not before it is due"
    );
    fixture.turn_to(9);
    assert_eq!(fixture.claim_ids(9).await, ["high-9"]);
}

pub async fn each_priority_is_claimed_when_it_is_due(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        for other in [Priority::Low, Priority::Normal, Priority::High] {
            let now_ms = fixture.clock.now_ms() - START_MS;
            let ids = [
                format!("{priority}-{other}-1"),
                format!("{priority}-{other}-2"),
            ];
            put(&fixture, "shop", &ids[0], priority, now_ms + 10).await;
            put(&fixture, "shop", &ids[1], other, now_ms + 20).await;
            assert_eq!(
                fixture.claim(9).await.next_due_ms,
                Some(START_MS + now_ms + 10)
            );
            fixture.turn_to(now_ms + 10);
            let first = fixture.claim_one().await;
            assert_eq!(id(&first), ids[0]);
            fixture
                .done(&first, end(&first, State::Delivered, now_ms + 10))
                .await;
            assert_eq!(
                fixture.claim(9).await.next_due_ms,
                Some(START_MS + now_ms + 20)
            );
            fixture.turn_to(now_ms + 20);
            let second = fixture.claim_one().await;
            assert_eq!(id(&second), ids[1]);
            fixture
                .done(&second, end(&second, State::Delivered, now_ms + 20))
                .await;
        }
    }
}

pub async fn a_priority_stays_whatever_is_done(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    put(&fixture, "shop", "low", Priority::Low, 0).await;
    fixture.put("shop", "normal", 0).await;
    let high = put(&fixture, "shop", "high", Priority::High, 0).await;
    let in_order = ["high", "normal", "low"];
    // Released, deferred, put back with new progress, expired, leased by hand, and restored.
    let leases = fixture.claim_all(3).await;
    assert_eq!(ids(&leases), in_order);
    for lease in &leases {
        fixture.done(lease, Settlement::Release).await;
    }
    let leases = fixture.claim_all(3).await;
    assert_eq!(ids(&leases), in_order);
    for lease in &leases {
        fixture.done(lease, Settlement::Defer(START_MS + 5)).await;
    }
    fixture.retry("low").await;
    assert_eq!(fixture.claim_ids(9).await, ["low"]);
    fixture.turn_to(LEASE_MS);
    let leases = fixture.claim_all(3).await;
    assert_eq!(ids(&leases), in_order, "its lease has expired");
    for lease in &leases {
        fixture
            .done(lease, Settlement::Again(due(LEASE_MS + 5)))
            .await;
    }
    let shown = fixture.schedule.lane(&lane_of("shop")).await.expect("read");
    assert_eq!(
        (shown.waiting, shown.due, shown.oldest_due_ms),
        (3, 0, None)
    );
    fixture.turn_to(LEASE_MS + 5);
    let shown = fixture.schedule.lane(&lane_of("shop")).await.expect("read");
    let since_ms = Some(START_MS + LEASE_MS + 5);
    assert_eq!(
        (shown.waiting, shown.due, shown.oldest_due_ms),
        (3, 3, since_ms)
    );
    let moved = Entry {
        progress: due(LEASE_MS + 6),
        ..high
    };
    assert_eq!(fixture.restore(std::slice::from_ref(&moved)).await, (0, 1));
    assert_eq!(fixture.claim_ids(1).await, ["normal"]);
    fixture.turn_to(LEASE_MS + 6);
    assert_eq!(fixture.claim_ids(9).await, ["high", "low"]);
}

pub async fn what_is_put_back_keeps_its_priority(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let entries = [
        of_priority(entry("shop", "low", 0), Priority::Low),
        entry("shop", "normal", 0),
        of_priority(entry("shop", "high", 0), Priority::High),
    ];
    assert_eq!(fixture.restore(&entries).await, (3, 0));
    assert_eq!(fixture.claim_ids(9).await, ["high", "normal", "low"]);
}

pub async fn what_was_requested_by_hand_goes_before_others_of_its_priority(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    for (priority, ids) in [
        (Priority::Low, ["low-1", "low-2", "low-3"]),
        (Priority::Normal, ["normal-1", "normal-2", "normal-3"]),
        (Priority::High, ["high-1", "high-2", "high-3"]),
    ] {
        for (due_ms, id) in (1..).zip(ids) {
            put(&fixture, "shop", id, priority, due_ms).await;
        }
        // In a partition without priorities, and in one with them.
        fixture.turn_to(9);
        fixture.retry(ids[2]).await;
        fixture.retry(ids[1]).await;
        let in_order = [ids[1], ids[2], ids[0]];
        let shown = fixture.schedule.lane(&lane_of("shop")).await.expect("read");
        assert_eq!((shown.waiting, shown.due), (3, 3));
        assert_eq!(fixture.claim_ids(2).await, in_order[..2]);
        assert_eq!(fixture.claim_ids(9).await, in_order[2..]);
    }
}

pub async fn what_was_requested_by_hand_stays_first_until_it_is_put_off(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 1).await;
    let requested = fixture.put("shop", "2", 2).await;
    fixture.turn_to(9);
    fixture.retry("2").await;
    for _ in 0..2 {
        let leases = fixture.claim_all(2).await;
        assert_eq!(ids(&leases), ["2", "1"]);
        for lease in &leases {
            fixture.done(lease, Settlement::Release).await;
        }
    }
    assert_eq!(fixture.claim_ids(9).await, ["2", "1"]);
    fixture.turn_to(9 + LEASE_MS);
    let leases = fixture.claim_all(2).await;
    assert_eq!(ids(&leases), ["2", "1"], "its lease has expired");
    for lease in leases.iter().rev() {
        let put_off_ms = START_MS + LEASE_MS + 20;
        fixture.done(lease, Settlement::Defer(put_off_ms)).await;
    }
    fixture.turn_to(LEASE_MS + 19);
    assert_eq!(fixture.claim(9).await.leases.len(), 0, "both are put off");
    fixture.turn_to(LEASE_MS + 20);
    let leases = fixture.claim_all(2).await;
    assert_eq!(ids(&leases), ["1", "2"]);
    for lease in &leases {
        fixture.done(lease, again(lease, LEASE_MS + 30)).await;
    }
    fixture.turn_to(LEASE_MS + 30);
    let leases = fixture.claim_all(2).await;
    assert_eq!(ids(&leases), ["1", "2"], "the attempt was made");
    for lease in &leases {
        fixture.done(lease, Settlement::Release).await;
    }
    let restored = Entry {
        progress: requested.progress.retry(START_MS + 3),
        ..requested
    };
    assert_eq!(
        fixture.restore(std::slice::from_ref(&restored)).await,
        (0, 1)
    );
    assert_eq!(fixture.claim_ids(9).await, ["2", "1"]);
}
