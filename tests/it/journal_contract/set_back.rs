//! The clock of the database was ahead when a job or a duty was given, and was set back since.

use super::jobs::{LEASE_MS, id, job, take};
use super::postgres_sharing::open;
use super::{PostgresStore, Store};
use ringback::journal::postgres::PostgresJournal;
use ringback::journal::{JournalMaintenance as _, LONGEST_DUTY_MS};

pub async fn a_job_whose_lease_ends_too_late_is_free(store: &dyn Store) {
    let journal = store.open().await;
    let one = job(1, "https://a.example");
    journal.add_job(&one).await.expect("kept");
    let before = take(&*journal).await;
    let none = journal.take_job(LEASE_MS).await.expect("asked");
    assert_eq!(none, None, "the longest lease is not too long");
    store
        .damage("UPDATE jobs SET leased_until_ms = leased_until_ms + 3600000")
        .await;
    let after = take(&*journal).await;
    assert_eq!(after.job.id, id(1));
    assert!(after.fence > before.fence, "{after:?}");
    let kept = journal.keep_job(&id(1), before.fence, LEASE_MS).await;
    assert!(!kept.expect("asked"), "another one has it now");
    let none = journal.take_job(LEASE_MS).await.expect("asked");
    assert_eq!(none, None, "its lease is as long as any other");
}

/// The file of SQLite has one server, which has all duties.
#[tokio::test]
async fn a_duty_that_is_given_for_too_long_is_free() {
    let store = PostgresStore::new();
    let (one, other) = (open(&store, 1).await, open(&store, 2).await);
    let asked = async |journal: &PostgresJournal| {
        let asking = journal.duty("reconcile", LONGEST_DUTY_MS).await;
        asking.expect("asked")
    };
    assert!(asked(&one).await);
    assert!(!asked(&other).await, "the longest time is not too long");
    store
        .damage("UPDATE duties SET until_ms = until_ms + 3600000")
        .await;
    assert!(asked(&other).await, "it is free");
    assert!(
        !asked(&one).await,
        "it is given for as long as any other now"
    );
}
