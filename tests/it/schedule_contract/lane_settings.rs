//! What a claim gives a lane that is held, has a concurrency of its own or a rate; and which changes of settings are
//! taken.

use super::fixture::*;
use ringback::domain::call_rate::CallRate;
use ringback::domain::lane_health::LaneReport;
use ringback::domain::lane_settings::{
    ChangeRange, LaneChange, LaneChanges, LaneHold, LaneLimits, LaneSetting, LaneSettings,
};
use ringback::domain::state::State;
use ringback::schedule::{ClaimQuota, Configured, Limits, SettingsReached, SettingsSource};
use std::num::NonZeroU32;

/// As with a journal, from which the settings come.
const FROM_JOURNAL: Limits = Limits {
    settings_source: SettingsSource::Journal,
    ..LIMITS
};

pub fn held() -> LaneSetting {
    LaneSetting::Hold(Some(LaneHold {
        by: "anna".into(),
        reason: "the merchant moves\nto another place".into(),
        since_ms: START_MS,
    }))
}

pub fn limited(concurrency: Option<u32>, rate: Option<f64>) -> LaneSetting {
    LaneSetting::Limits(LaneLimits {
        concurrency: concurrency.and_then(NonZeroU32::new),
        rate: rate.map(|calls| CallRate::per_second(calls).expect("a rate")),
    })
}

const RELEASED: LaneSetting = LaneSetting::Hold(None);

fn change(number: i64, lane: &str, setting: LaneSetting) -> LaneChange {
    LaneChange {
        lane: lane_of(lane),
        setting,
        number,
    }
}

impl Fixture {
    /// Changes the settings of a lane, as without a journal.
    pub async fn configure(&self, lane: &str, setting: LaneSetting) {
        let changes = LaneChanges {
            changes: vec![change(0, lane, setting)],
            range: None,
        };
        let none = SettingsReached::default();
        let configured = self.schedule.configure_lanes(&changes, &none).await;
        let configured = configured.expect("configured");
        assert!(matches!(configured, Configured::Obeyed), "{configured:?}");
    }

    /// Brings all changes after `after`, the last being `until`. Says whether they were taken.
    async fn bring(&self, after: i64, until: i64, changes: Vec<LaneChange>) -> bool {
        self.bring_part(after, until, changes, true).await
    }

    async fn bring_part(
        &self,
        after: i64,
        until: i64,
        changes: Vec<LaneChange>,
        is_last: bool,
    ) -> bool {
        let range = Some(ChangeRange {
            after,
            until,
            is_last,
        });
        let changes = LaneChanges { changes, range };
        let reached = self.schedule.settings_reached(None).await;
        let reached = reached.expect("answered");
        let configured = self.schedule.configure_lanes(&changes, &reached).await;
        match configured.expect("configured") {
            Configured::Obeyed => true,
            Configured::OthersMissing => false,
            Configured::Partly(error) => panic!("{error}"),
        }
    }

    async fn reached(&self) -> Option<i64> {
        let reached = self.schedule.settings_reached(None).await;
        reached.expect("answered").number
    }

    /// Claims on both instances; how many leases that gives.
    async fn claim_on_both(&self) -> usize {
        let one = self.claim(20).await.leases.len();
        let other = self.other.claim(ClaimQuota::of(20)).await;
        one + other.expect("claimed").leases.len()
    }
}

pub async fn a_held_lane_gives_nothing_until_it_is_released(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "2", 2).await;
    fixture.configure("shop", held()).await;
    for (id, due_ms) in [("3", 3), ("1", 1)] {
        fixture.put("shop", id, due_ms).await;
    }
    fixture.put("other", "4", 4).await;
    fixture.turn_to(10_000);
    assert_eq!(fixture.claim_ids(20).await, ["4"]);
    let lease_ends = START_MS + 10_000 + LEASE_MS;
    assert_eq!(fixture.claim(20).await.next_due_ms, Some(lease_ends));
    assert_eq!(fixture.counts().await.pending, 4);
    fixture.configure("shop", RELEASED).await;
    let leases = fixture.claim(20).await.leases;
    assert_eq!(ids(&leases), ["1", "2", "3"], "oldest first");
    assert_eq!(leases[0].entry.progress, due(1), "nothing is spent");
    assert!(!leases[0].entry.verify);
}

pub async fn a_hold_is_obeyed_by_every_instance(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put_many("shop", 3, 0).await;
    fixture.configure("shop", held()).await;
    assert_eq!(fixture.claim_on_both().await, 0);
    fixture.configure("shop", held()).await;
    fixture.configure("shop", RELEASED).await;
    assert_eq!(fixture.claim_on_both().await, 3);
}

pub async fn an_attempt_by_hand_does_not_break_a_hold(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(REMEMBERING).await;
    fixture.put("shop", "dead", 0).await;
    let lease = fixture.claim_one().await;
    fixture.done(&lease, end(&lease, State::Dead, 1)).await;
    fixture.put("shop", "later", 50_000).await;
    fixture.configure("shop", held()).await;
    fixture.retry("later").await;
    let lease = fixture.lease_by_hand("later").await;
    let lease = lease.with_report(Some(LaneReport::CallNow));
    let progress = lease.entry.progress.retry(START_MS);
    fixture
        .done(&lease, ringback::schedule::Settlement::Again(progress))
        .await;
    fixture.replay("dead", 5).await;
    fixture.turn_to(10);
    assert_eq!(fixture.claim_ids(20).await.len(), 0);
    fixture.configure("shop", RELEASED).await;
    assert_eq!(fixture.claim_ids(20).await, ["later", "dead"]);
}

pub async fn leases_of_a_held_lane_end_as_always(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put_many("shop", 3, 0).await;
    let leases = fixture.claim_all(3).await;
    fixture.configure("shop", held()).await;
    fixture
        .done(&leases[0], end(&leases[0], State::Delivered, 1))
        .await;
    fixture.done(&leases[1], again(&leases[1], 5)).await;
    fixture.turn_to(LEASE_MS - 1);
    let claimed = fixture.claim(20).await;
    assert_eq!(claimed.leases.len(), 0);
    assert_eq!(claimed.next_due_ms, Some(START_MS + LEASE_MS));
    fixture.turn_to(LEASE_MS);
    assert_eq!(fixture.claim_ids(20).await.len(), 0);
    assert_eq!(fixture.lane_in_flight("shop").await, 0, "it has expired");
    assert_eq!(fixture.claim(20).await.next_due_ms, None);
    fixture.configure("shop", RELEASED).await;
    assert_eq!(fixture.claim_ids(20).await, ["shop-0002", "shop-0001"]);
}

pub async fn a_lane_may_have_a_cap_of_its_own(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(capped(5)).await;
    fixture.put_many("shop", 30, 0).await;
    fixture.put_many("other", 30, 0).await;
    fixture.configure("shop", limited(Some(2), None)).await;
    let leases = fixture.claim_all(7).await;
    assert_eq!(fixture.claim_ids(20).await.len(), 0);
    assert_eq!(fixture.lane_in_flight("shop").await, 2);
    fixture.configure("shop", limited(Some(8), None)).await;
    assert_eq!(
        fixture.claim_ids(20).await.len(),
        3,
        "it grows with answers"
    );
    for lease in leases {
        let lease = lease.with_report(Some(LaneReport::Answered(5)));
        fixture.done(&lease, end(&lease, State::Delivered, 1)).await;
    }
    fixture.claim(40).await;
    assert_eq!(fixture.lane_in_flight("shop").await, 7);
    assert_eq!(fixture.lane_in_flight("other").await, 5);
    fixture.configure("shop", limited(None, None)).await;
    assert_eq!(fixture.claim_ids(20).await.len(), 0, "as all others");
}

pub async fn a_lane_with_a_rate_gets_its_calls_at_that_rate(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put_many("shop", 20, 0).await;
    fixture.configure("shop", limited(None, Some(0.5))).await;
    for second in [0, 2, 4] {
        fixture.turn_to(second * 1_000);
        assert_eq!(fixture.claim_on_both().await, 1, "for all instances");
        let next_ms = fixture.claim(20).await.next_due_ms;
        assert_eq!(next_ms, Some(START_MS + second * 1_000 + 2_000));
        fixture.turn_to(second * 1_000 + 1_999);
        assert_eq!(fixture.claim_on_both().await, 0);
    }
    // A call that comes late does not make the next one early.
    fixture.turn_to(9_500);
    assert_eq!(fixture.claim_on_both().await, 1);
    fixture.turn_to(11_499);
    assert_eq!(fixture.claim_on_both().await, 0);
    fixture.configure("shop", limited(None, None)).await;
    assert_eq!(fixture.claim_on_both().await, 16);
}

pub async fn a_fast_rate_has_a_small_burst(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put_many("shop", 40, 0).await;
    fixture.configure("shop", limited(None, Some(100.0))).await;
    assert_eq!(fixture.claim_on_both().await, 10, "those of 100 ms");
    fixture.turn_to(9);
    assert_eq!(fixture.claim_on_both().await, 0);
    fixture.turn_to(10);
    assert_eq!(fixture.claim_on_both().await, 1);
    fixture.turn_to(35);
    assert_eq!(fixture.claim_on_both().await, 2);
}

pub async fn a_rate_outlasts_an_empty_lane(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.configure("shop", limited(None, Some(0.1))).await;
    fixture.put("shop", "1", 0).await;
    let lease = fixture.claim_one().await;
    fixture.done(&lease, end(&lease, State::Delivered, 0)).await;
    fixture.turn_to(9_999);
    fixture.put("shop", "2", 9_999).await;
    let claimed = fixture.claim(20).await;
    assert_eq!(claimed.leases.len(), 0);
    assert_eq!(claimed.next_due_ms, Some(START_MS + 10_000));
    // A faster rate does not wait for the slower one.
    fixture.configure("shop", limited(None, Some(0.001))).await;
    fixture.turn_to(10_000);
    assert_eq!(fixture.claim_ids(20).await, ["2"]);
    fixture.put("shop", "3", 0).await;
    fixture.configure("shop", limited(None, Some(2.0))).await;
    fixture.turn_to(10_499);
    assert_eq!(fixture.claim_ids(20).await.len(), 0);
    fixture.turn_to(10_500);
    assert_eq!(fixture.claim_ids(20).await, ["3"]);
}

pub async fn a_lease_by_hand_needs_no_place_in_the_rate(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put_many("shop", 2, 0).await;
    fixture.configure("shop", limited(None, Some(0.1))).await;
    fixture.configure("shop", held()).await;
    let lease = fixture.lease_by_hand("shop-0000").await;
    fixture.done(&lease, end(&lease, State::Cancelled, 0)).await;
    fixture.configure("shop", RELEASED).await;
    assert_eq!(fixture.claim_ids(20).await, ["shop-0001"]);
}

pub async fn holds_and_limits_are_changed_apart(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put_many("shop", 20, 0).await;
    fixture.configure("shop", limited(Some(3), None)).await;
    fixture.configure("shop", held()).await;
    fixture.configure("shop", limited(Some(4), None)).await;
    assert_eq!(fixture.claim_ids(20).await.len(), 0);
    fixture.configure("shop", RELEASED).await;
    assert_eq!(fixture.claim_ids(20).await.len(), 4);
    let all = LaneSettings::default();
    fixture.configure("shop", LaneSetting::All(all)).await;
    assert_eq!(fixture.claim_ids(20).await.len(), 16);
}

pub async fn a_release_rings(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 0).await;
    fixture.configure("shop", held()).await;
    fixture.wake().reset();
    fixture.claim(20).await;
    fixture.configure("shop", RELEASED).await;
    assert!(fixture.wake().at_ms() <= START_MS);
}

pub async fn nothing_is_given_until_the_settings_are_here(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(FROM_JOURNAL).await;
    fixture.put("shop", "1", 0).await;
    fixture.put("other", "2", 0).await;
    assert_eq!(fixture.reached().await, None);
    for _ in 0..2 {
        let claimed = fixture.claim(20).await;
        assert_eq!((claimed.leases.len(), claimed.next_due_ms), (0, None));
    }
    let holding = vec![change(3, "shop", held())];
    assert!(fixture.bring_part(0, 3, holding, false).await);
    assert_eq!(fixture.claim_on_both().await, 0, "there are more");
    assert_eq!(fixture.reached().await, None);
    assert!(fixture.bring(3, 7, vec![]).await);
    assert_eq!(fixture.reached().await, Some(7));
    assert_eq!(fixture.claim_ids(20).await, ["2"]);
}

pub async fn changes_are_taken_once_and_in_order(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(FROM_JOURNAL).await;
    assert!(!fixture.bring(1, 2, vec![]).await, "the first is missing");
    assert!(fixture.bring(0, 0, vec![]).await);
    assert_eq!(fixture.reached().await, Some(0));
    fixture.put("shop", "1", 0).await;
    let holding = vec![change(5, "shop", held())];
    assert!(fixture.bring(0, 5, holding.clone()).await);
    assert!(!fixture.bring(6, 8, vec![]).await, "6 is missing");
    assert!(fixture.bring(5, 8, vec![change(8, "shop", RELEASED)]).await);
    // A server that was suspended brings what it has read before.
    assert!(fixture.bring(0, 5, holding.clone()).await);
    assert!(fixture.bring(0, 9, holding).await);
    assert_eq!(fixture.reached().await, Some(9));
    assert_eq!(fixture.claim_ids(20).await, ["1"]);
}

pub async fn any_number_of_lanes_is_configured(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(FROM_JOURNAL).await;
    let lanes: Vec<String> = (0..450).map(|number| format!("lane-{number}")).collect();
    let changes = (1..).zip(&lanes);
    let changes = changes.map(|(number, lane)| change(number, lane, held()));
    assert!(fixture.bring(0, 450, changes.collect()).await);
    for lane in ["lane-0", "lane-210", "lane-449", "lane-450"] {
        fixture.put(lane, lane, 0).await;
    }
    assert_eq!(fixture.claim_ids(20).await, ["lane-450"]);
    assert_eq!(fixture.reached().await, Some(450));
}
