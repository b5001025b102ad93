//! What a schedule says of its lanes.

use super::fixture::*;
use super::lane_settings::{held, limited};
use ringback::domain::attempt::Outcome;
use ringback::domain::lane_health::{CallOutcome, LaneReport};
use ringback::domain::lane_settings::{LaneSetting, LaneState};
use ringback::domain::later::LaterCount;
use ringback::domain::priority::Priority;
use ringback::domain::state::State;
use ringback::schedule::lane_status::{LaneSelection, LaneStatus};
use ringback::schedule::window::{LoadedWindow, Window};
use ringback::schedule::{LaneCounts, Limits};
use std::collections::BTreeSet;
use std::time::Duration;

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

pub async fn a_lane_tells_apart_what_is_due_after_all_that_was_loaded(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    const MINUTE_MS: i64 = 60_000;
    let whole = open(LIMITS).await;
    whole.put("shop", "1", 50 * MINUTE_MS).await;
    let status = whole.status("shop").await;
    assert_eq!((status.held_until_ms, status.later), (i64::MAX, 0));
    assert_eq!((status.pending(), status.is_pending_at_least()), (1, false));

    let window = Window::of(Duration::from_secs(3_600));
    let fixture = open(Limits { window, ..LIMITS }).await;
    for (number, priority) in Priority::ALL.iter().enumerate() {
        for due_ms in [0, 20 * MINUTE_MS, 40 * MINUTE_MS] {
            let id = format!("{number}-{due_ms}");
            fixture
                .register(of_priority(entry("shop", &id, due_ms), *priority))
                .await;
        }
    }
    let check = async |held_until_ms, later| {
        let status = fixture.status("shop").await;
        assert_eq!(status.held_until_ms, START_MS + held_until_ms);
        assert_eq!((status.waiting, status.later), (9, later));
        // Nobody has asked the journal.
        assert_eq!((status.pending(), status.is_pending_at_least()), (9, true));
        let (mut listed, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let reading = (fixture.schedule).lanes(LaneSelection::All, cursor.as_deref(), 9);
            let page = reading.await.expect("a page");
            listed.extend(page.lanes);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(listed, [status]);
    };
    let note = async |until_ms: i64| {
        let loaded = LoadedWindow {
            began_ms: START_MS,
            until_ms,
        };
        let none = BTreeSet::new();
        let noting = fixture.schedule.set_loaded_until(loaded, &none);
        assert_eq!(noting.await.expect("noted"), until_ms);
    };
    // As long as it is not known what was loaded: what is due.
    check(0, 6).await;
    for (until_ms, later) in [
        (20 * MINUTE_MS - 1, 6),
        (20 * MINUTE_MS, 3),
        (40 * MINUTE_MS, 0),
    ] {
        note(START_MS + until_ms).await;
        check(until_ms, later).await;
    }
    note(START_MS + 20 * MINUTE_MS).await;
    let mut status = fixture.status("shop").await;
    status.later_in_journal = Some(LaterCount {
        many: 5,
        is_at_least: false,
    });
    assert_eq!(
        (status.pending(), status.is_pending_at_least()),
        (11, false)
    );
    assert_eq!(
        fixture.status("empty").await.held_until_ms,
        START_MS + 20 * MINUTE_MS
    );
    note(i64::MAX).await;
    assert_eq!(fixture.status("shop").await.held_until_ms, i64::MAX);
}

pub async fn a_lane_that_fails_is_found_while_it_has_nothing_here(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    let call = async |lane: &str, id: &str, outcome, status| {
        fixture.put(lane, id, 0).await;
        let call = CallOutcome { outcome, status };
        let lease = fixture.claim_one().await.with_outcome(Some(call));
        fixture.done(&lease, end(&lease, State::Dead, 7)).await;
    };
    let check = async |expected: &[&str]| {
        let expected = names(expected.iter().map(ToString::to_string));
        for limit in [1, 2, 100] {
            let found = fixture.lane_names(LaneSelection::Failing, limit).await;
            assert_eq!(found, expected, "{limit}");
        }
    };
    fixture.turn_to(7);
    check(&[]).await;
    call("well", "1", Outcome::Acknowledged, Some(200)).await;
    for (lane, outcome) in [
        ("a", Outcome::WrongAnswer),
        ("b", Outcome::HttpStatus),
        ("c", Outcome::Timeout),
        ("d", Outcome::Connect),
    ] {
        call(lane, lane, outcome, None).await;
    }
    check(&["a", "b", "c", "d"]).await;
    let page = fixture
        .schedule
        .lanes(LaneSelection::Failing, None, 100)
        .await;
    let lanes = page.expect("a page").lanes;
    assert!(lanes.iter().all(LaneStatus::is_failing));
    // These are found in another way.
    fixture.put("b", "waiting", 5_000).await;
    fixture.configure("c", held()).await;
    check(&["a", "d"]).await;
    call("a", "again", Outcome::Acknowledged, Some(200)).await;
    check(&["d"]).await;
    // As long as the longest step of a ladder may take, and no longer than a day.
    fixture.turn_to(20 * 3_600_000);
    check(&["d"]).await;
}
