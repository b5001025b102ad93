//! What the journal refuses to record: sent once and never again, while its neighbours are not held up;
//! named to operators; delivered once the cause is removed and somebody releases it.
//!
//! The journal is damaged by hand, so that it refuses what is written of the notification `broken`.

use crate::cli::program::{Finished, run};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::postgres::connect;
use crate::support::process::Process;
use crate::support::redis::connect as connect_redis;
use crate::support::ringback::{Api, Server, Stores, config, registration};
use crate::support::within;
use reqwest::Method;
use ringback::config::{JournalConfig, ServeConfig};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};
use std::collections::BTreeSet;

const HOUR_MS: i64 = 3_600_000;

/// What the journal refuses.
#[derive(Debug, Clone, Copy)]
pub(super) enum Damage {
    /// Attempts of the notification.
    Attempts,
    /// Every change to it.
    Itself,
    /// To set it aside.
    Note,
}

impl Damage {
    /// The statements that do the damage, and those that undo it.
    fn statements(self, postgres: bool) -> (&'static str, &'static str) {
        match (self, postgres) {
            (Self::Attempts, false) => (
                "CREATE TRIGGER damage BEFORE INSERT ON attempts
                 WHEN NEW.notification = (SELECT row_id FROM notifications WHERE id = 'broken')
                 BEGIN SELECT RAISE(ABORT, 'damage'); END",
                "DROP TRIGGER damage",
            ),
            (Self::Itself, false) => (
                "CREATE TRIGGER damage BEFORE UPDATE ON notifications WHEN NEW.id = 'broken'
                 BEGIN SELECT RAISE(ABORT, 'damage'); END",
                "DROP TRIGGER damage",
            ),
            (Self::Note, false) => (
                "CREATE TRIGGER note_damage BEFORE INSERT ON set_aside WHEN NEW.id = 'broken'
                 BEGIN SELECT RAISE(ABORT, 'damage'); END",
                "DROP TRIGGER note_damage",
            ),
            (Self::Note, true) => (
                "ALTER TABLE set_aside ADD CONSTRAINT note_damage CHECK (id <> 'broken')",
                "ALTER TABLE set_aside DROP CONSTRAINT note_damage",
            ),
            (Self::Attempts, true) => (
                "DO $$ BEGIN EXECUTE format(
                    'ALTER TABLE attempts ADD CONSTRAINT damage CHECK (notification <> %s) NOT VALID',
                    (SELECT row_id FROM notifications WHERE id = 'broken')
                 ); END $$",
                "ALTER TABLE attempts DROP CONSTRAINT damage",
            ),
            (Self::Itself, true) => (
                "DO $$ BEGIN EXECUTE format(
                    'ALTER TABLE statuses ADD CONSTRAINT damage CHECK (notification <> %s) NOT VALID',
                    (SELECT row_id FROM notifications WHERE id = 'broken')
                 ); END $$",
                "ALTER TABLE statuses DROP CONSTRAINT damage",
            ),
        }
    }

    pub(super) async fn do_it(self, journal: &JournalConfig) {
        let statements = self.statements(matches!(journal, JournalConfig::Postgres(_)));
        sql(journal, statements.0).await;
    }

    async fn undo_it(self, journal: &JournalConfig) {
        let statements = self.statements(matches!(journal, JournalConfig::Postgres(_)));
        sql(journal, statements.1).await;
    }
}

/// Runs a statement in the journal, beside its server.
pub(super) async fn sql(journal: &JournalConfig, statement: &str) {
    let statement = AssertSqlSafe(statement.to_string());
    match journal {
        JournalConfig::Sqlite(path) => {
            let mut connection = SqliteConnectOptions::new().filename(path);
            connection = connection.busy_timeout(std::time::Duration::from_secs(20));
            let mut connection = connection.connect().await.expect("opened");
            connection.execute(statement).await.expect("executed");
            connection.close().await.expect("closed");
        }
        JournalConfig::Postgres(url) => {
            let mut connection = connect(url.expose()).await;
            connection.execute(statement).await.expect("executed");
        }
        JournalConfig::None => panic!("there is no journal"),
    }
}

/// `ringback audit` with these stores.
fn audit(config: &ServeConfig) -> (Finished, Value) {
    let mut arguments = vec!["audit".to_string(), "--json".to_string()];
    let data_dir = config.data_dir.to_str().expect("UTF-8");
    arguments.extend(["--data-dir".to_string(), data_dir.to_string()]);
    if let JournalConfig::Postgres(url) = &config.journal {
        arguments.extend(["--journal".to_string(), url.expose().to_string()]);
    }
    if let Some(url) = &config.schedule.redis {
        arguments.extend(["--redis".to_string(), url.expose().to_string()]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let finished = run(&config.data_dir, &arguments, &[]);
    let report = serde_json::from_str(&finished.stdout);
    let report = report.unwrap_or_else(|_| panic!("{}", finished.stderr));
    (finished, report)
}

/// A change of `t/broken`: its status and answer.
async fn change(api: &Api, method: Method, below: &str) -> (u16, Value) {
    let path = format!("/v1/notifications/t/broken{below}");
    api.call(method, &path, None).await
}

async fn until_set_aside(api: &Api) -> Value {
    // It is set aside before its lease is settled.
    api.until("broken", |view| {
        !view["set_aside"].is_null() && view["state"] != "in_flight"
    })
    .await
}

/// Two that are due in a second, of which one cannot be recorded, and one that is due in an hour.
async fn start(stores: Stores, merchant: &mut Merchant, damages: &[Damage]) -> Server {
    let server = Server::start_by_hand(stores).await;
    for (id, delay) in [("broken", "1s"), ("beside", "1s"), ("later", "1h")] {
        let mut asked = registration(id, merchant);
        asked["delay"] = delay.into();
        server.register(asked).await;
    }
    for damage in damages {
        damage.do_it(&server.config().journal).await;
    }
    server.clock().advance(1_000);
    let called = BTreeSet::from([merchant.call().await.body, merchant.call().await.body]);
    assert_eq!(
        called,
        ["id=beside", "id=broken"]
            .map(|body| body.as_bytes().to_vec())
            .into()
    );
    server.until_state("beside", "delivered").await;
    server
}

async fn what_cannot_be_recorded_is_sent_once_until_it_is_released(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let damage = Damage::Attempts;
    let server = start(stores, &mut merchant, &[damage]).await;
    let view = until_set_aside(&server).await;
    assert_eq!(
        (&view["state"], &view["attempts_made"]),
        (&json!("scheduled"), &json!(0))
    );
    let reason = view["set_aside"]["reason"].as_str().expect("a text");
    let beginning = "attempt 1 ended as acknowledged with 200, but the journal cannot record it: ";
    assert!(
        reason.starts_with(beginning) && reason.contains("damage"),
        "{reason}"
    );

    // Whatever puts pending notifications into the schedule leaves it out.
    let asked = {
        let mut asked = registration("broken", &merchant);
        asked["delay"] = "1s".into();
        asked
    };
    let path = "/v1/notifications";
    let (status, again) = server.call(Method::POST, path, Some(asked)).await;
    assert_eq!(status, 200, "{again}");
    let server = server.restart().await;
    if let Some(url) = &server.config().schedule.redis {
        let mut redis = connect_redis(url.expose()).await;
        let flushed = ::redis::cmd("FLUSHDB").exec_async(&mut redis).await;
        flushed.expect("flushed");
    }
    server.clock().advance(HOUR_MS);
    assert_eq!(merchant.call().await.body, b"id=later");
    server.until_state("later", "delivered").await;
    assert!(merchant.arrived().is_none());

    let (finished, report) = audit(server.config());
    assert_eq!(finished.status, 1, "{report}");
    assert_eq!(report["sound"], false);
    let set_aside = &report["journal"]["set_aside"];
    assert_eq!(set_aside["total"], 1);
    assert_eq!(set_aside["named"][0]["id"], "broken");
    assert_eq!(set_aside["named"][0]["at"], view["set_aside"]["at"]);
    assert_eq!(set_aside["named"][0]["reason"], reason);
    if stores != Stores::Embedded {
        assert_eq!(report["compared"]["differences"]["total"], 0);
    }

    // Released too early, it is attempted once, and set aside again.
    let (status, view) = change(&server, Method::POST, "/retry").await;
    assert_eq!(status, 200, "{view}");
    assert_eq!(merchant.call().await.body, b"id=broken");
    let view = until_set_aside(&server).await;
    let kinds: Vec<&str> = (view["transitions"].as_array().expect("a list").iter())
        .filter_map(|line| line["kind"].as_str())
        .filter(|kind| *kind != "restored")
        .collect();
    assert_eq!(kinds, ["registered", "set_aside", "retried"]);

    damage.undo_it(&server.config().journal).await;
    let (status, view) = change(&server, Method::POST, "/retry").await;
    assert_eq!(status, 200, "{view}");
    assert_eq!(merchant.call().await.body, b"id=broken");
    let view = server.until_state("broken", "delivered").await;
    assert_eq!(
        (&view["attempts_made"], &view["set_aside"]),
        (&json!(1), &Value::Null)
    );
    let (finished, report) = audit(server.config());
    assert_eq!(
        (finished.status, &report["sound"]),
        (0, &json!(true)),
        "{report}"
    );
    assert!(merchant.arrived().is_none());
    server.stop().await;
}

async fn what_cannot_be_changed_stays_set_aside_until_it_can(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let damage = Damage::Itself;
    let server = start(stores, &mut merchant, &[damage]).await;
    until_set_aside(&server).await;
    for (method, below) in [(Method::POST, "/retry"), (Method::DELETE, "")] {
        let (status, problem) = change(&server, method, below).await;
        assert_eq!(status, 500, "{problem}");
        assert!(!server.get("broken").await["set_aside"].is_null());
    }
    damage.undo_it(&server.config().journal).await;
    let (status, view) = change(&server, Method::DELETE, "").await;
    assert_eq!(
        (status, &view["state"]),
        (200, &json!("cancelled")),
        "{view}"
    );
    assert_eq!(server.get("broken").await["set_aside"], Value::Null);
    let (finished, report) = audit(server.config());
    assert_eq!(finished.status, 0, "{report}");
    assert!(merchant.arrived().is_none());
    server.stop().await;
}

async fn what_cannot_even_be_set_aside_is_kept_back(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let damages = [Damage::Attempts, Damage::Note];
    let server = start(stores, &mut merchant, &damages).await;
    // For longer than its lease would last.
    for _ in 0..80 {
        let view = server.get("broken").await;
        assert_eq!(
            (&view["state"], &view["set_aside"]),
            (&json!("in_flight"), &Value::Null)
        );
        server.clock().advance(500);
    }
    Damage::Note.undo_it(&server.config().journal).await;
    until_set_aside(&server).await;
    assert!(merchant.arrived().is_none());
    server.stop().await;
}

/// What concerns all notifications sets none aside: their outcomes wait, with their leases renewed.
async fn a_journal_that_lacks_a_table_sets_nothing_aside(stores: Stores) {
    let held = Reaction::Held(Box::new(Reaction::success()));
    let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
    let server = Server::start(stores).await;
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    let journal = server.config().journal.clone();
    sql(&journal, "ALTER TABLE attempts RENAME TO attempts_away").await;
    merchant.release();
    let failing = async {
        loop {
            let (status, report) = server.call(Method::GET, "/readyz", None).await;
            if status == 503 && report["stores"][0]["state"] != "up" {
                return;
            }
        }
    };
    within("the journal to be missed", failing).await;
    sql(&journal, "ALTER TABLE attempts_away RENAME TO attempts").await;
    let view = server.until_state("a", "delivered").await;
    assert_eq!(
        (&view["attempts_made"], &view["set_aside"]),
        (&json!(1), &Value::Null)
    );
    let kinds = view["transitions"].to_string();
    assert!(!kinds.contains("set_aside"), "{kinds}");
    assert!(merchant.arrived().is_none());
    server.stop().await;
}

crate::end_to_end::on_journaled_stores!(
    what_cannot_even_be_set_aside_is_kept_back,
    a_journal_that_lacks_a_table_sets_nothing_aside,
    what_cannot_be_recorded_is_sent_once_until_it_is_released,
    what_cannot_be_changed_stays_set_aside_until_it_can,
);

/// Bodies that wait for a later attempt are left to the journal, and one is gone there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_body_left_is_set_aside_unsent() {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(Stores::Embedded).await;
    for id in ["broken", "beside"] {
        let mut asked = registration(id, &merchant);
        asked["delay"] = "1h".into();
        if id == "broken" {
            // Too large to be held in memory until then.
            asked["body"] = "x".repeat(2_000).into();
        }
        server.register(asked).await;
    }
    let of_broken = "notification = (SELECT row_id FROM notifications WHERE id = 'broken')";
    let statement = format!("DELETE FROM payloads WHERE {of_broken}");
    sql(&server.config().journal, &statement).await;
    server.clock().advance(HOUR_MS);
    assert_eq!(merchant.call().await.body, b"id=beside");
    let view = until_set_aside(&server).await;
    let reason = "the journal has no body for this notification";
    assert_eq!(view["set_aside"]["reason"], reason);
    // For longer than its lease would last.
    server.clock().advance(HOUR_MS);
    let (status, view) = change(&server, Method::DELETE, "").await;
    assert_eq!(
        (status, &view["state"]),
        (200, &json!("cancelled")),
        "{view}"
    );
    assert_eq!(view["attempts"], json!([]), "nothing was sent");
    assert!(merchant.arrived().is_none());
    server.stop().await;
}

/// A server dies during two attempts. When their leases have expired, one notification cannot be fenced,
/// and the other one is set aside: neither is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_back_from_a_lost_lease_is_not_sent_either() {
    for stores in [Stores::Redis, Stores::Postgres] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let config = config(dir.path(), stores);
        // The server is killed before it ends.
        let mut arguments = vec!["--timeout", "3s"];
        arguments.extend([
            "--redis",
            config.schedule.redis.as_ref().expect("set").expose(),
        ]);
        if let JournalConfig::Postgres(url) = &config.journal {
            arguments.extend(["--journal", url.expose()]);
        }
        let hangs = || Merchant::scripted(vec![Reaction::Hang], Reaction::success());
        let mut merchants = [hangs().await, hangs().await];
        let server = Process::start(dir.path(), &arguments).await;
        for (id, merchant) in ["broken", "aside"].into_iter().zip(&mut merchants) {
            server.api().register(registration(id, merchant)).await;
            merchant.call().await;
        }
        server.kill().await;
        Damage::Itself.do_it(&config.journal).await;
        let aside = "INSERT INTO set_aside (topic, id, at_ms, reason, instance)
             VALUES ('t', 'aside', 1, 'by hand', 'somebody')";
        sql(&config.journal, aside).await;

        let server = Process::start(dir.path(), &arguments).await;
        until_set_aside(server.api()).await;
        let held = async {
            loop {
                let (_, report) = audit(&config);
                if report["schedule"]["pending"] == 0 {
                    return report;
                }
            }
        };
        let report = within("both to leave the schedule", held).await;
        assert_eq!(report["journal"]["set_aside"]["total"], 2);
        assert_eq!(report["compared"]["differences"]["total"], 0);
        assert!(
            merchants
                .iter_mut()
                .all(|merchant| merchant.arrived().is_none())
        );
        server.kill().await;
    }
}
