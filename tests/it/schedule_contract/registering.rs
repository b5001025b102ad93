//! An entry is registered once; registering it again changes nothing and shows what is there.

use super::fixture::*;
use bytes::Bytes;
use ringback::domain::destination::Destination;
use ringback::domain::ladder::{CustomLadder, Ladder};
use ringback::domain::lane::Lane;
use ringback::domain::progress::Progress;
use ringback::domain::state::State;
use ringback::schedule::{
    Entry, FoundEntry, LeasedOne, Limits, PROMPT_MS, Registered, ScheduleCounts, Settled,
    Settlement,
};
use std::sync::Arc;

pub async fn an_entry_is_found_as_it_was_registered(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let entry = Entry {
        verify: true,
        ..fixture_entry("shop", "1")
    };
    assert_eq!(fixture.register(entry.clone()).await, Registered::Created);
    let found = FoundEntry {
        entry,
        in_flight: false,
    };
    assert_eq!(fixture.find("1").await, Some(found.clone()));
    let there = fixture.other.find(&key("1")).await.expect("answered");
    assert_eq!(there, Some(found));
}

/// An entry that differs from a fresh one in every part of its progress.
fn fixture_entry(lane: &str, id: &str) -> Entry {
    let mut entry = entry(lane, id, 0);
    entry.progress = Progress {
        series: 3,
        step: 2,
        attempts: 40,
        first_due_ms: START_MS - 1,
        deadline_ms: START_MS + 9,
        due_ms: START_MS + 7,
        retry_at_ms: Some(START_MS + 6),
        clamped: true,
    };
    entry
}

pub async fn any_content_survives(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let custom = CustomLadder {
        intervals: vec!["1s".into(), "90s".into()],
        window: Some("2h".into()),
        repeat_last: true,
        jitter: 0.25,
    };
    let every_byte: Vec<u8> = (0..=255).cycle().take(256 * 1024).collect();
    let bodies = [Bytes::new(), Bytes::from(every_byte)];
    let strange_ids = ["a/b//?*{}[]%\"' ~", "0"];
    let lanes = ["https://[2001:db8::1]:9443", "http://127.0.0.1:8080"];
    for ((body, id), lane) in bodies.into_iter().zip(strange_ids).zip(lanes) {
        let mut notification = notification("shop", id);
        notification.body = body.into();
        notification.destination =
            Some(Destination::parse(&format!("{lane}/notify")).expect("a destination"));
        notification.lane = Lane::from_name(lane);
        notification.ladder = Ladder::custom(&custom).expect("a ladder");
        let entry = Entry::scheduled(Arc::new(notification), due(0));
        assert_eq!(fixture.register(entry.clone()).await, Registered::Created);
        assert_eq!(fixture.entry(id).await, entry);
        let lease = fixture.claim_one().await;
        assert_eq!(lease.entry, entry);
        let lane_leases = fixture
            .schedule
            .lane_in_flight(&entry.notification.lane)
            .await
            .expect("counted");
        assert_eq!(lane_leases, 1);
    }
}

pub async fn registering_again_shows_what_is_there(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    let entry = fixture.put("shop", "1", 0).await;
    let mut second = entry_with_other_content();
    let existing = |in_flight| {
        Registered::Existing(Box::new(FoundEntry {
            entry: entry.clone(),
            in_flight,
        }))
    };
    assert_eq!(fixture.register(second.clone()).await, existing(false));
    let there = fixture.other.register(second.clone()).await;
    assert_eq!(there.expect("answered"), existing(false));
    let lease = fixture.claim_one().await;
    assert_eq!(lease.entry, entry, "the first is what is delivered");
    second.verify = true;
    assert_eq!(fixture.register(second).await, existing(true));
    assert_eq!(fixture.claim_ids(9).await, [""; 0], "and only once");
    assert_eq!(fixture.counts().await.pending, 1);
}

fn entry_with_other_content() -> Entry {
    let mut notification = notification("elsewhere", "1");
    notification.body = Bytes::from_static(b"other").into();
    notification.fingerprint = [9; 16];
    Entry::scheduled(Arc::new(notification), due(-500))
}

pub async fn of_concurrent_registrations_one_creates(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(LIMITS).await;
    for id in ["1", "2", "3"] {
        let (here, there, here_again) = tokio::join!(
            fixture.schedule.register(entry("shop", id, 0)),
            fixture.other.register(entry("shop", id, 0)),
            fixture.schedule.register(entry("shop", id, 0)),
        );
        let created = [here, there, here_again]
            .into_iter()
            .filter(|registered| matches!(registered, Ok(Registered::Created)))
            .count();
        assert_eq!(created, 1, "{id}");
    }
    assert_eq!(fixture.claim_ids(9).await, ["1", "2", "3"]);
}

pub async fn what_was_never_registered_is_missing(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(REMEMBERING).await;
    fixture.put("shop", "1", 0).await;
    let lease = fixture.claim_one().await;
    let mut stranger = lease.clone();
    stranger.entry.notification = Arc::new(notification("shop", "2"));
    assert_eq!(fixture.find("2").await, None);
    let one = fixture.lease_one("2").await;
    assert!(matches!(one, LeasedOne::Missing), "{one:?}");
    let settled = fixture.settle(&stranger, again(&stranger, 0)).await;
    assert_eq!(settled, Settled::Lost);
    assert_eq!(fixture.lane_in_flight("elsewhere").await, 0);
    let keys = ["2", "1", "3"].map(place);
    let flags = fixture.schedule.in_flight(&keys).await;
    assert_eq!(flags.expect("answered"), [false, true, false]);
    let none = fixture.schedule.in_flight(&[]).await.expect("answered");
    assert_eq!(none, [false; 0]);
    assert_eq!(fixture.counts().await.pending, 1);
}

pub async fn counts_follow_every_change(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(REMEMBERING).await;
    let check = async |pending, in_flight, dead| {
        let expected = ScheduleCounts {
            pending,
            in_flight,
            dead,
        };
        assert_eq!(fixture.counts().await, expected);
    };
    check(0, 0, 0).await;
    for id in ["1", "2", "3", "4"] {
        fixture.put("shop", id, 0).await;
    }
    fixture.put("shop", "later", 50).await;
    check(5, 0, 0).await;
    let leases = fixture.claim(9).await.leases;
    check(5, 4, 0).await;
    let by_hand = fixture.lease_by_hand("later").await;
    check(5, 5, 0).await;
    fixture
        .done(&by_hand, end(&by_hand, State::Cancelled, 0))
        .await;
    check(4, 4, 0).await;
    fixture
        .done(&leases[0], end(&leases[0], State::Delivered, 0))
        .await;
    fixture
        .done(&leases[1], end(&leases[1], State::Dead, 0))
        .await;
    check(2, 2, 1).await;
    fixture.done(&leases[2], again(&leases[2], 10)).await;
    check(2, 1, 1).await;
    let dead = fixture.lease_by_hand("2").await;
    check(3, 2, 0).await;
    fixture.done(&dead, Settlement::Again(due(0))).await;
    check(3, 1, 0).await;
    fixture.turn_to(LEASE_MS);
    fixture.claim(1).await;
    check(3, 1, 0).await;
}

pub async fn a_working_schedule_says_so(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(REMEMBERING).await;
    assert!(fixture.schedule.check().await.is_ok());
    assert!(fixture.other.check().await.is_ok());
    let limits = fixture.schedule.limits();
    assert_eq!(limits.lane_cap, REMEMBERING.lane_cap);
    assert_eq!(limits.lease_ms, LEASE_MS);
    assert_eq!(limits.remember_ms, Some(REMEMBER_MS));
    assert_eq!(fixture.schedule.clock().now_ms(), START_MS);
    fixture.turn_to(77);
    assert_eq!(fixture.schedule.clock().now_ms(), START_MS + 77);
}

pub async fn a_registration_that_comes_late_has_the_journal_asked(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(LIMITS).await;
    for (id, late_ms, late) in [
        ("before its time", -1, false),
        ("at once", 0, false),
        ("prompt", PROMPT_MS, false),
        ("late", PROMPT_MS + 1, true),
        ("very late", 100 * PROMPT_MS, true),
    ] {
        let accepted = accepted_at(entry("shop", id, 0), START_MS - late_ms);
        let registered = fixture.register(accepted.clone()).await;
        assert_eq!(registered, Registered::Created, "{id}");
        let expected = Entry {
            verify: late,
            ..accepted
        };
        assert_eq!(fixture.entry(id).await, expected);
    }
}
