//! A clock that is set back: of the machine, of Redis, or because a primary takes over whose clock is right. No lane waits until
//! the clock shows the former time again.

use super::fixture::*;
use super::lane_settings::limited;
use ringback::clock::Clock as _;
use ringback::domain::lane_health::{FIRST_PROBE_MS, LaneClass, LaneReport};
use ringback::domain::state::State;
use ringback::schedule::{CLAIMED_EARLY_MS, Limits, SET_BACK_MS};

/// How far the clock is ahead at first.
const AHEAD_MS: i64 = 3_600_000;
/// Calls per second, and the time from one call to the next.
const RATE: f64 = 0.5;
const INTERVAL_MS: i64 = 2_000;

impl Fixture {
    /// Sets the clock back to so many milliseconds after [`START_MS`].
    fn set_back_to(&self, after_ms: i64) {
        self.clock.set_back_to(START_MS + after_ms);
    }

    /// Claims one entry, and ends its call with this report.
    async fn ends_a_call(&self, report: LaneReport) {
        let lease = self.claim_one().await.with_report(Some(report));
        let now_ms = self.clock.now_ms() - START_MS;
        self.done(&lease, end(&lease, State::Delivered, now_ms))
            .await;
    }

    /// Nothing is given until so many milliseconds after [`START_MS`], and then this entry. Returns the class of its lane.
    async fn is_next(&self, id: &str, after_ms: i64) -> LaneClass {
        let claimed = self.claim(20).await;
        assert_eq!(ids(&claimed.leases), [""; 0]);
        assert_eq!(claimed.next_due_ms, Some(START_MS + after_ms));
        self.turn_to(after_ms - 1);
        assert_eq!(self.claim_ids(20).await, [""; 0]);
        self.turn_to(after_ms);
        let leases = self.claim(20).await.leases;
        assert_eq!(ids(&leases), [id]);
        leases[0].class
    }

    /// A lane with a rate has made a call while the clock was ahead.
    async fn has_called_at_its_rate(&self) {
        self.configure("shop", limited(None, Some(RATE))).await;
        self.turn_to(AHEAD_MS);
        self.put("shop", "first", 0).await;
        self.ends_a_call(LaneReport::Answered(5)).await;
    }

    /// Three calls of a lane have failed while the clock was ahead.
    async fn has_failed(&self) {
        self.turn_to(AHEAD_MS);
        for number in 0..3 {
            self.put("shop", &format!("failed-{number}"), 0).await;
            self.ends_a_call(LaneReport::Unanswered).await;
        }
    }
}

pub async fn a_registration_in_a_lane_with_a_rate_waits_for_an_interval_at_most(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    fixture.has_called_at_its_rate().await;
    fixture.set_back_to(0);
    fixture.put("shop", "next", 0).await;
    let next_ms = INTERVAL_MS + CLAIMED_EARLY_MS;
    fixture.is_next("next", next_ms).await;
    // From then on, the rate is as before.
    fixture.put("shop", "third", 0).await;
    fixture.is_next("third", next_ms + INTERVAL_MS).await;
}

pub async fn what_waits_in_a_lane_with_a_rate_waits_for_an_interval_at_most(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    fixture.has_called_at_its_rate().await;
    fixture.put("shop", "waits", 0).await;
    fixture.set_back_to(0);
    let next_ms = INTERVAL_MS + CLAIMED_EARLY_MS;
    fixture.is_next("waits", next_ms).await;
}

pub async fn a_registration_in_a_probed_lane_is_sent_within_the_wait_of_a_probe(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    fixture.has_failed().await;
    fixture.set_back_to(0);
    fixture.put("shop", "probe", 0).await;
    let class = fixture.is_next("probe", FIRST_PROBE_MS).await;
    assert_eq!(class, LaneClass::Probing);
}

pub async fn what_waits_in_a_probed_lane_is_sent_within_the_wait_of_a_probe(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    fixture.has_failed().await;
    fixture.put("shop", "waits", 0).await;
    fixture.set_back_to(0);
    let class = fixture.is_next("waits", FIRST_PROBE_MS).await;
    assert_eq!(class, LaneClass::Probing);
}

pub async fn a_lane_that_was_served_before_is_served_at_once(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    fixture.put_many("shop", 5, 0).await;
    fixture.turn_to(AHEAD_MS);
    fixture.claim_one().await;
    fixture.set_back_to(0);
    let mut given = fixture.claim_ids(20).await;
    given.extend(fixture.claim_ids(20).await);
    assert_eq!(given.len(), 4);
}

pub async fn a_clock_that_is_set_back_a_little_changes_no_turn(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 2 * SET_BACK_MS).await;
    fixture.turn_to(SET_BACK_MS);
    assert_eq!(fixture.claim_ids(20).await, [""; 0]);
    fixture.set_back_to(0);
    fixture.is_next("1", 2 * SET_BACK_MS).await;
}

/// More than Redis goes through in one claim.
pub async fn many_lanes_are_served_as_if_the_clock_had_not_been_ahead(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    const LANES: usize = 150;
    let fixture = open(LIMITS).await;
    for number in 0..LANES {
        let lane = format!("lane-{number}");
        fixture.configure(&lane, limited(None, Some(RATE))).await;
        fixture.put_many(&lane, 2, 0).await;
    }
    fixture.turn_to(AHEAD_MS);
    for lease in fixture.claim_all(LANES).await {
        fixture
            .done(&lease, end(&lease, State::Delivered, AHEAD_MS))
            .await;
    }
    fixture.set_back_to(0);
    let next_ms = START_MS + INTERVAL_MS + CLAIMED_EARLY_MS;
    let mut claims = 0;
    loop {
        let claimed = fixture.claim(20).await;
        assert_eq!(ids(&claimed.leases), [""; 0]);
        if claimed.next_due_ms == Some(next_ms) {
            break;
        }
        claims += 1;
        assert!(claims < LANES, "{:?}", claimed.next_due_ms);
    }
    fixture.clock.turn_to(next_ms);
    fixture.claim_all(LANES).await;
}
