//! Leases by hand whose replies get lost, and that Redis is asked for too late.

use super::fixture::*;
use super::late::{Scene, put};
use crate::support::proxy::{Cut, Proxy};
use crate::support::redis::RedisServer;
use ringback::clock::{Clock, ManualClock, SystemClock};
use ringback::schedule::recoverable::Recoverable;
use ringback::schedule::redis::{RedisSchedule, Time};
use ringback::schedule::{
    CHANGE_LEASE_MS, HAND_LEASE_WAIT_MS, KnownToJournal, LeaseRequest, LeasedOne, Reservation,
    ScheduleError, Settled, Settlement,
};
use ringback::schedule::{ScheduleLeases as _, ScheduleReads as _};
use std::sync::Arc;

#[tokio::test]
async fn a_lease_by_hand_whose_reply_was_lost_is_given_again() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start(server.address());
    let scene = Scene::at(format!("redis://{}/0", proxy.address()));
    let schedule = scene.ready().await;
    put(&schedule, "shop", "here").await;
    // The server knows the script from now on.
    let missing = schedule.lease_one(&LeaseRequest::new(place("x"))).await;
    assert!(matches!(missing, Ok(LeasedOne::Missing)), "{missing:?}");
    for request in [known("here"), known("nowhere")] {
        let name = request.entry.key.to_string();
        proxy.cut(Cut::To(name.into_bytes()), 0, 1);
        // The call is sent again by itself.
        let one = schedule.lease_one(&request).await.expect("answered");
        proxy.has_cut().await;
        let expiry = match &one {
            LeasedOne::Leased(lease) => lease.expiry(),
            LeasedOne::Reserved(lease) => lease.expiry(),
            other => panic!("{other:?}"),
        };
        assert_eq!(expiry.at_ms, START_MS + CHANGE_LEASE_MS);
    }
    let counts = schedule.counts().await.expect("counted");
    assert_eq!((counts.pending, counts.in_flight), (1, 2), "no lease twice");
}

#[tokio::test]
async fn a_lease_by_hand_that_its_caller_gave_up_is_given_to_the_same_request() {
    let redis = RedisServer::start(&[]);
    let scene = Scene::at(redis.url(0));
    let (schedule, other) = (scene.ready().await, scene.ready().await);
    put(&schedule, "shop", "here").await;
    // The server knows the script from now on.
    let missing = schedule.lease_one(&LeaseRequest::new(place("x"))).await;
    assert!(matches!(missing, Ok(LeasedOne::Missing)), "{missing:?}");
    for id in ["here", "nowhere"] {
        let request = known(id);
        redis.pause().await;
        let given_up = schedule.lease_one(&request).await;
        assert!(
            matches!(given_up, Err(ScheduleError::Unavailable(_))),
            "{given_up:?}"
        );
        redis.resume();
        // It has been executed by the time that its own server has asked for something else.
        schedule.check().await.expect("it works");
        let another = other.lease_one(&known(id)).await;
        assert!(matches!(another, Ok(LeasedOne::Changing)), "{another:?}");
        match schedule.lease_one(&request).await.expect("answered") {
            LeasedOne::Leased(lease) => {
                let settled = schedule.settle(*lease, Settlement::Release).await;
                assert_eq!(settled.expect("answered"), Settled::Done);
            }
            LeasedOne::Reserved(lease) => {
                let settled = schedule.end_reservation(lease, Reservation::Forget).await;
                assert_eq!(settled.expect("answered"), Settled::Done);
            }
            other => panic!("{other:?}"),
        }
        let another = other.lease_one(&known(id)).await.expect("answered");
        assert!(
            matches!(another, LeasedOne::Leased(_) | LeasedOne::Reserved(_)),
            "{another:?}"
        );
    }
}

#[tokio::test]
async fn a_request_for_a_lease_that_redis_gets_too_late_does_nothing() {
    let mut scene = Scene::new();
    scene.options.time = Time::Server;
    let open = |clock: Arc<dyn Clock>| RedisSchedule::open(&scene.options, clock).expect("a url");
    let (prompt, now_ms) = (open(Arc::new(SystemClock)), SystemClock.now_ms());
    prompt.inspect(false).await.expect("looked");
    let entry = accepted_at(entry("shop", "here", 0), now_ms + 60_000);
    prompt.register(entry).await.expect("registered");
    let mut nowhere = known("nowhere");
    nowhere.known = nowhere.known.map(|known| KnownToJournal {
        registered_ms: now_ms - HAND_LEASE_WAIT_MS - 1,
        ..known
    });
    for request in [known("here"), nowhere] {
        // Until its first reply it takes Redis for ten seconds behind, so it sends what Redis gets
        // ten seconds later.
        let slow = open(Arc::new(ManualClock::at(SystemClock.now_ms() - 10_000)));
        slow.inspect(false).await.expect("looked");
        let late = slow.lease_one(&request).await;
        assert!(
            matches!(late, Err(ScheduleError::Unavailable(_))),
            "{late:?}"
        );
        let counts = prompt.counts().await.expect("counted");
        assert_eq!(counts.in_flight, 0, "{}", request.entry.key);
        let one = slow.lease_one(&request).await.expect("answered");
        match one {
            LeasedOne::Leased(lease) => {
                let settled = slow.settle(*lease, Settlement::Release).await;
                assert_eq!(settled.expect("answered"), Settled::Done);
            }
            LeasedOne::Reserved(lease) => {
                let settled = slow.end_reservation(lease, Reservation::Forget).await;
                assert_eq!(settled.expect("answered"), Settled::Done);
            }
            other => panic!("{other:?}"),
        }
    }
}
