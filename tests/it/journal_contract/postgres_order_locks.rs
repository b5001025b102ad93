//! Which rows of PostgreSQL a registration with a place in an order locks, and when: others that lock several rows must not wait
//! for it while it waits for them.

use super::samples::{START_MS, key, registering, registering_at, registration};
use super::{PostgresStore, Store};
use crate::support::postgres::{connect, run};
use crate::support::{short_pause, within};
use ringback::domain::notification::Registration;
use ringback::domain::order::{OrderMode, OrderPlace};
use ringback::domain::state::Cause;
use ringback::journal::{RegisterResult, Registering};
use sqlx::postgres::PgConnection;

fn latest(id: &str, order: &str, number: i64) -> Registering {
    let place = OrderPlace::new(order, number, OrderMode::Latest).expect("a place");
    let registration = Registration {
        order: Some(place),
        ..registration(key(id))
    };
    registering_at(registration, START_MS)
}

/// Locks the row of a notification, as a recording of its outcome does. Fails if another transaction has locked it.
async fn lock(connection: &mut PgConnection, id: &str) {
    let locking = sqlx::query(
        "SELECT 1 FROM statuses WHERE notification = (SELECT row_id FROM notifications WHERE id = $1) FOR UPDATE NOWAIT",
    )
    .bind(id)
    .execute(connection);
    within("a row to be locked", locking).await.expect("locked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_be_superseded_is_locked_in_one_order_and_before_anything_is_written() {
    let store = PostgresStore::new();
    let journal = store.open().await;
    // The number of the row of `a5` is lower than that of `b5`.
    for (id, order) in [("a5", "a"), ("b5", "b")] {
        let kept = journal.register(&[latest(id, order, 5)]).await;
        assert_eq!(kept.expect("kept"), [RegisterResult::Created]);
    }
    let mut recording = connect(&store.url).await;
    run(&mut recording, "BEGIN").await;
    lock(&mut recording, "a5").await;
    let registered = {
        let journal = journal.clone();
        tokio::spawn(async move {
            let batch = [
                registering("plain"),
                latest("b6", "b", 6),
                latest("a6", "a", 6),
            ];
            journal.register(&batch).await
        })
    };
    let mut beside = connect(&store.url).await;
    within("the registration to wait for the row", async {
        loop {
            let waiting: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'",
            )
            .fetch_one(&mut beside)
            .await
            .expect("read");
            if waiting > 0 {
                return;
            }
            short_pause().await;
        }
    })
    .await;
    // Neither the other row nor a row of the counters is locked. Else each would wait for the other.
    lock(&mut recording, "b5").await;
    run(&mut recording, "SELECT 1 FROM counts FOR UPDATE NOWAIT").await;
    run(&mut recording, "COMMIT").await;
    let registered = within("the registration", registered).await;
    let replies = registered.expect("no panic").expect("kept");
    let ended: Vec<Vec<&str>> = (replies.iter())
        .map(|reply| match reply {
            RegisterResult::Created => Vec::new(),
            RegisterResult::CreatedOver(ended) => {
                assert!(ended.iter().all(|one| one.cause == Some(Cause::Superseded)));
                ended.iter().map(|one| one.key.id()).collect()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ended, [vec![], vec!["b5"], vec!["a5"]]);
}
