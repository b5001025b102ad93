//! Outages of destinations that have ended.

use super::fixture::*;
use ringback::domain::lane::Lane;
use ringback::domain::lane_health::{KEPT_FAILING_MS, KEPT_MS, LaneReport};
use ringback::domain::notification::Notification;
use ringback::domain::outage::EndedOutage;
use ringback::domain::state::State;
use ringback::schedule::{Entry, Limits};
use std::sync::Arc;

/// An entry that is due; `lane` may be that of an endpoint.
fn in_lane(lane: &str, id: &str) -> Entry {
    let entry = entry("shop", id, 0);
    let mut notification = Notification::clone(&entry.notification);
    notification.lane = match lane.starts_with("endpoint:") {
        true => Lane::from_name(lane),
        false => lane_of(lane),
    };
    Entry {
        notification: Arc::new(notification),
        ..entry
    }
}

impl Fixture {
    async fn outages(&self, handled: &[EndedOutage]) -> Vec<EndedOutage> {
        let found = self.schedule.ended_outages(handled).await;
        let mut found = found.expect("answered");
        found.sort_by(|one, other| one.lane.cmp(&other.lane));
        found
    }

    /// Has a call of a lane end like this.
    async fn report(&self, lane: &str, report: LaneReport, at_ms: i64) {
        self.register(in_lane(lane, &format!("{lane}-{at_ms}")))
            .await;
        self.turn_to(at_ms);
        let lease = self.claim_one().await.with_report(Some(report));
        self.done(&lease, end(&lease, State::Delivered, at_ms))
            .await;
    }

    /// An outage of a lane, from its first call without an answer on.
    async fn outage(&self, lane: &str, from_ms: i64, until_ms: i64) -> EndedOutage {
        for after_ms in 0..3 {
            self.report(lane, LaneReport::Unanswered, from_ms + after_ms)
                .await;
        }
        self.report(lane, LaneReport::Answered(5), until_ms).await;
        EndedOutage {
            lane: lane_of(lane),
            from_ms: START_MS + from_ms,
            until_ms: START_MS + until_ms,
        }
    }
}

pub async fn an_outage_that_has_ended_is_known_until_it_was_dealt_with(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    // Less than three calls are no outage.
    fixture.report("well", LaneReport::Unanswered, 1).await;
    fixture.report("well", LaneReport::Unanswered, 2).await;
    fixture.report("well", LaneReport::Answered(5), 3).await;
    assert_eq!(fixture.outages(&[]).await, []);
    let a = fixture.outage("a", 10, 2_000).await;
    let only_a = vec![a.clone()];
    assert_eq!(fixture.outages(&[]).await, only_a);
    let b = fixture.outage("b", 3_000, 5_000).await;
    for _ in 0..2 {
        assert_eq!(fixture.outages(&[]).await, [a.clone(), b.clone()]);
    }
    let only_b = vec![b.clone()];
    assert_eq!(fixture.outages(&only_a).await, only_b);
    assert_eq!(fixture.outages(&[a, b]).await, []);
}

pub async fn two_outages_that_nobody_dealt_with_are_one(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let first = fixture.outage("a", 10, 2_000).await;
    let second = fixture.outage("a", 3_000, 5_000).await;
    let both = EndedOutage {
        from_ms: first.from_ms,
        ..second
    };
    // Whoever knows only the first one does not make the second one forgotten.
    let both = vec![both];
    assert_eq!(fixture.outages(&[first]).await, both);
    assert_eq!(fixture.outages(&both).await, []);
}

impl Fixture {
    /// Has three calls of this lane fail, and claims so often after this time that every state that may be forgotten is.
    async fn fails_and_rests(&self, lane: &str, rested_ms: i64) {
        for after_ms in 1..=3 {
            self.report(lane, LaneReport::Unanswered, after_ms).await;
        }
        self.turn_to(rested_ms);
        for _ in 0..64 {
            self.claim(1).await;
        }
    }

    /// Whether the next answer of this lane ends an outage.
    async fn ends_an_outage(&self, lane: &str, at_ms: i64) -> bool {
        self.report(lane, LaneReport::Answered(5), at_ms).await;
        self.outages(&[]).await.len() == 1
    }
}

pub async fn an_outage_is_remembered_while_something_waits(open: impl AsyncFn(Limits) -> Fixture) {
    let hours_ms = 15 * KEPT_MS;
    for (lane, waits, is_known) in [("a", true, true), ("a", false, false)] {
        let fixture = open(LIMITS).await;
        if waits {
            fixture.put(lane, "waits", 2 * hours_ms).await;
        }
        fixture.fails_and_rests(lane, hours_ms).await;
        let ends = fixture.ends_an_outage(lane, hours_ms + 1).await;
        assert_eq!(ends, is_known, "{waits}");
    }
}

pub async fn an_outage_of_an_endpoint_without_entries_is_remembered(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    for (rested_ms, is_known) in [
        (KEPT_FAILING_MS - 1_000, true),
        (KEPT_FAILING_MS + 5, false),
    ] {
        let fixture = open(LIMITS).await;
        let lane = "endpoint:shop";
        fixture.fails_and_rests(lane, rested_ms).await;
        let ends = fixture.ends_an_outage(lane, rested_ms + 1).await;
        assert_eq!(ends, is_known, "{rested_ms}");
    }
}
