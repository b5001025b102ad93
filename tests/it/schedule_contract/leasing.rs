//! A claimed entry belongs to one lease until it is settled or the lease expires. The expiry says
//! which lease it is: a settlement whose lease is not the one in force changes nothing.

use super::damage::scene;
use super::fixture::*;
use ringback::domain::lease::Expiry;
use ringback::domain::state::State;
use ringback::schedule::{
    CLAIMED_EARLY_MS, ClaimQuota, Entry, FoundEntry, Lease, Limits, Settled, Settlement,
};
use std::collections::HashSet;

/// Every way to settle a lease.
const WAYS: [fn(&Lease) -> Settlement; 7] = [
    |lease| again(lease, 70),
    |_| Settlement::Release,
    |_| Settlement::Recheck,
    |_| Settlement::Defer(START_MS + 70),
    |lease| end(lease, State::Delivered, 0),
    |lease| end(lease, State::Dead, 0),
    |lease| end(lease, State::Cancelled, 0),
];

pub async fn a_deferred_entry_is_due_later_and_otherwise_the_same(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    let mut entry = fixture.put("shop", "1", 0).await;
    let lease = fixture.claim_one().await;
    fixture
        .done(&lease, Settlement::Defer(START_MS + 500))
        .await;
    // It says why it is late.
    entry.was_put_off = true;
    assert_eq!(fixture.lane_in_flight("shop").await, 0);
    assert_eq!(fixture.entry("1").await, entry);
    let claimed = fixture.claim(9).await;
    assert_eq!(ids(&claimed.leases), [""; 0]);
    assert_eq!(claimed.next_due_ms, Some(START_MS + 500));
    fixture.turn_to(500);
    assert_eq!(fixture.claim_one().await.entry, entry);
}

pub async fn a_claimed_entry_belongs_to_one_lease(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let entry = fixture.put("shop", "1", 0).await;
    fixture.claim_one().await;
    let found = FoundEntry {
        entry,
        in_flight: true,
    };
    assert_eq!(fixture.find("1").await, Some(found));
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    assert_eq!(
        fixture
            .other
            .claim(ClaimQuota::of(9))
            .await
            .expect("answered")
            .leases
            .len(),
        0
    );
    assert_eq!(fixture.lane_in_flight("shop").await, 1);
}

pub async fn a_lease_expires_after_its_time_and_not_before(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let entry = fixture.put("shop", "1", 0).await;
    fixture.turn_to(5);
    let first = fixture.claim_one().await;
    assert_eq!(first.expires_ms(), START_MS + 5 + LEASE_MS);
    assert_eq!(first.entry, entry);
    fixture.turn_to(5 + LEASE_MS - 1);
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    fixture.turn_to(5 + LEASE_MS);
    let second = fixture.claim_one().await;
    let returned = Entry {
        interrupted_ms: Some(START_MS + 5),
        verify: true,
        ..entry
    };
    assert_eq!(second.entry, returned);
    assert_eq!(second.expires_ms(), START_MS + 5 + 2 * LEASE_MS);
    assert_eq!(fixture.lane_in_flight("shop").await, 1);
}

pub async fn an_interruption_is_told_until_an_attempt_is_settled(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 0).await;
    fixture.claim_one().await;
    fixture.turn_to(LEASE_MS);
    let lease = fixture.claim_one().await;
    assert!(fixture.entry("1").await.interrupted_ms.is_some());
    fixture.done(&lease, Settlement::Release).await;
    let lease = fixture.claim_one().await;
    assert!(
        lease.entry.interrupted_ms.is_some() && lease.entry.verify,
        "released"
    );
    fixture.done(&lease, again(&lease, LEASE_MS + 1)).await;
    fixture.turn_to(LEASE_MS + 1);
    let lease = fixture.claim_one().await;
    assert!(
        lease.entry.interrupted_ms.is_none() && !lease.entry.verify,
        "settled"
    );
}

pub async fn an_entry_to_verify_stays_so_until_an_attempt_is_settled(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    let entry = Entry {
        verify: true,
        ..entry("shop", "1", 0)
    };
    fixture.register(entry).await;
    let lease = fixture.claim_one().await;
    assert!(lease.entry.verify && lease.entry.interrupted_ms.is_none());
    fixture.done(&lease, Settlement::Release).await;
    let lease = fixture.claim_one().await;
    assert!(lease.entry.verify && lease.entry.interrupted_ms.is_none());
    fixture.done(&lease, again(&lease, 0)).await;
    assert!(!fixture.claim_one().await.entry.verify);
}

pub async fn a_renewed_lease_begins_anew(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 0).await;
    let first = fixture.claim_one().await;
    fixture.turn_to(LEASE_MS - 1);
    let renewed = fixture.schedule.renew(&first).await.expect("answered");
    let expected = Expiry {
        at_ms: START_MS + 2 * LEASE_MS - 1,
        number: first.expiry().number,
    };
    assert_eq!(renewed, Some(expected), "with its own number");
    fixture.turn_to(2 * LEASE_MS - 2);
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    assert_eq!(
        fixture.settle(&first, Settlement::Release).await,
        Settled::Lost
    );
    let second = with_expiry(&first, expected);
    fixture.done(&second, again(&second, 0)).await;
    assert_eq!(fixture.lane_in_flight("shop").await, 0);
}

pub async fn a_lost_lease_is_not_renewed(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 0).await;
    let lost = fixture.claim_one().await;
    fixture.turn_to(LEASE_MS);
    let held = fixture.claim_one().await;
    assert_eq!(fixture.schedule.renew(&lost).await.expect("answered"), None);
    fixture
        .done(&held, end(&held, State::Delivered, LEASE_MS))
        .await;
    assert_eq!(fixture.schedule.renew(&held).await.expect("answered"), None);
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
}

pub async fn again_puts_it_back_with_new_progress(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let entry = fixture.put("shop", "1", 0).await;
    let lease = fixture.claim_one().await;
    fixture.done(&lease, again(&lease, 70)).await;
    let progress = next_step(&lease, 70);
    let expected = Entry { progress, ..entry };
    let found = FoundEntry {
        entry: expected.clone(),
        in_flight: false,
    };
    assert_eq!(fixture.find("1").await, Some(found));
    assert_eq!(fixture.lane_in_flight("shop").await, 0);
    fixture.turn_to(69);
    let claimed = fixture.claim(9).await;
    assert_eq!(ids(&claimed.leases), [""; 0]);
    assert_eq!(claimed.next_due_ms, Some(START_MS + 70));
    fixture.turn_to(70);
    assert_eq!(fixture.claim_one().await.entry, expected);
}

pub async fn release_puts_it_back_as_it_was(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let entry = fixture.put("shop", "2", 0).await;
    fixture.put("shop", "1", 10).await;
    fixture.turn_to(20);
    let lease = fixture.claim_one().await;
    fixture.done(&lease, Settlement::Release).await;
    assert_eq!(fixture.entry("2").await, entry);
    assert_eq!(fixture.lane_in_flight("shop").await, 0);
    assert_eq!(fixture.claim_ids(9).await, ["2", "1"], "still due longest");
}

pub async fn recheck_puts_it_back_to_be_fenced(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let entry = fixture.put("shop", "1", 0).await;
    let lease = fixture.claim_one().await;
    fixture.done(&lease, Settlement::Recheck).await;
    let lease = fixture.claim_one().await;
    assert_eq!(lease.entry, to_fence(entry));
    fixture.done(&lease, Settlement::Release).await;
    let lease = fixture.claim_one().await;
    assert!(lease.entry.verify && lease.entry.raise_fence, "released");
    fixture.done(&lease, again(&lease, 0)).await;
    let lease = fixture.claim_one().await;
    assert!(!lease.entry.verify && !lease.entry.raise_fence, "settled");
}

pub async fn a_settlement_after_the_lease_was_returned_changes_nothing(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    for way in WAYS {
        for limits in [LIMITS, REMEMBERING] {
            let fixture = open(limits).await;
            fixture.put("shop", "1", 0).await;
            let late = fixture.claim_one().await;
            fixture.turn_to(LEASE_MS);
            fixture.claim(0).await;
            let current = fixture.claim_one().await;
            let before = (fixture.find("1").await, fixture.counts().await);
            assert_eq!(fixture.settle(&late, way(&late)).await, Settled::Lost);
            let after = (fixture.find("1").await, fixture.counts().await);
            assert_eq!(after, before);
            fixture.done(&current, again(&current, 0)).await;
            let before = (fixture.find("1").await, fixture.counts().await);
            for stale in [&late, &current] {
                assert_eq!(fixture.settle(stale, way(stale)).await, Settled::Lost);
            }
            let after = (fixture.find("1").await, fixture.counts().await);
            assert_eq!(after, before);
            assert_eq!(fixture.lane_in_flight("shop").await, 0);
        }
    }
}

pub async fn a_lease_that_expired_unnoticed_still_settles(open: impl AsyncFn(Limits) -> Fixture) {
    for way in WAYS {
        let fixture = open(LIMITS).await;
        fixture.put("shop", "1", 0).await;
        let lease = fixture.claim_one().await;
        fixture.turn_to(LEASE_MS + 1);
        assert!(fixture.find("1").await.expect("here").in_flight);
        fixture.done(&lease, way(&lease)).await;
        assert_eq!(fixture.lane_in_flight("shop").await, 0);
        assert_eq!(fixture.counts().await.in_flight, 0);
    }
}

pub async fn settling_twice_changes_nothing_the_second_time(open: impl AsyncFn(Limits) -> Fixture) {
    for way in WAYS {
        for limits in [LIMITS, REMEMBERING] {
            let fixture = open(limits).await;
            fixture.put("shop", "1", 0).await;
            fixture.put("shop", "2", 0).await;
            let lease = fixture.claim_one().await;
            fixture.done(&lease, way(&lease)).await;
            let before = (fixture.find("1").await, fixture.counts().await);
            for second in WAYS {
                assert_eq!(fixture.settle(&lease, second(&lease)).await, Settled::Lost);
            }
            let after = (fixture.find("1").await, fixture.counts().await);
            assert_eq!(after, before);
            assert_eq!(fixture.lane_in_flight("shop").await, 0);
        }
    }
}

pub async fn a_settlement_needs_the_very_expiry(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 0).await;
    let lease = fixture.claim_one().await;
    let Expiry { at_ms, number } = lease.expiry();
    let others = [
        (at_ms - 1, number),
        (at_ms + 1, number),
        (at_ms, (number + 1) % Expiry::NUMBERS),
        (at_ms, (number + Expiry::NUMBERS - 1) % Expiry::NUMBERS),
        (0, number),
        (i64::MAX, number),
    ];
    for (at_ms, number) in others {
        let forged = with_expiry(&lease, Expiry { at_ms, number });
        for way in WAYS {
            assert_eq!(fixture.settle(&forged, way(&forged)).await, Settled::Lost);
        }
    }
    assert!(fixture.find("1").await.expect("here").in_flight);
    fixture.done(&lease, again(&lease, 0)).await;
}

pub async fn leases_of_one_millisecond_are_told_apart(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(REMEMBERING).await;
    fixture.put("shop", "1", 0).await;
    let mut earlier: Vec<Lease> = Vec::new();
    for turn in 0..20 {
        // By turns for an attempt and by hand; where their times differ, the expiries do anyhow.
        let lease = match turn % 3 {
            2 => fixture.lease_by_hand("1").await,
            _ => fixture.claim_one().await,
        };
        for lost in &earlier {
            assert_ne!(lost.expiry(), lease.expiry());
            for way in WAYS {
                assert_eq!(fixture.settle(lost, way(lost)).await, Settled::Lost);
            }
            let renewed = fixture.schedule.renew(lost).await.expect("answered");
            assert_eq!(renewed, None);
        }
        fixture.done(&lease, Settlement::Release).await;
        earlier.push(lease);
    }
}

pub async fn of_concurrent_settlements_one_is_done(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 0).await;
    let lease = fixture.claim_one().await;
    let (here, there) = tokio::join!(
        fixture.schedule.settle(lease.clone(), again(&lease, 70)),
        fixture
            .other
            .settle(lease.clone(), end(&lease, State::Delivered, 0)),
    );
    let settled = [here.expect("answered"), there.expect("answered")];
    assert!(settled.contains(&Settled::Done) && settled.contains(&Settled::Lost));
    assert_eq!(fixture.lane_in_flight("shop").await, 0);
}

pub async fn another_instance_can_settle(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.put("shop", "1", 0).await;
    let lease = fixture.claim_one().await;
    let settled = fixture.other.settle(lease.clone(), again(&lease, 0)).await;
    assert_eq!(settled.expect("answered"), Settled::Done);
    assert_eq!(fixture.claim_ids(9).await, ["1"]);
}

pub async fn many_expired_leases_all_come_back(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    for lane in 0..10 {
        fixture.put_many(&format!("lane-{lane}"), 60, 0).await;
    }
    assert_eq!(fixture.claim_all(600).await.len(), 600);
    fixture.turn_to(LEASE_MS);
    let mut seen = HashSet::new();
    // One call returns a bounded number; as long as there are more it says so.
    for _ in 0..30 {
        let claimed = fixture.claim(100).await;
        assert!(
            claimed
                .leases
                .iter()
                .all(|lease| lease.entry.interrupted_ms.is_some())
        );
        for lease in &claimed.leases {
            assert!(seen.insert(id(lease)), "{} twice", id(lease));
        }
        if claimed
            .next_due_ms
            .is_none_or(|next_ms| next_ms > START_MS + LEASE_MS)
        {
            break;
        }
    }
    assert_eq!(seen.len(), 600);
}

#[tokio::test]
async fn in_redis_an_entry_to_verify_is_claimed_a_little_before_it_is_due() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    fixture.put("shop", "at once", 1_000).await;
    let restored = [to_verify(entry("shop", "restored", 1_000))];
    assert_eq!(fixture.restore(&restored).await, (1, 0));
    let registered = to_verify(entry("other", "registered", 1_000));
    fixture.register(registered).await;
    let early_ms = 1_000 - CLAIMED_EARLY_MS;
    let claimed = fixture.claim(3).await;
    assert!(claimed.leases.is_empty());
    assert_eq!(claimed.next_due_ms, Some(START_MS + early_ms));
    fixture.turn_to(early_ms - 1);
    assert!(fixture.claim(3).await.leases.is_empty());
    fixture.turn_to(early_ms);
    let claimed = fixture.claim(3).await;
    let mut found = ids(&claimed.leases);
    found.sort();
    assert_eq!(found, ["registered", "restored"]);
    assert_eq!(claimed.next_due_ms, Some(START_MS + 1_000));
    let lease = &claimed.leases[0];
    assert_eq!(lease.expires_ms(), START_MS + early_ms + LEASE_MS);
    let due_ms = lease.entry.progress.next_due_ms();
    assert_eq!(due_ms, START_MS + 1_000, "its ladder does not change");
    // Whoever gives it back has not asked the journal, or not sent it.
    fixture.done(lease, Settlement::Release).await;
    assert!(fixture.claim(3).await.leases.is_empty());
    fixture.turn_to(1_000);
    assert_eq!(fixture.claim(3).await.leases.len(), 2);
}
