//! Redis in which single keys, fields or types are not what they should be: everything else goes on,
//! and what can be put right is.

use super::fixture::*;
use super::redis::{command, options};
use crate::support::redis::{connect, fresh_database};
use crate::support::{short_pause, within};
use futures_util::future::join_all;
use redis::{Cmd, FromRedisValue};
use ringback::clock::ManualClock;
use ringback::domain::key::Key;
use ringback::domain::state::State;
use ringback::schedule::ScheduleLeases as _;
use ringback::schedule::recoverable::{Inspection, LoadReason, Recoverable};
use ringback::schedule::redis::{Options, RedisSchedule};
use ringback::schedule::{
    CHANGE_LEASE_MS, Entry, Lease, LeaseRequest, LeasedOne, Limits, Registered, Reservation,
    Settled, Settlement, UNKNOWN_CHANGE_MS,
};
use std::sync::Arc;

/// What lies where an envelope should be.
pub const GARBAGE: &str = "no envelope";

/// A schedule of a journal, as two instances see it.
pub struct Scene {
    url: String,
    pub clock: ManualClock,
    pub schedule: Arc<RedisSchedule>,
    pub fixture: Fixture,
}

pub async fn scene(limits: Limits) -> Scene {
    scene_at(fresh_database(), limits).await
}

/// The same at this URL.
pub async fn scene_at(url: String, limits: Limits) -> Scene {
    let options = Options {
        owner: "journal-1".into(),
        ..options(url, limits)
    };
    let clock = ManualClock::at(START_MS);
    let instance = || {
        let schedule = RedisSchedule::open(&options, Arc::new(clock.clone()));
        Arc::new(schedule.expect("a url"))
    };
    let (schedule, other) = (instance(), instance());
    let found = schedule.inspect(false).await.expect("looked");
    assert_eq!(found, Inspection::ToLoad(LoadReason::New));
    assert!(schedule.finish_loading().await.expect("heard"));
    assert_eq!(
        other.inspect(false).await.expect("looked"),
        Inspection::Whole
    );
    Scene {
        url: options.url.clone(),
        clock: clock.clone(),
        fixture: Fixture {
            schedule: schedule.clone(),
            other,
            clock,
            keeps_alive: Box::new(()),
        },
        schedule,
    }
}

impl Scene {
    /// The same schedule, as a server with other limits sees it.
    pub async fn beside(&self, limits: Limits) -> RedisSchedule {
        let options = Options {
            owner: "journal-1".into(),
            ..options(self.url.clone(), limits)
        };
        let beside = RedisSchedule::open(&options, Arc::new(self.clock.clone())).expect("a url");
        let found = beside.inspect(false).await.expect("looked");
        assert_eq!(found, Inspection::Whole);
        beside
    }

    pub async fn command(&self, words: &[&str]) {
        command(&self.url, &cmd(words)).await;
    }

    pub async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut connection = connect(&self.url).await;
        let asked = cmd(words).query_async(&mut connection).await;
        asked.expect("answered")
    }

    /// Puts something else where an envelope is, or nothing.
    pub async fn damage(&self, id: &str, envelope: Option<&str>) {
        let key = key(id);
        match envelope {
            Some(envelope) => {
                let words = ["HSET", "{rb:0}:jobs", key.as_str(), envelope];
                self.command(&words).await;
            }
            None => self.command(&["HDEL", "{rb:0}:jobs", key.as_str()]).await,
        }
    }

    /// That something was found missing; puts back what is nowhere, and says how much that was.
    pub async fn reindexed(&self) -> u64 {
        within("the damage", self.schedule.wait_for_loss()).await;
        let found = self.schedule.inspect(false).await.expect("looked");
        assert_eq!(found, Inspection::ToLoad(LoadReason::Damaged));
        let reindexed = self.schedule.reindex(None, 500).await.expect("reindexed");
        assert_eq!(reindexed.next, None, "one page");
        assert!(self.schedule.finish_loading().await.expect("heard"));
        let found = self.schedule.inspect(false).await.expect("looked");
        assert_eq!(found, Inspection::Whole);
        reindexed.reindexed
    }

    /// Settles leases all at once, so that the schedule makes batches of them.
    pub async fn settle_all(
        &self,
        leases: &[Lease],
        how: fn(&Lease) -> Settlement,
    ) -> Vec<Settled> {
        let settle = |lease: &Lease| self.schedule.settle(lease.clone(), how(lease));
        let settled = join_all(leases.iter().map(settle)).await;
        settled
            .into_iter()
            .map(|settled| settled.expect("answered"))
            .collect()
    }

    pub async fn register_all(&self, entries: &[Entry]) -> Vec<Registered> {
        let register = |entry: &Entry| self.schedule.register(entry.clone());
        let registered = join_all(entries.iter().map(register)).await;
        registered
            .into_iter()
            .map(|registered| registered.expect("registered"))
            .collect()
    }
}

fn cmd(words: &[&str]) -> Cmd {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command
}

pub fn lane_key(kind: &str, lane: &str) -> String {
    format!("{{rb:0}}:{kind}:{}", lane_of(lane).as_str())
}

pub fn by_id(mut leases: Vec<Lease>) -> Vec<Lease> {
    leases.sort_by_key(id);
    leases
}

#[tokio::test]
async fn a_lane_whose_leases_were_lost_goes_on_after_their_time() {
    let scene = scene(capped(2)).await;
    let fixture = &scene.fixture;
    fixture.put_many("shop", 6, 0).await;
    let leases = fixture.claim(9).await.leases;
    assert_eq!(ids(&leases), ["shop-0000", "shop-0001"]);
    scene.command(&["DEL", "{rb:0}:leases"]).await;
    scene.clock.turn_to(START_MS + 1);
    // They are in force still, so the lane is full, and whoever has one can settle it.
    assert_eq!(fixture.lane_in_flight("shop").await, 2);
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    let one = fixture.lease_one("shop-0001").await;
    assert!(matches!(one, LeasedOne::InFlight), "{one:?}");
    fixture.done(&leases[0], again(&leases[0], 90_000)).await;
    assert_eq!(fixture.lane_in_flight("shop").await, 1);
    assert_eq!(fixture.claim_ids(9).await, ["shop-0002"], "one place");
    fixture.turn_to(LEASE_MS - 1);
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    fixture.turn_to(LEASE_MS);
    let lease = fixture.claim_one().await;
    let interrupted = Entry {
        interrupted_ms: Some(START_MS),
        ..to_verify(entry("shop", "shop-0001", 0))
    };
    assert_eq!(lease.entry, interrupted, "as from a lease that expired");
    let late = fixture.settle(&leases[1], again(&leases[1], 0)).await;
    assert_eq!(late, Settled::Lost);
    assert_eq!(fixture.lane_in_flight("shop").await, 2, "the cap holds");
    fixture.turn_to(LEASE_MS + 1);
    assert_eq!(fixture.claim_ids(9).await, ["shop-0002"], "the second one");
    assert_eq!(scene.reindexed().await, 0, "nothing is nowhere");
}

#[tokio::test]
async fn a_full_lane_whose_leases_were_lost_and_nobody_settles_goes_on() {
    let scene = scene(capped(2)).await;
    let fixture = &scene.fixture;
    fixture.put_many("shop", 4, 0).await;
    fixture.put_many("idle", 1, 0).await;
    assert_eq!(fixture.claim(9).await.leases.len(), 3);
    scene.command(&["DEL", "{rb:0}:leases"]).await;
    let next_ms = fixture.claim(9).await.next_due_ms;
    assert_eq!(next_ms, Some(START_MS + LEASE_MS), "it is known when");
    fixture.turn_to(LEASE_MS);
    let leases = fixture.claim(9).await.leases;
    assert_eq!(leases.len(), 3, "{:?}", ids(&leases));
    assert_eq!(fixture.lane_in_flight("shop").await, 2);
    assert_eq!(fixture.lane_in_flight("idle").await, 1);
}

#[tokio::test]
async fn a_lane_that_waits_for_later_gives_lost_leases_back_in_time() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    fixture.put("shop", "1", 0).await;
    fixture.put("shop", "later", 10 * LEASE_MS).await;
    fixture.claim_one().await;
    scene.command(&["DEL", "{rb:0}:leases"]).await;
    let next_ms = fixture.claim(9).await.next_due_ms;
    assert_eq!(next_ms, Some(START_MS + LEASE_MS));
    fixture.turn_to(LEASE_MS);
    assert_eq!(fixture.claim_ids(9).await, ["1"]);
}

#[tokio::test]
async fn a_change_whose_lease_was_lost_is_refused_before_anything_is_sent() {
    // By whoever finds it: a claim, or what brings a damaged schedule in order.
    for finder in ["claim", "reindex", "restore"] {
        let scene = scene(LIMITS).await;
        let fixture = &scene.fixture;
        let entry = fixture.put("shop", "1", 0).await;
        fixture.lease_by_hand("1").await;
        scene.command(&["DEL", "{rb:0}:leases"]).await;
        fixture.turn_to(CHANGE_LEASE_MS - 1);
        assert_eq!(fixture.restore(&[to_verify(entry.clone())]).await, (0, 0));
        let reindexed = scene.schedule.reindex(None, 9).await.expect("reindexed");
        assert_eq!(reindexed.reindexed, 0, "it is leased still");
        assert_eq!(fixture.claim_ids(9).await, [""; 0]);
        fixture.turn_to(CHANGE_LEASE_MS);
        match finder {
            "reindex" => {
                let reindexed = scene.schedule.reindex(None, 9).await.expect("reindexed");
                assert_eq!(reindexed.reindexed, 1);
            }
            "restore" => {
                let restored = fixture.restore(&[to_verify(entry.clone())]).await;
                assert_eq!(restored, (1, 0));
            }
            _ => {}
        }
        let lease = fixture.claim_one().await;
        assert_eq!(lease.entry, to_fence(entry), "{finder}");
        assert_eq!(fixture.lane_in_flight("shop").await, 1, "{finder}");
        // It is an attempt that is out now, and nothing else.
        let one = fixture.lease_one("1").await;
        assert!(matches!(one, LeasedOne::InFlight), "{finder}: {one:?}");
        fixture.turn_to(CHANGE_LEASE_MS + LEASE_MS);
        let lease = fixture.claim_one().await;
        let started_ms = Some(START_MS + CHANGE_LEASE_MS);
        assert_eq!(lease.entry.interrupted_ms, started_ms, "{finder}");
    }
}

#[tokio::test]
async fn an_ended_entry_whose_lease_was_lost_is_put_back() {
    for state in [State::Dead, State::Cancelled] {
        let scene = scene(REMEMBERING).await;
        let fixture = &scene.fixture;
        fixture.put("shop", "1", 0).await;
        let lease = fixture.claim_one().await;
        fixture.done(&lease, end(&lease, state, 3)).await;
        let counts = fixture.counts().await;
        let lost = fixture.lease_by_hand("1").await;
        scene.command(&["DEL", "{rb:0}:leases"]).await;
        let settled = fixture.settle(&lost, again(&lost, 0)).await;
        assert_eq!(settled, Settled::Lost, "{state}");
        let reindexed = scene.schedule.reindex(None, 9).await.expect("reindexed");
        assert_eq!(reindexed.reindexed, 1, "{state}");
        assert_eq!(fixture.entry("1").await, ended(&lease, state, 3));
        assert_eq!(fixture.counts().await, counts, "{state}");
        fixture.lease_by_hand("1").await;
        fixture.turn_to(2 * REMEMBER_MS);
        fixture.claim(1).await;
        fixture.claim(1).await;
        let kept = fixture.find("1").await.is_some();
        assert_eq!(kept, state == State::Dead, "{state}");
    }
}

#[tokio::test]
async fn what_comes_under_a_reservation_that_was_lost_is_fenced() {
    for restored in [false, true] {
        let scene = scene(LIMITS).await;
        let fixture = &scene.fixture;
        let lost = fixture.reserve("1").await;
        scene.command(&["DEL", "{rb:0}:leases"]).await;
        let entry = entry("shop", "1", 0);
        if restored {
            assert_eq!(fixture.restore(std::slice::from_ref(&entry)).await, (1, 0));
        } else {
            fixture.register(entry.clone()).await;
        }
        let settled = fixture.end_reservation(&lost, Reservation::Forget).await;
        assert_eq!(settled, Settled::Lost);
        assert_eq!(fixture.claim_one().await.entry, to_fence(entry));
        let one = fixture.lease_one("1").await;
        assert!(matches!(one, LeasedOne::InFlight), "{one:?}");
    }
}

#[tokio::test]
async fn what_is_settled_is_not_lost_with_its_envelope() {
    type Way = (fn(&Lease) -> Settlement, fn(&Lease) -> Entry);
    let ways: [Way; 5] = [
        (
            |lease| again(lease, 70),
            |lease| Entry::scheduled(lease.entry.notification.clone(), next_step(lease, 70)),
        ),
        (
            |_| Settlement::Release,
            |lease| to_fence(lease.entry.clone()),
        ),
        (
            |_| Settlement::Recheck,
            |lease| to_fence(lease.entry.clone()),
        ),
        (
            |lease| end(lease, State::Dead, 3),
            |lease| ended(lease, State::Dead, 3),
        ),
        (
            |lease| end(lease, State::Delivered, 3),
            |lease| ended(lease, State::Delivered, 3),
        ),
    ];
    // What else is lost, if anything.
    for also in [None, Some("{rb:0}:leases")] {
        for by_hand in [false, true] {
            for envelope in [None, Some(GARBAGE)] {
                for (number, (how, expected)) in ways.into_iter().enumerate() {
                    let case = format!("{number}, {also:?}, by hand: {by_hand}, {envelope:?}");
                    let scene = scene(REMEMBERING).await;
                    let fixture = &scene.fixture;
                    fixture.put("shop", "1", 0).await;
                    let lease = match by_hand {
                        true => fixture.lease_by_hand("1").await,
                        false => fixture.claim_one().await,
                    };
                    scene.damage("1", envelope).await;
                    if let Some(key) = also {
                        scene.command(&["DEL", key]).await;
                    }
                    let settled = fixture.settle(&lease, how(&lease)).await;
                    assert_eq!(settled, Settled::Done, "{case}");
                    let expected = expected(&lease);
                    assert_eq!(fixture.entry("1").await, expected, "{case}");
                    assert_eq!(fixture.lane_in_flight("shop").await, 0, "{case}");
                    let dead = u64::from(expected.state == State::Dead);
                    assert_eq!(fixture.counts().await.dead, dead, "{case}");
                    fixture.turn_to(70);
                    let pending = usize::from(expected.state == State::Scheduled);
                    assert_eq!(fixture.claim(9).await.leases.len(), pending, "{case}");
                    let again = fixture.settle(&lease, how(&lease)).await;
                    assert_eq!(again, Settled::Lost, "{case}");
                }
            }
        }
    }
}

#[tokio::test]
async fn one_damaged_lease_of_a_batch_is_settled_like_the_others() {
    for envelope in [None, Some(GARBAGE)] {
        let scene = scene(LIMITS).await;
        let fixture = &scene.fixture;
        fixture.put_many("shop", 10, 0).await;
        fixture.put_many("other", 10, 0).await;
        let leases = by_id(fixture.claim_all(20).await);
        scene.damage("shop-0003", envelope).await;
        let settled = scene.settle_all(&leases, |lease| again(lease, 50)).await;
        assert_eq!(settled, [Settled::Done; 20]);
        fixture.turn_to(50);
        let claimed = by_id(fixture.claim_all(20).await);
        for (before, after) in leases.iter().zip(&claimed) {
            assert_eq!(after.entry.progress, next_step(before, 50));
            assert_eq!(after.entry.notification, before.entry.notification);
        }
    }
}

#[tokio::test]
async fn one_lost_lease_of_a_batch_costs_the_others_nothing() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    fixture.put_many("shop", 20, 0).await;
    let leases = by_id(fixture.claim_all(20).await);
    for key in ["{rb:0}:leases", &lane_key("leased", "shop")] {
        let lost = key_of(&leases[3]);
        scene.command(&["ZREM", key, &lost]).await;
    }
    let settled = scene.settle_all(&leases, |lease| again(lease, 50)).await;
    let lost = settled.iter().filter(|settled| **settled == Settled::Lost);
    assert_eq!((lost.count(), settled[3]), (1, Settled::Lost));
    fixture.turn_to(50);
    assert_eq!(fixture.claim_all(19).await.len(), 19);
}

fn key_of(lease: &Lease) -> String {
    lease.entry.notification.key.to_string()
}

#[tokio::test]
async fn one_damaged_entry_costs_those_that_are_put_in_beside_it_nothing() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    let entries: Vec<Entry> = (0..20)
        .map(|number| entry("shop", &format!("{number:02}"), 0))
        .collect();
    scene.damage("03", Some(GARBAGE)).await;
    assert_eq!(
        scene.register_all(&entries[..10]).await,
        vec![Registered::Created; 10]
    );
    scene.damage("13", Some(GARBAGE)).await;
    assert_eq!(fixture.restore(&entries[10..]).await, (10, 0));
    for entry in &entries {
        let id = entry.notification.key.id();
        assert_eq!(&fixture.entry(id).await, entry);
    }
    let claimed = by_id(fixture.claim_all(20).await);
    assert_eq!(claimed.len(), 20);
}

#[tokio::test]
async fn one_damaged_entry_costs_those_that_are_claimed_beside_it_nothing() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    fixture.put_many("shop", 9, 0).await;
    scene.damage("shop-0003", Some(GARBAGE)).await;
    let mut claimed = fixture.claim_all(8).await;
    claimed.extend(fixture.claim(9).await.leases);
    assert_eq!(claimed.len(), 8, "{:?}", ids(&claimed));
    let one = fixture.ask(&known("shop-0003")).await;
    assert!(matches!(one, LeasedOne::MayBeInFlight), "{one:?}");
    // The journal has it.
    let lost = to_verify(entry("shop", "shop-0003", 0));
    assert_eq!(fixture.restore(std::slice::from_ref(&lost)).await, (1, 0));
    assert_eq!(fixture.claim_one().await.entry, lost);
    assert_eq!(scene.reindexed().await, 0);
}

#[tokio::test]
async fn what_may_be_in_flight_though_its_lease_is_gone_is_not_leased_by_hand() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    fixture.put("shop", "1", 0).await;
    fixture.claim_one().await;
    for name in ["{rb:0}:leases".to_string(), lane_key("leased", "shop")] {
        scene.command(&["DEL", &name]).await;
    }
    // Nobody has noticed it yet.
    let one = fixture.ask(&LeaseRequest::new(place("1"))).await;
    assert!(matches!(one, LeasedOne::MayBeInFlight), "{one:?}");
    fixture.turn_to(LEASE_MS);
    assert_eq!(fixture.claim_ids(9).await, [""; 0]);
    assert_eq!(scene.reindexed().await, 1);
    fixture.turn_to(2 * LEASE_MS);
    leased(fixture.ask(&LeaseRequest::new(place("1"))).await);
}

/// Redis was set back to a copy in which it is leased by hand. After that copy, the change had ended, and it was claimed.
#[tokio::test]
async fn a_lease_by_hand_that_has_expired_does_not_hide_a_lost_one() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    fixture.put("shop", "1", 0).await;
    leased(fixture.ask(&LeaseRequest::new(place("1"))).await);
    let lost = START_MS.to_string();
    scene.command(&["HSET", "{rb:0}:meta", "lost", &lost]).await;
    fixture.turn_to(CHANGE_LEASE_MS);
    let one = fixture.ask(&LeaseRequest::new(place("1"))).await;
    assert!(matches!(one, LeasedOne::MayBeInFlight), "{one:?}");
    fixture.turn_to(LEASE_MS);
    leased(fixture.ask(&LeaseRequest::new(place("1"))).await);
}

#[tokio::test]
async fn what_is_due_by_the_journal_though_not_here_is_not_leased_by_hand() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    fixture.put("shop", "1", 30 * LEASE_MS).await;
    // Retried, attempted, and set back: Redis has it for later, and the journal for now.
    let lost = START_MS.to_string();
    scene.command(&["HSET", "{rb:0}:meta", "lost", &lost]).await;
    let mut request = known("1");
    request.known = request
        .known
        .map(|known| ringback::schedule::KnownToJournal {
            due_ms: Some(START_MS),
            ..known
        });
    let one = fixture.ask(&request).await;
    assert!(matches!(one, LeasedOne::MayBeInFlight), "{one:?}");
    leased(fixture.ask(&LeaseRequest::new(place("1"))).await);
}

#[tokio::test]
async fn what_cannot_be_read_keeps_no_place_of_its_lane() {
    let scene = scene(capped(2)).await;
    let fixture = &scene.fixture;
    fixture.put_many("shop", 3, 0).await;
    let jobs = "{rb:0}:jobs";
    let mut written = Vec::new();
    for id in ["shop-0000", "shop-0001"] {
        let key = key(id);
        let words = ["HGET", jobs, key.as_str()];
        let mut envelope: Vec<u8> = scene.ask(&words).await;
        written.push((key.clone(), envelope.clone()));
        // A version that nobody knows.
        envelope[0] = 99;
        put_envelope(&scene, &key, &envelope).await;
    }
    assert_eq!(fixture.claim_ids(9).await, [""; 0], "the lane is full");
    let given_back = async {
        while fixture.lane_in_flight("shop").await > 0 {
            short_pause().await;
        }
    };
    within("their places", given_back).await;
    assert_eq!(fixture.claim_ids(9).await, ["shop-0002"]);
    assert_eq!(fixture.counts().await.pending, 3, "nothing is dropped");
    for (key, envelope) in &written {
        put_envelope(&scene, key, envelope).await;
    }
    fixture.turn_to(59_999);
    assert_eq!(
        fixture.claim_ids(9).await,
        ["shop-0002"],
        "its lease is over"
    );
    fixture.turn_to(60_000);
    assert_eq!(fixture.claim_ids(1).await, ["shop-0000"]);
    // Without its lease, it would have come back marked as interrupted.
    let found = fixture.find("shop-0001").await.expect("here");
    assert_eq!(found.entry.interrupted_ms, None);
}

async fn put_envelope(scene: &Scene, key: &Key, envelope: &[u8]) {
    let mut put = redis::cmd("HSET");
    put.arg("{rb:0}:jobs").arg(key.as_str()).arg(envelope);
    command(&scene.url, &put).await;
}

#[tokio::test]
async fn an_unknown_change_is_not_remembered_for_ever() {
    let scene = scene(LIMITS).await;
    let fixture = &scene.fixture;
    let changing = "{rb:0}:changing";
    let end_unknown = async |id: &str| {
        let lease = fixture.reserve(id).await;
        let ended = fixture.end_reservation(&lease, Reservation::Recheck).await;
        assert_eq!(ended, Settled::Done);
    };
    for number in 0..20 {
        end_unknown(&format!("old-{number}")).await;
    }
    assert_eq!(scene.ask::<u64>(&["HLEN", changing]).await, 20);
    // A lease that is out is none of them, however long it has been.
    scene.command(&["HSET", changing, "t/held", "1e9:7"]).await;
    scene.clock.turn_to(START_MS + UNKNOWN_CHANGE_MS);
    end_unknown("in time").await;
    assert_eq!(scene.ask::<u64>(&["HLEN", changing]).await, 22);
    scene.clock.turn_to(START_MS + UNKNOWN_CHANGE_MS + 1);
    let forgotten = async {
        let mut number = 0;
        while scene.ask::<u64>(&["HLEN", changing]).await > 2 + number {
            number += 1;
            end_unknown(&format!("new-{number}")).await;
        }
    };
    within("the old ones to be forgotten", forgotten).await;
    let held: bool = scene.ask(&["HEXISTS", changing, "t/held"]).await;
    assert!(held);
    fixture.put("shop", "in time", 0).await;
    assert!(fixture.entry("in time").await.raise_fence, "known still");
    fixture.put("shop", "old-1", 0).await;
    assert!(!fixture.entry("old-1").await.raise_fence, "forgotten");
}
