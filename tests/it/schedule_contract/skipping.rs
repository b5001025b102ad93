//! The lanes that an instance skips, because it cannot sign the calls to them.

use super::fixture::*;
use ringback::domain::state::State;
use ringback::schedule::skipped::SkipCause;
use ringback::schedule::{ClaimQuota, Limits};

impl Fixture {
    fn skip(&self, lane: &str) {
        assert!(
            self.schedule
                .skipped_lanes()
                .skip(&lane_of(lane), SkipCause::Key)
        );
    }

    fn skip_nothing(&self) {
        self.schedule.skipped_lanes().retain(|_| false);
    }
}

pub async fn a_skipped_lane_gets_nothing_and_is_not_next(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    for (lane, due_ms) in [("a", 1), ("b", 2), ("c", 3), ("late", 900), ("later", 950)] {
        fixture.put_many(lane, 2, due_ms).await;
    }
    for lane in ["a", "b", "late"] {
        fixture.skip(lane);
    }
    fixture.turn_to(10);
    let claimed = fixture.claim(1).await;
    assert_eq!(ids(&claimed.leases), ["c-0000"]);
    assert!(claimed.next_due_ms <= Some(START_MS + 10), "c has another");
    fixture
        .done(
            &claimed.leases[0],
            end(&claimed.leases[0], State::Delivered, 10),
        )
        .await;
    let claimed = fixture.claim(20).await;
    assert_eq!(ids(&claimed.leases), ["c-0001"]);
    fixture
        .done(
            &claimed.leases[0],
            end(&claimed.leases[0], State::Delivered, 10),
        )
        .await;
    // What is due there now or later does not make this instance claim again.
    let claimed = fixture.claim(20).await;
    assert!(claimed.leases.is_empty() && !claimed.is_limited);
    assert_eq!(claimed.next_due_ms, Some(START_MS + 950));
    // Nor if nothing may be given to their class.
    let quota = ClaimQuota {
        doubtful: 0,
        ..ClaimQuota::of(20)
    };
    let claimed = fixture.schedule.claim(quota).await.expect("claimed");
    assert!(claimed.leases.is_empty() && !claimed.is_limited);
    assert_eq!(claimed.next_due_ms, Some(START_MS + 950));
    fixture.skip_nothing();
    let given = fixture.claim(20).await.leases;
    assert_eq!(given.len(), 4, "everything is still there");
    assert!(
        given.iter().all(|lease| !lease.entry.verify),
        "nothing is spent"
    );
    assert_eq!(fixture.counts().await.pending, 8);
}

pub async fn an_expired_lease_of_a_skipped_lane_is_returned(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("a", "1", 0).await;
    fixture.claim_one().await;
    fixture.skip("a");
    let claimed = fixture.claim(20).await;
    assert_eq!(claimed.next_due_ms, Some(START_MS + LEASE_MS));
    fixture.turn_to(LEASE_MS);
    let claimed = fixture.claim(20).await;
    assert_eq!((claimed.leases.len(), claimed.next_due_ms), (0, None));
    assert_eq!(fixture.counts().await.in_flight, 0);
    fixture.skip_nothing();
    assert!(fixture.claim_one().await.entry.interrupted_ms.is_some());
}

pub async fn a_skipped_lane_keeps_its_turn(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    for (lane, due_ms) in [("b", 1), ("skipped", 2), ("d", 3), ("c", 4)] {
        fixture.put_many(lane, 9, due_ms).await;
    }
    fixture.turn_to(10);
    fixture.skip("skipped");
    let first = |many: usize| {
        let fixture = &fixture;
        async move {
            let mut served = Vec::new();
            for _ in 0..many {
                let lease = fixture.claim_one().await;
                served.push(id(&lease).split('-').next().unwrap_or_default().to_string());
            }
            served
        }
    };
    assert_eq!(
        first(5).await,
        ["b", "d", "c", "b", "d"],
        "the others in their turns"
    );
    fixture.turn_to(12);
    assert_eq!(first(2).await, ["c", "b"]);
    fixture.skip_nothing();
    assert_eq!(first(5).await, ["skipped", "d", "c", "b", "skipped"]);
}

pub async fn many_skipped_lanes_hide_no_other(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    for number in 0..200 {
        let lane = format!("s{number:03}");
        fixture.put(&lane, &lane, 1).await;
        fixture.skip(&lane);
    }
    for (id, due_ms) in [("x", 5), ("y", 6), ("z", 70)] {
        fixture.put(id, id, due_ms).await;
    }
    fixture.turn_to(10);
    assert_eq!(fixture.claim_ids(1).await, ["x"]);
    let claimed = fixture.claim(100).await;
    assert_eq!(ids(&claimed.leases), ["y"]);
    assert_eq!(claimed.next_due_ms, Some(START_MS + 70));
    fixture.skip_nothing();
    fixture.claim_all(200).await;
}
