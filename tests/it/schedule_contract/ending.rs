//! Ended entries: forgotten at once, or remembered; the dead ones whole, until somebody decides.

use super::fixture::*;
use ringback::domain::state::State;
use ringback::schedule::{
    CHANGE_LEASE_MS, DeadPage, Entry, FoundEntry, Lease, LeasedOne, Limits, Registered,
    ScheduleError, Settlement,
};

const ENDS: [State; 3] = [State::Delivered, State::Dead, State::Cancelled];

impl Fixture {
    /// Registers an entry, claims it and ends it so many milliseconds after the start.
    async fn put_ended(&self, id: &str, state: State, ended_ms: i64) -> Entry {
        self.put("shop", id, 0).await;
        let lease = self.lease_by_hand(id).await;
        self.done(&lease, end(&lease, state, ended_ms)).await;
        ended(&lease, state, ended_ms)
    }

    async fn dead(&self, cursor: Option<&str>, limit: usize) -> DeadPage {
        let page = self.schedule.dead(cursor, limit).await;
        page.expect("a page")
    }

    async fn dead_ids(&self, cursor: Option<&str>, limit: usize) -> (Vec<String>, Option<String>) {
        let page = self.dead(cursor, limit).await;
        let ids = page
            .entries
            .iter()
            .map(|entry| entry.notification.key.id().to_string())
            .collect();
        (ids, page.next)
    }
}

pub async fn with_a_journal_an_ended_entry_is_forgotten_at_once(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    for state in ENDS {
        let fixture = open(LIMITS).await;
        fixture.put_ended("1", state, 0).await;
        assert_eq!(fixture.find("1").await, None);
        assert_eq!(fixture.counts().await, Default::default());
        assert_eq!(fixture.dead_ids(None, 9).await, (vec![], None));
        let one = fixture.lease_one("1").await;
        assert!(matches!(one, LeasedOne::Missing), "{one:?}");
        fixture.put("shop", "1", 0).await;
        assert_eq!(fixture.claim_ids(9).await, ["1"], "its key is free");
    }
}

pub async fn without_a_journal_an_ended_entry_is_remembered(open: impl AsyncFn(Limits) -> Fixture) {
    for state in ENDS {
        let fixture = open(REMEMBERING).await;
        let remembered = fixture.put_ended("1", state, 3).await;
        let found = FoundEntry {
            entry: remembered,
            in_flight: false,
        };
        assert_eq!(fixture.find("1").await, Some(found.clone()));
        let registered = fixture.register(entry("shop", "1", 0)).await;
        assert_eq!(registered, Registered::Existing(Box::new(found)));
        assert_eq!(fixture.claim_ids(9).await, [""; 0]);
        assert_eq!(fixture.counts().await.pending, 0);
        let flags = fixture.schedule.in_flight(&[place("1")]).await;
        assert_eq!(flags.expect("answered"), [false]);
    }
}

pub async fn an_interruption_ends_with_the_entry(open: impl AsyncFn(Limits) -> Fixture) {
    for state in ENDS {
        let fixture = open(REMEMBERING).await;
        fixture.put("shop", "1", 0).await;
        fixture.claim_one().await;
        fixture.turn_to(LEASE_MS);
        let lease = fixture.claim_one().await;
        fixture.done(&lease, end(&lease, state, LEASE_MS)).await;
        assert_eq!(fixture.entry("1").await, ended(&lease, state, LEASE_MS));
    }
}

pub async fn a_delivered_or_cancelled_entry_is_forgotten_after_its_time(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    for state in [State::Delivered, State::Cancelled] {
        let fixture = open(REMEMBERING).await;
        fixture.turn_to(10);
        fixture.put_ended("1", state, 10).await;
        fixture.turn_to(10 + REMEMBER_MS - 1);
        fixture.claim(1).await;
        assert_eq!(fixture.entry("1").await.state, state, "not yet");
        fixture.turn_to(10 + REMEMBER_MS);
        fixture.claim(1).await;
        assert_eq!(fixture.find("1").await, None);
        fixture.put("shop", "1", 0).await;
        assert_eq!(fixture.claim_ids(9).await, ["1"], "its key is free");
    }
}

pub async fn many_ended_entries_are_forgotten_in_the_end(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(Limits {
        lane_start: 1_000,
        lane_cap: 1_000,
        ..REMEMBERING
    })
    .await;
    fixture.put_many("shop", 600, 0).await;
    for lease in fixture.claim_all(600).await {
        fixture.done(&lease, end(&lease, State::Delivered, 0)).await;
    }
    fixture.turn_to(REMEMBER_MS);
    // One claim forgets a bounded number.
    for _ in 0..30 {
        fixture.claim(1).await;
    }
    for number in [0, 299, 599] {
        assert_eq!(fixture.find(&format!("shop-{number:04}")).await, None);
    }
}

pub async fn a_dead_entry_is_kept_whole_until_somebody_decides(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(REMEMBERING).await;
    let dead = fixture.put_ended("1", State::Dead, 0).await;
    fixture.turn_to(100 * REMEMBER_MS);
    fixture.claim(1).await;
    assert_eq!(fixture.entry("1").await, dead);
    assert!(!dead.notification.body.is_empty());
    assert_eq!(fixture.dead(None, 9).await.entries, [dead]);
    assert_eq!(fixture.counts().await.dead, 1);
}

pub async fn a_dead_entry_begins_anew(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(REMEMBERING).await;
    let dead = fixture.put_ended("1", State::Dead, 0).await;
    fixture.turn_to(50);
    let lease = fixture.lease_by_hand("1").await;
    assert_eq!(lease.entry, dead);
    fixture.done(&lease, Settlement::Release).await;
    let replayed = fixture.replay("1", 60).await;
    assert_eq!(fixture.entry("1").await, replayed);
    assert_eq!(fixture.counts().await.dead, 0);
    assert_eq!(fixture.dead_ids(None, 9).await, (vec![], None));
    let claimed = fixture.claim(9).await;
    assert_eq!(ids(&claimed.leases), [""; 0]);
    assert_eq!(claimed.next_due_ms, Some(START_MS + 60));
    fixture.turn_to(60);
    assert_eq!(fixture.claim_one().await.entry, replayed);
    assert_eq!(fixture.lane_in_flight("shop").await, 1);
}

pub async fn a_dead_entry_can_be_given_up(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(REMEMBERING).await;
    let dead = fixture.put_ended("1", State::Dead, 0).await;
    fixture.turn_to(REMEMBER_MS);
    assert_eq!(fixture.entry("1").await, dead);
    let discarded = fixture.discard("1").await;
    let given_up = fixture.entry("1").await;
    assert_eq!(given_up, discarded);
    assert_eq!(given_up.state, State::Cancelled);
    assert_eq!(given_up.cause, None);
    assert_eq!(given_up.ended_ms, Some(START_MS + REMEMBER_MS));
    assert!(given_up.notification.body.is_empty());
    assert_eq!(fixture.counts().await, Default::default());
    assert_eq!(fixture.dead_ids(None, 9).await, (vec![], None));
    fixture.turn_to(2 * REMEMBER_MS - 1);
    fixture.claim(1).await;
    assert_eq!(fixture.entry("1").await, given_up);
    fixture.turn_to(2 * REMEMBER_MS);
    fixture.claim(1).await;
    assert_eq!(fixture.find("1").await, None);
}

/// Every way in which a lease by hand on an ended entry ends without a change of it.
async fn give_back(fixture: &Fixture, lease: &Lease, way: &str) {
    match way {
        "released" => fixture.done(lease, Settlement::Release).await,
        "rechecked" => fixture.done(lease, Settlement::Recheck).await,
        _ => {
            fixture.turn_to(lease.expires_ms() - START_MS);
            fixture.claim(1).await;
        }
    }
}

pub async fn an_ended_entry_that_was_leased_is_put_back_as_it_was(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    for way in ["released", "rechecked", "expired"] {
        for state in ENDS {
            let fixture = open(REMEMBERING).await;
            let before = fixture.put_ended("1", state, 3).await;
            let counts = fixture.counts().await;
            let page = fixture.dead(None, 9).await.entries;
            let lease = fixture.lease_by_hand("1").await;
            assert_eq!(lease.entry, before, "{way} {state}");
            let found = fixture.find("1").await.expect("here");
            assert!(found.in_flight, "{way} {state}");
            assert_eq!(fixture.dead_ids(None, 9).await.0, [""; 0], "it may change");
            assert_eq!(fixture.claim_ids(9).await, [""; 0]);
            assert_eq!(fixture.lane_in_flight("shop").await, 0, "nothing is sent");
            give_back(&fixture, &lease, way).await;
            let found = FoundEntry {
                entry: before,
                in_flight: false,
            };
            assert_eq!(fixture.find("1").await, Some(found), "{way}");
            assert_eq!(fixture.counts().await, counts, "{way} {state}");
            assert_eq!(fixture.dead(None, 9).await.entries, page, "{way} {state}");
            assert_eq!(fixture.claim_ids(9).await, [""; 0]);
            if state != State::Dead {
                fixture.turn_to(3 + REMEMBER_MS - 1);
                fixture.claim(1).await;
                assert!(fixture.find("1").await.is_some(), "{way} {state}: not yet");
                fixture.turn_to(3 + REMEMBER_MS);
                fixture.claim(1).await;
                assert_eq!(fixture.find("1").await, None, "{way} {state}");
            }
        }
    }
}

pub async fn what_is_leased_is_not_forgotten(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(REMEMBERING).await;
    let before = fixture.put_ended("1", State::Delivered, 3).await;
    fixture.turn_to(3 + REMEMBER_MS - CHANGE_LEASE_MS + 1);
    let lease = fixture.lease_by_hand("1").await;
    fixture.turn_to(3 + REMEMBER_MS);
    fixture.claim(1).await;
    assert_eq!(fixture.entry("1").await, before);
    fixture.done(&lease, Settlement::Release).await;
    fixture.claim(1).await;
    assert_eq!(fixture.find("1").await, None);
}

pub async fn dead_pages_show_the_newest_first(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(REMEMBERING).await;
    let order = ["c", "a", "e", "b", "d"];
    for (after_ms, id) in (1..).zip(order) {
        fixture.turn_to(after_ms);
        fixture.put_ended(id, State::Dead, after_ms).await;
    }
    fixture.put_ended("delivered", State::Delivered, 9).await;
    fixture.put("shop", "waiting", 0).await;
    let newest_first: Vec<&str> = order.into_iter().rev().collect();
    for limit in [1, 2, 3, 4, 5, 6, 100] {
        let mut cursor = None;
        let mut shown = Vec::new();
        for _ in 0..order.len() + 1 {
            let (ids, next) = fixture.dead_ids(cursor.as_deref(), limit).await;
            assert!(ids.len() <= limit);
            shown.extend(ids);
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(shown, newest_first, "by {limit}");
        assert_eq!(cursor, None, "by {limit}: there is an end");
    }
}

pub async fn dead_pages_stay_in_place_while_entries_come_and_go(
    open: impl AsyncFn(Limits) -> Fixture,
) {
    let fixture = open(REMEMBERING).await;
    for (after_ms, id) in (1..).zip(["1", "2", "3", "4", "5", "6"]) {
        fixture.turn_to(after_ms);
        fixture.put_ended(id, State::Dead, after_ms).await;
    }
    let (ids, next) = fixture.dead_ids(None, 2).await;
    assert_eq!(ids, ["6", "5"]);
    let cursor = next.expect("there is more");
    fixture.turn_to(100);
    fixture.put_ended("7", State::Dead, 100).await;
    fixture.discard("5").await;
    fixture.replay("6", 0).await;
    fixture.discard("3").await;
    let (ids, next) = fixture.dead_ids(Some(&cursor), 2).await;
    assert_eq!(ids, ["4", "2"], "after a cursor whose entry is gone");
    let cursor = next.expect("there is more");
    let (ids, _) = fixture.dead_ids(Some(&cursor), 2).await;
    assert_eq!(ids, ["1"]);
    let (ids, _) = fixture.dead_ids(None, 2).await;
    assert_eq!(ids, ["7", "4"]);
}

pub async fn dead_pages_show_all_of_one_instant(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(REMEMBERING).await;
    let mut parked: Vec<String> = (0..10).map(|number| format!("a/{number} b")).collect();
    for id in &parked {
        fixture.put_ended(id, State::Dead, 0).await;
    }
    let mut cursor = None;
    let mut shown = Vec::new();
    for _ in 0..parked.len() + 1 {
        let (ids, next) = fixture.dead_ids(cursor.as_deref(), 3).await;
        shown.extend(ids);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    shown.sort();
    parked.sort();
    assert_eq!(shown, parked);
}

pub async fn a_cursor_that_no_page_gave_is_refused(open: impl AsyncFn(Limits) -> Fixture) {
    let fixture = open(REMEMBERING).await;
    fixture.put_ended("1", State::Dead, 0).await;
    for cursor in ["", "x", "-", "/", "1", "\0", "99999999999999999999-paid/1"] {
        let page = fixture.schedule.dead(Some(cursor), 9).await;
        assert!(
            matches!(page, Err(ScheduleError::BadCursor)),
            "{cursor:?}: {page:?}"
        );
    }
    assert_eq!(fixture.dead_ids(None, 9).await.0, ["1"]);
}
