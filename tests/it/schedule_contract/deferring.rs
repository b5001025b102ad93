//! What a claim knows of a lane in which entries had to wait.

use super::damage::scene;
use super::fixture::*;
use super::lane_settings::{held, limited};
use ringback::clock::Clock as _;
use ringback::domain::attempt::Outcome;
use ringback::domain::deferral::{Lacked, LaneMoment, Pause};
use ringback::domain::lane_health::{CallOutcome, LaneReport};
use ringback::domain::lane_settings::LaneSetting;
use ringback::domain::state::State;
use ringback::schedule::{Lease, Limits, Settlement};
use std::cmp::Reverse;

impl Fixture {
    async fn ended(&self, lease: Lease, report: LaneReport) {
        let lease = lease.with_report(Some(report));
        let now_ms = self.clock.now_ms() - START_MS;
        self.done(&lease, end(&lease, State::Delivered, now_ms))
            .await;
    }
}

/// A pause between two instants, in milliseconds after [`START_MS`].
fn pause(from_ms: i64, until_ms: i64) -> Pause {
    Pause {
        from_ms: START_MS + from_ms,
        until_ms: START_MS + until_ms,
    }
}

pub async fn a_claim_knows_when_a_lane_was_held(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "first", 0).await;
    let lease = fixture.claim_one().await;
    assert_eq!(lease.lane(), LaneMoment::default());
    fixture.ended(lease, LaneReport::Answered(5)).await;
    fixture.put("shop", "a", 0).await;
    fixture.put("shop", "b", 0).await;
    fixture.configure("shop", held()).await;
    fixture.turn_to(60_000);
    fixture.configure("shop", limited(Some(30), None)).await;
    fixture.configure("shop", LaneSetting::Hold(None)).await;
    let lease = fixture.claim_one().await;
    assert_eq!(lease.lane().pauses.held, pause(0, 60_000));
    assert_eq!(lease.lane().pauses.probed, Pause::default());
    // A release of a lane that is not held changes nothing, and neither does a change of limits.
    fixture.turn_to(70_000);
    fixture.configure("shop", LaneSetting::Hold(None)).await;
    fixture.configure("shop", limited(None, None)).await;
    fixture.put("shop", "c", 0).await;
    let claimed = fixture.other.claim(ringback::schedule::ClaimQuota::of(1));
    let lease = claimed.await.expect("claimed").leases.pop();
    let known = lease.expect("a lease").lane().pauses.held;
    assert_eq!(known, pause(0, 60_000), "another instance knows it too");
}

pub async fn a_claim_knows_when_a_lane_was_probed(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(capped(1)).await;
    fixture.put_many("shop", 8, 0).await;
    for second in 1..=3 {
        fixture.turn_to(second * 1_000);
        let lease = fixture.claim_one().await;
        assert_eq!(lease.lane().pauses.probed, Pause::default());
        fixture.ended(lease, LaneReport::Unanswered).await;
    }
    // It fails since the first of the three, and the next probe is a second after the last.
    for (now_ms, result) in [
        (4_000, LaneReport::Unanswered),
        (6_500, LaneReport::Answered(5)),
    ] {
        fixture.turn_to(now_ms);
        let lease = fixture.claim_one().await;
        assert_eq!(lease.lane().pauses.probed, pause(1_000, now_ms));
        fixture.ended(lease, result).await;
    }
    fixture.turn_to(9_000);
    let lease = fixture.claim_one().await;
    assert_eq!(lease.lane().pauses.probed, pause(1_000, 6_500));
    assert_eq!(lease.lane().pauses.held, Pause::default());
}

pub async fn a_claim_knows_whether_a_lane_is_full_or_at_its_rate(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(capped(3)).await;
    fixture.put_many("shop", 2, 0).await;
    let leases = fixture.claim_all(2).await;
    assert!(leases.iter().all(|lease| !lease.lane().is_full));
    fixture.put("shop", "third", 0).await;
    let third = fixture.claim_one().await;
    assert!(third.lane().is_full);
    assert_eq!(third.lane().rate_until_ms, 0);
    fixture.put_many("slow", 3, 0).await;
    fixture.configure("slow", limited(None, Some(1.0))).await;
    fixture.claim_one().await;
    for second in 1..=2 {
        fixture.turn_to(second * 1_000);
        let lease = fixture.claim_one().await;
        assert_eq!(lease.lane().rate_until_ms, START_MS + second * 1_000);
        assert_eq!(lease.lane().is_full, second == 2);
    }
}

pub async fn a_claim_knows_since_when_a_lane_had_a_free_place(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(Limits {
        lane_start: 1,
        ..LIMITS
    })
    .await;
    let known = |lease: &Lease| (lease.lane().is_full, lease.lane().ready_ms - START_MS);
    // With the answer it gets one call more, so the next call does not fill it.
    fixture.put_many("shop", 2, 0).await;
    let first = fixture.claim_one().await;
    fixture.turn_to(5_000);
    fixture.ended(first, LaneReport::Answered(5_000)).await;
    fixture.turn_to(5_050);
    assert_eq!(known(&fixture.claim_one().await), (false, 5_000));
    // A lease that expires leaves its place to the others.
    let fixture = open(capped(1)).await;
    fixture.put_many("shop", 2, 0).await;
    fixture.claim_one().await;
    fixture.turn_to(LEASE_MS);
    assert_eq!(known(&fixture.claim_one().await), (true, LEASE_MS));
    // Calls that end one after the other change the class of the lane, and a claim visits it twice.
    let fixture = open(capped(8)).await;
    fixture.put_many("shop", 14, 0).await;
    for (after_ms, lease) in (0..).zip(fixture.claim_all(8).await) {
        fixture.turn_to(1_000 + after_ms);
        fixture.ended(lease, LaneReport::Answered(900)).await;
    }
    fixture.turn_to(1_200);
    let leases = fixture.claim(100).await.leases;
    assert_eq!(leases.len(), 6);
    for lease in leases {
        assert_eq!(known(&lease), (false, 1_000));
    }
}

pub async fn a_claim_knows_of_each_lane_since_when_it_had_a_free_place(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(capped(1)).await;
    for lane in ["a", "b", "c", "d"] {
        fixture.put_many(lane, 2, 0).await;
    }
    let lane = |lease: &Lease| lease.entry.notification.lane.as_str().to_string();
    // The place of `d` is free first.
    let mut leases = fixture.claim_all(4).await;
    leases.sort_by_key(|lease| Reverse(lane(lease)));
    for (seconds, lease) in (1..).zip(leases) {
        fixture.turn_to(1_000 * seconds);
        fixture.ended(lease, LaneReport::Answered(5)).await;
    }
    fixture.turn_to(5_000);
    fixture.put("e", "on time", 5_000).await;
    let mut known: Vec<(String, i64)> = (fixture.claim_all(5).await.iter())
        .map(|lease| (lane(lease), lease.lane().ready_ms))
        .collect();
    known.sort();
    let expected = [
        ("a", START_MS + 4_000),
        ("b", START_MS + 3_000),
        ("c", START_MS + 2_000),
        ("d", START_MS + 1_000),
        ("e", 0),
    ];
    assert_eq!(
        known,
        expected.map(|(name, ms)| (format!("https://{name}.example"), ms))
    );
}

pub async fn what_is_on_time_or_was_never_kept_waiting_says_nothing_of_its_lane(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(capped(8)).await;
    // Claims come late, and the second takes only a part.
    fixture.put_many("shop", 7, 0).await;
    for now_ms in [2_000, 3_000] {
        fixture.turn_to(now_ms);
        for lease in fixture.claim(4).await.leases {
            assert_eq!(lease.lane(), LaneMoment::default(), "{now_ms}");
            fixture.ended(lease, LaneReport::Answered(5)).await;
        }
    }
    // One arrives late.
    fixture.put("shop", "late", 0).await;
    let lease = fixture.claim_one().await;
    assert_eq!(lease.lane(), LaneMoment::default());
    fixture.ended(lease, LaneReport::Answered(5)).await;
    // The last place is free all the time, and taken late.
    let fixture = open(capped(1)).await;
    fixture.put("shop", "alone", 0).await;
    fixture.turn_to(2_000);
    let lane = fixture.claim_one().await.lane();
    assert_eq!((lane.is_full, lane.ready_ms), (true, START_MS));
    // One that becomes due while the lane is full is on time if a place is free at once.
    let fixture = open(capped(1)).await;
    fixture.put_many("shop", 2, 0).await;
    let first = fixture.claim_one().await;
    fixture.turn_to(99);
    fixture.ended(first, LaneReport::Answered(99)).await;
    assert_eq!(fixture.claim_one().await.lane().ready_ms, 0);
}

pub async fn an_entry_that_was_put_off_is_found_where_it_waits(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 0).await;
    fixture.put("shop", "2", 0).await;
    for lease in fixture.claim_all(2).await {
        fixture
            .done(&lease, Settlement::Defer(START_MS + 500))
            .await;
    }
    let by_hand = fixture.lease_by_hand("1").await;
    assert!(by_hand.entry.was_put_off);
    let progress = due(50);
    fixture.done(&by_hand, Settlement::Again(progress)).await;
    let moved = ringback::schedule::Entry {
        progress: due(60),
        ..entry("shop", "2", 0)
    };
    assert_eq!(fixture.restore(&[moved]).await, (0, 1));
    fixture.turn_to(60);
    let leases = fixture.claim_all(2).await;
    assert_eq!(ids(&leases), ["1", "2"]);
    fixture.turn_to(1_000);
    assert_eq!(fixture.claim(9).await.leases.len(), 0, "each waits once");
    for lease in &leases {
        fixture
            .done(lease, end(lease, State::Delivered, 1_000))
            .await;
    }
    assert_eq!(fixture.counts().await.pending, 0);
    assert_eq!(fixture.lane_in_flight("shop").await, 0);
}

pub async fn an_entry_that_was_put_off_says_what_its_server_lacked(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 0).await;
    let without = |lacked, after_ms: i64| Settlement::DeferWithout(lacked, START_MS + after_ms);
    let (proxy, capacity) = (Some(Lacked::Proxy), Some(Lacked::Capacity));
    let marks = [
        (without(Lacked::Proxy, 500), (true, proxy)),
        (Settlement::Release, (true, proxy)),
        (Settlement::Defer(START_MS + 1_500), (true, None)),
        (without(Lacked::Capacity, 2_000), (true, capacity)),
        (without(Lacked::Proxy, 2_500), (true, proxy)),
        (Settlement::Again(due(3_000)), (false, None)),
    ];
    for (step, (settlement, expected)) in marks.into_iter().enumerate() {
        let lease = fixture.claim_one().await;
        fixture.done(&lease, settlement).await;
        fixture.turn_to(500 * (i64::try_from(step).expect("small") + 1));
        let entry = fixture.lease_by_hand("1").await;
        let marked = (entry.entry.was_put_off, entry.entry.lacked);
        assert_eq!(marked, expected, "{step}");
        fixture.done(&entry, Settlement::Release).await;
    }
}

pub async fn a_lane_keeps_how_its_last_call_ended(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let last = async || {
        let status = fixture.schedule.lane(&lane_of("shop")).await;
        status.expect("answered").last_outcome
    };
    assert_eq!(last().await, None);
    let check = async |at_ms: i64, report, outcome, status, since_ms: i64| {
        fixture.put("shop", &at_ms.to_string(), at_ms).await;
        fixture.turn_to(at_ms);
        let lease = fixture.claim_one().await.with_report(report);
        let call = CallOutcome::of(outcome, status);
        let settlement = end(&lease, State::Delivered, at_ms);
        fixture.done(&lease.with_outcome(call), settlement).await;
        let kept = last().await.expect("an outcome");
        assert_eq!(Some(kept.call), call, "{at_ms}");
        assert_eq!(kept.since_ms, START_MS + since_ms, "{at_ms}");
    };
    let answered = Some(LaneReport::Answered(5));
    check(1, answered, Outcome::Acknowledged, Some(200), 1).await;
    check(2, answered, Outcome::Acknowledged, Some(200), 1).await;
    check(3, answered, Outcome::HttpStatus, Some(503), 3).await;
    check(4, Some(LaneReport::Unanswered), Outcome::Timeout, None, 4).await;
    check(5, Some(LaneReport::Unanswered), Outcome::Timeout, None, 4).await;
    check(6, None, Outcome::Blocked, None, 6).await;
    // What says nothing of a call changes nothing.
    fixture.put("shop", "7", 7).await;
    fixture.turn_to(7);
    let lease = fixture.claim_one().await;
    fixture.done(&lease, Settlement::Release).await;
    let kept = last().await.expect("an outcome");
    assert_eq!(kept.call.outcome, Outcome::Blocked);
    let status = fixture.other.lane(&lane_of("shop")).await;
    assert_eq!(status.expect("answered").last_outcome, Some(kept));
}

#[tokio::test]
async fn the_state_of_a_lane_that_answers_is_written_in_redis_only_if_the_outcome_differs() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    let lane = lane_of("shop");
    let mut before = Vec::new();
    let statuses = [
        (200, true),
        (200, false),
        (200, false),
        (204, true),
        (204, false),
    ];
    for (at_ms, (status, is_written)) in (0..).zip(statuses) {
        fixture.turn_to(at_ms);
        fixture.put("shop", &at_ms.to_string(), at_ms).await;
        let lease = fixture.claim_one().await;
        let call = CallOutcome::of(Outcome::Acknowledged, Some(status));
        let lease = (lease.with_report(Some(LaneReport::Answered(5)))).with_outcome(call);
        let settlement = end(&lease, State::Delivered, at_ms);
        fixture.done(&lease, settlement).await;
        // It has the instant at which it was written.
        let after: Vec<u8> = scene.ask(&["HGET", "{rb:0}:health", lane.as_str()]).await;
        assert_eq!(after != before, is_written, "{at_ms}");
        before = after;
    }
}
