//! `ringback audit`, by the real program beside open stores.

use super::stage::Stage;
use crate::cli::program::{Finished, run};
use crate::journal_contract::samples::{
    START_MS, apply, delivery, do_change, failure, key, refusal,
};
use crate::support::merchant::Merchant;
use crate::support::redis::fresh_database;
use crate::support::ringback::{Server, Stores, registration};
use ringback::config::JournalConfig;
use ringback::domain::change::Change;
use ringback::journal::sqlite::SqliteJournal;
use ringback::journal::{JournalError, JournalMaintenance, JournalReads, SettingAside};
use serde_json::{Value, json};
use std::path::Path;

impl Stage {
    fn audit(&self, further: &[&str]) -> Finished {
        let arguments = [&["audit"], &*self.flags(), further].concat();
        run(self.dir.path(), &arguments, &[])
    }

    /// What a program reads of an audit that must end with this status.
    fn audited(&self, status: i32, further: &[&str]) -> Value {
        let finished = self.audit(&[&["--json"], further].concat());
        assert_eq!(finished.status, status, "{}", finished.stderr);
        assert_eq!(finished.stderr, "");
        let complaint = match status {
            0 => "",
            _ => "ringback: not everything is accounted for\n",
        };
        let in_words = self.audit(further);
        assert_eq!((in_words.status, &*in_words.stderr), (status, complaint));
        let report: Value = serde_json::from_str(&finished.stdout).expect("JSON");
        assert_eq!(report["sound"], status == 0);
        report
    }

    /// One of each state, the schedule in step.
    async fn one_of_each(&self) {
        let journal = self.journal.as_ref();
        let (delivered, start) = self.journal_one("delivered", 0).await;
        apply(journal, delivery(&delivered, start)).await;
        let (dead, start) = self.journal_one("dead", 0).await;
        apply(journal, refusal(&dead, start)).await;
        self.journal_one("cancelled", 0).await;
        do_change(journal, &key("cancelled"), Change::Cancel, 1).await;
        self.register("pending", 0).await;
        self.register("leased", 0).await;
        self.take("leased").await;
    }
}

#[tokio::test]
async fn what_is_all_there_is_said_to_be() {
    for stage in [Stage::redis().await, Stage::postgres().await] {
        stage.one_of_each().await;
        let report = stage.audited(0, &["--deep"]);
        let counts = json!({
            "registered": 5, "delivered": 1, "dead": 1, "cancelled": 1, "pending": 2,
        });
        assert_eq!(report["journal"]["counters"], counts);
        assert_eq!(report["journal"]["counted"], counts);
        assert_eq!(report["journal"]["faults"]["total"], 0);
        assert_eq!(report["schedule"]["status"], "whole");
        assert_eq!(report["schedule"]["pending"], 2);
        assert_eq!(report["schedule"]["in_flight"], 1);
        assert_eq!(report["compared"]["journal"], 2);
        assert_eq!(report["compared"]["schedule"], 2);

        let finished = stage.audit(&[]);
        assert_eq!((finished.status, &*finished.stderr), (0, ""));
        let place = |url: &Option<String>| {
            let url: url::Url = url.as_deref()?.parse().expect("a URL");
            let (host, port) = (url.host_str()?, url.port()?);
            Some(format!("{}://{host}:{port}", url.scheme()))
        };
        let redis = place(&stage.redis).expect("on Redis");
        let journal = match place(&stage.postgres) {
            Some(place) => {
                let database = stage
                    .postgres
                    .as_deref()
                    .and_then(|url| url.rsplit_once('/'));
                format!("{place}/{}", database.expect("a database").1)
            }
            None => "sqlite://./journal.db".to_string(),
        };
        let expected = format!(
            "journal   {journal}\n  \
             registered 5 = delivered 1 + dead 1 + cancelled 1 + pending 2\n\
             schedule  {redis}\n  \
             pending 2, of these in flight 1\n\
             compared  2 of the journal, 2 of the schedule: no difference\n\
             everything is accounted for\n"
        );
        assert_eq!(finished.stdout, expected);
    }
}

#[tokio::test]
async fn a_schedule_that_says_nothing_of_its_owner_is_told() {
    for (deleted, pending, holds, sound) in [
        (&["{rb:0}:epoch"][..], 2, None, true),
        (
            &["{rb:0}:epoch", "{rb:0}:meta"],
            2,
            Some("  Redis does not say which journal its data belongs to; "),
            false,
        ),
        (
            &["{rb:0}:epoch", "{rb:0}:meta"],
            0,
            Some("  Redis has no data of this journal; "),
            true,
        ),
    ] {
        let stage = Stage::redis().await;
        for number in 0..pending {
            stage.register(&format!("pending-{number}"), 0).await;
        }
        stage.redis_command(&[&["DEL"], deleted].concat()).await;
        let status = i32::from(!sound);
        stage.audited(status, &[]);
        let text = stage.audit(&[]).stdout;
        assert!(text.contains("no difference\n"), "{text}");
        for told in [
            "Redis does not say which journal its data belongs to; ",
            "Redis has no data of this journal; ",
        ] {
            let expected = holds.is_some_and(|holds| holds.contains(told));
            assert_eq!(text.contains(told), expected, "{text}");
        }
    }
}

#[tokio::test]
async fn what_is_set_aside_is_named_with_the_reason() {
    for stage in [Stage::memory().await, Stage::postgres().await] {
        stage.journal_one("aside", 0).await;
        let setting = SettingAside {
            key: key("aside"),
            at_ms: START_MS,
            reason: "a constraint\nis violated".to_string(),
        };
        stage.journal.set_aside(&setting).await.expect("kept");
        let report = stage.audited(1, &[]);
        let expected = json!({
            "total": 1,
            "named": [{
                "topic": "payment.succeeded", "id": "aside", "at": "2026-11-20T08:30:00.000Z",
                "reason": "a constraint\nis violated",
            }],
        });
        assert_eq!(report["journal"]["set_aside"], expected);
        let finished = stage.audit(&[]);
        assert_eq!(finished.status, 1);
        let shown = "  set aside 1: the journal refused to record their outcomes, so they are not sent; \
                     `ringback retry` releases one\n\
                     notification             set aside                 reason\n\
                     payment.succeeded/aside  2026-11-20T08:30:00.000Z  a constraint\\nis violated\n";
        assert!(finished.stdout.contains(shown), "{}", finished.stdout);
        assert!(
            finished
                .stdout
                .ends_with("\nnot everything is accounted for\n")
        );
    }
}

#[tokio::test]
async fn what_is_pending_and_cannot_be_read_is_named() {
    for stage in [
        Stage::memory().await,
        Stage::redis().await,
        Stage::postgres().await,
    ] {
        for id in ["fine", "no rope", "no series"] {
            stage.register(id, 0).await;
        }
        stage
            .sql("UPDATE notifications SET ladder = 'rope' WHERE id = 'no rope'")
            .await;
        let series = match &stage.postgres {
            Some(_) => {
                "UPDATE statuses SET series = -1
                 WHERE notification = (SELECT row_id FROM notifications WHERE id = 'no series')"
            }
            None => "UPDATE notifications SET series = -1 WHERE id = 'no series'",
        };
        stage.sql(series).await;
        // Both directions of a comparison find the second one, and it is named once.
        let report = stage.audited(1, &[]);
        let unreadable = &report["journal"]["unreadable"];
        assert_eq!(unreadable["total"], 2, "{report}");
        let problems = ["`rope` is not a valid ladder", "`-1` is not a valid count"]
            .map(|what| format!("the journal cannot read or store this data: {what}"));
        for (index, id) in ["no rope", "no series"].into_iter().enumerate() {
            let named = &unreadable["named"][index];
            assert_eq!(named["notification"], format!("payment.succeeded/{id}"));
            assert_eq!(named["problem"], problems[index]);
        }
        let [rope, series] = problems;
        let shown = format!(
            "cannot be read  2 of the journal, so they are not sent; repair their rows in `notifications`, `payloads` \
             and, in PostgreSQL, `statuses`\n\
             notification                 what is wrong\n\
             payment.succeeded/no rope    {rope}\n\
             payment.succeeded/no series  {series}\n"
        );
        let text = stage.audit(&[]).stdout;
        assert!(text.contains(&shown), "{text}");
    }
}

#[tokio::test]
async fn every_difference_is_named_with_what_each_store_says() {
    for stage in [Stage::redis().await, Stage::postgres().await] {
        check_that_every_difference_is_named(stage).await;
    }
}

async fn check_that_every_difference_is_named(stage: Stage) {
    stage.one_of_each().await;
    let journal = stage.journal.as_ref();
    stage.journal_one("missing", 0).await;
    let (elsewhere, start) = stage.register("elsewhere", 0).await;
    apply(journal, failure(&elsewhere, start)).await;
    stage.register("ended", 0).await;
    do_change(journal, &key("ended"), Change::Cancel, 1).await;
    let other = Stage::memory().await;
    let (unknown, start) = other.register("unknown", 0).await;
    stage.schedule_one(&unknown, start).await;

    let report = stage.audited(1, &[]);
    let differences = &report["compared"]["differences"];
    assert_eq!(differences["total"], 4);
    let named = differences["named"].as_array().expect("a list");
    let mut kinds: Vec<_> = (named.iter())
        .map(|named| {
            assert_eq!(named["difference"], named["id"], "named for what is wrong");
            let made = |store: &str| named[store]["attempts_made"].as_i64();
            let state = named["journal"]["state"].as_str().unwrap_or("none");
            (
                named["id"].as_str(),
                state,
                made("journal"),
                made("schedule"),
            )
        })
        .collect();
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        [
            (Some("elsewhere"), "scheduled", Some(1), Some(0)),
            (Some("ended"), "cancelled", Some(0), Some(0)),
            (Some("missing"), "scheduled", Some(0), None),
            (Some("unknown"), "none", None, Some(0)),
        ]
    );
    let shown = stage.audit(&[]).stdout;
    for wanted in [
        "4 differences",
        "payment.succeeded/missing    would not be delivered  scheduled, series 1, 0 made, due 2026-11-20T08:30:00.000Z  no entry",
        "ended, but scheduled    cancelled, series 1, 0 made",
        "at another step         scheduled, series 1, 1 made",
        "not in the journal      unknown",
        "not everything is accounted for",
    ] {
        assert!(shown.contains(wanted), "{wanted} in\n{shown}");
    }
}

#[tokio::test]
async fn many_differences_are_counted_and_the_first_are_named() {
    let stage = Stage::redis().await;
    for number in 0..103 {
        stage.journal_one(&number.to_string(), 0).await;
    }
    let report = stage.audited(1, &[]);
    let differences = &report["compared"]["differences"];
    assert_eq!(differences["total"], 103);
    assert_eq!(differences["named"].as_array().map(Vec::len), Some(100));
    assert!(stage.audit(&[]).stdout.contains("\nand 3 more\n"));
}

#[tokio::test]
async fn a_deep_audit_finds_what_is_wrong_in_the_journal_itself() {
    let stage = Stage::memory().await;
    stage.one_of_each().await;
    let wrong = async |statement| {
        stage.sql(statement).await;
        stage.audited(1, &[])
    };
    assert_eq!(stage.audited(0, &[])["journal"]["counted"]["pending"], 2);
    let report = wrong("UPDATE counts SET many = many + 1 WHERE name = 'dead'").await;
    assert_eq!(report["journal"]["balanced"], false);
    let report = wrong("UPDATE counts SET many = many + 1 WHERE name = 'registered'").await;
    assert_eq!(
        report["journal"]["balanced"], true,
        "but the rows are others"
    );
    assert_eq!(report["journal"]["counted"]["registered"], 5);
    let repair = "UPDATE counts SET many = many - 1 WHERE name IN ('dead', 'registered')";
    stage.sql(repair).await;
    stage.audited(0, &[]);
    let report = wrong("DELETE FROM payloads").await;
    let faults = &report["journal"]["faults"];
    assert_eq!(faults["total"], 2);
    assert_eq!(faults["named"][0]["fault"], "no_body");
    let report = wrong("DELETE FROM attempts").await;
    let faults = &report["journal"]["faults"];
    assert_eq!(faults["total"], 3);
    let expected = json!({
        "topic": "payment.succeeded", "id": "delivered", "fault": "no_acknowledgement",
    });
    assert_eq!(faults["named"][2], expected);
    let shown = stage.audit(&[]).stdout;
    for wanted in [
        "  payment.succeeded/leased is pending without a body\n",
        "  payment.succeeded/delivered is delivered without an acknowledged attempt\n",
        "schedule  in the server's memory",
    ] {
        assert!(shown.contains(wanted), "{wanted} in\n{shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traffic_is_no_difference() {
    let merchant = Merchant::start().await;
    let server = Server::start(Stores::Redis).await;
    let stop = tokio_util::sync::CancellationToken::new();
    let mut callers = Vec::new();
    for caller in 0..4 {
        let api = (*server).clone();
        let (stop, url) = (stop.clone(), merchant.url("/notify"));
        callers.push(tokio::spawn(async move {
            let mut number = 0;
            while !stop.is_cancelled() {
                let delay = if number % 2 == 0 { "1h" } else { "0s" };
                let asked = json!({
                    "topic": "t", "id": format!("{caller}-{number}"), "url": url, "delay": delay,
                    "body": "x",
                });
                api.register(asked).await;
                number += 1;
            }
            number
        }));
    }
    let JournalConfig::Sqlite(journal) = server.config().journal.clone() else {
        panic!("it has a SQLite journal");
    };
    let redis = server.config().schedule.redis.clone().expect("on Redis");
    let audit = tokio::task::spawn_blocking(move || {
        let journal = format!("sqlite://{}", journal.display());
        let arguments = ["audit", "--journal", &journal, "--redis", redis.expose()];
        run(Path::new("."), &[&arguments[..], &["--deep"]].concat(), &[])
    });
    let finished = audit.await.expect("it ran");
    stop.cancel();
    for caller in callers {
        assert!(caller.await.expect("it registered") > 0);
    }
    assert_eq!(finished.status, 0, "{}", finished.stdout);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_journal_the_schedule_is_counted() {
    let merchant = Merchant::start().await;
    let server = Server::start(Stores::RedisOnly).await;
    let mut asked = registration("a", &merchant);
    asked["delay"] = "1h".into();
    server.register(asked).await;
    let redis = server.config().schedule.redis.clone().expect("on Redis");
    let arguments = ["audit", "--journal", "none", "--redis", redis.expose()];
    let finished = run(Path::new("."), &arguments, &[]);
    assert_eq!((finished.status, &*finished.stderr), (0, ""));
    let expected = format!(
        "journal   none\nschedule  {redis}\n  pending 1, of these in flight 0\n\
         everything is accounted for\n"
    );
    assert_eq!(finished.stdout, expected);
    server.stop().await;
}

#[tokio::test]
async fn what_cannot_be_audited_is_said_in_a_line_and_nothing_is_made() {
    let dir = tempfile::tempdir().expect("a directory");
    let check = |arguments: &[&str], status: i32, expected: &str| {
        let finished = run(dir.path(), &[&["audit"], arguments].concat(), &[]);
        assert_eq!(finished.stderr, format!("ringback: {expected}\n"));
        assert_eq!((finished.status, &*finished.stdout), (status, ""));
        let made = std::fs::read_dir(dir.path()).expect("readable").count();
        assert_eq!(made, 0, "{arguments:?}");
    };
    check(
        &[],
        1,
        "cannot open the journal ./ringback-data/journal.db: No such file or directory (os error 2)",
    );
    check(
        &["--redis", "http://x"],
        2,
        "--redis: not a URL like redis://127.0.0.1:6379, rediss://redis.example:6380/0, \
         redis+sentinel://HOST:PORT,HOST:PORT/NAME or redis+cluster://HOST:PORT,HOST:PORT",
    );
    check(
        &["--journal", "none"],
        2,
        "--journal none needs --redis: without both, a restart would lose all notifications",
    );
    check(
        &["--listen", "x"],
        2,
        "unexpected argument '--listen' found; see --help",
    );

    let stage = Stage::redis().await;
    let other = fresh_database();
    let own = stage.redis.as_deref().expect("on Redis");
    let arguments = ["--redis", own, "--partitions", "1", "--data-dir", "."];
    let foreign = run(
        stage.dir.path(),
        &[&["audit"], &arguments[..]].concat(),
        &[],
    );
    assert_eq!(foreign.status, 1);
    assert!(
        foreign.stderr.contains("start it with --partitions 2"),
        "{}",
        foreign.stderr
    );
    let arguments = ["--redis", &other, "--data-dir", "."];
    let empty = run(
        stage.dir.path(),
        &[&["audit"], &arguments[..]].concat(),
        &[],
    );
    assert!(
        empty.stdout.contains("Redis has no data of this journal"),
        "{}",
        empty.stdout
    );
}

#[tokio::test]
async fn a_journal_that_is_read_stays_as_it_is() {
    let stage = Stage::memory().await;
    stage.one_of_each().await;
    let path = stage.dir.path().join("journal.db");
    let check = async || {
        let reading = SqliteJournal::open_to_read(&path).await.expect("it opens");
        assert_eq!(reading.id(), stage.journal.id());
        assert_eq!(
            reading.counts().await.expect("read"),
            stage.journal.counts().await.expect("read")
        );
        for refused in [
            reading.remember("x", "y").await,
            reading.note(&[]).await,
            reading.check().await,
        ] {
            assert!(
                matches!(refused, Err(JournalError::Refused(_))),
                "{refused:?}"
            );
        }
        reading.close().await;
    };
    check().await;
    stage.journal.check().await.expect("it still writes");
    stage.register("later", 0).await;
    check().await;
    // Nobody has it open: it is read all the same, and opened by a server afterwards.
    stage.journal.close().await;
    let before = std::fs::read(&path).expect("readable");
    let reading = SqliteJournal::open_to_read(&path).await.expect("it opens");
    assert_eq!(reading.counts().await.expect("read").registered, 6);
    reading.close().await;
    assert_eq!(std::fs::read(&path).expect("readable"), before);
    let server = SqliteJournal::open(&path, "next").await.expect("it opens");
    assert_eq!(server.counts().await.expect("read").registered, 6);
    server.check().await.expect("it writes");
    for wrong in ["missing.db", "."] {
        let opened = SqliteJournal::open_to_read(&stage.dir.path().join(wrong)).await;
        assert!(
            matches!(opened.err(), Some(JournalError::Refused(_))),
            "{wrong}"
        );
    }
}
