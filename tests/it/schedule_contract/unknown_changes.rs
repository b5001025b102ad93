//! A reserved key whose change by hand has no known end: it may be written yet, so whatever comes
//! under that key has it refused first.

use super::fixture::*;
use super::reserving::WAYS_IN;
use ringback::domain::lease::LeaseToken;
use ringback::domain::state::State;
use ringback::schedule::{
    CHANGE_LEASE_MS, FoundEntry, LeaseRequest, LeasedOne, Limits, Reservation, Settlement,
};

/// How a reservation ends without a word of what became of the change.
#[derive(Debug, Clone, Copy)]
enum Unknown {
    Rechecked,
    Expired,
    /// It expired, and the same request came again and was given back.
    AskedForTooLate,
}

const UNKNOWN: [Unknown; 3] = [
    Unknown::Rechecked,
    Unknown::Expired,
    Unknown::AskedForTooLate,
];

impl Fixture {
    /// Ends one as unknown. `request` is what brought it.
    async fn leave_unknown(&self, how: Unknown, request: &LeaseRequest, lease: &LeaseToken) {
        if let Unknown::Expired | Unknown::AskedForTooLate = how {
            self.turn_to(lease.expiry().at_ms - START_MS);
        }
        match how {
            Unknown::Rechecked => self.end_with(lease, Reservation::Recheck).await,
            Unknown::Expired => drop(self.claim(0).await),
            Unknown::AskedForTooLate => match self.ask(request).await {
                LeasedOne::Reserved(again) => self.end_with(&again, Reservation::Recheck).await,
                one => self.done(&leased(one), Settlement::Release).await,
            },
        }
        assert_eq!(self.counts().await.in_flight, 0, "{how:?}");
        self.check_lost(lease).await;
    }
}

pub async fn what_waited_for_a_change_of_unknown_end_is_fenced(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    for how in UNKNOWN {
        for way in WAYS_IN {
            let fixture = open(LIMITS).await;
            let request = known("1");
            let lease = reserved(fixture.ask(&request).await);
            let entry = entry("shop", "1", 0);
            fixture.put_in(way, &entry).await;
            fixture.leave_unknown(how, &request, &lease).await;
            let found = FoundEntry {
                entry: to_fence(entry.clone()),
                in_flight: false,
            };
            assert_eq!(fixture.find("1").await, Some(found), "{how:?} {way:?}");
            let lease = fixture.claim_one().await;
            assert_eq!(lease.entry, to_fence(entry), "{how:?} {way:?}");
            fixture.done(&lease, again(&lease, 0)).await;
            let lease = fixture.claim_one().await;
            assert!(!lease.entry.verify && !lease.entry.raise_fence, "settled");
            assert_eq!(fixture.lane_in_flight("shop").await, 1);
        }
    }
}

pub async fn what_comes_after_a_change_of_unknown_end_is_fenced(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    for how in UNKNOWN {
        for way in WAYS_IN {
            let fixture = open(LIMITS).await;
            let request = known("1");
            let lease = reserved(fixture.ask(&request).await);
            fixture.leave_unknown(how, &request, &lease).await;
            let one = fixture.lease_one("1").await;
            assert!(matches!(one, LeasedOne::Missing), "{how:?}: {one:?}");
            let first = entry("shop", "1", 0);
            fixture.put_in(way, &first).await;
            let expected = to_fence(first);
            assert_eq!(fixture.claim_one().await.entry, expected, "{how:?} {way:?}");
            // Another key has nothing to do with it.
            let other = fixture.put("shop", "2", 0).await;
            let lease = fixture.claim_one().await;
            assert_eq!(lease.entry, other);
        }
    }
}

pub async fn what_is_fenced_once_is_not_fenced_again(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    fixture.reserve("1").await;
    fixture.turn_to(CHANGE_LEASE_MS);
    fixture.claim(0).await;
    fixture.put("shop", "1", 0).await;
    let lease = fixture.claim_one().await;
    assert!(lease.entry.raise_fence);
    fixture.done(&lease, end(&lease, State::Delivered, 1)).await;
    let next = fixture.put("shop", "1", 0).await;
    assert_eq!(fixture.claim_one().await.entry, next);
}

pub async fn a_change_of_unknown_end_is_told_to_the_next_but_one(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    // The next one gives its lease back, and has not asked the journal to refuse the first.
    for how in UNKNOWN {
        let fixture = open(LIMITS).await;
        fixture.reserve("1").await;
        fixture.turn_to(CHANGE_LEASE_MS);
        let request = known("1");
        let lease = reserved(fixture.ask(&request).await);
        fixture.leave_unknown(how, &request, &lease).await;
        let entry = fixture.put("shop", "1", 0).await;
        assert_eq!(fixture.claim_one().await.entry, to_fence(entry), "{how:?}");
    }
}

pub async fn after_a_change_of_known_end_none_is_unknown(open: impl AsyncFn(Limits) -> Fixture) {
    for put in [false, true] {
        let fixture = open(LIMITS).await;
        fixture.reserve("1").await;
        fixture.turn_to(CHANGE_LEASE_MS);
        let lease = fixture.reserve("1").await;
        let entry = entry("shop", "1", 0);
        if put {
            let put = Reservation::Put(Box::new(entry.clone()));
            fixture.end_with(&lease, put).await;
        } else {
            fixture.end_with(&lease, Reservation::Forget).await;
            fixture.register(entry.clone()).await;
        }
        assert_eq!(fixture.claim_one().await.entry, entry, "put: {put}");
    }
}
