//! How many leases a lane gets, by how its destination is doing, and which lanes come first.

use super::fixture::*;
use ringback::clock::Clock as _;
use ringback::domain::lane_health::{
    FIRST_PROBE_MS, KEPT_MS, LONGEST_PROBE_MS, LaneClass, LaneReport, SLOW_MS,
};
use ringback::domain::state::State;
use ringback::schedule::{ClaimQuota, Lease, Limits, Settlement};

const START: usize = 2;
const ANSWERED: Option<LaneReport> = Some(LaneReport::Answered(5));
const UNANSWERED: Option<LaneReport> = Some(LaneReport::Unanswered);

/// As a server has it: a lane starts with two calls and may have up to sixteen.
const GROWING: Limits = Limits {
    lane_start: START,
    lane_cap: 16,
    ..LIMITS
};

impl Fixture {
    /// Ends a lease whose call had this result.
    async fn called(&self, lease: &Lease, result: Option<LaneReport>) {
        let lease = lease.clone().with_report(result);
        let now_ms = self.clock.now_ms() - START_MS;
        self.done(&lease, end(&lease, State::Delivered, now_ms))
            .await;
    }

    /// Claims one entry of the only lane that is due, and ends its call with this result.
    async fn call(&self, result: Option<LaneReport>) {
        let lease = self.claim_one().await;
        self.called(&lease, result).await;
    }

    async fn claim_quota(&self, quota: ClaimQuota) -> (Vec<String>, bool) {
        let claimed = self.schedule.claim(quota).await.expect("claimed");
        (ids(&claimed.leases), claimed.is_limited)
    }

    /// Makes a destination known to answer.
    async fn prove(&self, lane: &str) {
        self.put(lane, &format!("{lane}-first"), 0).await;
        self.call(ANSWERED).await;
    }

    /// Makes a lane probing.
    async fn fail(&self, lane: &str) {
        for number in 0..3 {
            self.put(lane, &format!("{lane}-failed-{number}"), 0).await;
            self.call(UNANSWERED).await;
        }
    }
}

pub async fn a_lane_starts_small_and_grows_with_every_answer(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(GROWING).await;
    fixture.put_many("shop", 60, 0).await;
    let mut leases = fixture.claim(40).await.leases;
    assert_eq!(leases.len(), START);
    for answered in 1..=20 {
        fixture.called(&leases.remove(0), ANSWERED).await;
        leases.extend(fixture.claim(40).await.leases);
        assert_eq!(leases.len(), (START + answered).min(16), "after {answered}");
    }
}

pub async fn a_call_without_an_answer_halves_what_a_lane_gets(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(GROWING).await;
    fixture.put_many("shop", 60, 0).await;
    for _ in 0..20 {
        fixture.call(ANSWERED).await;
    }
    let mut leases = fixture.claim(40).await.leases;
    assert_eq!(leases.len(), 16);
    fixture.called(&leases.remove(0), UNANSWERED).await;
    assert_eq!(
        fixture.claim_ids(40).await.len(),
        0,
        "15 are out, 8 are allowed"
    );
    for lease in leases.drain(..8) {
        fixture.called(&lease, None).await;
    }
    assert_eq!(fixture.claim_ids(40).await.len(), 1, "the eighth");
}

pub async fn a_lane_that_fails_is_probed_less_and_less_often(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(GROWING).await;
    fixture.put_many("shop", 60, 0).await;
    for _ in 0..3 {
        fixture.call(UNANSWERED).await;
    }
    let (mut now_ms, mut wait_ms) = (0, FIRST_PROBE_MS);
    for _ in 0..9 {
        let claimed = fixture.claim(40).await;
        assert_eq!(claimed.leases.len(), 0, "{now_ms}");
        assert_eq!(claimed.next_due_ms, Some(START_MS + now_ms + wait_ms));
        fixture.turn_to(now_ms + wait_ms - 1);
        assert_eq!(fixture.claim_ids(40).await.len(), 0, "{now_ms}");
        fixture.turn_to(now_ms + wait_ms);
        let probes = fixture.claim(40).await.leases;
        assert_eq!(probes.len(), 1, "one call at a time");
        assert_eq!(probes[0].class, LaneClass::Probing);
        now_ms += wait_ms + 7_000;
        fixture.turn_to(now_ms);
        assert_eq!(
            fixture.claim_ids(40).await.len(),
            0,
            "while the probe is in flight"
        );
        fixture.called(&probes[0], UNANSWERED).await;
        wait_ms = (2 * wait_ms).min(LONGEST_PROBE_MS);
    }
    fixture.turn_to(now_ms + wait_ms);
    fixture.call(ANSWERED).await;
    assert_eq!(fixture.claim_ids(40).await.len(), START, "it has answered");
}

pub async fn what_is_registered_behind_a_probe_waits_for_it(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(GROWING).await;
    fixture.fail("shop").await;
    fixture.put("shop", "late", 0).await;
    assert_eq!(fixture.claim_ids(40).await.len(), 0);
    assert_eq!(
        fixture.entry("late").await.progress,
        due(0),
        "nothing is spent"
    );
    fixture.turn_to(FIRST_PROBE_MS);
    assert_eq!(fixture.claim_ids(40).await, ["late"]);
}

pub async fn a_call_that_is_asked_for_does_not_wait_for_the_next_probe(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(GROWING).await;
    fixture.fail("shop").await;
    fixture.put("shop", "due for long", 1).await;
    fixture.put("shop", "1", 50_000).await;
    fixture.turn_to(10);
    let lease = fixture.lease_by_hand("1").await;
    let lease = lease.with_report(Some(LaneReport::CallNow));
    let progress = lease.entry.progress.retry(START_MS + 10);
    fixture.done(&lease, Settlement::Again(progress)).await;
    assert_eq!(fixture.claim_ids(40).await, ["1"]);
}

pub async fn a_lane_of_which_a_call_is_asked_for_does_not_wait_for_the_next_probe(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(GROWING).await;
    fixture.fail("shop").await;
    fixture.put_many("shop", 3, 0).await;
    fixture.put("healthy", "other", 100).await;
    fixture.turn_to(10);
    assert_eq!(fixture.claim_ids(40).await.len(), 0, "it is probed");
    for lane in ["shop", "healthy", "unknown"] {
        let asked = fixture.schedule.call_lane_now(&lane_of(lane)).await;
        asked.expect("asked");
    }
    let probe = fixture.claim(40).await.leases;
    assert_eq!(probe.len(), 1, "one call, and nothing of the others");
    fixture.turn_to(15);
    let asked = fixture.schedule.call_lane_now(&lane_of("shop")).await;
    asked.expect("asked");
    assert_eq!(fixture.claim_ids(40).await.len(), 0, "it is in flight");
    fixture.turn_to(20);
    fixture.called(&probe[0], UNANSWERED).await;
    assert_eq!(fixture.claim_ids(40).await.len(), 1, "asked for during it");
}

pub async fn a_call_that_is_asked_for_does_not_wait_for_the_failure_of_an_earlier_one(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(GROWING).await;
    for id in ["first", "second"] {
        fixture.put("shop", id, 0).await;
        fixture.call(UNANSWERED).await;
    }
    fixture.put("shop", "third", 0).await;
    fixture.put("shop", "asked", 0).await;
    let third = fixture.claim(40).await.leases;
    assert_eq!(third.len(), 1, "the lane is about to be probing");
    fixture.turn_to(10);
    let asked = match third[0].entry.notification.key.id() {
        "third" => "asked",
        _ => "third",
    };
    let lease = fixture.lease_by_hand(asked).await;
    let lease = lease.with_report(Some(LaneReport::CallNow));
    let progress = lease.entry.progress.retry(START_MS + 10);
    fixture.done(&lease, Settlement::Again(progress)).await;
    assert_eq!(
        fixture.claim_ids(40).await,
        [""; 0],
        "the third call is in flight"
    );
    fixture.turn_to(20);
    fixture.called(&third[0], UNANSWERED).await;
    let claimed = fixture.claim(40).await.leases;
    let ids: Vec<&str> = claimed
        .iter()
        .map(|lease| lease.entry.notification.key.id())
        .collect();
    assert_eq!(ids, [asked]);
    assert_eq!(claimed[0].class, LaneClass::Probing);
}

pub async fn the_state_of_a_lane_is_known_to_every_instance(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(GROWING).await;
    for _ in 0..5 {
        fixture.put("shop", "1", 0).await;
        fixture.call(ANSWERED).await;
    }
    fixture.put_many("shop", 40, 0).await;
    let claimed = fixture.other.claim(ClaimQuota::of(40)).await;
    assert_eq!(claimed.expect("claimed").leases.len(), START + 5);
}

pub async fn the_state_of_a_lane_is_forgotten_after_an_hour(open: impl AsyncFn(Limits) -> Fixture) {
    for (after_ms, leases) in [(KEPT_MS - 60_001, START + 1), (KEPT_MS + 1, START)] {
        let fixture = open(GROWING).await;
        fixture.prove("shop").await;
        fixture.turn_to(after_ms);
        for _ in 0..64 {
            fixture.claim(1).await;
        }
        fixture.put_many("shop", 40, 0).await;
        assert_eq!(fixture.claim_ids(40).await.len(), leases, "{after_ms}");
    }
}

pub async fn a_call_that_was_not_made_says_nothing(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(GROWING).await;
    fixture.put("shop", "1", 0).await;
    for _ in 0..5 {
        let lease = fixture.claim_one().await;
        fixture.done(&lease, Settlement::Release).await;
    }
    fixture.put_many("shop", 5, 0).await;
    let leases = fixture.claim(40).await.leases;
    assert_eq!(
        (leases.len(), leases[0].class),
        (START, LaneClass::Doubtful)
    );
}

pub async fn destinations_that_answer_come_first(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(GROWING).await;
    for lane in ["idle", "busy"] {
        fixture.prove(lane).await;
    }
    fixture.put("slow", "s", 0).await;
    fixture.call(Some(LaneReport::Answered(SLOW_MS + 1))).await;
    fixture.fail("probing").await;
    fixture.put("busy", "busy-1", 0).await;
    fixture.claim_one().await;
    fixture.turn_to(FIRST_PROBE_MS);
    for (due_ms, lane) in ["probing", "new", "slow", "busy", "idle"]
        .into_iter()
        .enumerate()
    {
        let due_ms = i64::try_from(due_ms).expect("small");
        fixture.put(lane, &format!("{lane}-2"), due_ms).await;
    }
    let leases = fixture.claim(5).await.leases;
    let order = ["idle-2", "busy-2", "new-2", "slow-2", "probing-2"];
    assert_eq!(ids(&leases), order);
    let classes: Vec<LaneClass> = leases.iter().map(|lease| lease.class).collect();
    use LaneClass::{Busy, Doubtful, Idle, Probing};
    assert_eq!(classes, [Idle, Busy, Doubtful, Doubtful, Probing]);
}

pub async fn a_part_is_kept_for_idle_lanes(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(GROWING).await;
    fixture.prove("idle").await;
    fixture.put_many("new", 5, 0).await;
    fixture.put_many("idle", 3, 0).await;
    let kept = ClaimQuota {
        kept_for_idle: 10,
        ..ClaimQuota::of(10)
    };
    let one = vec!["idle-0000".to_string()];
    assert_eq!(fixture.claim_quota(kept).await, (one, true));
    assert_eq!(
        fixture.claim_quota(kept).await,
        (vec![], true),
        "it is busy now"
    );
    let two = vec!["idle-0001".to_string(), "idle-0002".to_string()];
    let shared = ClaimQuota {
        kept_for_idle: 2,
        ..ClaimQuota::of(4)
    };
    assert_eq!(fixture.claim_quota(shared).await, (two, true));
}

pub async fn a_part_is_kept_for_doubtful_and_probing_lanes(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(GROWING).await;
    for lane in ["a", "b", "c"] {
        fixture.prove(lane).await;
    }
    fixture.fail("probing").await;
    fixture.turn_to(FIRST_PROBE_MS);
    for (lane, entries) in [("a", 2), ("b", 2), ("c", 2), ("new", 1), ("probing", 1)] {
        fixture.put_many(lane, entries, 0).await;
    }
    let kept = |total, kept_for_troubled| ClaimQuota {
        kept_for_idle: total,
        kept_for_troubled,
        ..ClaimQuota::of(total)
    };
    let (given, is_limited) = fixture.claim_quota(kept(4, 3)).await;
    let [idle, new, probe] = &given[..] else {
        panic!("{given:?}");
    };
    assert_eq!(idle, "a-0000");
    assert_eq!((new.as_str(), probe.as_str()), ("new-0000", "probing-0000"));
    assert!(is_limited, "one is left that idle lanes do not get");
    let (given, is_limited) = fixture.claim_quota(kept(4, 2)).await;
    assert_eq!(given, ["b-0000", "c-0000"]);
    assert!(is_limited, "the lanes that are busy now");
}

pub async fn doubtful_and_probing_lanes_get_their_part(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(GROWING).await;
    fixture.fail("probing").await;
    fixture.turn_to(FIRST_PROBE_MS);
    for lane in ["a", "b", "probing"] {
        fixture.put_many(lane, 2, 0).await;
    }
    let parts = |doubtful, probing| ClaimQuota {
        doubtful,
        probing,
        ..ClaimQuota::of(40)
    };
    assert_eq!(fixture.claim_quota(parts(0, 0)).await, (vec![], true));
    assert_eq!(fixture.claim_quota(parts(3, 0)).await.0.len(), 3);
    let (probe, is_limited) = fixture.claim_quota(parts(0, 1)).await;
    assert_eq!((probe.len(), is_limited), (1, true));
    let (last, is_limited) = fixture.claim_quota(parts(1, 0)).await;
    assert_eq!(
        (last.len(), is_limited),
        (1, false),
        "the other probe waits for the first"
    );
}
