//! `ringback rebuild`, by the real program beside open stores and servers.

use super::stage::Stage;
use crate::cli::program::{Finished, run};
use crate::journal_contract::samples::{
    apply, delivery, failure, key, registering_at, registration,
};
use crate::support::merchant::Merchant;
use crate::support::redis::connect;
use crate::support::ringback::{Server, Stores, registration as asked};
use ringback::config::JournalConfig;
use ringback::journal::SettingAside;
use ringback::schedule::CLAIMED_EARLY_MS;
use ringback::schedule::recoverable::{Inspection, ScheduleStatus};
use serde_json::{Value, json};
use std::path::Path;

const SILENT: &str =
    "the histories do not show this, because only its server may write to this journal\n";

impl Stage {
    fn rebuild(&self, further: &[&str]) -> Finished {
        let arguments = [&["rebuild"], &*self.flags(), further].concat();
        run(self.dir.path(), &arguments, &[("USER", "ops")])
    }

    /// What it says of a rebuild that must succeed.
    fn rebuilt(&self, further: &[&str]) -> String {
        let finished = self.rebuild(further);
        assert_eq!((finished.status, &*finished.stderr), (0, ""), "{further:?}");
        let said = finished.stdout.strip_suffix(SILENT);
        said.expect("SQLite is the server's own").to_string()
    }

    fn refused(&self, further: &[&str], status: i32, why: &str) {
        let finished = self.rebuild(further);
        assert_eq!(finished.stderr, format!("ringback: {why}\n"));
        assert_eq!((finished.status, &*finished.stdout), (status, ""));
    }

    async fn pending(&self) -> u64 {
        self.schedule.counts().await.expect("counted").pending
    }
}

#[tokio::test]
async fn what_was_done_is_said_in_json_too() {
    let stage = Stage::redis().await;
    stage.journal_one("1", 0).await;
    stage.journal_one("2", 0).await;
    let said = |further: &[&str]| {
        let finished = stage.rebuild(&[further, &["--json"]].concat());
        assert_eq!((finished.status, &*finished.stderr), (0, ""), "{further:?}");
        serde_json::from_str::<Value>(&finished.stdout).expect("JSON")
    };
    let one = |result: &str| {
        json!({
            "loaded": null,
            "compared": null,
            "notification": { "topic": "payment.succeeded", "id": "1", "state": "scheduled", "result": result },
            "noted": false,
        })
    };
    assert_eq!(said(&["payment.succeeded", "1"]), one("restored"));
    assert_eq!(said(&["payment.succeeded", "1"]), one("unchanged"));
    let compared = json!({ "pending": 2, "later": 0, "restored": 1, "moved": 0 });
    let all = json!({ "loaded": null, "compared": compared, "notification": null, "noted": false });
    assert_eq!(said(&[]), all);
    let cleared = said(&["--clear"]);
    assert_eq!(cleared["loaded"]["pending"], 2, "{cleared}");
    assert_eq!(cleared["loaded"]["held"], 2, "{cleared}");
    assert!(cleared["loaded"]["seconds"].is_f64(), "{cleared}");
}

#[tokio::test]
async fn one_notification_is_put_back() {
    let stage = Stage::redis().await;
    stage.journal_one("1", 0).await;
    stage.journal_one("2", 0).await;
    // Before the first command: by its clock, this instance was last at work more than a week ago, so it is forgotten.
    let (elsewhere, start) = stage.register("3", 0).await;
    stage.register("4", 0).await;
    let one = ["payment.succeeded", "1"];
    assert_eq!(
        stage.rebuilt(&one),
        "payment.succeeded/1 is back in Redis\n"
    );
    assert!(stage.held("1").await.expect("held").verify);
    assert!(stage.held("2").await.is_none());
    let again = stage.rebuilt(&one);
    assert_eq!(again, "payment.succeeded/1 was in Redis already\n");

    let journal = stage.journal.as_ref();
    apply(journal, failure(&elsewhere, start)).await;
    let said = stage.rebuilt(&["payment.succeeded", "3"]);
    assert!(said.contains("3 was at another step in Redis"), "{said}");
    let progress = failure(&elsewhere, start).decision.progress;
    apply(journal, delivery(&elsewhere, progress)).await;
    assert_eq!(
        stage.rebuilt(&["payment.succeeded", "3"]),
        "payment.succeeded/3 is delivered; there is nothing to put back\n"
    );
    let setting = SettingAside {
        key: key("4"),
        at_ms: 1,
        reason: "damage".to_string(),
    };
    journal.set_aside(&setting).await.expect("kept");
    for _ in 0..2 {
        assert_eq!(
            stage.rebuilt(&["payment.succeeded", "4"]),
            "payment.succeeded/4 is set aside, so it is not put back; `ringback retry` releases it\n"
        );
        assert_eq!(stage.held("4").await, None);
    }
    let missing = ["payment.succeeded", "nobody"];
    stage.refused(
        &missing,
        1,
        "the journal has no notification payment.succeeded/nobody",
    );
}

#[tokio::test]
async fn what_is_missing_or_elsewhere_is_brought_to_where_the_journal_stands() {
    let stage = Stage::redis().await;
    stage.register("same", 0).await;
    stage.journal_one("missing", 0).await;
    let (elsewhere, start) = stage.register("elsewhere", 0).await;
    let recording = failure(&elsewhere, start);
    let next = recording.decision.progress;
    apply(stage.journal.as_ref(), recording).await;
    assert_eq!(
        stage.rebuilt(&[]),
        "3 pending in the journal: 1 were missing in Redis and were put back, 1 were at another step \
         and were corrected\n"
    );
    let held = stage.held("elsewhere").await.expect("held");
    let early_ms = next.next_due_ms() - held.progress.next_due_ms();
    assert!((0..=CLAIMED_EARLY_MS).contains(&early_ms), "{early_ms}");
    assert_eq!(stage.pending().await, 3);
    assert!(
        stage
            .rebuilt(&[])
            .starts_with("3 pending in the journal: 0 were")
    );
}

#[tokio::test]
async fn a_part_is_picked_by_topic_and_by_what_is_not_due_yet() {
    let stage = Stage::redis().await;
    let mut batch = Vec::new();
    for (topic, id, delay_ms) in [("a", "1", 0), ("b", "2", 0), ("b", "3", 2_000_000_000)] {
        let mut registration = registration(key(id));
        registration.key = ringback::domain::key::Key::new(topic, id).expect("a key");
        registration.start = ringback::domain::notification::Start::After(delay_ms);
        // Long ago, by the clock of the machine.
        batch.push(registering_at(registration, 1_700_000_000_000));
    }
    // Far from now, whenever that is.
    batch[2].progress.due_ms = 9_000_000_000_000;
    stage.journal.register(&batch).await.expect("kept");
    assert!(
        stage.rebuilt(&["--not-due"]).starts_with(
            "1 pending in the journal: 0 were missing in Redis and were put back, 0 were at another step and were \
             corrected, 1 are due later and need not be in Redis yet"
        )
    );
    let said = stage.rebuilt(&["b", "3"]);
    assert!(
        said.contains("is due later and need not be in Redis yet"),
        "{said}"
    );
    assert_eq!(stage.pending().await, 0);
    let whole = ["--not-due", "--horizon", "forever"];
    assert!(
        stage
            .rebuilt(&whole)
            .starts_with("1 pending in the journal: 1 were")
    );
    assert!(
        stage
            .rebuilt(&["--topic", "b"])
            .starts_with("2 pending in the journal: 1 were")
    );
    assert_eq!(stage.pending().await, 2);
    assert!(
        stage
            .rebuilt(&["--topic", "nobody"])
            .starts_with("0 pending")
    );
    assert!(
        stage
            .rebuilt(&[])
            .starts_with("3 pending in the journal: 1 were")
    );
}

#[tokio::test]
async fn redis_is_emptied_and_filled_on_demand_and_whenever_it_lost_something() {
    let stage = Stage::redis().await;
    for number in 0..50 {
        stage.register(&number.to_string(), 0).await;
    }
    let other = Stage::memory().await;
    let (unknown, start) = other.register("unknown", 0).await;
    stage.schedule_one(&unknown, start).await;
    let said = stage.rebuilt(&["--clear"]);
    assert!(
        said.starts_with("50 pending in the journal, all of them in Redis again after "),
        "{said}"
    );
    assert_eq!(stage.pending().await, 50);
    assert!(stage.held("unknown").await.is_none());
    // Servers have to look, and find everything there.
    let recoverable = stage.schedule.recoverable().expect("in Redis");
    assert!(stage.schedule.check().await.is_err());
    assert_eq!(
        recoverable.inspect(false).await.expect("looked"),
        Inspection::Whole
    );
    stage.schedule.check().await.expect("it works again");

    stage.redis_command(&["FLUSHDB"]).await;
    let why =
        "Redis has no data of this journal; `ringback rebuild` for all notifications loads it";
    stage.refused(&["--not-due"], 1, why);
    stage.refused(&["payment.succeeded", "1"], 1, why);
    assert!(
        stage
            .rebuilt(&[])
            .starts_with("50 pending in the journal, all of them in Redis again")
    );
    assert_eq!(stage.pending().await, 50);

    // What is due in a day is in the journal alone.
    stage.redis_command(&["FLUSHDB"]).await;
    // Far from now, whenever that is.
    stage.journal_one("later", 7_000_000_000_000).await;
    let said = stage.rebuilt(&[]);
    assert!(
        said.starts_with(
            "51 pending in the journal; the 50 that are due soon are in Redis again after "
        ) && said
            .contains(", and the other 1 need not be there: they are due later, or set aside\n"),
        "{said}"
    );
    assert_eq!(stage.pending().await, 50);

    // A server is at it.
    stage.redis_command(&["FLUSHDB"]).await;
    assert!(matches!(
        recoverable.inspect(false).await.expect("looked"),
        Inspection::ToLoad(_)
    ));
    assert_eq!(
        recoverable.status().await.expect("answered"),
        ScheduleStatus::Loading
    );
    let why = "Redis is being loaded from the journal at this moment";
    stage.refused(&[], 1, why);
    stage.refused(&["--clear"], 1, why);
    stage.refused(&["--not-due"], 1, why);
}

#[tokio::test]
async fn where_several_may_write_the_histories_show_it() {
    let stage = Stage::postgres().await;
    let (one, _) = stage.journal_one("1", 0).await;
    let finished = stage.rebuild(&["payment.succeeded", "1"]);
    assert_eq!(finished.stdout, "payment.succeeded/1 is back in Redis\n");
    let line = stage.last_line(&one.key).await;
    assert_eq!((&*line.kind, &*line.actor), ("restored", "maintenance"));
    assert_eq!(line.detail, "the schedule did not have it");
    let finished = stage.rebuild(&["--clear"]);
    assert_eq!((finished.status, &*finished.stderr), (0, ""));
    assert!(
        !finished.stdout.contains("histories"),
        "{}",
        finished.stdout
    );
    let line = stage.last_line(&one.key).await;
    assert_eq!((&*line.kind, &*line.actor), ("restored", "ops"));
    assert_eq!(line.detail, "it was asked for");
}

#[tokio::test]
async fn what_makes_no_sense_is_a_wrong_usage() {
    let stage = Stage::redis().await;
    let check = |further: &[&str], why: &str| {
        let why = format!("{why}; see --help");
        stage.refused(further, 2, &why);
    };
    check(
        &["payment.succeeded"],
        "the following required arguments were not provided: <ID>; `ringback find ID` looks for an id in all topics",
    );
    check(
        &["--clear", "--topic", "a"],
        "the argument '--clear' cannot be used with '--topic <TOPIC>'",
    );
    check(
        &["a", "b", "--not-due"],
        "the argument '[ID]' cannot be used with '--not-due'",
    );
    let dots = "`.` and `..` are not accepted, because they cannot be part of a URL's path";
    stage.refused(&["a", ".."], 2, dots);
    stage.refused(
        &["--journal", "none"],
        2,
        "--journal none: there is nothing to rebuild Redis from",
    );
    let embedded = run(stage.dir.path(), &["rebuild", "--data-dir", "."], &[]);
    assert_eq!(
        (embedded.status, &*embedded.stderr),
        (
            2,
            "ringback: --redis is not given, and a schedule in memory is loaded when its server \
             starts\n"
        )
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_at_work_goes_on_with_what_was_filled_beside_it() {
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::Redis).await;
    for id in ["a", "b"] {
        let mut asked = asked(id, &merchant);
        asked["delay"] = "2s".into();
        server.register(asked).await;
    }
    let redis = server.config().schedule.redis.clone().expect("on Redis");
    let mut connection = connect(redis.expose()).await;
    let lose = redis::Cmd::hdel("{rb:0}:jobs", "t/a");
    lose.exec_async(&mut connection).await.expect("executed");
    let JournalConfig::Sqlite(journal) = server.config().journal.clone() else {
        panic!("it has a SQLite journal");
    };
    let rebuilding = tokio::task::spawn_blocking(move || {
        let journal = format!("sqlite://{}", journal.display());
        let stores = ["rebuild", "--journal", &journal, "--redis", redis.expose()];
        run(Path::new("."), &[&stores[..], &["--clear"]].concat(), &[])
    });
    let finished = rebuilding.await.expect("it ran");
    assert_eq!((finished.status, &*finished.stderr), (0, ""));
    let mut bodies = [merchant.call().await.body, merchant.call().await.body];
    bodies.sort_unstable();
    assert_eq!(bodies, [b"id=a", b"id=b"]);
    for id in ["a", "b"] {
        server.until_state(id, "delivered").await;
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}
