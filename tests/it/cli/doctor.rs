//! `ringback doctor`: what it finds on healthy and on broken ground, and that it changes nothing.

mod destinations;
mod redis_certificates;
mod stores;
mod traces;

use super::program::{Finished, Running, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// What the program found, as JSON.
struct Found {
    status: i32,
    findings: Vec<Value>,
}

/// Runs the program with these flags, in a directory with these variables. Secrets are `hunter2` in all tests, and must not
/// be printed.
fn doctor(dir: &Path, flags: &[&str], variables: &[(&str, &str)]) -> Found {
    let text = said(dir, flags, variables);
    assert!(!text.stdout.contains("hunter2"), "{}", text.stdout);
    let finished = said(dir, &[flags, &["--json"]].concat(), variables);
    assert_eq!(finished.stderr, "", "{flags:?}");
    assert!(!finished.stdout.contains("hunter2"), "{}", finished.stdout);
    let document: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    let findings = document["findings"].as_array().expect("a list").clone();
    let count = |level: &str| findings.iter().filter(|one| one["level"] == level).count();
    assert_eq!(document["problems"], count("problem"), "{document}");
    assert_eq!(document["warnings"], count("warning"), "{document}");
    for finding in &findings {
        // Whatever is not well says what to do.
        assert_eq!(
            finding["level"] == "ok",
            finding["mend"].is_null(),
            "{finding}"
        );
        let line = format!("{}: ", finding["subject"].as_str().expect("a text"));
        assert!(text.stdout.contains(&line), "{}", text.stdout);
    }
    assert_eq!(text.status, finished.status, "{flags:?}");
    Found {
        status: finished.status,
        findings,
    }
}

fn said(dir: &Path, flags: &[&str], variables: &[(&str, &str)]) -> Finished {
    run(dir, &[&["doctor"], flags].concat(), variables)
}

impl Found {
    /// Checks that a finding of this subject and level says this, and that its remedy says that.
    fn has(&self, (subject, level): (&str, &str), text: &str, mend: &str) {
        let is_it = |one: &&Value| {
            let says = |member: &str, wanted: &str| {
                wanted.is_empty() || one[member].as_str().is_some_and(|it| it.contains(wanted))
            };
            one["subject"] == subject
                && one["level"] == level
                && says("text", text)
                && says("mend", mend)
        };
        let found = self.findings.iter().find(is_it);
        assert!(
            found.is_some(),
            "{subject} {level} {text}: {:#?}",
            self.findings
        );
    }

    /// The subjects of the findings of a level.
    fn subjects(&self, level: &str) -> BTreeSet<&str> {
        let findings = self.findings.iter().filter(|one| one["level"] == level);
        findings.filter_map(|one| one["subject"].as_str()).collect()
    }

    fn is_sound(&self) {
        assert_eq!(
            self.subjects("problem"),
            BTreeSet::new(),
            "{:#?}",
            self.findings
        );
        assert_eq!(self.status, 0);
    }
}

#[test]
fn before_the_first_start_nothing_is_wrong_and_nothing_is_made() {
    let dir = tempfile::tempdir().expect("a directory");
    let found = doctor(dir.path(), &["--listen", "127.0.0.1:0"], &[]);
    found.is_sound();
    found.has(("data directory", "ok"), "does not exist yet", "");
    found.has(("journal", "ok"), "has no journal yet", "");
    found.has(("migrations", "ok"), "the first start makes", "");
    found.has(("master key", "ok"), "there is none yet", "");
    found.has(("signing keys", "ok"), "the first start makes one", "");
    found.has(("api keys", "ok"), "ringback key add", "");
    found.has(("redis", "ok"), "in the memory of the server", "");
    found.has(("open files", "ok"), "may be open", "");
    assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0);
}

#[test]
fn all_wrong_settings_are_named_and_the_status_is_that_of_serve() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = "time-out = '5s'\nconcurrency = 0\napi-key = 'hunter2 hunter2'\n";
    fs::write(dir.path().join("c.toml"), file).expect("written");
    let flags = ["--config", "c.toml", "--listen", "abc"];
    let found = doctor(dir.path(), &flags, &[]);
    assert_eq!(found.status, 2);
    found.has(
        ("settings", "problem"),
        "--listen: `abc` is not an address",
        "",
    );
    found.has(
        ("settings", "problem"),
        "key time-out: unknown; did you mean timeout?",
        "",
    );
    found.has(("settings", "problem"), "key concurrency: ", "");
    found.has(("settings", "problem"), "key api-key: ", "");
    assert_eq!(found.findings.len(), 4);
    let both = ["--master-key", "rbmk_x", "--journal", "none"];
    assert_eq!(doctor(dir.path(), &both, &[]).status, 2);
    let text = said(dir.path(), &flags, &[]);
    assert!(
        text.stdout.starts_with("problem  settings: "),
        "{}",
        text.stdout
    );
    assert_eq!(text.stderr, "ringback: a setting is wrong\n");
}

#[test]
fn a_data_directory_that_is_a_file_is_a_problem() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("data"), "").expect("written");
    let flags = ["--data-dir", "data", "--listen", "127.0.0.1:0"];
    let found = doctor(dir.path(), &flags, &[]);
    assert_eq!(found.status, 1);
    found.has(
        ("data directory", "problem"),
        "data is no directory",
        "--data-dir",
    );
}

#[test]
fn a_variable_of_no_setting_is_a_warning() {
    let dir = tempfile::tempdir().expect("a directory");
    let flags = ["--listen", "127.0.0.1:0"];
    let variables = [
        ("RINGBACK_REDIS_UR", "redis://:hunter2@h"),
        ("RINGBACK_SERVER", "x"),
    ];
    let found = doctor(dir.path(), &flags, &variables);
    found.is_sound();
    found.has(
        ("settings", "warning"),
        "RINGBACK_REDIS_UR,",
        "RINGBACK_REDIS",
    );
    assert_eq!(found.subjects("warning").len(), 1, "{:#?}", found.findings);
}

#[test]
fn a_server_that_others_can_reach_needs_a_key() {
    let dir = tempfile::tempdir().expect("a directory");
    let listen = ["--listen", "0.0.0.0:0"];
    let found = doctor(dir.path(), &listen, &[]);
    assert_eq!(found.status, 1);
    found.has(("api keys", "problem"), "does not start", "--api-key-file");
    let short = doctor(dir.path(), &listen, &[("RINGBACK_API_KEY", "hunter2")]);
    short.is_sound();
    short.has(
        ("api keys", "warning"),
        "the key of --api-key has fewer than 16 characters",
        "openssl rand -hex 32",
    );
    let long = [("RINGBACK_API_KEY", "hunter2-hunter2-hunter2")];
    let found = doctor(dir.path(), &listen, &long);
    found.is_sound();
    found.has(("api keys", "ok"), "there is 1", "");
}

#[test]
fn an_address_that_is_taken_says_by_whom() {
    let dir = tempfile::tempdir().expect("a directory");
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("bound").to_string();
    let found = doctor(dir.path(), &["--listen", &address], &[]);
    assert_eq!(found.status, 1);
    found.has(("listen", "problem"), "another program listens", "--listen");
    let taken = ["--listen", "127.0.0.1:0", "--metrics-listen", &address];
    let found = doctor(dir.path(), &taken, &[]);
    found.has(
        ("metrics-listen", "problem"),
        "another program",
        "--metrics-listen",
    );
    let found = doctor(
        dir.path(),
        &["--listen", "192.0.2.1:8400", "--api-key", "k"],
        &[],
    );
    found.has(
        ("listen", "problem"),
        "does not have the address",
        "--listen",
    );
}

#[test]
fn a_running_server_is_no_problem_and_its_files_are_judged() {
    let dir = tempfile::tempdir().expect("a directory");
    let flags = [
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        "data",
        "--log",
        "info",
    ];
    let serve = [&["serve"], &flags[..]].concat();
    let mut server = Running::start(dir.path(), &serve, &[]);
    let address = server.address();
    let found = doctor(
        dir.path(),
        &["--listen", &address, "--data-dir", "data"],
        &[],
    );
    found.is_sound();
    found.has(("listen", "ok"), "a Ringback server answers", "");
    found.has(("servers", "ok"), "no second one can be started", "");
    found.has(("migrations", "ok"), "is that of this version", "");
    found.has(("master key", "ok"), "it is that of the journal", "");
    found.has(("signing keys", "ok"), "can be opened", "");
    found.has(("key files", "ok"), "files with secrets: 2", "");
    let after = server.stop("TERM");
    assert_eq!(after.status, 0, "{}", after.stderr);

    let secret = dir.path().join("data/signing-secret");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).expect("changed");
    let found = doctor(dir.path(), &flags, &[]);
    found.is_sound();
    found.has(
        ("key files", "warning"),
        "signing-secret",
        "chmod 600 data/signing-secret",
    );
    found.has(("servers", "ok"), "no server uses the journal now", "");

    let given = [&flags[..], &["--signing-secret", super::RIGHT_SECRET]].concat();
    let found = doctor(dir.path(), &given, &[]);
    assert_eq!(found.status, 1);
    found.has(
        ("signing keys", "problem"),
        "--signing-secret: the default keys",
        "leave",
    );
    let master = dir.path().join("data/master-key");
    fs::remove_file(&master).expect("there");
    let found = doctor(dir.path(), &flags, &[]);
    found.has(
        ("master key", "problem"),
        "there is no file data/master-key",
        "--master-key-file",
    );
    found.has(
        ("signing keys", "problem"),
        "cannot be opened",
        "--master-key-file",
    );
    fs::write(&master, "rbmk_hunter2").expect("written");
    let found = doctor(dir.path(), &flags, &[]);
    found.has(("master key", "problem"), "data/master-key: ", "");
    assert_eq!(found.status, 1);
}
