//! Looking many entries up, leafing through all, and putting entries back.

use super::fixture::*;
use ringback::domain::lane::KeyInLane;
use ringback::domain::progress::Progress;
use ringback::domain::state::State;
use ringback::schedule::{
    Entry, HeldProgress, Holding, Limits, Scanned, ScheduleError, Settlement,
};
use std::collections::BTreeMap;

impl Fixture {
    async fn holding(&self, id: &str) -> Option<Holding> {
        let held = self.schedule.holds(&[place(id)]).await.expect("answered");
        assert_eq!(held.len(), 1);
        held[0]
    }
}

fn waiting(progress: Progress) -> Holding {
    Holding {
        state: State::Scheduled,
        progress: HeldProgress::Whole(progress),
        in_flight: false,
    }
}

pub async fn what_is_missing_is_put_back(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let here = fixture.put("shop", "1", 0).await;
    let missing = to_verify(entry("shop", "2", 0));
    let restored = fixture.restore(&[here.clone(), missing.clone()]).await;
    assert_eq!(restored, (1, 0));
    assert_eq!(fixture.entry("1").await, here);
    assert_eq!(fixture.entry("2").await, missing);
    // What is to be verified may be claimed a little earlier.
    let mut claimed = fixture.claim_ids(9).await;
    claimed.sort();
    assert_eq!(claimed, ["1", "2"]);
    assert_eq!(fixture.restore(&[]).await, (0, 0));
}

pub async fn what_stands_elsewhere_is_moved(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "late", 50_000).await;
    fixture.put("shop", "early", 0).await;
    let (sooner, later) = (
        entry("shop", "late", 10_000),
        entry("shop", "early", 60_000),
    );
    let entries = [to_verify(sooner), to_verify(later)];
    assert_eq!(fixture.restore(&entries).await, (0, 2));
    assert_eq!(fixture.restore(&entries).await, (0, 0));
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    fixture.turn_to(10_000);
    assert_eq!(fixture.claim_ids(9).await, ["late"]);
    fixture.turn_to(60_000);
    assert!(fixture.claim_ids(9).await.contains(&"early".to_string()));
    assert!(fixture.entry("early").await.verify);
}

pub async fn what_is_moved_keeps_what_it_is_marked_with(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1 rechecked", 0).await;
    fixture.put("shop", "2 interrupted", 0).await;
    fixture.put("shop", "plain", 50).await;
    fixture
        .register(to_verify(entry("shop", "to verify", 50)))
        .await;
    let lease = fixture.claim_one().await;
    fixture.done(&lease, Settlement::Recheck).await;
    let lease = fixture.lease_by_hand("1 rechecked").await;
    assert_eq!(fixture.claim_ids(9).await, ["2 interrupted"]);
    fixture.done(&lease, Settlement::Release).await;
    fixture.turn_to(LEASE_MS);
    fixture.claim(0).await;
    let moved = |id: &str| entry("shop", id, 70_000);
    let interrupted = Entry {
        interrupted_ms: Some(START_MS),
        ..to_verify(moved("2 interrupted"))
    };
    for expected in [
        to_fence(moved("1 rechecked")),
        interrupted,
        moved("plain"),
        to_verify(moved("to verify")),
    ] {
        let id = expected.notification.key.id();
        assert_eq!(fixture.restore(&[moved(id)]).await, (0, 1), "{id}");
        assert_eq!(fixture.entry(id).await, expected);
    }
}

pub async fn what_is_leased_or_right_is_left_alone(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let waits = fixture.put("shop", "waits", 5_000).await;
    fixture.put("shop", "leased", 0).await;
    let lease = fixture.claim_one().await;
    let entries = [
        to_verify(waits.clone()),
        to_verify(entry("shop", "leased", 9_000)),
    ];
    assert_eq!(fixture.restore(&entries).await, (0, 0));
    assert_eq!(fixture.entry("waits").await, waits);
    assert_eq!(fixture.entry("leased").await, lease.entry);
    fixture.done(&lease, end(&lease, State::Delivered, 1)).await;
    assert_eq!(fixture.counts().await.pending, 1);
}

pub async fn any_number_is_restored(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let entries: Vec<Entry> = (0..1_111)
        .map(|number| entry(&format!("lane-{}", number % 7), &format!("{number:04}"), 0))
        .collect();
    assert_eq!(fixture.restore(&entries).await, (1_111, 0));
    assert_eq!(fixture.counts().await.pending, 1_111);
    assert_eq!(fixture.claim_all(700).await.len(), 700);
}

pub async fn what_is_put_back_comes_at_its_time(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "500", 500).await;
    let entries = [
        entry("shop", "900", 900),
        entry("shop", "100", 100),
        entry("shop", "300", 300),
        entry("quiet", "200", 200),
    ];
    assert_eq!(fixture.restore(&entries).await, (4, 0));
    let nothing: [&str; 0] = [];
    for at_ms in [100, 200, 300, 500, 900] {
        fixture.turn_to(at_ms - 1);
        assert_eq!(fixture.claim_ids(9).await, nothing, "before {at_ms}");
        fixture.turn_to(at_ms);
        assert_eq!(fixture.claim_ids(9).await, [at_ms.to_string()]);
    }
}

pub async fn what_is_put_back_waits_for_a_full_lane(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(capped(1)).await;
    fixture.put("shop", "1", 0).await;
    let lease = fixture.claim_one().await;
    assert_eq!(fixture.restore(&[entry("shop", "2", 0)]).await, (1, 0));
    let nothing: [&str; 0] = [];
    assert_eq!(fixture.claim_ids(9).await, nothing);
    fixture.done(&lease, end(&lease, State::Delivered, 1)).await;
    assert_eq!(fixture.claim_ids(9).await, ["2"]);
}

pub async fn what_is_held_is_told_in_order(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    for number in 0..600 {
        fixture.put("shop", &number.to_string(), 7).await;
    }
    fixture.lease_by_hand("0").await;
    let keys = (0..700).rev().map(|id: i32| place(&id.to_string()));
    let keys: Vec<KeyInLane> = keys.collect();
    let held = fixture.schedule.holds(&keys).await.expect("answered");
    assert_eq!(held.len(), keys.len());
    for (key, held) in keys.iter().zip(held) {
        let number: i32 = key.key.id().parse().expect("a number");
        let expected = (number < 600).then(|| Holding {
            in_flight: number == 0,
            ..waiting(due(7))
        });
        assert_eq!(held, expected, "{number}");
    }
    assert_eq!(fixture.schedule.holds(&[]).await.expect("answered"), []);
}

pub async fn a_scan_shows_everything_that_stays(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    assert!(fixture.scan(10).await.is_empty());
    for number in 0..600 {
        let lane = format!("lane-{}", number % 3);
        fixture.put(&lane, &format!("{number:04}"), number).await;
    }
    let lease = fixture.lease_by_hand("0007").await;
    let all = fixture.scan(50).await;
    assert_eq!(all.len(), 600);
    assert!(all[&key("0007")].in_flight);
    assert_eq!(all[&key("0008")], waiting(due(8)));
    fixture.done(&lease, end(&lease, State::Delivered, 1)).await;
    assert_eq!(fixture.holding("0007").await, None);
    assert_eq!(fixture.scan(1_000).await.len(), 599);
    // Entries that come and go in the middle of a scan keep none that stays from being seen.
    let (mut seen, mut cursor, mut turn) = (BTreeMap::new(), None, 0);
    loop {
        let page = fixture.schedule.scan(cursor.as_deref(), 50).await;
        let Scanned { holdings, next } = page.expect("answered");
        seen.extend(by_key(holdings));
        let gone = fixture.lease_by_hand(&format!("{turn:04}")).await;
        fixture.done(&gone, end(&gone, State::Delivered, 1)).await;
        fixture.put("new", &format!("new-{turn}"), 0).await;
        turn = (turn + 1).min(6);
        if next.is_none() || turn == 6 {
            break;
        }
        cursor = next;
    }
    while cursor.is_some() {
        let page = fixture.schedule.scan(cursor.as_deref(), 50).await;
        let Scanned { holdings, next } = page.expect("answered");
        seen.extend(by_key(holdings));
        cursor = next;
    }
    for number in 8..600 {
        assert!(seen.contains_key(&key(&format!("{number:04}"))), "{number}");
    }
}

pub async fn a_cursor_that_no_scan_gave_is_refused(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    for cursor in ["", "x", "9999-0x", "-"] {
        let refused = fixture.schedule.scan(Some(cursor), 10).await;
        assert!(
            matches!(refused, Err(ScheduleError::BadCursor)),
            "{cursor}: {refused:?}"
        );
    }
}

pub async fn what_was_restored_rings(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.claim(1).await;
    fixture.wake().reset();
    fixture.restore(&[entry("shop", "1", 300)]).await;
    assert_eq!(fixture.wake().at_ms(), START_MS + 300);
}
