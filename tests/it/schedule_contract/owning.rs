//! Whose schedule it is, who works with it, and what is known of that when a part of it is lost.

use super::fixture::*;
use super::redis::{command, options};
use crate::support::redis::{connect, fresh_database};
use redis::Cmd;
use ringback::clock::ManualClock;
use ringback::redis_tls::RedisTls;
use ringback::schedule::ScheduleLeases as _;
use ringback::schedule::ScheduleMaintenance as _;
use ringback::schedule::recoverable::{Inspection, LoadReason, Recoverable, ScheduleStatus};
use ringback::schedule::redis::{ClaimTimes, NO_JOURNAL, Options, RedisSchedule};
use ringback::schedule::{ClaimQuota, ScheduleError};
use std::sync::Arc;

/// How long after its last claim an instance is taken to be alive, in milliseconds.
const ALIVE_MS: i64 = 30_000;

const EPOCH: &str = "{rb:0}:epoch";
const META: &str = "{rb:0}:meta";

struct Scene {
    url: String,
    clock: ManualClock,
}

impl Scene {
    fn new() -> Self {
        Self {
            url: fresh_database(),
            clock: ManualClock::at(START_MS),
        }
    }

    fn instance(&self, owner: &str, signing: Option<&str>) -> RedisSchedule {
        let options = Options {
            owner: owner.into(),
            signing: signing.map(ToString::to_string),
            replicas: 0,
            tls: RedisTls::default(),
            claim_times: ClaimTimes::default(),
            ..options(self.url.clone(), LIMITS)
        };
        RedisSchedule::open(&options, Arc::new(self.clock.clone())).expect("a url")
    }

    fn of_journal(&self) -> RedisSchedule {
        self.instance("journal-1", None)
    }

    fn signing(&self, with: &str) -> RedisSchedule {
        self.instance("journal-1", Some(with))
    }

    /// An instance that has loaded an empty schedule.
    async fn filled(&self) -> RedisSchedule {
        let schedule = self.of_journal();
        assert_eq!(look(&schedule).await, Inspection::ToLoad(LoadReason::New));
        assert!(schedule.finish_loading().await.expect("heard"));
        schedule
    }

    async fn lose(&self, key: &str) {
        command(&self.url, &Cmd::del(key)).await;
    }
}

async fn look(schedule: &RedisSchedule) -> Inspection {
    schedule.inspect(false).await.expect("looked")
}

async fn refused(schedule: &RedisSchedule, why: &str) {
    let refused = schedule.inspect(false).await;
    match refused {
        Err(ScheduleError::Foreign(text)) => assert!(text.contains(why), "{text}"),
        other => panic!("{why}: {other:?}"),
    }
}

async fn put(schedule: &RedisSchedule, id: &str) {
    let registered = schedule.register(entry("shop", id, 0)).await;
    registered.expect("registered");
}

#[tokio::test]
async fn the_owner_is_known_while_either_note_of_it_is_there() {
    for lost in [EPOCH, META] {
        let scene = Scene::new();
        let schedule = scene.filled().await;
        put(&schedule, "1").await;
        scene.lose(lost).await;
        refused(
            &scene.instance("journal-2", None),
            "belongs to journal journal-1",
        )
        .await;
        let peeked = scene.instance(NO_JOURNAL, None).status().await;
        assert!(matches!(peeked, Err(ScheduleError::Foreign(_))), "{lost}");
        // A server of its own that starts sees to what it finds.
        let started = scene.of_journal();
        let found = look(&started).await;
        let expected = match lost {
            EPOCH => Inspection::Whole,
            _ => Inspection::ToLoad(LoadReason::Lost),
        };
        assert_eq!(found, expected, "{lost}");
        // Either way, both notes are there again.
        for other in [EPOCH, META] {
            if other != lost {
                scene.lose(other).await;
            }
        }
        refused(
            &scene.instance("journal-2", None),
            "belongs to journal journal-1",
        )
        .await;
    }
}

#[tokio::test]
async fn a_server_at_work_notes_the_owner_again() {
    let scene = Scene::new();
    let schedule = scene.filled().await;
    scene.lose(EPOCH).await;
    schedule.claim(ClaimQuota::of(0)).await.expect("claimed");
    scene.lose(META).await;
    refused(
        &scene.instance("journal-2", None),
        "belongs to journal journal-1",
    )
    .await;
}

#[tokio::test]
async fn what_says_of_nobody_whose_it_is_is_taken_by_whoever_knows_it() {
    let scene = Scene::new();
    let schedule = scene.filled().await;
    put(&schedule, "1").await;
    for lost in [EPOCH, META] {
        scene.lose(lost).await;
    }
    let started = scene.of_journal();
    assert_eq!(look(&started).await, Inspection::Unowned);
    assert_eq!(
        started.status().await.expect("answered"),
        ScheduleStatus::New
    );
    assert_eq!(
        look(&started).await,
        Inspection::Unowned,
        "it is not touched"
    );
    assert!(matches!(
        started.claim(ClaimQuota::of(9)).await,
        Err(ScheduleError::Rebuilding)
    ));
    let scanned = started.scan(None, 9).await.expect("a page");
    assert_eq!(scanned.holdings.len(), 1, "it can be compared");
    // Inspection to be its journal's.
    started.take_ownership();
    assert_eq!(look(&started).await, Inspection::ToLoad(LoadReason::Lost));
    assert!(started.finish_loading().await.expect("heard"));
    assert_eq!(
        ids(&started
            .claim(ClaimQuota::of(9))
            .await
            .expect("claimed")
            .leases),
        ["1"]
    );
}

#[tokio::test]
async fn who_has_worked_with_it_before_needs_no_proof() {
    for journaled in [false, true] {
        let scene = Scene::new();
        let schedule = match journaled {
            true => scene.filled().await,
            false => {
                let schedule = scene.instance(NO_JOURNAL, None);
                assert_eq!(look(&schedule).await, Inspection::Whole, "new, and whole");
                schedule
            }
        };
        put(&schedule, "1").await;
        for lost in [EPOCH, META] {
            scene.lose(lost).await;
        }
        let found = match journaled {
            true => look(&schedule).await,
            // Nobody else could have it.
            false => look(&scene.instance(NO_JOURNAL, None)).await,
        };
        assert_eq!(found, Inspection::ToLoad(LoadReason::Lost), "{journaled}");
    }
}

#[tokio::test]
async fn peeking_touches_nothing() {
    let scene = Scene::new();
    let (schedule, beside) = (scene.of_journal(), scene.of_journal());
    let peek = async || beside.status().await.expect("answered");
    assert_eq!(peek().await, ScheduleStatus::New);
    assert_eq!(peek().await, ScheduleStatus::New);
    assert_eq!(look(&schedule).await, Inspection::ToLoad(LoadReason::New));
    assert_eq!(peek().await, ScheduleStatus::Loading);
    assert!(schedule.finish_loading().await.expect("heard"));
    assert_eq!(peek().await, ScheduleStatus::Whole);
    put(&schedule, "1").await;
    let lane = format!("{{rb:0}}:lane:{}", lane_of("shop").as_str());
    scene.lose(&lane).await;
    schedule.claim(ClaimQuota::of(1)).await.expect("claimed");
    assert_eq!(
        peek().await,
        ScheduleStatus::Loading,
        "somebody has yet to see to it"
    );
    let found = look(&schedule).await;
    assert_eq!(found, Inspection::ToLoad(LoadReason::Damaged), "nobody has");
}

#[tokio::test]
async fn servers_that_sign_otherwise_do_not_work_side_by_side() {
    let scene = Scene::new();
    let one = scene.signing("one");
    assert_eq!(look(&one).await, Inspection::ToLoad(LoadReason::New));
    assert!(one.finish_loading().await.expect("heard"));
    let same = scene.signing("one");
    assert_eq!(look(&same).await, Inspection::Whole);
    let silent = scene.of_journal();
    assert_eq!(look(&silent).await, Inspection::Whole, "it signs nothing");
    refused(&scene.signing("other"), "sign with another secret").await;
    scene.clock.turn_to(START_MS + ALIVE_MS - 1);
    same.claim(ClaimQuota::of(0)).await.expect("claimed");
    scene.clock.turn_to(START_MS + 2 * ALIVE_MS - 2);
    refused(&scene.signing("other"), "sign with another secret").await;
    // One that is so busy that it claims nothing says that it is there.
    same.heartbeat().await.expect("heard");
    scene.clock.turn_to(START_MS + 3 * ALIVE_MS - 3);
    refused(&scene.signing("other"), "sign with another secret").await;
    // As if the last of them had died.
    scene.clock.turn_to(START_MS + 3 * ALIVE_MS - 2);
    let other = scene.signing("other");
    assert_eq!(look(&other).await, Inspection::Whole);
    refused(&scene.signing("one"), "sign with another secret").await;
}

/// Whoever has to look first is not entered by saying that it is there: what Redis lost stays lost.
#[tokio::test]
async fn who_has_to_look_first_is_not_taken_to_be_alive() {
    let scene = Scene::new();
    let one = scene.signing("one");
    assert_eq!(look(&one).await, Inspection::ToLoad(LoadReason::New));
    assert!(one.finish_loading().await.expect("heard"));
    scene.lose(META).await;
    one.heartbeat().await.expect("heard");
    let mut connection = connect(&scene.url).await;
    let names: Vec<String> =
        (Cmd::hkeys(META).query_async(&mut connection).await).expect("answered");
    assert_eq!(names, Vec::<String>::new());
}

#[tokio::test]
async fn once_all_others_have_stopped_the_secret_can_be_changed() {
    let scene = Scene::new();
    let one = scene.signing("one");
    assert_eq!(look(&one).await, Inspection::ToLoad(LoadReason::New));
    assert!(one.finish_loading().await.expect("heard"));
    let same = scene.signing("one");
    assert_eq!(look(&same).await, Inspection::Whole);
    one.deregister().await;
    refused(&scene.signing("other"), "sign with another secret").await;
    same.deregister().await;
    let other = scene.signing("other");
    assert_eq!(look(&other).await, Inspection::Whole);
    assert_eq!(
        look(&other).await,
        Inspection::Whole,
        "it does not hinder itself"
    );
}

#[tokio::test]
async fn what_an_instance_has_counted_is_forgotten_a_week_after_its_last_claim() {
    const WEEK_MS: i64 = 7 * 86_400_000;
    let scene = Scene::new();
    let counters = async || {
        let mut connection = connect(&scene.url).await;
        let names = Cmd::hkeys(META).query_async(&mut connection).await;
        let names: Vec<String> = names.expect("answered");
        names.iter().filter(|name| name.len() == 32).count()
    };
    for _ in 0..3 {
        let schedule = scene.of_journal();
        if let Inspection::ToLoad(_) = look(&schedule).await {
            assert!(schedule.finish_loading().await.expect("heard"));
        }
        schedule.claim(ClaimQuota::of(0)).await.expect("claimed");
    }
    let at_work = scene.of_journal();
    for (at_ms, expected) in [(WEEK_MS, 4), (WEEK_MS + 1, 1)] {
        scene.clock.turn_to(START_MS + at_ms);
        assert_eq!(look(&at_work).await, Inspection::Whole);
        at_work
            .claim(ClaimQuota::of(0))
            .await
            .expect("it is known still");
        assert_eq!(counters().await, expected, "{at_ms}");
    }
}
