//! What the attempts of each minute did: counters of several servers, for plots over time.

use super::Store;
use ringback::domain::activity::{ActivityBucket, ActivityCounts};
use ringback::journal::Journal;

/// Counters of which each has another value.
fn counts(first: u64) -> ActivityCounts {
    let mut values = [0; ActivityCounts::LENGTH];
    for (value, number) in values.iter_mut().zip(first..) {
        *value = number;
    }
    ActivityCounts::from_values(values)
}

fn sum(all: &[ActivityCounts]) -> ActivityCounts {
    let mut sum = ActivityCounts::default();
    all.iter().for_each(|counts| sum.add(counts));
    sum
}

async fn keep(journal: &dyn Journal, server: &str, minutes: &[(i64, ActivityCounts)]) {
    let kept = journal.keep_activity(server, minutes).await;
    kept.expect("kept");
}

/// A bucket: its first minute, for how many minutes something was counted, and what.
fn bucket(from_minute: i64, counted_minutes: i64, counts: &[ActivityCounts]) -> ActivityBucket {
    ActivityBucket {
        from_minute,
        counted_minutes,
        counts: sum(counts),
    }
}

pub async fn counters_of_all_servers_are_added_up(store: &dyn Store) {
    let journal = store.open().await;
    let none = ActivityCounts::default();
    keep(&*journal, "a", &[(1_000, counts(1)), (1_001, none)]).await;
    keep(&*journal, "b", &[(1_000, counts(100)), (1_007, counts(7))]).await;
    let read = journal.activity(1_000, 1_010, 5).await.expect("read");
    let expected = [
        bucket(1_000, 2, &[counts(1), counts(100)]),
        bucket(1_005, 1, &[counts(7)]),
    ];
    assert_eq!(read, expected);
    // What is not asked for is not read, and what nobody counted is left out.
    let read = journal.activity(1_001, 1_007, 1).await.expect("read");
    assert_eq!(read, [bucket(1_001, 1, &[])]);
    assert_eq!(journal.activity(2_000, 3_000, 60).await.expect("read"), []);
    journal.close().await;
    drop(journal);
    let journal = store.open().await;
    let read = journal.activity(1_000, 1_010, 10).await.expect("read");
    let all = [counts(1), counts(100), counts(7)];
    assert_eq!(read, [bucket(1_000, 3, &all)]);
}

pub async fn counters_that_come_again_or_late_are_not_counted_twice(store: &dyn Store) {
    let journal = store.open().await;
    let early = [(1_000, counts(1))];
    let late = [(1_000, counts(5)), (1_001, counts(2))];
    for minutes in [&early[..], &late[..], &late[..], &early[..], &[]] {
        keep(&*journal, "a", minutes).await;
    }
    let read = journal.activity(1_000, 1_002, 1).await.expect("read");
    let expected = [
        bucket(1_000, 1, &[counts(5)]),
        bucket(1_001, 1, &[counts(2)]),
    ];
    assert_eq!(read, expected);
}

pub async fn counters_are_forgotten_after_three_days(store: &dyn Store) {
    let journal = store.open().await;
    let days = |many: i64| many * 24 * 60;
    let old = [(0, counts(1)), (1, counts(2))];
    keep(&*journal, "a", &old).await;
    keep(&*journal, "b", &[(days(3), counts(3))]).await;
    let first_minutes = async || journal.activity(0, 10, 10).await.expect("read");
    assert_eq!(
        first_minutes().await,
        [bucket(0, 2, &[counts(1), counts(2)])]
    );
    keep(&*journal, "b", &[(days(3) + 1, counts(4))]).await;
    assert_eq!(first_minutes().await, [bucket(0, 1, &[counts(2)])]);
    keep(&*journal, "b", &[(days(4), counts(5))]).await;
    assert_eq!(first_minutes().await, []);
    let left = journal.activity(0, days(5), days(5)).await.expect("read");
    let all = [counts(3), counts(4), counts(5)];
    assert_eq!(left, [bucket(0, 3, &all)]);
}
