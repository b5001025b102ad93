//! Settings whose value is in a file, and commands that take their key from one.

use super::program::{Running, run};
use super::requests::StandIn;
use super::{RIGHT_SECRET, check_serve};
use crate::support::redis::fresh_database;
use axum::http::StatusCode;
use std::fs;
use std::path::Path;

/// The settings that may be in a file, with the name of that setting, a right value, and a wrong one.
const IN_FILES: [(&str, &str, &str, &str); 7] = [
    (
        "signing-secret",
        "signing-secret-file",
        RIGHT_SECRET,
        "whsec_hunter2%",
    ),
    ("api-key", "api-key-file", "k", "hunter2 hunter2"),
    ("metrics-key", "metrics-key-file", "k", "hunter2 hunter2"),
    (
        "redis",
        "redis-url-file",
        "redis://h:1/0",
        "redis+sentinel://u:hunter2@h",
    ),
    (
        "journal",
        "journal-url-file",
        "sqlite://j.db",
        "mysql://u:hunter2@h/d",
    ),
    (
        "proxy",
        "proxy-url-file",
        "http://h:3128",
        "ftp://u:hunter2@h",
    ),
    ("otlp-headers", "otlp-headers-file", "a=1", "host=hunter2"),
];

#[test]
fn a_value_comes_from_a_file_or_not_and_errors_name_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("secret");
    let path = path.to_str().expect("UTF-8");
    for (name, in_file, right, wrong) in IN_FILES {
        let flag = format!("--{in_file}");
        let serve = ["serve", &flag, path];
        fs::write(path, format!("{right}\n")).expect("written");
        check_serve(
            &[&flag, path, &format!("--{name}"), right],
            &[],
            None,
            &format!("{name} and {in_file} are both given; give one of them"),
        );
        for (text, said) in [("", "the file is empty"), (wrong, "")] {
            fs::write(path, text).expect("written");
            let finished = run(dir.path(), &serve, &[]);
            assert_eq!(finished.status, 2, "{in_file}: {}", finished.stderr);
            let begins = format!("ringback: {path}: {said}");
            assert!(finished.stderr.starts_with(&begins), "{}", finished.stderr);
            assert!(!finished.stderr.contains("hunter2"), "{}", finished.stderr);
            assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
        }
        let missing = run(dir.path(), &["serve", &flag, "nowhere"], &[]);
        assert_eq!(missing.status, 2);
        assert!(
            missing.stderr.starts_with("ringback: nowhere: "),
            "{}",
            missing.stderr
        );
    }
    fs::write(path, "k".repeat(16 * 1024 + 1)).expect("written");
    let long = run(dir.path(), &["serve", "--api-key-file", path], &[]);
    assert!(
        long.stderr.contains("longer than 16 KiB"),
        "{}",
        long.stderr
    );
}

/// By the flag, the variable and the key of the file; the commands beside a server take the same.
#[test]
fn a_server_works_with_all_its_secrets_in_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        fs::write(dir.path().join(name), format!("{text}\n")).expect("written");
    };
    write("secret", RIGHT_SECRET);
    write("redis", &fresh_database());
    write("journal", "sqlite://own.db");
    write("key", "rbk_of_a_file");
    write(
        "c.toml",
        "journal_url_file = 'journal'\nlisten = '127.0.0.1:0'",
    );
    let flags = ["--config", "c.toml", "--redis-url-file", "redis"];
    let variables = [
        ("RINGBACK_SIGNING_SECRET_FILE", "secret"),
        ("RINGBACK_API_KEY_FILE", "key"),
    ];
    let serve = [&["serve"], &flags[..]].concat();
    let mut server = Running::start(dir.path(), &serve, &variables);
    let at = format!("http://{}", server.address());
    let list = ["list", "--json", "--server", &at];
    assert_eq!(run(dir.path(), &list, &[]).status, 5);
    assert_eq!(run(dir.path(), &list, &variables).status, 0);
    let by_flag = [&list[..], &["--api-key-file", "key"]].concat();
    assert_eq!(run(dir.path(), &by_flag, &[]).status, 0);
    let audit = run(dir.path(), &[&["audit"], &flags[..]].concat(), &[]);
    assert_eq!(audit.status, 0, "{}{}", audit.stdout, audit.stderr);
    assert!(
        audit.stdout.starts_with("journal   sqlite://own.db\n"),
        "{}",
        audit.stdout
    );
    assert_eq!(server.stop("TERM").status, 0);
    let kept = dir.path().join("ringback-data/signing-secret");
    assert!(!kept.exists());
    let migrated = run(
        dir.path(),
        &["migrate", "--json", "--config", "c.toml"],
        &[],
    );
    assert_eq!(migrated.stdout, "{\n  \"applied\": []\n}\n");
}

#[tokio::test]
async fn a_command_takes_one_key() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("key");
    fs::write(&path, "from-the-file\n").expect("written");
    let path = path.to_str().expect("UTF-8");
    let headers = [("content-type", "application/json")];
    let page = r#"{"items":[],"next_cursor":null}"#.to_string();
    let mut server = StandIn::open((StatusCode::OK, headers, page)).await;
    let file = [("RINGBACK_API_KEY_FILE", path)];
    assert_eq!(server.run(&["list"], &file).await.status, 0);
    assert_eq!(
        server.asked().headers["authorization"],
        "Bearer from-the-file"
    );
    let flag = ["list", "--api-key", "from-a-flag"];
    assert_eq!(server.run(&flag, &file).await.status, 0);
    assert_eq!(
        server.asked().headers["authorization"],
        "Bearer from-a-flag"
    );
    let both = [file[0], ("RINGBACK_API_KEY", "k")];
    let refused = run(Path::new("."), &["list"], &both);
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("both given"), "{}", refused.stderr);
    let missing = run(Path::new("."), &["list", "--api-key-file", "nowhere"], &[]);
    assert_eq!(missing.status, 2);
    assert!(
        missing.stderr.starts_with("ringback: nowhere: "),
        "{}",
        missing.stderr
    );
}
