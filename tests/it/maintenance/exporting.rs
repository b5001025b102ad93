//! `ringback export`, by the real program beside open stores.

use super::stage::Stage;
use crate::cli::program::{Finished, run, run_into_closed_pipe};
use crate::journal_contract::samples::{
    START_MS, apply, delivery, do_change, key, refusal, registering_at, registration,
};
use ringback::domain::change::Change;
use ringback::domain::key::Key;
use ringback::journal::Prune;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// 2025-06-10T12:00:00Z: on a day that is over, whatever the clock of this machine shows.
const NOON_MS: i64 = 1_749_556_800_000;
const HOUR_MS: i64 = 3_600_000;
const DAY: &str = "2025-06-10";

impl Stage {
    fn export(&self, further: &[&str]) -> Finished {
        let journal = match &self.postgres {
            Some(url) => ["--journal", url],
            None => ["--data-dir", "."],
        };
        let arguments = [&["export", "--day", DAY], &journal[..], further].concat();
        run(self.dir.path(), &arguments, &[])
    }

    /// Registers one so many milliseconds after noon.
    async fn at_noon(&self, id: &str, at_ms: i64) {
        self.journal_one(id, NOON_MS - START_MS + at_ms).await;
    }

    /// One of each end, and one pending, on the same day.
    async fn one_of_each_end(&self) {
        let journal = self.journal.as_ref();
        let at = |at_ms: i64| NOON_MS - START_MS + at_ms;
        let (delivered, start) = self.journal_one("delivered", at(0)).await;
        apply(journal, delivery(&delivered, start)).await;
        let (dead, start) = self.journal_one("dead", at(1)).await;
        apply(journal, refusal(&dead, start)).await;
        let (discarded, start) = self.journal_one("discarded", at(2)).await;
        apply(journal, refusal(&discarded, start)).await;
        do_change(
            journal,
            &key("discarded"),
            Change::Discard,
            NOON_MS + HOUR_MS,
        )
        .await;
        self.at_noon("pending", 3).await;
    }
}

fn files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("readable");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.into_string().expect("UTF-8"))
        .collect();
    names.retain(|name| !name.starts_with("journal.db"));
    names.sort();
    names
}

const SUM: &str = "registered 4 = delivered 1 + dead 1 + cancelled 1 + pending 1";

#[tokio::test]
async fn a_day_is_written_with_totals_that_add_up() {
    for stage in [Stage::memory().await, Stage::postgres().await] {
        stage.one_of_each_end().await;
        stage.at_noon("the day before", -12 * HOUR_MS - 1).await;
        stage.at_noon("the day after", 12 * HOUR_MS).await;

        let csv = stage.export(&[]);
        assert_eq!(csv.status, 0, "{}", csv.stderr);
        let lines: Vec<&str> = csv.stdout.split("\r\n").collect();
        assert_eq!(lines.len(), 6, "{}", csv.stdout);
        assert!(
            lines[0].starts_with("topic,id,webhook_id,endpoint,lane,url,state,"),
            "{}",
            lines[0]
        );
        for (line, (id, state)) in lines[1..].iter().zip([
            ("delivered", ",delivered,,false,2025-06-10T12:00:00.000Z,"),
            ("dead", ",dead,refused,false,2025-06-10T12:00:00.001Z,"),
            ("discarded", ",cancelled,,true,2025-06-10T12:00:00.002Z,"),
            ("pending", ",pending,,false,2025-06-10T12:00:00.003Z,"),
        ]) {
            assert!(
                line.starts_with(&format!("payment.succeeded,{id},msg_")),
                "{line}"
            );
            assert!(line.contains(state), "{line}");
        }
        assert!(
            lines[1].ends_with(",1,1,acknowledged,200,2025-06-10T12:00:00.000Z,20"),
            "{}",
            lines[1]
        );
        assert!(
            lines[3].contains(",2025-06-10T13:00:00.000Z,1,1,http_status,410,"),
            "{}",
            lines[3]
        );
        assert!(csv.stderr.contains(&format!(": {SUM}\n")), "{}", csv.stderr);
        assert!(
            csv.stderr
                .contains("of the cancelled, 1 were dead letters that somebody discarded\n")
        );
        assert!(
            csv.stderr.ends_with("\nthe journal counts the same\n"),
            "{}",
            csv.stderr
        );

        let json = stage.export(&["--format", "json-lines"]);
        assert_eq!(json.status, 0, "{}", json.stderr);
        let documents: Vec<Value> = json
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect();
        let kinds: Vec<&Value> = documents.iter().map(|document| &document["kind"]).collect();
        assert_eq!(
            kinds,
            [
                "notification",
                "notification",
                "notification",
                "notification",
                "totals"
            ]
        );
        assert_eq!(documents[0]["ended_at"], "2025-06-10T12:00:00.020Z");
        assert_eq!(documents[3]["ended_at"], Value::Null);
        let totals = &documents[4];
        let counts =
            json!({ "registered": 4, "delivered": 1, "dead": 1, "cancelled": 1, "pending": 1 });
        assert_eq!(totals["journal"], counts);
        for (name, count) in counts.as_object().expect("an object") {
            assert_eq!(&totals[name], count, "{name}");
        }
        assert_eq!(
            (&totals["discarded"], &totals["unreadable"]),
            (&json!(1), &json!(0))
        );
        assert_eq!(
            (&totals["adds_up"], &totals["whole"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(
            (&totals["from"], &totals["to"]),
            (
                &json!("2025-06-10T00:00:00.000Z"),
                &json!("2025-06-11T00:00:00.000Z")
            )
        );

        // By another clock, the day is another one.
        let shanghai = stage.export(&["--utc-offset", "+08:00", "--format", "json-lines"]);
        assert_eq!(shanghai.status, 0, "{}", shanghai.stderr);
        assert!(
            shanghai
                .stdout
                .contains("\"registered_at\":\"2025-06-10T20:00:00.000+08:00\"")
        );
        assert!(
            shanghai.stdout.contains("\"id\":\"the day before\""),
            "{}",
            shanghai.stdout
        );
        assert!(
            !shanghai.stdout.contains("\"id\":\"the day after\""),
            "{}",
            shanghai.stdout
        );

        // A topic with notifications of another day alone.
        let mut refund = registration(key("refund-1"));
        refund.key = Key::new("refund", "refund-1").expect("a key");
        let refund = registering_at(refund, NOON_MS + 24 * HOUR_MS);
        let registered = stage.journal.register(&[refund]).await;
        registered.expect("registered");
        let other = stage.export(&["--topic", "refund"]);
        assert_eq!(other.status, 0, "{}", other.stderr);
        assert_eq!(other.stdout.lines().count(), 1, "{}", other.stdout);
        assert!(other.stderr.contains("registered 0 = "), "{}", other.stderr);
    }
}

#[tokio::test]
async fn files_appear_only_if_the_day_is_whole_and_adds_up() {
    let stage = Stage::memory().await;
    stage.one_of_each_end().await;
    let dir = stage.dir.path();
    let arguments = ["--output", "day.csv", "--totals", "totals.json"];
    let written = stage.export(&arguments);
    assert_eq!((written.status, &*written.stderr), (0, ""));
    assert!(written.stdout.contains(SUM), "{}", written.stdout);
    assert_eq!(files(dir), ["day.csv", "totals.json"]);
    for name in ["day.csv", "totals.json"] {
        let mode = fs::metadata(dir.join(name))
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let whole = fs::read(dir.join("day.csv")).expect("read");
    assert_eq!(whole, stage.export(&[]).stdout.as_bytes());
    let totals = fs::read(dir.join("totals.json")).expect("read");
    let totals: Value = serde_json::from_slice(&totals).expect("JSON");
    assert_eq!(
        (&totals["registered"], &totals["whole"]),
        (&json!(4), &json!(true))
    );

    // One that cannot be read is in no file, so nothing of the day is put in the place of the file of before.
    stage
        .sql("UPDATE notifications SET topic = 'no topic' WHERE id = 'dead'")
        .await;
    let failed = stage.export(&arguments);
    assert_eq!((failed.status, &*failed.stdout), (1, ""));
    assert!(
        failed
            .stderr
            .contains("ringback: no topic/dead cannot be read: "),
        "{}",
        failed.stderr
    );
    assert!(
        failed
            .stderr
            .contains("the totals do not add up: written were registered 3 = ")
            && failed.stderr.contains("; 1 cannot be read\n"),
        "{}",
        failed.stderr
    );
    assert_eq!(files(dir), ["day.csv", "totals.json"]);
    assert_eq!(fs::read(dir.join("day.csv")).expect("read"), whole);
    // On standard output, what can be read is shown, and is not called whole.
    let shown = stage.export(&["--format", "json-lines"]);
    assert_eq!(shown.status, 1);
    let last: Value =
        serde_json::from_str(shown.stdout.lines().last().expect("a line")).expect("JSON");
    assert_eq!(
        (&last["adds_up"], &last["whole"], &last["unreadable"]),
        (&json!(false), &json!(false), &json!(1))
    );
}

#[tokio::test]
async fn a_day_of_which_something_was_deleted_is_not_called_whole() {
    for stage in [Stage::memory().await, Stage::postgres().await] {
        stage.one_of_each_end().await;
        let prune = Prune {
            payloads_before_ms: NOON_MS + 21,
            records_before_ms: NOON_MS + 21,
            dead_before_ms: None,
        };
        let pruned = stage.journal.prune(&prune, 10).await.expect("pruned");
        assert_eq!(pruned.records, 1);
        let refused = stage.export(&["--output", "day.csv"]);
        assert_eq!((refused.status, &*refused.stdout), (1, ""));
        let said = "ringback: the journal does not have all of 2025-06-10 (UTC+00:00): what ended by \
                    2025-06-10T12:00:00.020Z may have been deleted (--keep-records, --keep-dead); --allow-incomplete \
                    writes what there is\n";
        assert_eq!(refused.stderr, said);
        assert_eq!(files(stage.dir.path()), [""; 0]);
        let part = stage.export(&["--allow-incomplete", "--format", "json-lines"]);
        assert_eq!(part.status, 0, "{}", part.stderr);
        let totals: Value =
            serde_json::from_str(part.stdout.lines().last().expect("a line")).expect("JSON");
        assert_eq!(
            (&totals["registered"], &totals["adds_up"], &totals["whole"]),
            (&json!(3), &json!(true), &json!(false))
        );
        assert!(
            part.stderr.contains("not the whole day: what ended by "),
            "{}",
            part.stderr
        );
    }
}

#[tokio::test]
async fn what_is_no_day_to_export_is_refused_before_anything_is_written() {
    let stage = Stage::memory().await;
    let dir = stage.dir.path();
    let check = |arguments: &[&str], status: i32, said: &str| {
        let finished = run(
            dir,
            &[&["export", "--data-dir", "."], arguments].concat(),
            &[],
        );
        assert_eq!(
            (finished.status, &*finished.stdout),
            (status, ""),
            "{}",
            finished.stderr
        );
        assert!(
            finished.stderr.starts_with(&format!("ringback: {said}")),
            "{}",
            finished.stderr
        );
        assert_eq!(files(dir), [""; 0]);
    };
    check(
        &[],
        2,
        "the following required arguments were not provided: --day <DAY>",
    );
    check(
        &["--day", "20.11.2026"],
        2,
        "--day: `20.11.2026` is not a day like 2026-11-20, nor `yesterday`",
    );
    check(
        &["--day", DAY, "--utc-offset", "+8"],
        2,
        "--utc-offset: `+8` is not an offset like +08:00",
    );
    check(
        &["--day", DAY, "--topic", "a b"],
        2,
        "--topic: a topic is 1 to 64 of the characters",
    );
    check(
        &["--day", DAY, "--topic", "mistyped"],
        2,
        "--topic: the journal has no notification of the topic mistyped",
    );
    check(
        &["--day", DAY, "--endpoint", "a/b"],
        2,
        "--endpoint: an endpoint's name is 1 to 64 of",
    );
    check(
        &["--day", DAY, "--endpoint", "shop"],
        2,
        "--endpoint: the journal has no endpoint shop",
    );
    check(
        &["--day", DAY, "--format", "xml"],
        2,
        "invalid value 'xml' for '--format",
    );
    check(
        &["--day", DAY, "--journal", "none"],
        2,
        "--journal none: there is no journal that has",
    );
    check(
        &["--day", DAY, "--output", "/dev/null"],
        2,
        "/dev/null: this is no regular file",
    );
    for same in ["a", "./a"] {
        check(
            &["--day", DAY, "--output", "a", "--totals", same],
            2,
            "--totals: this is the file of --output",
        );
    }
    check(&["--day", DAY, "--output", "missing/a"], 1, "missing/a: ");
    check(
        &["--day", "9000-01-01"],
        1,
        "the journal does not have all of 9000-01-01 (UTC+00:00): it ends at 9000-01-02T00:00:00.000Z,",
    );
    check(
        &["--day", DAY, "--journal", "sqlite://missing.db"],
        1,
        "cannot open the journal missing.db: ",
    );
    let yesterday = run(
        dir,
        &[
            "export",
            "--data-dir",
            ".",
            "--day",
            "yesterday",
            "--allow-incomplete",
        ],
        &[],
    );
    assert_eq!(yesterday.status, 0, "{}", yesterday.stderr);
}

#[tokio::test]
async fn a_reader_that_ends_early_gets_no_status_0() {
    let stage = Stage::memory().await;
    // More than a pipe and what waits to be written hold.
    for part in 0..20 {
        let batch: Vec<_> = (0..250)
            .map(|number| registering_at(registration(key(&format!("{part}-{number}"))), NOON_MS))
            .collect();
        stage.journal.register(&batch).await.expect("kept");
    }
    let path = stage.dir.path().join("journal.db");
    let journal = format!("sqlite://{}", path.display());
    let finished = run_into_closed_pipe(&["export", "--day", DAY, "--journal", &journal]);
    assert_eq!(finished.status, 1);
    assert_eq!(
        finished.stderr,
        "ringback: standard output was closed before everything was written\n"
    );
}
