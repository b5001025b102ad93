//! Entries of which the journal has the content: while they wait, they are in their lanes alone.

use super::damage::{Scene, scene, scene_at};
use super::fixture::*;
use crate::support::proxy::{Cut, Proxy};
use crate::support::redis::RedisServer;
use ringback::clock::Clock as _;
use ringback::domain::lane::KeyInLane;
use ringback::domain::lease::LeaseToken;
use ringback::domain::order::{OrderMode, OrderPlace};
use ringback::domain::place::PlaceInLane;
use ringback::domain::priority::Priority;
use ringback::schedule::window::Window;
use ringback::schedule::{
    BareEntry, BareLease, CHANGE_LEASE_MS, CLAIMED_EARLY_MS, Entry, HeldProgress, Holding,
    LeasedOne, Limits, Registered, Reservation, Restored, Scanned, ScheduleMaintenance as _,
    ScheduleReads as _, Settled,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const WITH_WINDOW: Limits = Limits {
    window: Window::of(Duration::from_secs(3_600)),
    ..LIMITS
};
const DUE_MS: i64 = 1_000;

/// What a claim gives of an entry that was put in with nothing to note.
fn bare(id: &str, due_ms: i64) -> BareEntry {
    BareEntry {
        entry: place(id),
        due_ms: START_MS + due_ms - CLAIMED_EARLY_MS,
        interrupted_ms: None,
        raise_fence: false,
        was_put_off: false,
        lacked: None,
    }
}

fn is_due_at(holding: Option<Holding>, due_ms: i64) -> bool {
    let progress = HeldProgress::Due(START_MS + due_ms - CLAIMED_EARLY_MS);
    holding.is_some_and(|holding| holding.progress == progress && !holding.in_flight)
}

/// What is loaded of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loading {
    /// All but its body.
    Entry,
    /// Its place in its lane.
    Place,
}

const BOTH: [Loading; 2] = [Loading::Entry, Loading::Place];

impl Scene {
    /// A schedule with an entry that was loaded.
    async fn with_one(limits: Limits) -> Self {
        let scene = scene(limits).await;
        assert_eq!(scene.load(&[entry("shop", "1", DUE_MS)]).await, (1, 0));
        scene
    }

    async fn load(&self, entries: &[Entry]) -> (u64, u64) {
        self.fixture.restore(entries).await
    }

    async fn load_as(&self, loading: Loading, entries: &[Entry]) -> (u64, u64) {
        match loading {
            Loading::Entry => self.load(entries).await,
            Loading::Place => {
                let places: Vec<_> = entries.iter().map(place_of).collect();
                let restored = self.schedule.restore_places(&places).await;
                let Restored { missing, moved } = restored.expect("restored");
                (missing, moved)
            }
        }
    }

    async fn holding(&self, id: &str) -> Option<Holding> {
        let held = self.schedule.holds(&[place(id)]).await;
        held.expect("answered")[0]
    }

    /// How many entries have an envelope.
    async fn envelopes(&self) -> u64 {
        self.ask(&["HLEN", "{rb:0}:jobs"]).await
    }

    async fn claim_bare(&self, most: usize) -> Vec<BareLease> {
        let claimed = self.fixture.claim(most).await;
        assert_eq!(ids(&claimed.leases), [""; 0]);
        claimed.bare
    }

    async fn claim_one_bare(&self) -> BareLease {
        let mut claimed = self.claim_bare(9).await;
        assert_eq!(claimed.len(), 1, "{claimed:?}");
        claimed.remove(0)
    }

    async fn end(&self, lease: &LeaseToken, reservation: Reservation) {
        let ended = self.fixture.end_reservation(lease, reservation).await;
        assert_eq!(ended, Settled::Done);
    }
}

fn place_of(entry: &Entry) -> PlaceInLane {
    let notification = &entry.notification;
    PlaceInLane {
        entry: KeyInLane {
            key: notification.key.clone(),
            lane: notification.lane.clone(),
        },
        due_ms: entry.progress.next_due_ms(),
        priority: notification.priority,
    }
}

fn ids_of(leases: &[BareLease]) -> Vec<&str> {
    leases
        .iter()
        .map(|lease| lease.bare.entry.key.id())
        .collect()
}

#[tokio::test]
async fn what_was_loaded_is_in_its_lane_alone_until_it_is_claimed() {
    let scene = Scene::with_one(WITH_WINDOW).await;
    assert_eq!(scene.envelopes().await, 0);
    let counts = scene.fixture.counts().await;
    assert_eq!((counts.pending, counts.in_flight), (1, 0));
    assert!(is_due_at(scene.holding("1").await, DUE_MS));
    assert_eq!(scene.holding("2").await, None);
    assert_eq!(scene.fixture.find("1").await, None);

    // The journal is read before it is sent, so it comes a little earlier.
    scene.fixture.turn_to(DUE_MS - CLAIMED_EARLY_MS - 1);
    let claimed = scene.fixture.claim(9).await;
    assert!(claimed.bare.is_empty());
    let next_ms = START_MS + DUE_MS - CLAIMED_EARLY_MS;
    assert_eq!(claimed.next_due_ms, Some(next_ms));
    scene.fixture.turn_to(DUE_MS - CLAIMED_EARLY_MS);
    let lease = scene.claim_one_bare().await;
    assert_eq!(lease.bare, bare("1", DUE_MS));
    assert_eq!(lease.expires_ms(), scene.fixture.clock.now_ms() + LEASE_MS);
    let counts = scene.fixture.counts().await;
    assert_eq!((counts.pending, counts.in_flight), (1, 1));
    assert_eq!(scene.fixture.lane_in_flight("shop").await, 1);
    let holding = scene.holding("1").await.expect("leased");
    assert!(holding.in_flight);
    assert!(scene.claim_bare(9).await.is_empty());

    scene.end(&lease.token(), Reservation::Forget).await;
    let token = lease.token();
    let again = scene.fixture.end_reservation(&token, Reservation::Forget);
    assert_eq!(again.await, Settled::Lost);
    assert_eq!(scene.envelopes().await, 0);
    let counts = scene.fixture.counts().await;
    assert_eq!((counts.pending, counts.in_flight), (0, 0));
    assert_eq!(scene.fixture.lane_in_flight("shop").await, 0);
}

#[tokio::test]
async fn a_scan_finds_it_once_at_least_also_while_others_come_and_go() {
    let scene = scene(WITH_WINDOW).await;
    let mut all = Vec::new();
    for (lane, many) in [("large", 400), ("shop", 3), ("small", 1), ("other", 120)] {
        all.extend(
            (0..many).map(|number| entry(lane, &format!("{lane}-{number}"), DUE_MS + number)),
        );
    }
    assert_eq!(scene.load(&all).await, (all.len() as u64, 0));
    let here = scene.fixture.put("shop", "here", DUE_MS).await;
    for limit in [1, 7, 100, 1_000] {
        let (mut seen, mut cursor) = (BTreeMap::new(), None);
        let mut steps = 0;
        loop {
            let page = scene.schedule.scan(cursor.as_deref(), limit).await;
            let Scanned { holdings, next } = page.expect("a page");
            seen.extend(by_key(holdings));
            // The turns of the lanes change meanwhile.
            let passing = format!("passing-{limit}-{steps}");
            let passing = entry("passing", &passing, 0);
            assert_eq!(scene.load(std::slice::from_ref(&passing)).await, (1, 0));
            for lease in scene.claim_bare(9).await {
                scene.end(&lease.token(), Reservation::Forget).await;
            }
            steps += 1;
            match next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        for entry in &all {
            let key = &entry.notification.key;
            let holding = seen.get(key).copied();
            let due_ms = entry.progress.due_ms - START_MS;
            assert!(is_due_at(holding, due_ms), "{limit}, {key}: {holding:?}");
        }
        let whole = seen[&here.notification.key].progress;
        assert_eq!(whole, HeldProgress::Whole(here.progress));
    }
}

#[tokio::test]
async fn it_counts_against_the_limit_of_its_lane_until_its_lease_ends() {
    for ending in [
        Reservation::Forget,
        Reservation::Recheck,
        Reservation::Defer(START_MS + LEASE_MS),
        Reservation::Put(Box::new(entry("shop", "1", LEASE_MS))),
    ] {
        let limits = Limits {
            window: WITH_WINDOW.window,
            ..capped(1)
        };
        let scene = scene(limits).await;
        let both = [entry("shop", "1", DUE_MS), entry("shop", "2", DUE_MS + 1)];
        assert_eq!(scene.load(&both).await, (2, 0));
        scene.fixture.turn_to(DUE_MS + 1);
        let first = scene.claim_one_bare().await;
        assert_eq!(first.bare.entry, place("1"));
        assert!(scene.claim_bare(9).await.is_empty());
        scene.end(&first.token(), ending.clone()).await;
        assert_eq!(scene.fixture.lane_in_flight("shop").await, 0, "{ending:?}");
        let next = scene.claim_one_bare().await;
        match ending {
            // It goes before those that were due later.
            Reservation::Recheck => assert_eq!(next.bare.entry, place("1")),
            _ => assert_eq!(next.bare.entry, place("2")),
        }
    }
}

#[tokio::test]
async fn after_its_lease_has_expired_the_attempt_counts_as_interrupted() {
    let scene = Scene::with_one(WITH_WINDOW).await;
    scene.fixture.turn_to(DUE_MS);
    let lease = scene.claim_one_bare().await;
    scene.fixture.turn_to(DUE_MS + LEASE_MS);
    let again = scene.claim_one_bare().await;
    let interrupted = BareEntry {
        interrupted_ms: Some(START_MS + DUE_MS),
        ..bare("1", DUE_MS)
    };
    assert_eq!(again.bare, interrupted);
    let token = lease.token();
    let late = scene.fixture.end_reservation(&token, Reservation::Forget);
    assert_eq!(late.await, Settled::Lost);
    // What is put in under the lease keeps that.
    let put = Reservation::Recheck;
    scene.end(&again.token(), put).await;
    let third = scene.claim_one_bare().await;
    let both = BareEntry {
        raise_fence: true,
        ..interrupted
    };
    assert_eq!(third.bare, both);
}

#[tokio::test]
async fn it_is_put_off_and_moved() {
    for loading in BOTH {
        let scene = Scene::with_one(WITH_WINDOW).await;
        scene.fixture.turn_to(DUE_MS);
        let lease = scene.claim_one_bare().await;
        scene
            .end(&lease.token(), Reservation::Defer(START_MS + 5_000))
            .await;
        // The journal has it where it was, so nothing is moved.
        assert_eq!(
            scene.load_as(loading, &[entry("shop", "1", DUE_MS)]).await,
            (0, 0)
        );
        scene.fixture.turn_to(4_999);
        assert!(scene.claim_bare(9).await.is_empty());
        assert!(is_due_at(scene.holding("1").await, DUE_MS));
        // It was moved in the journal.
        assert_eq!(
            scene.load_as(loading, &[entry("shop", "1", 7_000)]).await,
            (0, 1)
        );
        scene.fixture.turn_to(7_000 - CLAIMED_EARLY_MS - 1);
        assert!(scene.claim_bare(9).await.is_empty());
        scene.fixture.turn_to(7_000 - CLAIMED_EARLY_MS);
        assert_eq!(scene.claim_one_bare().await.bare, bare("1", 7_000));
    }
}

#[tokio::test]
async fn loading_again_changes_only_what_differs() {
    for loading in BOTH {
        let scene = Scene::with_one(WITH_WINDOW).await;
        let all = |first_ms| {
            [
                entry("shop", "1", first_ms),
                entry("shop", "2", DUE_MS),
                entry("other", "3", DUE_MS),
            ]
        };
        assert_eq!(scene.load_as(loading, &all(DUE_MS)).await, (2, 0));
        assert_eq!(scene.load_as(loading, &all(DUE_MS)).await, (0, 0));
        assert_eq!(scene.load_as(loading, &all(500)).await, (0, 1));
        assert!(is_due_at(scene.holding("1").await, 500));
        // Its lane has its turn by then.
        scene.fixture.turn_to(500);
        let lease = scene.claim_one_bare().await;
        assert_eq!(lease.bare, bare("1", 500));
        // What is leased stays as it is.
        assert_eq!(scene.load_as(loading, &all(800)).await, (0, 0));
        scene.fixture.turn_to(800);
        assert!(scene.claim_bare(9).await.is_empty());
        scene.end(&lease.token(), Reservation::Forget).await;
        assert_eq!(scene.load_as(loading, &all(800)).await, (1, 0));
        assert_eq!(scene.claim_one_bare().await.bare, bare("1", 800));
    }
}

/// One script puts back what is of several lanes.
#[tokio::test]
async fn lanes_with_entries_that_are_here_in_different_ways_are_loaded_together() {
    for loading in BOTH {
        let scene = scene(WITH_WINDOW).await;
        let leased = entry("shop", "leased", 0);
        let lane_of_leased = std::slice::from_ref(&leased);
        assert_eq!(scene.load_as(loading, lane_of_leased).await, (1, 0));
        scene.claim_one_bare().await;
        let whole = scene.fixture.put("shop", "whole", DUE_MS).await;
        let moved = |due_ms| entry("shop", "moved", due_ms);
        assert_eq!(scene.load_as(loading, &[moved(5_000)]).await, (1, 0));
        let high = of_priority(entry("z", "high", DUE_MS + 2), Priority::High);
        let all = [
            entry("a", "a-later", 3_000),
            entry("a", "a", DUE_MS),
            leased.clone(),
            whole.clone(),
            moved(DUE_MS + 3),
            entry("shop", "missing", DUE_MS + 1),
            high,
            entry("z", "z", DUE_MS),
        ];
        assert_eq!(scene.load_as(loading, &all).await, (5, 1), "{loading:?}");
        assert_eq!(scene.load_as(loading, &all).await, (0, 0), "{loading:?}");
        assert_eq!(scene.fixture.entry("whole").await, whole);
        assert!(scene.holding("leased").await.expect("here").in_flight);
        scene.fixture.turn_to(DUE_MS + 3);
        let claimed = scene.fixture.claim(9).await;
        assert_eq!(ids(&claimed.leases), ["whole"]);
        let mut found = ids_of(&claimed.bare);
        let at = |id: &str| found.iter().position(|found| *found == id);
        assert!(at("high") < at("z"), "{found:?}");
        found.sort_unstable();
        assert_eq!(found, ["a", "high", "missing", "moved", "z"]);
        scene.fixture.turn_to(3_000);
        assert_eq!(ids_of(&scene.claim_bare(9).await), ["a-later"]);
    }
}

#[tokio::test]
async fn a_lane_that_was_lost_is_loaded_again() {
    for loading in BOTH {
        let scene = Scene::with_one(WITH_WINDOW).await;
        for lost in ["{rb:0}:lanes", "{rb:0}:lane:https://shop.example"] {
            scene.command(&["DEL", lost]).await;
            assert_eq!(scene.holding("1").await, None, "{lost}");
            scene.load_as(loading, &[entry("shop", "1", DUE_MS)]).await;
            assert!(is_due_at(scene.holding("1").await, DUE_MS), "{lost}");
        }
        scene.fixture.turn_to(DUE_MS);
        assert_eq!(scene.claim_one_bare().await.bare, bare("1", DUE_MS));
    }
}

#[tokio::test]
async fn a_change_by_hand_leases_its_key() {
    let scene = Scene::with_one(WITH_WINDOW).await;
    let request = known("1");
    let first = reserved(scene.fixture.ask(&request).await);
    let again = reserved(scene.fixture.ask(&request).await);
    assert_ne!(first.expiry(), again.expiry());
    for other in [
        scene.fixture.ask(&known("1")).await,
        scene.fixture.lease_one("1").await,
    ] {
        assert!(matches!(other, LeasedOne::Changing), "{other:?}");
    }
    scene.fixture.turn_to(DUE_MS);
    assert!(scene.claim_bare(9).await.is_empty());
    assert_eq!(scene.load(&[entry("shop", "1", DUE_MS)]).await, (0, 0));
    scene.end(&again, Reservation::Forget).await;
    assert!(scene.claim_bare(9).await.is_empty());
    assert_eq!(scene.envelopes().await, 0);
    assert_eq!(scene.holding("1").await, None);
}

#[tokio::test]
async fn after_a_change_by_hand_that_did_not_end_the_fence_is_raised() {
    for is_ended in [true, false] {
        let scene = Scene::with_one(WITH_WINDOW).await;
        let lease = reserved(scene.fixture.ask(&known("1")).await);
        match is_ended {
            true => scene.end(&lease, Reservation::Recheck).await,
            false => scene.fixture.turn_to(CHANGE_LEASE_MS),
        }
        scene.fixture.turn_to(CHANGE_LEASE_MS);
        let expected = BareEntry {
            raise_fence: true,
            ..bare("1", DUE_MS)
        };
        assert_eq!(scene.claim_one_bare().await.bare, expected, "{is_ended}");
    }
}

#[tokio::test]
async fn a_claimed_one_is_not_changed_by_hand() {
    let scene = Scene::with_one(WITH_WINDOW).await;
    scene.fixture.turn_to(DUE_MS);
    scene.claim_one_bare().await;
    let one = scene.fixture.ask(&known("1")).await;
    assert!(matches!(one, LeasedOne::InFlight), "{one:?}");
}

#[tokio::test]
async fn an_unknown_change_of_its_key_raises_the_fence() {
    for loading in BOTH {
        let scene = scene(WITH_WINDOW).await;
        let lease = scene.fixture.reserve("1").await;
        scene.end(&lease, Reservation::Recheck).await;
        assert_eq!(
            scene.load_as(loading, &[entry("shop", "1", DUE_MS)]).await,
            (1, 0)
        );
        scene.fixture.turn_to(DUE_MS);
        let expected = BareEntry {
            raise_fence: true,
            ..bare("1", DUE_MS)
        };
        assert_eq!(scene.claim_one_bare().await.bare, expected);
    }
}

#[tokio::test]
async fn what_is_loaded_under_a_lease_of_its_key_waits_for_its_end() {
    for loading in BOTH {
        let scene = scene(WITH_WINDOW).await;
        let lease = scene.fixture.reserve("1").await;
        assert_eq!(
            scene.load_as(loading, &[entry("shop", "1", 0)]).await,
            (1, 0)
        );
        assert!(scene.claim_bare(9).await.is_empty());
        scene.end(&lease, Reservation::Recheck).await;
        let claimed = scene.claim_one_bare().await;
        assert!(claimed.bare.raise_fence);
    }
}

#[tokio::test]
async fn a_registration_that_arrives_after_it_was_loaded_changes_nothing_it_should_not() {
    let scene = Scene::with_one(WITH_WINDOW).await;
    let one = entry("shop", "1", DUE_MS);
    // It waits: now its content is here, too.
    let registered = scene.fixture.register(one.clone()).await;
    assert_eq!(registered, Registered::Created);
    assert_eq!(scene.fixture.entry("1").await, one);
    assert_eq!(scene.fixture.counts().await.pending, 1);
    // It is leased already.
    assert_eq!(scene.load(&[entry("shop", "2", DUE_MS)]).await, (1, 0));
    scene.fixture.turn_to(DUE_MS);
    let claimed = scene.fixture.claim(9).await;
    assert_eq!(ids(&claimed.leases), ["1"]);
    assert_eq!(ids_of(&claimed.bare), ["2"]);
    let registered = scene.fixture.register(entry("shop", "2", DUE_MS)).await;
    assert_eq!(registered, Registered::Created);
    scene
        .end(&claimed.bare[0].token(), Reservation::Forget)
        .await;
    assert_eq!(scene.holding("2").await, None);
}

impl Scene {
    /// What a lane still has of a key that was registered for another lane since then: a journal that was restored from a
    /// backup may do so.
    async fn left_in_another_lane(left_due_ms: i64, due_ms: i64) -> (Self, Entry) {
        let scene = scene(WITH_WINDOW).await;
        let left = entry("shop", "1", left_due_ms);
        assert_eq!(scene.load_as(Loading::Place, &[left]).await, (1, 0));
        let moved = entry("mall", "1", due_ms);
        let registered = scene.fixture.register(moved.clone()).await;
        assert_eq!(registered, Registered::Created);
        scene.fixture.turn_to(10);
        (scene, moved)
    }
}

#[tokio::test]
async fn what_is_left_of_a_key_in_another_lane_is_not_leased_beside_its_entry() {
    for (left_due_ms, due_ms) in [(1, 2), (2, 1)] {
        let (scene, moved) = Scene::left_in_another_lane(left_due_ms, due_ms).await;
        let claimed = scene.fixture.claim(9).await;
        assert_eq!(ids_of(&claimed.bare), [""; 0]);
        assert_eq!(claimed.leases.len(), 1, "{claimed:?}");
        assert_eq!(claimed.leases[0].entry, moved);
        let counts = scene.fixture.counts().await;
        assert_eq!((counts.pending, counts.in_flight), (1, 1));
        let left: u64 = scene
            .ask(&["ZCARD", "{rb:0}:lane:https://shop.example"])
            .await;
        assert_eq!(left, 0);
        let state: String = scene.ask(&["HGET", "{rb:0}:meta", "state"]).await;
        assert_eq!(state, "whole");
    }
}

#[tokio::test]
async fn an_entry_that_only_another_lane_has_counts_as_damage() {
    let (scene, _) = Scene::left_in_another_lane(1, 2).await;
    // So the lane stays, and that it is missing shows nothing.
    let other = scene.fixture.register(entry("mall", "2", 60_000)).await;
    assert_eq!(other, Registered::Created);
    let lost = ["ZREM", "{rb:0}:lane:https://mall.example", "paid/1"];
    assert_eq!(scene.ask::<u64>(&lost).await, 1);
    assert_eq!(ids(&scene.fixture.claim(9).await.leases), [""; 0]);
    let state: String = scene.ask(&["HGET", "{rb:0}:meta", "state"]).await;
    assert_eq!(state, "damaged");
}

/// Which lane is right, the journal says.
#[tokio::test]
async fn what_two_lanes_have_bare_is_leased_in_one_after_the_other() {
    for (left_due_ms, due_ms) in [(1, 2), (2, 1), (1, 1), (1, 1_000), (1_000, 1)] {
        for first_expires in [false, true] {
            let scene = scene(WITH_WINDOW).await;
            let left = entry("shop", "1", left_due_ms);
            assert_eq!(scene.load_as(Loading::Place, &[left]).await, (1, 0));
            let right = entry("mall", "1", due_ms);
            assert_eq!(scene.load_as(Loading::Place, &[right]).await, (1, 0));
            let mut at_ms = 10;
            scene.fixture.turn_to(at_ms);
            if first_expires {
                assert_eq!(scene.claim_bare(9).await.len(), 1);
                assert_eq!(scene.claim_bare(9).await.len(), 0);
                at_ms += 2 * LEASE_MS;
                scene.fixture.turn_to(at_ms);
            }
            let mut lanes = Vec::new();
            for _ in 0..4 {
                let claimed = scene.claim_bare(9).await;
                assert!(claimed.len() <= 1, "{claimed:?}");
                at_ms += 1_000;
                scene.fixture.turn_to(at_ms);
                assert_eq!(scene.claim_bare(9).await.len(), 0, "it is leased");
                for lease in claimed {
                    lanes.push(lease.bare.entry.lane.to_string());
                    scene.end(&lease.token(), Reservation::Forget).await;
                }
                at_ms += 1_000;
                scene.fixture.turn_to(at_ms);
            }
            lanes.sort_unstable();
            let both = ["https://mall.example", "https://shop.example"];
            assert_eq!(lanes, both, "{left_due_ms} {due_ms} {first_expires}");
            assert_eq!(scene.envelopes().await, 0);
            assert_eq!(scene.fixture.counts().await.pending, 0);
        }
    }
}

#[tokio::test]
async fn priorities_hold_also_after_an_expiry() {
    for loading in BOTH {
        let scene = scene(WITH_WINDOW).await;
        let of = |id: &str, priority, due_ms| of_priority(entry("shop", id, due_ms), priority);
        let all = [
            of("low", Priority::Low, 1),
            of("normal", Priority::Normal, 2),
            of("high", Priority::High, 3),
        ];
        assert_eq!(scene.load_as(loading, &all).await, (3, 0));
        assert_eq!(scene.envelopes().await, 0);
        for (id, due_ms) in [("low", 1), ("normal", 2), ("high", 3)] {
            assert!(is_due_at(scene.holding(id).await, due_ms), "{id}");
        }
        for after_ms in [10, 10 + LEASE_MS] {
            scene.fixture.turn_to(after_ms);
            let mut claimed = scene.claim_bare(1).await;
            claimed.extend(scene.claim_bare(2).await);
            assert_eq!(ids_of(&claimed), ["high", "normal", "low"], "{after_ms}");
        }
    }
}

#[tokio::test]
async fn the_same_claim_gives_it_again() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start(server.address());
    let scene = scene_at(format!("redis://{}/0", proxy.address()), WITH_WINDOW).await;
    assert_eq!(
        scene
            .load(&[entry("shop", "1", DUE_MS), entry("shop", "2", 9_000)])
            .await,
        (2, 0)
    );
    scene.fixture.turn_to(DUE_MS);
    // The server knows the script from now on.
    let first = scene.claim_one_bare().await;
    scene.end(&first.token(), Reservation::Recheck).await;
    proxy.cut(Cut::To(b"{rb:0}:claim:".to_vec()), 0, 1);
    let lease = scene.claim_one_bare().await;
    proxy.has_cut().await;
    scene.end(&lease.token(), Reservation::Forget).await;
    assert!(scene.claim_bare(9).await.is_empty());
}

#[tokio::test]
async fn what_a_claim_must_know_more_of_has_its_content() {
    let scene = scene(WITH_WINDOW).await;
    let mut by_hand = entry("shop", "1", DUE_MS);
    by_hand.progress.retry_at_ms = Some(START_MS);
    let mut ordered = notification("shop", "2");
    let order = OrderPlace::new("order-1", 1, OrderMode::Strict).expect("valid");
    ordered.order = Some(Box::new(order));
    let ordered = Entry::scheduled(Arc::new(ordered), due(DUE_MS));
    assert_eq!(scene.load(&[by_hand.clone(), ordered]).await, (2, 0));
    assert_eq!(scene.envelopes().await, 2);
    scene.fixture.turn_to(DUE_MS);
    let mut claimed = scene.fixture.claim_ids(9).await;
    claimed.sort_unstable();
    assert_eq!(claimed, ["1", "2"]);
}

/// A claim sends what is here of one that has its content, so it stays as long as it is due at the same time.
#[tokio::test]
async fn a_place_is_compared_with_an_entry_that_has_its_content() {
    let scene = scene(WITH_WINDOW).await;
    let one = scene.fixture.put("shop", "1", DUE_MS).await;
    let load_at = async |due_ms| {
        let entries = [entry("shop", "1", due_ms)];
        scene.load_as(Loading::Place, &entries).await
    };
    assert_eq!(load_at(DUE_MS).await, (0, 0));
    assert_eq!(scene.fixture.entry("1").await, one);
    for due_ms in [DUE_MS - 1, DUE_MS + 1, DUE_MS + CLAIMED_EARLY_MS] {
        scene.fixture.register(one.clone()).await;
        assert_eq!(load_at(due_ms).await, (0, 1), "{due_ms}");
        assert!(is_due_at(scene.holding("1").await, due_ms), "{due_ms}");
    }
    scene.fixture.turn_to(DUE_MS);
    let lease = scene.claim_one_bare().await;
    assert_eq!(lease.bare, bare("1", DUE_MS + CLAIMED_EARLY_MS));
}

/// Without a horizon, what is loaded has its content, and what another server has put in without is given nevertheless.
#[tokio::test]
async fn a_server_without_a_horizon_gives_what_one_with_a_horizon_has_loaded() {
    let scene = scene(LIMITS).await;
    assert_eq!(scene.load(&[entry("shop", "1", DUE_MS)]).await, (1, 0));
    assert_eq!(scene.envelopes().await, 1);
    scene.damage("1", None).await;
    scene.fixture.turn_to(DUE_MS);
    assert_eq!(scene.claim_one_bare().await.bare.entry, place("1"));
}
