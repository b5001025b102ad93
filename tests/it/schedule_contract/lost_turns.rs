//! Turns of order keys in Redis whose entries have ended while that was not passed on: the reply to the settlement was lost, its
//! server has died after it, or the entry ended under another lease. The next one goes, and nothing is left of them.

use super::damage::{Scene, lane_key, scene};
use super::damaged_orders::run_late;
use super::fixture::*;
use super::orders::put;
use ringback::domain::lane_health::LaneReport;
use ringback::domain::order::OrderMode;
use ringback::domain::state::State;
use ringback::schedule::{Lease, Settled};

/// `settle.lua`, with all that scripts share in front of it.
const SETTLE: &str = concat!(
    include_str!("../../../src/schedule/redis/lua/common.lua"),
    "\n",
    include_str!("../../../src/schedule/redis/lua/lanes.lua"),
    "\n",
    include_str!("../../../src/schedule/redis/lua/lane_turns.lua"),
    "\n",
    include_str!("../../../src/schedule/redis/lua/settle.lua")
);

/// For longer than this, the state of a lane that is not called is kept, in milliseconds.
const KEPT_MS: i64 = 3_600_000;

/// Ends an entry as an instance does that dies then, or gets no reply: it does not pass the turn.
async fn end_alone(scene: &Scene, lease: &Lease) {
    let (lane, lease_ms) = (lane_of("shop"), LEASE_MS.to_string());
    let (key, expiry) = (&lease.entry.notification.key, lease.expiry().to_string());
    let batch = ["wake", &lease_ms];
    let settled = [key.as_str(), lane.as_str(), &expiry, "forget", "0", "", ""];
    run_late(scene, SETTLE, &[&batch[..], &settled].concat()).await;
}

/// How many turns are kept.
async fn turns(scene: &Scene) -> u64 {
    scene.ask(&["HLEN", &lane_key("turns", "shop")]).await
}

#[tokio::test]
async fn the_next_goes_although_the_reply_to_the_end_of_the_one_before_was_lost() {
    for mode in [OrderMode::Latest, OrderMode::Strict] {
        let scene = scene(LIMITS).await;
        let fixture = &scene.fixture;
        put(fixture, "1", ("o", 1, mode), 0).await;
        put(fixture, "2", ("o", 2, mode), 0).await;
        let first = fixture.claim_one().await;
        assert_eq!(fixture.claim_ids(9).await, [""; 0]);
        end_alone(&scene, &first).await;
        assert_eq!(fixture.claim_ids(9).await, [""; 0], "it was put off");
        let again = end(&first, State::Delivered, 0);
        assert_eq!(fixture.settle(&first, again).await, Settled::Lost);
        let second = fixture.claim_one().await;
        assert_eq!(id(&second), "2", "{mode:?}");
        let ended = end(&second, State::Delivered, 0);
        fixture.done(&second, ended).await;
        assert_eq!(turns(&scene).await, 0);
    }
}

#[tokio::test]
async fn a_turn_goes_with_its_entry_that_ends_under_another_lease() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    put(fixture, "1", ("o", 1, OrderMode::Strict), 0).await;
    fixture.claim_one().await;
    fixture.turn_to(LEASE_MS);
    let by_hand = fixture.lease_by_hand("1").await;
    assert_eq!(turns(&scene).await, 1);
    let cancelled = end(&by_hand, State::Cancelled, LEASE_MS);
    fixture.done(&by_hand, cancelled).await;
    assert_eq!(turns(&scene).await, 0);
}

/// Nobody asks for its order key again.
#[tokio::test]
async fn the_turn_of_a_last_number_goes_with_another_order_of_its_lane() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    put(fixture, "last", ("o", 1, OrderMode::Strict), 0).await;
    let last = fixture.claim_one().await;
    put(fixture, "other", ("p", 1, OrderMode::Strict), 0).await;
    let other = fixture.claim_one().await;
    end_alone(&scene, &last).await;
    assert_eq!(turns(&scene).await, 2);
    fixture.done(&other, again(&other, 500_000)).await;
    assert_eq!(turns(&scene).await, 0);
}

#[tokio::test]
async fn a_turn_whose_entry_is_in_flight_stays() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    put(fixture, "1", ("o", 1, OrderMode::Strict), 0).await;
    fixture.claim_one().await;
    put(fixture, "2", ("o", 2, OrderMode::Strict), 0).await;
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    for number in 0..8 {
        let (id, order_key) = (format!("other-{number}"), format!("p-{number}"));
        put(fixture, &id, (&order_key, 1, OrderMode::Strict), 0).await;
        let other = fixture.claim_one().await;
        fixture.done(&other, end(&other, State::Delivered, 0)).await;
        assert_eq!(turns(&scene).await, 1);
    }
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
}

#[tokio::test]
async fn the_turns_of_a_lane_that_is_not_used_any_more_go_with_its_state() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    fixture.put("shop", "plain", 0).await;
    let plain = fixture.claim_one().await;
    let plain = plain.with_report(Some(LaneReport::Answered(5)));
    fixture.done(&plain, end(&plain, State::Delivered, 0)).await;
    put(fixture, "last", ("o", 1, OrderMode::Strict), 0).await;
    let last = fixture.claim_one().await;
    end_alone(&scene, &last).await;
    assert_eq!(turns(&scene).await, 1);
    for (after_ms, expected) in [(KEPT_MS - 60_001, 1), (KEPT_MS + 1, 0)] {
        fixture.turn_to(after_ms);
        // Every eighth claim looks at some lanes.
        for _ in 0..16 {
            assert_eq!(fixture.claim_ids(1).await, [""; 0]);
        }
        assert_eq!(turns(&scene).await, expected, "{after_ms}");
    }
}
