//! A claim serves the due lanes in turn: one merchant's backlog is that merchant's alone.

use super::fixture::*;
use ringback::domain::state::State;
use ringback::schedule::{Lease, Limits, PER_VISIT, Settlement};
use std::collections::HashMap;

/// The lanes of leases, in order.
fn lanes(leases: &[Lease]) -> Vec<String> {
    leases
        .iter()
        .map(|lease| {
            let lane = lease.entry.notification.lane.as_str();
            let name = lane
                .strip_prefix("https://")
                .expect("as `lane_of` makes it");
            name.trim_end_matches(".example").to_string()
        })
        .collect()
}

pub async fn claims_of_one_go_round(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    for (lane, due_ms) in [("b", 1), ("d", 2), ("a", 3), ("c", 4)] {
        fixture.put_many(lane, 6, due_ms).await;
    }
    for (round, after_ms) in [10, 10, 10, 11, 12].into_iter().enumerate() {
        // Within one millisecond as well as over several.
        fixture.turn_to(after_ms);
        let mut served = Vec::new();
        for _ in 0..4 {
            served.extend(lanes(&fixture.claim(1).await.leases));
        }
        assert_eq!(served, ["b", "d", "a", "c"], "round {round}");
    }
}

pub async fn a_claim_goes_round_while_there_is_room(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    for (lane, due_ms) in [("a", 1), ("b", 2), ("c", 3)] {
        fixture.put_many(lane, 3 * PER_VISIT, due_ms).await;
    }
    fixture.turn_to(3);
    let round = |many: usize| {
        let visits = ["a", "b", "c"].map(|lane| vec![lane; many]);
        visits.concat()
    };
    let served = lanes(&fixture.claim(6 * PER_VISIT).await.leases);
    assert_eq!(served, [round(PER_VISIT), round(PER_VISIT)].concat());
    let served = lanes(&fixture.claim(PER_VISIT + 1).await.leases);
    assert_eq!(served[..PER_VISIT], vec!["a"; PER_VISIT]);
    assert_eq!(served[PER_VISIT..], ["b"]);
    let mut rest: HashMap<String, usize> = HashMap::new();
    let claimed = fixture.claim(100).await;
    for lane in lanes(&claimed.leases) {
        *rest.entry(lane).or_default() += 1;
    }
    assert_eq!(lanes(&claimed.leases)[0], "c", "whose turn it is");
    assert_eq!(
        (rest.get("a"), rest["b"], rest["c"]),
        (None, PER_VISIT - 1, PER_VISIT)
    );
}

pub async fn a_huge_backlog_costs_another_lane_one_visit(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(Limits {
        lane_start: 10_000,
        lane_cap: 10_000,
        ..LIMITS
    })
    .await;
    fixture.put_many("huge", 3_000, 0).await;
    fixture.claim_all(100).await;
    fixture.put("small", "1", 5).await;
    fixture.turn_to(5);
    let served = lanes(&fixture.claim(PER_VISIT + 1).await.leases);
    assert_eq!(served.iter().filter(|lane| *lane == "small").count(), 1);
    fixture.put("small", "2", 5).await;
    let served = lanes(&fixture.claim(PER_VISIT + 1).await.leases);
    assert_eq!(served.iter().filter(|lane| *lane == "small").count(), 1);
}

pub async fn a_hundred_backlogs_cost_another_lane_one_visit_each(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    for lane in 0..100 {
        fixture.put_many(&format!("backlog-{lane:02}"), 20, 0).await;
    }
    // The round has begun before the other lane comes.
    fixture.claim_all(130).await;
    fixture.put("small", "1", 5).await;
    fixture.turn_to(5);
    let mut served = Vec::new();
    for _ in 0..=100 * PER_VISIT / 64 {
        served.extend(lanes(&fixture.claim(64).await.leases));
    }
    let turn = served.iter().position(|lane| lane == "small");
    let turn = turn.expect("it had its turn");
    assert!(turn <= 100 * PER_VISIT, "after {turn}");
    for lane in 0..100 {
        let lane = format!("backlog-{lane:02}");
        let before = served[..turn]
            .iter()
            .filter(|other| **other == lane)
            .count();
        assert!(before <= PER_VISIT, "{lane}: {before} before it");
    }
}

pub async fn a_full_lane_holds_nobody_up(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(capped(2)).await;
    fixture.put_many("full", 50, 0).await;
    assert_eq!(fixture.claim(9).await.leases.len(), 2);
    fixture.put_many("other", 2, 5).await;
    fixture.turn_to(5);
    let claimed = fixture.claim(9).await;
    assert_eq!(lanes(&claimed.leases), ["other", "other"]);
}

pub async fn a_lane_that_was_full_comes_behind_those_that_wait(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let ways: [fn(&Lease) -> Settlement; 2] = [
        |lease| end(lease, State::Delivered, 0),
        |_| Settlement::Release,
    ];
    for way in ways {
        let fixture = open(capped(2)).await;
        fixture.put_many("full", 50, 0).await;
        let leases = fixture.claim(9).await.leases;
        fixture.put_many("b", 2, 5).await;
        fixture.put_many("a", 2, 6).await;
        fixture.turn_to(6);
        fixture.done(&leases[0], way(&leases[0])).await;
        let claimed = fixture.claim(9).await;
        assert_eq!(lanes(&claimed.leases), ["b", "b", "a", "a", "full"]);
    }
}

pub async fn a_lane_with_nothing_due_takes_no_turn(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("a", "a-due", 0).await;
    fixture.put("a", "a-later", 50).await;
    fixture.put_many("b", 9, 0).await;
    let claimed = fixture.claim(6).await;
    assert_eq!(claimed.leases.len(), 6);
    let of_a = lanes(&claimed.leases)
        .iter()
        .filter(|lane| *lane == "a")
        .count();
    assert_eq!(of_a, 1);
    fixture.turn_to(50);
    let served = lanes(&fixture.claim(100).await.leases);
    assert_eq!(served.len(), 5);
    assert!(served.contains(&"a".to_string()));
}
