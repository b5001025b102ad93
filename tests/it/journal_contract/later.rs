//! Which destinations have something pending that is due later, and how much.

use super::Store;
use super::samples::{
    START_MS, apply, delivery, do_change, failure, keep, key, refusal, registering_at, registration,
};
use ringback::domain::change::Change;
use ringback::domain::destination::Destination;
use ringback::domain::lane::Lane;
use ringback::domain::later::{LATER_MS, LaneAfter, LaterCount};
use ringback::domain::notification::{Notification, Registration, Start, Target};
use ringback::domain::progress::Progress;
use ringback::journal::{Cursor, Journal, JournalReads};
use std::sync::Arc;

const HOUR_MS: i64 = 3_600_000;

/// Registers one of a shop, due after so long.
async fn put(
    journal: &dyn Journal,
    shop: &str,
    id: &str,
    delay_ms: i64,
) -> (Arc<Notification>, Progress) {
    let url = format!("https://{shop}.example/");
    let registration = Registration {
        target: Target::Url(Destination::parse(&url).expect("a url")),
        start: Start::After(delay_ms),
        ..registration(key(id))
    };
    let registering = registering_at(registration, START_MS);
    let progress = registering.progress;
    (keep(journal, registering).await, progress)
}

fn lane(shop: &str) -> Lane {
    Lane::from_name(&format!("https://{shop}.example"))
}

/// The shops that have something later, in pages of so many.
async fn shops(journal: &(impl JournalReads + ?Sized), limit: usize) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = journal.later_lanes(after.as_deref(), limit).await;
        let page = page.expect("read");
        assert!(page.len() <= limit);
        let is_last = page.len() < limit;
        let name = |lane: &Lane| {
            lane.as_str()
                .replace("https://", "")
                .replace(".example", "")
        };
        all.extend(page.iter().map(name));
        after = page.last().map(|lane| lane.as_str().to_string());
        if is_last {
            return all;
        }
    }
}

async fn count(journal: &dyn Journal, shop: &str, after_ms: i64, most: usize) -> (u64, bool) {
    let asked = LaneAfter {
        lane: lane(shop),
        after_ms,
    };
    let counts = journal.count_later(&[asked], most).await.expect("read");
    let [LaterCount { many, is_at_least }] = counts[..] else {
        panic!("{counts:?}");
    };
    (many, is_at_least)
}

pub async fn destinations_with_something_later_are_found_in_pages(store: &dyn Store) {
    let journal = store.open().await;
    assert!(shops(&*journal, 2).await.is_empty());
    for (number, shop) in ["d", "b", "a", "e", "c", "b", "d"].into_iter().enumerate() {
        put(&*journal, shop, &number.to_string(), HOUR_MS).await;
    }
    // What is sent at once does not count, nor does what is sent within seconds.
    put(&*journal, "now", "now", 0).await;
    put(&*journal, "soon", "soon", LATER_MS).await;
    put(&*journal, "later", "later", LATER_MS + 1).await;
    for limit in [1, 2, 3, 100] {
        let expected = ["a", "b", "c", "d", "e", "later"];
        assert_eq!(shops(&*journal, limit).await, expected, "{limit}");
    }
}

pub async fn what_is_due_after_an_instant_is_counted_up_to_a_limit(store: &dyn Store) {
    let journal = store.open().await;
    for number in 1..=5 {
        put(&*journal, "a", &number.to_string(), number * HOUR_MS).await;
    }
    put(&*journal, "b", "b", HOUR_MS).await;
    let check = async |shop, after_ms, most, expected| {
        let counted = count(&*journal, shop, START_MS + after_ms, most).await;
        assert_eq!(counted, expected, "{shop} {after_ms} {most}");
    };
    check("a", 0, 100, (5, false)).await;
    check("a", HOUR_MS - 1, 100, (5, false)).await;
    check("a", HOUR_MS, 100, (4, false)).await;
    check("a", 5 * HOUR_MS, 100, (0, false)).await;
    check("a", 0, 5, (5, true)).await;
    check("a", 0, 2, (2, true)).await;
    check("b", 0, 100, (1, false)).await;
    check("c", 0, 100, (0, false)).await;
    // Several at once, each from its own instant on, in the order of the request.
    let asked = [("b", 0), ("c", 0), ("a", 3 * HOUR_MS)].map(|(shop, after_ms)| LaneAfter {
        lane: lane(shop),
        after_ms: START_MS + after_ms,
    });
    let counts = journal.count_later(&asked, 100).await.expect("read");
    let many: Vec<u64> = counts.iter().map(|count| count.many).collect();
    assert_eq!(many, [1, 0, 2]);
    assert!(
        journal
            .count_later(&[], 100)
            .await
            .expect("read")
            .is_empty()
    );
}

/// Whatever is done to a notification, the index follows.
pub async fn what_is_due_later_follows_every_change(store: &dyn Store) {
    let journal = store.open().await;
    let check = async |expected: &[&str]| assert_eq!(shops(&*journal, 100).await, expected);
    // A first attempt that fails, and the next ones until the end.
    let (failed, progress) = put(&*journal, "a", "a", 0).await;
    apply(&*journal, failure(&failed, progress)).await;
    check(&["a"]).await;
    let next = journal.find(&key("a")).await.expect("read").expect("there");
    apply(&*journal, delivery(&failed, next.progress)).await;
    check(&[]).await;
    // Dead, and replayed after a while.
    let (dead, progress) = put(&*journal, "b", "b", 0).await;
    apply(&*journal, refusal(&dead, progress)).await;
    check(&[]).await;
    do_change(&*journal, &key("b"), Change::Replay, START_MS + HOUR_MS).await;
    check(&["b"]).await;
    do_change(&*journal, &key("b"), Change::Cancel, START_MS + HOUR_MS + 1).await;
    check(&[]).await;
    // Moved away and back.
    put(&*journal, "c", "c", 0).await;
    for (delay_ms, expected) in [(2 * HOUR_MS, &["c"][..]), (0, &[])] {
        let moved = Change::Reschedule(Start::After(delay_ms));
        do_change(&*journal, &key("c"), moved, START_MS + 1).await;
        check(expected).await;
    }
    // Two recordings of one notification in a batch: the second goes the long way.
    let (twice, progress) = put(&*journal, "d", "d", 0).await;
    let first = failure(&twice, progress);
    apply(&*journal, first.clone()).await;
    let next = journal.find(&key("d")).await.expect("read").expect("there");
    let second = failure(&twice, next.progress);
    journal.record(&[first, second]).await.expect("kept");
    check(&["d"]).await;
    assert_eq!(count(&*journal, "d", START_MS, 100).await, (1, false));
}

/// What a server of an earlier version has written.
pub async fn what_lacks_its_place_is_entered(store: &dyn Store) {
    let journal = store.open().await;
    for number in 0..25 {
        let shop = if number % 2 == 0 { "even" } else { "odd" };
        put(&*journal, shop, &number.to_string(), number * HOUR_MS).await;
    }
    let (ended, progress) = put(&*journal, "ended", "ended", HOUR_MS).await;
    apply(&*journal, delivery(&ended, progress)).await;
    journal.close().await;
    let (entered, counts) = enter_later(store, START_MS, 7).await;
    if let Some(entered) = entered {
        assert_eq!(entered, 24, "one of them is due at once");
    }
    assert_eq!(counts, [12, 12, 0]);
}

/// Forgets the places, if the store has a column for them, and has them entered in pages of so many. Returns how many
/// were entered, and what is counted of `even`, `odd` and `ended` then.
async fn enter_later(store: &dyn Store, from_ms: i64, limit: usize) -> (Option<u64>, Vec<u64>) {
    let forgot = store.forget_later().await;
    let journal = store.open().await;
    if forgot {
        assert!(shops(&*journal, 9).await.is_empty());
    }
    let mut entered = 0;
    for round in 0..2 {
        let mut cursor = Some(Cursor {
            at_ms: from_ms,
            row: i64::MAX,
        });
        while let Some(from) = cursor {
            let (many, next) = journal.fill_in_later(from, limit).await.expect("entered");
            assert!(round == 0 || many == 0, "nothing is left to enter");
            entered += many;
            cursor = next;
        }
    }
    let mut counts = Vec::new();
    for shop in ["even", "odd", "ended"] {
        counts.push(count(&*journal, shop, from_ms, 100).await.0);
    }
    (forgot.then_some(entered), counts)
}
