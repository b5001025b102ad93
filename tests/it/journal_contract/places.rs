//! The places of the pending notifications, as a schedule is loaded with them that leaves their content to the journal.

use super::Store;
use super::samples::{
    START_MS, apply, changing, do_change, failure, find, keep, key, refusal, registering,
    registering_at, registration,
};
use ringback::domain::change::Change;
use ringback::domain::notification::{Registration, Start};
use ringback::domain::order::{OrderMode, OrderPlace};
use ringback::domain::place::PlaceInLane;
use ringback::domain::priority::Priority;
use ringback::journal::{ChangeResult, Changing, Journal, PageBodies, PlacesPage};

async fn page(journal: &dyn Journal, limit: usize) -> PlacesPage {
    let page = journal.places_page(None, i64::MAX, limit).await;
    page.expect("read")
}

fn ids(places: &[PlaceInLane]) -> Vec<&str> {
    places.iter().map(|place| place.entry.key.id()).collect()
}

/// Several are due at each instant, some have failed, some have ended.
pub async fn places_are_those_of_the_pages_with_everything(store: &dyn Store) {
    let journal = store.open().await;
    let empty = page(&*journal, 10).await;
    assert!(empty.places.is_empty() && empty.need_content.is_empty() && empty.next.is_none());
    for number in 0..60_i64 {
        let given = Registration {
            start: Start::After(1_000 * (number % 3)),
            ..registration(key(&format!("{number:02}")))
        };
        let given = registering_at(given, START_MS);
        let progress = given.progress;
        let notification = keep(&*journal, given).await;
        match number % 10 {
            0 => apply(&*journal, refusal(&notification, progress)).await,
            1 => apply(&*journal, failure(&notification, progress)).await,
            _ => {}
        }
    }
    for limit in [1, 7, 20, 54, 1_000] {
        for until_ms in [START_MS, START_MS + 1_999, i64::MAX] {
            let mut cursor = None;
            loop {
                let whole = journal.pending_page(cursor, until_ms, limit, PageBodies::None);
                let (whole, next) = whole.await.expect("read");
                let places = journal.places_page(cursor, until_ms, limit).await;
                let places = places.expect("read");
                let expected = whole.iter().map(|pending| PlaceInLane {
                    entry: pending.notification.key_in_lane(),
                    due_ms: pending.progress.next_due_ms(),
                    priority: pending.notification.priority,
                });
                assert_eq!(places.places, expected.collect::<Vec<_>>(), "{limit}");
                assert_eq!(places.next, next);
                assert!(places.need_content.is_empty());
                cursor = next;
                if next.is_none() {
                    break;
                }
            }
        }
    }
}

pub async fn what_a_claim_must_know_more_of_is_said_to_need_its_content(store: &dyn Store) {
    let journal = store.open().await;
    for id in ["plain", "by_hand"] {
        keep(&*journal, registering(id)).await;
    }
    for (id, mode) in [("latest", OrderMode::Latest), ("strict", OrderMode::Strict)] {
        let ordered = Registration {
            order: Some(OrderPlace::new(id, 1, mode).expect("a place")),
            ..registration(key(id))
        };
        keep(&*journal, registering_at(ordered, START_MS)).await;
    }
    do_change(&*journal, &key("by_hand"), Change::Retry, START_MS - 5).await;
    let page = page(&*journal, 10).await;
    assert_eq!(ids(&page.places), ["plain"]);
    assert_eq!(ids(&page.need_content), ["by_hand", "latest", "strict"]);
    assert_eq!(page.need_content[0].due_ms, START_MS - 5);
}

pub async fn the_priority_is_that_of_the_series(store: &dyn Store) {
    let journal = store.open().await;
    for own in Priority::ALL {
        let asked = Registration {
            priority: *own,
            ..registration(key(own.as_str()))
        };
        let given = registering_at(asked, START_MS);
        let progress = given.progress;
        let notification = keep(&*journal, given).await;
        let priority = async || {
            let places = page(&*journal, 10).await.places;
            let place = places
                .iter()
                .find(|place| place.entry.key == notification.key);
            place.expect("it is pending").priority
        };
        assert_eq!(priority().await, *own);
        apply(&*journal, refusal(&notification, progress)).await;
        let replay = Changing {
            fence: find(&*journal, &notification.key).await.fence,
            series_priority: Some(Priority::Low),
            ..changing(&notification.key, Change::Replay, START_MS + 5)
        };
        let replayed = journal.change(replay).await.expect("changed");
        assert!(matches!(replayed, ChangeResult::Done(_)), "{replayed:?}");
        assert_eq!(priority().await, Priority::Low, "{own}");
    }
}

/// Damage where it is not read does not matter: the attempt reads the rest.
pub async fn what_cannot_be_read_delays_no_other_place(store: &dyn Store) {
    let journal = store.open().await;
    for number in 1..=5 {
        let given = registration(key(&number.to_string()));
        keep(&*journal, registering_at(given, START_MS + number)).await;
    }
    journal.close().await;
    drop(journal);
    store
        .damage("UPDATE notifications SET ladder = 'rope' WHERE id = '2'")
        .await;
    store
        .damage("UPDATE notifications SET priority = 'huge' WHERE id = '4'")
        .await;
    let journal = store.open().await;
    assert_eq!(ids(&page(&*journal, 10).await.places), ["1", "2", "3", "5"]);
    let last = page(&*journal, 4).await;
    assert_eq!(ids(&last.places), ["1", "2", "3"]);
    assert_eq!(last.next.map(|cursor| cursor.at_ms), Some(START_MS + 4));
}
