//! Leasing a key of which nothing is here: what is put in under it meanwhile waits.

use super::fixture::*;
use bytes::Bytes;
use ringback::domain::key::Key;
use ringback::domain::lease::{Expiry, LeaseToken};
use ringback::domain::notification::Notification;
use ringback::schedule::{
    CHANGE_LEASE_MS, ClaimQuota, Entry, FoundEntry, HAND_LEASE_WAIT_MS, HeldProgress, Holding,
    LeasedOne, Limits, Registered, Reservation, Settled, Settlement,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How something gets in.
#[derive(Debug, Clone, Copy)]
pub enum PutIn {
    Registered,
    Restored,
}

pub const WAYS_IN: [PutIn; 2] = [PutIn::Registered, PutIn::Restored];

impl Fixture {
    pub async fn put_in(&self, how: PutIn, entry: &Entry) {
        match how {
            PutIn::Registered => {
                let registered = self.register(entry.clone()).await;
                assert_eq!(registered, Registered::Created);
            }
            PutIn::Restored => {
                let restored = self.restore(std::slice::from_ref(entry)).await;
                assert_eq!(restored, (1, 0));
            }
        }
    }

    pub async fn end_with(&self, lease: &LeaseToken, reservation: Reservation) {
        let settled = self.end_reservation(lease, reservation).await;
        assert_eq!(settled, Settled::Done);
    }

    /// That a lease is lost, however it is settled, and that this changes nothing.
    pub async fn check_lost(&self, lease: &LeaseToken) {
        let id = lease.key().id();
        let before = (self.find(id).await, self.counts().await);
        for reservation in [
            Reservation::Put(Box::new(entry("elsewhere", id, 0))),
            Reservation::Forget,
            Reservation::Recheck,
        ] {
            let settled = self.end_reservation(lease, reservation).await;
            assert_eq!(settled, Settled::Lost);
        }
        assert_eq!((self.find(id).await, self.counts().await), before);
    }
}

pub async fn what_is_not_here_is_reserved_if_the_journal_knows_it(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    let now_ms = 7;
    fixture.turn_to(now_ms);
    let one = fixture.lease_one("1").await;
    assert!(matches!(one, LeasedOne::Missing), "{one:?}");
    let arriving_ms = START_MS + now_ms - HAND_LEASE_WAIT_MS;
    for registered_ms in [arriving_ms, arriving_ms + 1, ACCEPTED_MS] {
        let one = fixture.ask(&accepted("1", registered_ms)).await;
        assert!(matches!(one, LeasedOne::Expected), "{one:?}");
    }
    assert_eq!(fixture.counts().await, Default::default());
    let lease = reserved(fixture.ask(&accepted("1", arriving_ms - 1)).await);
    assert_eq!(lease.key(), &key("1"));
    assert_eq!(lease.expiry().at_ms, START_MS + now_ms + CHANGE_LEASE_MS);
}

pub async fn a_reserved_key_is_nobody_elses(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(REMEMBERING).await;
    let lease = fixture.reserve("1").await;
    for after_ms in [0, CHANGE_LEASE_MS - 1] {
        fixture.turn_to(after_ms);
        for one in [
            fixture.lease_one("1").await,
            fixture.ask(&known("1")).await,
            fixture
                .other
                .lease_one(&known("1"))
                .await
                .expect("answered"),
            fixture.ask(&accepted("1", ACCEPTED_MS)).await,
        ] {
            assert!(matches!(one, LeasedOne::Changing), "{one:?}");
        }
    }
    assert_eq!(fixture.find("1").await, None);
    let keys = ["1", "2"].map(place);
    assert_eq!(
        fixture.schedule.holds(&keys).await.expect("answered"),
        [None, None]
    );
    let flags = fixture.schedule.in_flight(&keys).await.expect("answered");
    assert_eq!(flags, [true, false]);
    let counts = fixture.counts().await;
    assert_eq!((counts.pending, counts.in_flight, counts.dead), (0, 1, 0));
    let claimed = fixture.claim(9).await;
    assert_eq!(ids(&claimed.leases), [""; 0]);
    assert_eq!(claimed.next_due_ms, Some(START_MS + CHANGE_LEASE_MS));
    fixture.end_with(&lease, Reservation::Forget).await;
    assert_eq!(fixture.counts().await, Default::default());
    assert_eq!(fixture.claim(9).await.next_due_ms, None);
}

pub async fn a_reservation_asked_for_again_is_given_again(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let request = known("1");
    let first = reserved(fixture.ask(&request).await);
    let second = reserved(fixture.ask(&request).await);
    fixture.turn_to(100);
    let third = reserved(fixture.ask(&request.clone()).await);
    assert_eq!(third.expiry().at_ms, START_MS + 100 + CHANGE_LEASE_MS);
    assert_ne!(first.expiry(), second.expiry());
    assert_eq!(fixture.counts().await.in_flight, 1);
    fixture.turn_to(CHANGE_LEASE_MS);
    fixture.claim(1).await;
    for lost in [&first, &second] {
        fixture.check_lost(lost).await;
    }
    fixture.end_with(&third, Reservation::Forget).await;
    assert_eq!(fixture.counts().await.in_flight, 0);
}

pub async fn what_is_put_in_under_a_reservation_waits(open: impl AsyncFn(Limits) -> Fixture) {
    for way in WAYS_IN {
        let fixture = open(LIMITS).await;
        let lease = fixture.reserve("1").await;
        let entry = entry("shop", "1", 0);
        fixture.put_in(way, &entry).await;
        let found = FoundEntry {
            entry: to_verify(entry.clone()),
            in_flight: true,
        };
        assert_eq!(fixture.find("1").await, Some(found.clone()), "{way:?}");
        let holding = Holding {
            state: entry.state,
            progress: HeldProgress::Whole(entry.progress),
            in_flight: true,
        };
        let held = fixture
            .schedule
            .holds(&[place("1")])
            .await
            .expect("answered");
        assert_eq!(held, [Some(holding)]);
        let scanned = fixture.scan(9).await;
        assert_eq!(scanned, BTreeMap::from([(key("1"), holding)]));
        let counts = fixture.counts().await;
        assert_eq!((counts.pending, counts.in_flight), (1, 1));
        assert_eq!(fixture.lane_in_flight("shop").await, 0, "nothing is sent");
        fixture.turn_to(CHANGE_LEASE_MS - 1);
        assert_eq!(fixture.claim_ids(9).await, [""; 0], "{way:?}");
        for one in [fixture.lease_one("1").await, fixture.ask(&known("1")).await] {
            assert!(matches!(one, LeasedOne::Changing), "{way:?}: {one:?}");
        }
        // What is put in again changes nothing.
        let existing = Registered::Existing(Box::new(found));
        assert_eq!(fixture.register(with_other_content()).await, existing);
        assert_eq!(fixture.restore(&[with_other_content()]).await, (0, 0));
        fixture.end_with(&lease, Reservation::Recheck).await;
        assert_eq!(fixture.claim_one().await.entry, to_fence(entry), "{way:?}");
        assert_eq!(fixture.lane_in_flight("shop").await, 1);
    }
}

fn with_other_content() -> Entry {
    let mut notification = Notification::clone(&notification("elsewhere", "1"));
    notification.body = Bytes::from_static(b"other").into();
    Entry::scheduled(Arc::new(notification), due(-500))
}

pub async fn forget_drops_what_was_put_in(open: impl AsyncFn(Limits) -> Fixture) {
    for way in WAYS_IN {
        for limits in [LIMITS, REMEMBERING] {
            let fixture = open(limits).await;
            let lease = fixture.reserve("1").await;
            fixture.put_in(way, &entry("shop", "1", 0)).await;
            fixture.end_with(&lease, Reservation::Forget).await;
            assert_eq!(fixture.find("1").await, None);
            assert_eq!(fixture.counts().await, Default::default());
            fixture.turn_to(CHANGE_LEASE_MS);
            assert_eq!(fixture.claim_ids(9).await, [""; 0]);
            let page = fixture.schedule.scan(None, 9).await.expect("a page");
            assert_eq!(page.holdings, []);
            let next = fixture.put("shop", "1", 0).await;
            assert_eq!(fixture.claim_one().await.entry, next, "its key is free");
        }
    }
}

pub async fn put_replaces_what_was_put_in(open: impl AsyncFn(Limits) -> Fixture) {
    for arrived in [None, Some(PutIn::Registered), Some(PutIn::Restored)] {
        let fixture = open(LIMITS).await;
        let lease = fixture.reserve("1").await;
        if let Some(way) = arrived {
            fixture.put_in(way, &entry("shop", "1", 0)).await;
        }
        let by_hand = entry("shop", "1", 70);
        let put = Reservation::Put(Box::new(by_hand.clone()));
        fixture.end_with(&lease, put).await;
        let found = FoundEntry {
            entry: by_hand.clone(),
            in_flight: false,
        };
        assert_eq!(fixture.find("1").await, Some(found), "{arrived:?}");
        assert_eq!(fixture.counts().await.pending, 1);
        fixture.turn_to(69);
        let claimed = fixture.claim(9).await;
        assert_eq!(ids(&claimed.leases), [""; 0], "{arrived:?}");
        assert_eq!(claimed.next_due_ms, Some(START_MS + 70));
        fixture.turn_to(70);
        let lease = fixture.claim_one().await;
        assert_eq!(lease.entry, by_hand);
        fixture.done(&lease, again(&lease, 70)).await;
        assert_eq!(fixture.lane_in_flight("shop").await, 0);
    }
}

pub async fn a_reservation_that_expired_unnoticed_still_settles(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    for arrived in [false, true] {
        let fixture = open(LIMITS).await;
        let lease = fixture.reserve("1").await;
        fixture.turn_to(CHANGE_LEASE_MS + 1);
        if arrived {
            fixture.put("shop", "1", 0).await;
        }
        fixture.end_with(&lease, Reservation::Forget).await;
        assert_eq!(fixture.counts().await, Default::default());
        assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    }
}

pub async fn a_reservation_is_ended_once_by_its_own_lease(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let lease = fixture.reserve("1").await;
    let entry = fixture.put("shop", "1", 0).await;
    let Expiry { at_ms, number } = lease.expiry();
    for (at_ms, number) in [
        (at_ms - 1, number),
        (at_ms + 1, number),
        (at_ms, (number + 1) % Expiry::NUMBERS),
        (0, 0),
    ] {
        let forged = LeaseToken::granted(place("1"), Expiry { at_ms, number });
        fixture.check_lost(&forged).await;
    }
    let stranger = LeaseToken::granted(place("2"), lease.expiry());
    fixture.check_lost(&stranger).await;
    let put = Reservation::Put(Box::new(entry.clone()));
    fixture.end_with(&lease, put).await;
    fixture.check_lost(&lease).await;
    let by_hand = fixture.lease_by_hand("1").await;
    fixture.check_lost(&lease).await;
    fixture.done(&by_hand, Settlement::Release).await;
    assert_eq!(fixture.claim_one().await.entry, entry);
    fixture.check_lost(&lease).await;
}

pub async fn a_request_made_again_gets_what_was_put_in(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let request = known("1");
    let lost = reserved(fixture.ask(&request).await);
    let entry = fixture.put("shop", "1", 50).await;
    let lease = leased(fixture.ask(&request).await);
    assert_eq!(lease.entry, to_verify(entry.clone()));
    assert_eq!(lease.expires_ms(), START_MS + CHANGE_LEASE_MS);
    fixture.check_lost(&lost).await;
    assert_eq!(fixture.lane_in_flight("shop").await, 1);
    let again = leased(fixture.ask(&request).await);
    assert_eq!(fixture.lane_in_flight("shop").await, 1);
    fixture.turn_to(50);
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    assert_eq!(
        fixture.settle(&lease, Settlement::Release).await,
        Settled::Lost
    );
    fixture.done(&again, Settlement::Release).await;
    assert_eq!(fixture.claim_one().await.entry, to_verify(entry));
    assert_eq!(fixture.lane_in_flight("shop").await, 1);
}

pub async fn of_concurrent_requests_one_reserves(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    for id in ["1", "2", "3"] {
        let requests = [known(id), known(id), known(id)];
        let (one, two, three) = tokio::join!(
            fixture.schedule.lease_one(&requests[0]),
            fixture.other.lease_one(&requests[1]),
            fixture.schedule.lease_one(&requests[2]),
        );
        let mut reserved = 0;
        for one in [one, two, three] {
            match one.expect("answered") {
                LeasedOne::Reserved(_) => reserved += 1,
                LeasedOne::Changing => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(reserved, 1, "{id}");
    }
    assert_eq!(fixture.counts().await.in_flight, 3);
}

pub async fn of_concurrent_a_registration_waits_or_is_leased(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    for number in 0..10 {
        let id = number.to_string();
        let request = known(&id);
        let (one, registered, claimed) = tokio::join!(
            fixture.other.lease_one(&request),
            fixture.schedule.register(entry("shop", &id, 0)),
            fixture.other.claim(ClaimQuota::of(9)),
        );
        assert_eq!(registered.expect("registered"), Registered::Created);
        let claimed = claimed.expect("claimed").leases.len();
        match one.expect("answered") {
            LeasedOne::Reserved(_) | LeasedOne::Leased(_) => assert_eq!(claimed, 0, "{id}"),
            LeasedOne::InFlight => assert_eq!(claimed, 1, "{id}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(fixture.claim_ids(9).await, [""; 0], "{id}: leased, one way");
    }
    assert_eq!(fixture.counts().await.in_flight, 10);
}

pub async fn many_reservations_end_and_expire(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let ids: Vec<String> = (0..600).map(|number| format!("{number:04}")).collect();
    for id in &ids {
        fixture.reserve(id).await;
    }
    assert_eq!(fixture.counts().await.in_flight, 600);
    fixture.turn_to(CHANGE_LEASE_MS);
    // Whoever asks for one of them does not wait for all the others to be returned.
    let last = fixture.reserve("0599").await;
    let entries: Vec<Entry> = ids.iter().map(|id| entry("shop", id, 0)).collect();
    for _ in 0..3 {
        fixture.claim(0).await;
    }
    assert_eq!(fixture.counts().await.in_flight, 1);
    assert_eq!(fixture.restore(&entries).await, (600, 0));
    fixture.end_with(&last, Reservation::Recheck).await;
    let keys: Vec<Key> = ids.iter().map(|id| key(id)).collect();
    for key in &keys {
        let entry = fixture.entry(key.id()).await;
        assert!(entry.verify && entry.raise_fence, "{key}");
    }
}
