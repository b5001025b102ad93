//! What is old is forgotten, to the millisecond and no earlier.

use super::stage::Stage;
use crate::journal_contract::samples::{START_MS, apply, delivery, do_change, key, refusal};
use crate::support::merchant::Merchant;
use crate::support::ringback::{Server, Stores, registration};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::config::JournalConfig;
use ringback::domain::change::Change;
use ringback::journal::Pruned;
use ringback::maintenance::duty::Step;
use ringback::maintenance::prune::{Pruner, Retention};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};
use std::path::Path;

const KEPT: Retention = Retention {
    payloads_ms: Some(1_000),
    records_ms: Some(5_000),
    dead_ms: None,
};

async fn payloads(journal: &Path) -> i64 {
    let options = SqliteConnectOptions::new()
        .filename(journal)
        .read_only(true);
    let mut connection = options.connect().await.expect("opened");
    let counted = sqlx::query_scalar("SELECT count(*) FROM payloads");
    let many = counted.fetch_one(&mut connection).await.expect("counted");
    connection.close().await.expect("closed");
    many
}

#[tokio::test]
async fn both_sides_of_every_bound() {
    let stage = Stage::memory().await;
    let journal = stage.journal.as_ref();
    let (delivered, start) = stage.journal_one("delivered", 0).await;
    let recording = delivery(&delivered, start);
    let ended_ms = recording.at_ms;
    apply(journal, recording).await;
    stage.journal_one("cancelled", 0).await;
    do_change(journal, &key("cancelled"), Change::Cancel, ended_ms).await;
    let (dead, start) = stage.journal_one("dead", 0).await;
    let recording = refusal(&dead, start);
    assert_eq!(recording.at_ms, ended_ms);
    apply(journal, recording).await;
    stage.journal_one("pending", -100_000_000).await;

    let check = async |retention: Retention, after_ms: i64, payloads: u64, records: u64| {
        let mut pruner = Pruner::new(stage.journal.clone(), retention);
        let pruned = pruner.pass(ended_ms + after_ms).await.expect("pruned");
        let expected = Pruned {
            payloads,
            records,
            more: false,
        };
        assert_eq!(pruned, expected, "after {after_ms} ms");
    };
    check(KEPT, 1_000, 0, 0).await;
    check(KEPT, 1_001, 2, 0).await;
    check(KEPT, 5_000, 0, 0).await;
    check(KEPT, 5_001, 0, 2).await;
    check(KEPT, i64::MAX / 2, 0, 0).await;
    let dead_too = Retention {
        dead_ms: Some(7_000),
        ..KEPT
    };
    check(dead_too, 7_000, 0, 0).await;
    check(dead_too, 7_001, 0, 1).await;
    let counts = journal.counts().await.expect("read");
    assert_eq!((counts.registered, counts.scheduled), (1, 1));
    let pending = journal.pending(&key("pending")).await.expect("read");
    assert!(pending.is_some(), "with its body");
}

#[tokio::test]
async fn much_is_forgotten_in_many_steps() {
    let stage = Stage::memory().await;
    let journal = stage.journal.as_ref();
    for id in 0..501 {
        let (notification, start) = stage.journal_one(&id.to_string(), 0).await;
        apply(journal, delivery(&notification, start)).await;
    }
    let mut pruner = Pruner::new(stage.journal.clone(), KEPT);
    let now_ms = START_MS + 1_000_000;
    assert_eq!(pruner.step(now_ms).await.expect("pruned"), Step::More);
    assert_eq!(journal.counts().await.expect("read").registered, 1);
    let pruned = match pruner.step(now_ms).await.expect("pruned") {
        Step::Done(pruned) => pruned,
        Step::More => panic!("nothing is left"),
    };
    assert_eq!((pruned.payloads, pruned.records), (501, 501));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_forgets_the_body_first_and_then_the_notification_which_is_new_again() {
    const DAY_MS: i64 = 86_400_000;
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(Stores::Embedded).await;
    let JournalConfig::Sqlite(journal) = server.config().journal.clone() else {
        panic!("it has a SQLite journal");
    };
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    server.until_state("a", "delivered").await;
    assert_eq!(payloads(&journal).await, 1);

    server.clock().advance(31 * DAY_MS);
    let server = server.restart().await;
    within("the body to be forgotten", async {
        while payloads(&journal).await > 0 {
            short_pause().await;
        }
    })
    .await;
    let view = server.get("a").await;
    assert_eq!(view["state"], "delivered");
    assert_eq!(view["attempts"][0]["outcome"], "acknowledged");
    // It is known still, so registering it again is no new notification.
    let asked = Some(registration("a", &merchant));
    let (status, _) = server.call(Method::POST, "/v1/notifications", asked).await;
    assert_eq!(status, 200);

    server.clock().advance(370 * DAY_MS);
    let server = server.restart().await;
    within("the notification to be forgotten", async {
        let path = "/v1/notifications/t/a";
        while server.call(Method::GET, path, None).await.0 == 200 {
            short_pause().await;
        }
    })
    .await;
    server.register(registration("a", &merchant)).await;
    assert_eq!(merchant.call().await.attempt(), 1);
    server.until_state("a", "delivered").await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}
