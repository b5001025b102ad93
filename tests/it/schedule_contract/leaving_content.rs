//! What was registered keeps its content for some minutes. After that, what is not due soon is left to the journal.

use super::damage::{Scene, scene, scene_at};
use super::fixture::*;
use crate::support::redis::RedisServer;
use ringback::domain::order::{OrderMode, OrderPlace};
use ringback::domain::priority::Priority;
use ringback::domain::state::State;
use ringback::schedule::window::Window;
use ringback::schedule::{
    CLAIMED_EARLY_MS, ClaimQuota, Entry, HeldProgress, Limits, Registered, ScheduleLeases as _,
    ScheduleMaintenance as _, ScheduleReads as _, Settled, Settlement,
};
use std::time::Duration;

const KEPT_MS: i64 = 300_000;
/// The earliest due time of what is left to the journal.
const FAR_MS: i64 = KEPT_MS + 60_001;
const LIST: &str = "{rb:0}:contents";
const WITH_WINDOW: Limits = Limits {
    window: Window::of(Duration::from_secs(3_600)).keeping_content(KEPT_MS),
    ..LIMITS
};

impl Scene {
    /// Registers one at [`START_MS`].
    async fn put(&self, lane: &str, id: &str, due_ms: i64) {
        let given = accepted_at(entry(lane, id, due_ms), START_MS);
        assert_eq!(self.fixture.register(given).await, Registered::Created);
    }

    /// Leaves everything that can be left; says how many entries have their content still.
    async fn left(&self) -> u64 {
        while self.leave_some().await {}
        self.ask(&["HLEN", "{rb:0}:jobs"]).await
    }

    /// Leaves some; says whether there may be more.
    async fn leave_some(&self) -> bool {
        let mut has_more = false;
        for content in self.schedule.content_to_leave().await.expect("read") {
            has_more |= content.has_more;
            self.schedule.leave_content(&content).await.expect("left");
        }
        has_more
    }

    async fn reminders(&self) -> u64 {
        self.ask(&["LLEN", LIST]).await
    }

    /// Whether an entry waits with its content; else it is bare, and due so long after [`START_MS`].
    async fn is_whole(&self, id: &str, due_ms: i64) -> bool {
        let held = self.schedule.holds(&[place(id)]).await.expect("answered");
        let held = held[0].expect("it is there");
        assert!(!held.in_flight);
        match held.progress {
            HeldProgress::Whole(progress) => {
                assert_eq!(progress.next_due_ms(), START_MS + due_ms);
                true
            }
            HeldProgress::Due(at_ms) => {
                assert_eq!(at_ms, START_MS + due_ms - CLAIMED_EARLY_MS);
                false
            }
        }
    }
}

fn ordered(entry: Entry) -> Entry {
    let mut notification = (*entry.notification).clone();
    notification.order = Some(Box::new(
        OrderPlace::new("o-1", 1, OrderMode::Latest).expect("a place"),
    ));
    Entry {
        notification: notification.into(),
        ..entry
    }
}

#[tokio::test]
async fn what_is_not_due_soon_is_bare_after_some_minutes() {
    let scene = scene(WITH_WINDOW).await;
    scene.put("shop", "far", FAR_MS).await;
    scene.put("shop", "near", FAR_MS - 1).await;
    scene.put("other", "now", 0).await;
    assert_eq!(scene.reminders().await, 1, "the others are sent before");
    scene.fixture.turn_to(KEPT_MS - 1);
    assert_eq!(scene.left().await, 3);
    assert_eq!(scene.reminders().await, 1);
    scene.fixture.turn_to(KEPT_MS);
    assert_eq!(scene.left().await, 2);
    assert_eq!(scene.reminders().await, 0);
    assert!(!scene.is_whole("far", FAR_MS).await);
    assert!(scene.is_whole("near", FAR_MS - 1).await);
    let counts = scene.fixture.counts().await;
    assert_eq!((counts.pending, counts.in_flight), (3, 0));

    let claimed = scene.fixture.claim(9).await;
    assert_eq!(ids(&claimed.leases), ["now"]);
    let delivered = end(&claimed.leases[0], State::Delivered, START_MS + KEPT_MS);
    scene.fixture.done(&claimed.leases[0], delivered).await;
    // Its lane has its turn as early as that.
    let early_ms = FAR_MS - CLAIMED_EARLY_MS;
    let next = scene.fixture.claim(9).await.next_due_ms;
    assert_eq!(next, Some(START_MS + early_ms));
    scene.fixture.turn_to(early_ms - 1);
    assert!(scene.fixture.claim(9).await.bare.is_empty());
    scene.fixture.turn_to(early_ms);
    let claimed = scene.fixture.claim(9).await;
    assert_eq!(claimed.bare.len(), 1);
    assert_eq!(claimed.bare[0].bare.entry, place("far"));
    assert_eq!(claimed.bare[0].bare.due_ms, START_MS + early_ms);
    // And the other, with its content, when it is due.
    scene.fixture.turn_to(FAR_MS - 1);
    assert_eq!(ids(&scene.fixture.claim(9).await.leases), ["near"]);
}

#[tokio::test]
async fn the_priority_is_kept() {
    let scene = scene(WITH_WINDOW).await;
    for (id, priority) in [
        ("low", Priority::Low),
        ("normal", Priority::Normal),
        ("high", Priority::High),
    ] {
        let given = accepted_at(entry("shop", id, FAR_MS), START_MS);
        let given = of_priority(given, priority);
        assert_eq!(scene.fixture.register(given).await, Registered::Created);
    }
    scene.fixture.turn_to(KEPT_MS);
    assert_eq!(scene.left().await, 0);
    for id in ["low", "normal", "high"] {
        assert!(!scene.is_whole(id, FAR_MS).await);
    }
    scene.fixture.turn_to(FAR_MS - CLAIMED_EARLY_MS);
    let claimed = scene.fixture.claim(9).await.bare;
    let ids: Vec<_> = (claimed.iter())
        .map(|lease| lease.bare.entry.key.id())
        .collect();
    assert_eq!(ids, ["high", "normal", "low"]);
}

/// Such an entry has its content until it is sent, and is not looked at again.
#[tokio::test]
async fn what_is_not_as_it_was_registered_keeps_its_content() {
    let scene = scene(WITH_WINDOW).await;
    let far = |id: &str| accepted_at(entry("shop", id, FAR_MS), START_MS);
    for given in [
        ordered(far("ordered")),
        far("held"),
        far("ended"),
        far("lost"),
        far("plain"),
    ] {
        assert_eq!(scene.fixture.register(given).await, Registered::Created);
    }
    // Leased for a change by hand.
    scene.fixture.turn_to(KEPT_MS);
    let held = scene.fixture.lease_by_hand("held").await;
    let cancelled = scene.fixture.lease_by_hand("ended").await;
    let ended = end(&cancelled, State::Cancelled, START_MS + KEPT_MS);
    scene.fixture.done(&cancelled, ended).await;
    // Its place is lost, so its content says where it belongs.
    let lost = key("lost");
    let place = ["ZREM", "{rb:0}:lane:https://shop.example", lost.as_str()];
    scene.command(&place).await;
    assert_eq!(scene.left().await, 3, "only `plain` was left");
    assert!(!scene.is_whole("plain", FAR_MS).await);
    assert!(scene.is_whole("ordered", FAR_MS).await);
    assert_eq!(scene.reminders().await, 0);
    scene.fixture.done(&held, Settlement::Release).await;
    assert_eq!(scene.left().await, 3);
}

#[tokio::test]
async fn an_entry_with_something_to_note_keeps_its_content() {
    for (what, settlement) in [
        ("a change that may still be written", Settlement::Recheck),
        ("put off", Settlement::Defer(START_MS + FAR_MS)),
    ] {
        let scene = scene(WITH_WINDOW).await;
        scene.put("shop", "1", FAR_MS).await;
        let lease = scene.fixture.lease_by_hand("1").await;
        scene.fixture.done(&lease, settlement).await;
        scene.fixture.turn_to(KEPT_MS);
        assert_eq!(scene.left().await, 1, "{what}");
    }
}

#[tokio::test]
async fn many_are_left_part_by_part() {
    let scene = scene(WITH_WINDOW).await;
    for lane in ["shop", "other", "third"] {
        for number in 0..90 {
            scene.put(lane, &format!("{lane}-{number}"), FAR_MS).await;
        }
    }
    scene.fixture.turn_to(KEPT_MS);
    let mut left = Vec::new();
    loop {
        let has_more = scene.leave_some().await;
        left.push(scene.ask::<u64>(&["HLEN", "{rb:0}:jobs"]).await);
        if !has_more {
            break;
        }
    }
    assert_eq!(left, [170, 70, 0]);
    let counts = scene.fixture.counts().await;
    assert_eq!(counts.pending, 270);
}

/// The list is only a reminder: anything may be in it.
#[tokio::test]
async fn what_else_is_in_the_list_is_passed_over() {
    let scene = scene(WITH_WINDOW).await;
    scene.put("shop", "1", FAR_MS).await;
    let at = START_MS.to_string();
    let ahead = format!("{} t/ahead", START_MS + KEPT_MS + 60_000);
    let twice = format!("{at} {}", key("1").as_str());
    for item in [
        "",
        " ",
        "word",
        "word word",
        &at,
        &format!("{at} t/unknown"),
        &ahead,
        &twice,
    ] {
        scene.command(&["LPUSH", LIST, item]).await;
    }
    scene.fixture.turn_to(KEPT_MS);
    assert_eq!(scene.left().await, 0);
    assert_eq!(scene.reminders().await, 0);
    assert!(!scene.is_whole("1", FAR_MS).await);

    // The next one that is added replaces what has another type.
    scene.command(&["SET", LIST, "something else"]).await;
    scene.put("shop", "2", KEPT_MS + FAR_MS).await;
    assert_eq!(scene.left().await, 0);
    assert!(!scene.is_whole("2", KEPT_MS + FAR_MS).await);
}

/// A journal may lose what it was given a moment ago, with the attempt.
#[tokio::test]
async fn what_waits_for_a_retry_keeps_its_content_if_it_was_registered_a_moment_ago() {
    let scene = scene(WITH_WINDOW).await;
    let at = |id: &str, ago_ms| accepted_at(entry("shop", id, 0), START_MS - ago_ms);
    for given in [at("soon", 0), at("new", KEPT_MS - 1), at("old", KEPT_MS)] {
        assert_eq!(scene.fixture.register(given).await, Registered::Created);
    }
    for lease in scene.fixture.claim(3).await.leases {
        let due_ms = match lease.entry.notification.key.id() {
            "soon" => FAR_MS - 1,
            _ => FAR_MS,
        };
        scene.fixture.done(&lease, again(&lease, due_ms)).await;
    }
    // The journal is asked before either is sent, so each is claimed a little early.
    for (id, due_ms, is_whole) in [
        ("soon", FAR_MS - 1, true),
        ("new", FAR_MS, true),
        ("old", FAR_MS, false),
    ] {
        assert_eq!(scene.is_whole(id, due_ms).await, is_whole, "{id}");
        let lane = "{rb:0}:lane:https://shop.example";
        let score: i64 = scene.ask(&["ZSCORE", lane, key(id).as_str()]).await;
        assert_eq!(score, START_MS + due_ms - CLAIMED_EARLY_MS, "{id}");
    }
    assert_eq!(scene.reminders().await, 1);
    scene.fixture.turn_to(KEPT_MS - 1);
    assert_eq!(scene.left().await, 2);
    scene.fixture.turn_to(KEPT_MS);
    assert_eq!(scene.left().await, 1);
    assert!(!scene.is_whole("new", FAR_MS).await);
    assert!(scene.is_whole("soon", FAR_MS - 1).await);
    scene.fixture.turn_to(FAR_MS - 1 - CLAIMED_EARLY_MS);
    let claimed = scene.fixture.claim(9).await;
    assert_eq!(ids(&claimed.leases), ["soon"]);
    let soon = &claimed.leases[0].entry;
    assert!(soon.verify);
    assert_eq!((soon.progress.step, soon.progress.attempts), (1, 1));
    assert_eq!(soon.notification, at("soon", 0).notification);
}

/// A server without a horizon reads the bodies that another one has left to the journal, and leaves them there.
#[tokio::test]
async fn a_server_without_a_horizon_does_not_spoil_what_one_with_it_has_left() {
    let scene = scene(WITH_WINDOW).await;
    let without = scene.beside(LIMITS).await;
    let given = accepted_at(ordered(entry("shop", "1", 0)), START_MS - KEPT_MS + 10);
    assert_eq!(scene.fixture.register(given).await, Registered::Created);
    for due_ms in [10, 20] {
        let lease = scene.fixture.claim_one().await;
        let body = lease.entry.notification.body.here();
        assert!(body.is_some(), "it was registered a moment ago");
        scene.fixture.done(&lease, again(&lease, due_ms)).await;
        scene.fixture.turn_to(due_ms);
    }
    let claimed = without.claim(ClaimQuota::of(1)).await.expect("claimed");
    let second = &claimed.leases[0];
    assert!(second.entry.notification.body.here().is_none());
    let settled = without.settle(second.clone(), again(second, 30)).await;
    assert_eq!(settled.expect("answered"), Settled::Done);
    scene.fixture.turn_to(30);
    let third = scene.fixture.claim_one().await;
    assert_eq!(third.entry.progress.attempts, 3);
    assert_eq!(third.entry.notification, second.entry.notification);
}

/// Where no journal has the content, or everything is kept for one that may lose some, nothing is left.
#[tokio::test]
async fn without_a_horizon_nothing_is_left() {
    let scene = scene(LIMITS).await;
    scene.put("shop", "1", FAR_MS).await;
    assert_eq!(scene.reminders().await, 0);
    scene.fixture.turn_to(KEPT_MS);
    assert_eq!(scene.left().await, 1);
    assert!(scene.is_whole("1", FAR_MS).await);
}

#[tokio::test]
async fn a_full_redis_gets_room() {
    let server = RedisServer::start(&["--maxmemory-policy", "noeviction"]);
    let scene = scene_at(server.url(0), WITH_WINDOW).await;
    for number in 0..20 {
        scene.put("shop", &number.to_string(), FAR_MS).await;
    }
    scene.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    scene.fixture.turn_to(KEPT_MS);
    assert_eq!(scene.left().await, 0);
    assert_eq!(scene.fixture.counts().await.pending, 20);
}
