//! What a schedule says of its lanes.

use super::fixture::*;
use super::lane_settings::{held, limited};
use ringback::domain::lane_health::LaneReport;
use ringback::domain::lane_settings::{LaneSetting, LaneState};
use ringback::domain::state::State;
use ringback::schedule::lane_status::{LaneSelection, LaneStatus};
use ringback::schedule::{LaneCounts, Limits};
use std::collections::BTreeSet;

impl Fixture {
    async fn status(&self, lane: &str) -> LaneStatus {
        let status = self.schedule.lane(&lane_of(lane)).await;
        status.expect("answered")
    }

    /// The names of all lanes, read in pages of so many.
    async fn lane_names(&self, selection: LaneSelection, limit: usize) -> BTreeSet<String> {
        let (mut names, mut cursor) = (BTreeSet::new(), None);
        loop {
            let page = self
                .schedule
                .lanes(selection, cursor.as_deref(), limit)
                .await;
            let page = page.expect("a page");
            assert!(page.lanes.len() <= limit, "{}", page.lanes.len());
            names.extend((page.lanes.iter()).map(|status| status.lane.as_str().to_string()));
            cursor = page.next;
            if cursor.is_none() {
                return names;
            }
        }
    }
}

fn names(lanes: impl Iterator<Item = String>) -> BTreeSet<String> {
    lanes
        .map(|lane| lane_of(&lane).as_str().to_string())
        .collect()
}

pub async fn lanes_are_counted_by_their_state(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let check = async |open, probing, held| {
        let expected = LaneCounts {
            open,
            probing,
            held,
        };
        let counts = fixture.schedule.lane_counts().await.expect("counted");
        assert_eq!(counts, expected);
    };
    check(0, 0, 0).await;
    for number in 0..3 {
        fixture.put("shop", &number.to_string(), 0).await;
        let lease = fixture.claim_one().await;
        check(1, 0, 0).await;
        let lease = lease.with_report(Some(LaneReport::Unanswered));
        fixture.done(&lease, end(&lease, State::Dead, 7)).await;
    }
    check(0, 0, 0).await;
    for (lane, id) in [("shop", "3"), ("other", "4"), ("third", "5")] {
        fixture.put(lane, id, 5_000).await;
    }
    check(2, 1, 0).await;
    fixture.configure("other", held()).await;
    check(1, 1, 1).await;
    fixture.configure("shop", held()).await;
    check(1, 0, 2).await;
    fixture.configure("other", LaneSetting::Hold(None)).await;
    fixture.configure("shop", LaneSetting::Hold(None)).await;
    check(2, 1, 0).await;
}

pub async fn a_lane_shows_what_is_in_it(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(capped(9)).await;
    let empty = fixture.status("shop").await;
    assert_eq!((empty.waiting, empty.due, empty.in_flight), (0, 0, 0));
    assert_eq!(
        (empty.state(), empty.oldest_due_ms),
        (LaneState::Open, None)
    );
    for (id, due_ms) in [("1", 1), ("2", 20), ("3", 30), ("4", 40), ("5", 50)] {
        fixture.put("shop", id, due_ms).await;
    }
    fixture.turn_to(1);
    fixture.claim_one().await;
    for (now_ms, due, oldest_ms) in [(19, 0, None), (20, 1, Some(20)), (40, 3, Some(20))] {
        fixture.turn_to(now_ms);
        let status = fixture.status("shop").await;
        assert_eq!((status.waiting, status.in_flight), (4, 1));
        assert_eq!(status.due, due, "{now_ms}");
        let oldest_ms = oldest_ms.map(|oldest_ms: i64| START_MS + oldest_ms);
        assert_eq!(status.oldest_due_ms, oldest_ms, "{now_ms}");
        assert_eq!((status.cap, status.limit), (9, 9));
    }
}

pub async fn a_lane_shows_how_it_is_doing_and_its_settings(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.turn_to(7);
    for number in 0..3 {
        fixture.put("shop", &number.to_string(), 0).await;
        let lease = fixture.claim_one().await;
        let lease = lease.with_report(Some(LaneReport::Unanswered));
        fixture.done(&lease, end(&lease, State::Dead, 7)).await;
    }
    let check = async |state| {
        let status = fixture.status("shop").await;
        assert_eq!((status.state(), status.limit), (state, 1));
        assert_eq!(status.failing_since_ms, Some(START_MS + 7));
        status.settings
    };
    check(LaneState::Probing).await;
    fixture
        .configure("shop", limited(Some(30), Some(0.5)))
        .await;
    fixture.configure("shop", held()).await;
    let mut expected = check(LaneState::Held).await;
    assert_eq!(fixture.status("shop").await.cap, 30);
    let before = expected.clone();
    expected.apply(held());
    expected.apply(limited(Some(30), Some(0.5)));
    assert_eq!(before, expected);
    fixture.configure("shop", LaneSetting::Hold(None)).await;
    assert_eq!(check(LaneState::Probing).await.hold, None);
}

pub async fn pages_show_every_lane(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let all = LaneSelection::All;
    assert!(fixture.lane_names(all, 5).await.is_empty());
    for number in 0..300 {
        let lane = format!("lane-{number}");
        fixture.put(&lane, &lane, 5_000).await;
    }
    for number in 290..310 {
        fixture.configure(&format!("lane-{number}"), held()).await;
    }
    let expected = names((0..310).map(|number| format!("lane-{number}")));
    let configured = names((290..310).map(|number| format!("lane-{number}")));
    for limit in [1, 7, 100] {
        assert_eq!(fixture.lane_names(all, limit).await, expected, "{limit}");
        let shown = fixture.lane_names(LaneSelection::Configured, limit).await;
        assert_eq!(shown, configured, "{limit}");
    }
}
