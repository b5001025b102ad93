//! A Redis in which something is or may be missing: what is told of it, and who sees to it.

use super::damage::{GARBAGE, lane_key, scene};
use super::fixture::*;
use super::losing::{Server, Words, check_refused, look, put};
use super::redis::command;
use crate::support::redis::RedisServer;
use crate::support::within;
use ringback::clock::ManualClock;
use ringback::schedule::recoverable::{Inspection, LoadReason, Recoverable};
use ringback::schedule::redis::Options;
use ringback::schedule::{
    CHANGE_LEASE_MS, ClaimQuota, KnownToJournal, LeaseRequest, LeasedOne, Settled, Settlement,
};
use ringback::schedule::{ScheduleLeases as _, ScheduleMaintenance as _};

#[tokio::test]
async fn while_something_is_or_may_be_missing_the_journal_is_asked_about_what_is_older() {
    let server = Server::new();
    let schedule = server.ready().await;
    server.clock.turn_to(START_MS + 100);
    server.flush().await;
    check_refused(&schedule).await;
    assert_eq!(look(&schedule).await, Inspection::ToLoad(LoadReason::Lost));
    for (id, accepted_ms) in [("before", 99), ("at", 10_100), ("after", 10_101)] {
        let entry = accepted_at(entry(id, id, 0), START_MS + accepted_ms);
        schedule.register(entry).await.expect("registered");
    }
    let claim = async || {
        let mut leases = schedule
            .claim(ClaimQuota::of(9))
            .await
            .expect("claimed")
            .leases;
        leases.sort_by_key(id);
        let mut marked = Vec::new();
        for lease in leases {
            assert_eq!(lease.entry.verify, lease.entry.raise_fence);
            marked.push((id(&lease), lease.entry.verify));
            let settled = schedule.settle(lease, Settlement::Release).await;
            assert_eq!(settled.expect("answered"), Settled::Done);
        }
        marked
    };
    let marked = |verify| {
        let of = |id: &str, verify| (id.to_string(), verify);
        [of("after", false), of("at", verify), of("before", verify)]
    };
    assert_eq!(claim().await, marked(true));
    assert!(schedule.finish_loading().await.expect("heard"));
    assert_eq!(
        claim().await,
        marked(true),
        "a call that lost its lease may be in flight"
    );
    server.clock.turn_to(START_MS + 100 + LEASE_MS - 1);
    assert_eq!(claim().await, marked(true), "still");
    server.clock.turn_to(START_MS + 100 + LEASE_MS);
    assert_eq!(claim().await, marked(false), "it has ended");
}

#[tokio::test]
async fn what_may_have_been_in_flight_when_leases_were_lost_is_told() {
    let server = Server::new();
    let schedule = server.ready().await;
    let lost_ms = 100;
    // The server that holds it now may be behind the one that held it before.
    let later_ms = lost_ms + 10_001;
    server.clock.turn_to(START_MS + lost_ms);
    server.flush().await;
    check_refused(&schedule).await;
    assert_eq!(look(&schedule).await, Inspection::ToLoad(LoadReason::Lost));
    for (id, due_ms) in [("due", lost_ms), ("later", later_ms)] {
        let entries = [to_verify(entry("shop", id, due_ms))];
        schedule.restore(&entries).await.expect("restored");
    }
    assert!(schedule.finish_loading().await.expect("heard"));
    let asks = |id: &str, due_ms: Option<i64>| {
        let mut request = known(id);
        request.known = request.known.map(|known| KnownToJournal {
            due_ms: due_ms.map(|due_ms| START_MS + due_ms),
            ..known
        });
        request
    };
    let (due, later) = (
        LeaseRequest::new(place("due")),
        LeaseRequest::new(place("later")),
    );
    for after_ms in [lost_ms, lost_ms + LEASE_MS - 1] {
        server.clock.turn_to(START_MS + after_ms);
        for request in [&due, &asks("due, elsewhere", Some(lost_ms))] {
            let one = schedule.ask(request).await;
            assert!(matches!(one, LeasedOne::MayBeInFlight), "{one:?}");
        }
        let repairing = leased(schedule.ask(&LeaseRequest::for_repair(place("due"))).await);
        let settled = schedule.settle(repairing, Settlement::Release).await;
        assert_eq!(settled.expect("answered"), Settled::Done);
        for one in [
            schedule.ask(&asks("later, elsewhere", Some(later_ms))),
            schedule.ask(&asks("ended", None)),
        ] {
            reserved(one.await);
        }
        leased(schedule.ask(&later).await);
        let one = schedule
            .ask(&LeaseRequest::new(place("nobody knows")))
            .await;
        assert!(matches!(one, LeasedOne::Missing), "{one:?}");
    }
    server
        .clock
        .turn_to(START_MS + lost_ms + LEASE_MS + CHANGE_LEASE_MS);
    leased(schedule.ask(&due).await);
    reserved(schedule.ask(&asks("due, elsewhere", Some(lost_ms))).await);
}

#[tokio::test]
async fn a_call_that_finds_something_missing_has_it_compared() {
    let server = Server::new();
    let schedule = server.ready().await;
    for id in ["1", "2"] {
        put(&schedule, id).await.expect("registered");
    }
    let lane = format!("{{rb:0}}:lane:{}", lane_of("shop").as_str());
    command(&server.options.url, redis::cmd("DEL").arg(lane)).await;
    assert!(
        schedule
            .claim(ClaimQuota::of(9))
            .await
            .expect("claimed")
            .leases
            .is_empty()
    );
    within("the damage", schedule.wait_for_loss()).await;
    // Whoever looks first sees to it.
    assert_eq!(
        look(&schedule).await,
        Inspection::ToLoad(LoadReason::Damaged)
    );
    let reindexed = schedule.reindex(None, 9).await.expect("reindexed");
    assert_eq!((reindexed.reindexed, reindexed.next), (2, None));
    assert!(schedule.finish_loading().await.expect("heard"));
    assert_eq!(look(&schedule).await, Inspection::Whole);
    let mut leases = schedule
        .claim(ClaimQuota::of(9))
        .await
        .expect("claimed")
        .leases;
    leases.sort_by_key(id);
    let expected = ["1", "2"].map(|id| to_fence(entry("shop", id, 0)));
    let entries: Vec<_> = leases.into_iter().map(|lease| lease.entry).collect();
    assert_eq!(entries, expected, "a lease on them may have been lost");
    let reindexed = schedule.reindex(None, 9).await.expect("reindexed");
    assert_eq!(reindexed.reindexed, 0, "nothing is nowhere");
}

#[tokio::test]
async fn what_is_found_missing_while_it_is_filled_has_it_compared_again() {
    let server = Server::new();
    let (one, other) = (server.ready().await, server.ready().await);
    server.flush().await;
    check_refused(&one).await;
    assert_eq!(look(&one).await, Inspection::ToLoad(LoadReason::Lost));
    assert_eq!(look(&other).await, Inspection::Loading);
    put(&other, "1").await.expect("registered");
    let lane = format!("{{rb:0}}:lane:{}", lane_of("shop").as_str());
    command(&server.options.url, redis::cmd("DEL").arg(lane)).await;
    other.claim(ClaimQuota::of(9)).await.expect("claimed");
    assert!(
        one.report_loading().await.expect("heard"),
        "it is at it still"
    );
    assert!(
        !one.finish_loading().await.expect("heard"),
        "there is more to do"
    );
    assert_eq!(look(&other).await, Inspection::ToLoad(LoadReason::Damaged));
    assert_eq!(look(&one).await, Inspection::Loading);
    assert!(other.finish_loading().await.expect("heard"));
    assert_eq!(look(&one).await, Inspection::Whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_started_anew_is_compared() {
    let redis = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let server = Server {
        options: Options {
            url: redis.url(0),
            ..Server::new().options
        },
        clock: ManualClock::at(START_MS),
    };
    let (one, other) = (server.ready().await, server.ready().await);
    put(&one, "1").await.expect("registered");
    let redis = redis.restart(async {}).await;
    // It holds everything, and nobody can know.
    one.claim(ClaimQuota::of(0)).await.expect("claimed");
    within("the restart", one.wait_for_loss()).await;
    assert_eq!(look(&one).await, Inspection::ToLoad(LoadReason::Restarted));
    assert_eq!(look(&other).await, Inspection::Loading);
    assert!(one.finish_loading().await.expect("heard"));
    assert_eq!(look(&other).await, Inspection::Whole);
    let _redis = redis.restart(async {}).await;
    let started = server.instance();
    let found = look(&started).await;
    assert_eq!(
        found,
        Inspection::ToLoad(LoadReason::Restarted),
        "of an earlier run"
    );
    assert!(started.finish_loading().await.expect("heard"));
    assert_eq!(look(&started).await, Inspection::Whole);
    assert_eq!(started.claim_one().await.entry, entry("shop", "1", 0));
}

#[tokio::test]
async fn a_claim_that_misses_a_lane_or_all_of_them_has_it_compared() {
    for (lost, nowhere) in [(lane_key("lane", "shop"), 2), ("{rb:0}:lanes".into(), 3)] {
        for restored in [false, true] {
            let scene = scene(LIMITS).await;
            let fixture = &scene.fixture;
            let mut entries = Vec::new();
            for (lane, id, due_ms) in [("shop", "1", 0), ("shop", "2", 0), ("other", "3", 50)] {
                entries.push(to_verify(fixture.put(lane, id, due_ms).await));
            }
            scene.command(&["DEL", &lost]).await;
            let held = fixture.schedule.holds(&[place("1")]).await;
            assert_eq!(
                held.expect("answered"),
                [None],
                "{lost}: nothing brings it up"
            );
            assert_eq!(fixture.claim_ids(9).await, [""; 0], "{lost}");
            if restored {
                assert_eq!(fixture.restore(&entries).await, (nowhere, 0), "{lost}");
            }
            let reindexed = if restored { 0 } else { nowhere };
            assert_eq!(scene.reindexed().await, reindexed, "{lost}");
            fixture.turn_to(50);
            assert_eq!(fixture.claim_all(3).await.len(), 3, "{lost}");
        }
    }
}

#[tokio::test]
async fn a_lease_of_which_all_but_its_lane_is_lost_holds_nothing_up() {
    let scene = scene(capped(1)).await;
    let fixture = &scene.fixture;
    fixture.put("shop", "1", 0).await;
    fixture.put("shop", "2", 1).await;
    assert_eq!(fixture.claim_ids(9).await, ["1"]);
    scene.command(&["DEL", "{rb:0}:leases"]).await;
    scene.damage("1", None).await;
    fixture.turn_to(LEASE_MS);
    assert_eq!(fixture.claim_ids(9).await, ["2"]);
}

#[tokio::test]
async fn what_cannot_be_read_is_passed_over() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    fixture.put_many("shop", 3, 0).await;
    scene.damage("shop-0001", Some(GARBAGE)).await;
    let reindexed = scene.schedule.reindex(None, 9).await.expect("reindexed");
    assert_eq!((reindexed.reindexed, reindexed.next), (0, None));
    let scanned = fixture.schedule.scan(None, 9).await.expect("a page");
    let mut seen: Vec<&str> = (scanned.holdings.iter())
        .map(|(entry, _)| entry.key.id())
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, ["shop-0000", "shop-0002"]);
    let keys = ["shop-0000", "shop-0001", "shop-0002"].map(place);
    let held = fixture.schedule.holds(&keys).await.expect("answered");
    let held: Vec<bool> = held.iter().map(Option::is_some).collect();
    assert_eq!(held, [true, false, true]);
}
