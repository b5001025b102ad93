//! `ringback migrate`, on both kinds of journal.

use super::program::run;
use crate::support::postgres::fresh_database;
use serde_json::{Value, json};
use std::path::Path;

/// What it prints on a journal that is new, and then on one that is not.
fn check(dir: &Path, flags: &[&str], migrations: &str) {
    let arguments = [&["migrate"], flags].concat();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(migrations);
    let mut expected: Vec<String> = std::fs::read_dir(folder)
        .expect("the migrations")
        .map(|file| file.expect("readable").file_name())
        .map(|name| {
            let name = name.to_str().expect("ASCII");
            let name = name.trim_end_matches(".sql").replace('_', " ");
            format!("applied {name}\n")
        })
        .collect();
    expected.sort();
    let names: Vec<&str> = expected
        .iter()
        .map(|line| line.trim_start_matches("applied ").trim_end())
        .collect();
    // As JSON, on a journal of its own.
    let other = tempfile::tempdir().expect("a directory");
    let fresh = fresh_database();
    let flags_of_other = match migrations.ends_with("postgres") {
        true => ["--journal", &fresh],
        false => ["--journal", "sqlite://other.db"],
    };
    for expected in [json!({ "applied": names }), json!({ "applied": [] })] {
        let arguments = [&["migrate", "--json"], &flags_of_other[..]].concat();
        let printed = run(other.path(), &arguments, &[]).stdout;
        assert_eq!(
            serde_json::from_str::<Value>(&printed).expect("JSON"),
            expected
        );
    }
    for expected in [expected.concat(), "the journal is up to date\n".to_string()] {
        let finished = run(dir, &arguments, &[]);
        assert_eq!(finished.stderr, "", "{arguments:?}");
        assert_eq!(finished.stdout, expected, "{arguments:?}");
        assert_eq!(finished.status, 0);
    }
}

#[test]
fn it_says_what_it_applied_and_then_that_there_is_nothing_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = fresh_database();
    check(dir.path(), &["--journal", &database], "migrations/postgres");
    check(
        dir.path(),
        &["--journal", "sqlite://j.db"],
        "migrations/sqlite",
    );
    check(dir.path(), &["--data-dir", "data"], "migrations/sqlite");
    let made: Vec<_> = std::fs::read_dir(dir.path().join("data"))
        .expect("there")
        .map(|file| file.expect("readable").file_name())
        .collect();
    assert!(!made.contains(&"signing-secret".into()), "{made:?}");
}

#[test]
fn what_cannot_be_migrated_is_said_in_one_line() {
    let check = |flags: &[&str], status: i32, expected: &str| {
        let finished = run(Path::new("."), &[&["migrate"], flags].concat(), &[]);
        assert_eq!(finished.status, status, "{}", finished.stderr);
        assert!(finished.stderr.contains(expected), "{}", finished.stderr);
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
        assert!(!finished.stderr.contains("hunter2"), "{}", finished.stderr);
    };
    check(&["--journal", "none"], 2, "there is no journal");
    check(
        &["--journal", "mysql://u:hunter2@h/d"],
        2,
        "a journal must be",
    );
    let nowhere = "postgres://me:hunter2@127.0.0.1:1/orders?sslmode=disable";
    check(&["--journal", nowhere], 1, "postgres://127.0.0.1:1/orders");
}
