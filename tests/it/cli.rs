//! The command line, by the real program: settings and their errors, ladders, the local merchant,
//! and the commands that speak to a server.

mod doctor;
mod exit_statuses;
mod listen;
mod migrate;
pub mod program;
mod redis_certificates;
mod requests;
mod secret_files;
mod shell_files;
mod times;

use program::{Finished, run};
use ringback::domain::duration;
use serde_json::Value;
use std::fs;
use std::path::Path;

const RIGHT_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// Runs `serve` with settings that are wrong somewhere and checks the one line that says so.
fn check_serve(flags: &[&str], variables: &[(&str, &str)], file: Option<&str>, expected: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut arguments = vec!["serve"];
    let path = dir.path().join("ringback.toml");
    if let Some(file) = file {
        fs::write(&path, file).expect("written");
        arguments.extend(["--config", path.to_str().expect("UTF-8")]);
    }
    arguments.extend(flags);
    let finished = run(dir.path(), &arguments, variables);
    let shown = finished
        .stderr
        .replace(path.to_str().expect("UTF-8"), "FILE");
    assert_eq!(shown, format!("ringback: {expected}\n"), "{arguments:?}");
    assert_eq!(finished.status, 2, "{arguments:?}");
    assert_eq!(finished.stdout, "", "{arguments:?}");
}

/// With these flags alone, the settings are wrong as a whole; so whoever gets this far has passed
/// the check of single values.
const NOTHING_KEEPS: &str =
    "--journal none needs --redis: without both, a restart would lose all notifications";

#[test]
fn a_wrong_setting_is_named_with_its_origin() {
    let listen = "`abc` is not an address like 127.0.0.1:8400";
    let check = check_serve;
    check(
        &["--listen", "abc"],
        &[],
        None,
        &format!("--listen: {listen}"),
    );
    check(
        &[],
        &[("RINGBACK_LISTEN", "abc")],
        None,
        &format!("RINGBACK_LISTEN: {listen}"),
    );
    check(
        &[],
        &[],
        Some("listen = 'abc'"),
        &format!("FILE: key listen: {listen}"),
    );
    check(&["--journal", "none"], &[], None, NOTHING_KEEPS);
    check(&[], &[("RINGBACK_JOURNAL", "none")], None, NOTHING_KEEPS);
    check(
        &["--redis", "redis+cluster://a:1/1"],
        &[],
        None,
        "--redis: a cluster has database 0 alone, so nothing else may follow the addresses in the URL",
    );
    check(
        &["--redis", "redis+sentinel://a:1"],
        &[],
        None,
        "--redis: the name of the primary must follow the addresses of the sentinels in the URL, as in \
         redis+sentinel://127.0.0.1:26379/mymaster",
    );
    check(
        &["--timeout", "10"],
        &[],
        None,
        "--timeout: `10` is not a duration; write it like 200ms, 4m or 24h22m",
    );
    check(
        &["--timeout", "6m"],
        &[],
        None,
        "--timeout: `6m` is not between 100ms and 5m",
    );
    check(
        &["--allow-http=perhaps"],
        &[],
        None,
        "--allow-http: `perhaps` is neither true nor false",
    );
    check(
        &["--allow-destination", "10.0.0.0/33"],
        &[],
        None,
        "--allow-destination: `10.0.0.0/33` is not a network like 10.0.0.0/8",
    );
    check(
        &["--listen", "a\nb"],
        &[],
        None,
        "--listen: `a\\nb` is not an address like 127.0.0.1:8400",
    );
}

/// A word that is no level was once taken for a module, and the server logged nothing at all.
#[test]
fn a_wrong_log_filter_is_named_wherever_it_comes_from() {
    let why = "is neither a level (off, error, warn, info, debug, trace) nor a module with a level, \
               like ringback=debug";
    for wrong in ["warning", "ringback=warning", "foo bar", "ringback"] {
        let flag = format!("--log: `{wrong}` {why}");
        check_serve(&["--log", wrong], &[], None, &flag);
        let variable = format!("RINGBACK_LOG: `{wrong}` {why}");
        check_serve(&[], &[("RINGBACK_LOG", wrong)], None, &variable);
        let key = format!("FILE: key log: `{wrong}` {why}");
        check_serve(&[], &[], Some(&format!("log = '{wrong}'")), &key);
    }
    check_serve(&["--log="], &[], None, &format!("--log: `` {why}"));
    let empty = format!("FILE: key log: `` {why}");
    check_serve(&[], &[], Some("log = ''"), &empty);
    // An empty variable says nothing.
    let nothing_keeps = ["--journal", "none"];
    check_serve(&nothing_keeps, &[("RINGBACK_LOG", "")], None, NOTHING_KEEPS);
}

#[test]
fn a_flag_silences_a_wrong_variable_and_that_a_wrong_key() {
    let check = check_serve;
    check(
        &["--listen", "127.0.0.1:0", "--journal", "none"],
        &[("RINGBACK_LISTEN", "abc")],
        Some("listen = 'def'"),
        NOTHING_KEEPS,
    );
    check(
        &["--journal", "none"],
        &[("RINGBACK_LISTEN", "127.0.0.1:0")],
        Some("listen = 'def'"),
        NOTHING_KEEPS,
    );
    check(
        &["--journal", "none"],
        &[("RINGBACK_LISTEN", ""), ("RINGBACK_CONFIG", "")],
        None,
        NOTHING_KEEPS,
    );
    check(
        &["--journal", "none"],
        &[("RINGBACK_LISTEN", "")],
        Some("listen = 'def'"),
        "FILE: key listen: `def` is not an address like 127.0.0.1:8400",
    );
}

#[test]
fn a_wrong_file_is_named_with_the_place_in_it() {
    let check = |file: &str, expected: &str| {
        check_serve(&["--journal", "none"], &[], Some(file), expected);
    };
    check(
        "partitions = 4\nallow_http = true\nlog-format = 'json'",
        NOTHING_KEEPS,
    );
    check("allow-destination = '10.0.0.0/8,::1/128'", NOTHING_KEEPS);
    check(
        "lisen = 'x'",
        "FILE: key lisen: unknown; did you mean listen?",
    );
    check(
        "[server]\nport = 1",
        "FILE: key server: unknown; `ringback serve --help` lists the settings",
    );
    check(
        "config = 'other.toml'",
        "FILE: key config: unknown; `ringback serve --help` lists the settings",
    );
    check(
        "data-dir = 'a'\ndata_dir = 'b'",
        "FILE: key data_dir: given twice, once with - and once with _",
    );
    check(
        "timeout = 1.5",
        "FILE: key timeout: takes a text like \"DURATION\"",
    );
    check(
        "allow-destination = [1.5]",
        "FILE: key allow-destination: takes a list like [\"CIDR\"]",
    );
    check(
        "\nlisten = ",
        "FILE: line 2 is not TOML: string values must be quoted",
    );
    let dir = tempfile::tempdir().expect("a directory");
    let missing = run(dir.path(), &["serve", "--config", "missing.toml"], &[]);
    assert_eq!(
        missing.stderr,
        "ringback: --config: `missing.toml` cannot be read: No such file or directory (os error 2)\n"
    );
    assert_eq!(missing.status, 2);
}

#[test]
fn secrets_show_in_no_error() {
    let mut wrong_secret = RIGHT_SECRET.to_string();
    wrong_secret.insert(10, '%');
    let check = |flags: &[&str], variables: &[(&str, &str)], file: Option<&str>| {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ringback.toml");
        let mut arguments = vec!["serve"];
        if let Some(file) = file {
            fs::write(&path, file).expect("written");
            arguments.extend(["--config", path.to_str().expect("UTF-8")]);
        }
        arguments.extend(flags);
        let Finished { status, stderr, .. } = run(dir.path(), &arguments, variables);
        assert_eq!((status, stderr.lines().count()), (2, 1), "{stderr}");
        for secret in ["C2FV", "hunter2"] {
            assert!(!stderr.contains(secret), "{stderr}");
        }
    };
    let in_file = |key: &str, value: &str| format!("{key} = {value}\n");
    check(&["--signing-secret", &wrong_secret], &[], None);
    check(&[RIGHT_SECRET], &[], None);
    check(&[&format!("--signing-secrt={RIGHT_SECRET}")], &[], None);
    check(&[], &[("RINGBACK_SIGNING_SECRET", &wrong_secret)], None);
    check(&[], &[], Some(&in_file("signing-secret", RIGHT_SECRET)));
    check(&[], &[], Some(&in_file("signing-secret", "\"C2FV")));
    check(&["--api-key", "hunter2 hunter2"], &[], None);
    check(&[], &[], Some(&in_file("api-key", "hunter2")));
    check(&[], &[], Some("api-key = 'hunter2' hunter2"));
    check(&["--redis", "redis://:hunter2@"], &[], None);
    check(&["--redis", "redis://:hunter2@h:x"], &[], None);
    check(&["--redis", "redis+cluster://:hunter2@h/1"], &[], None);
    check(&["--redis", "redis+cluster://:hunter2@h,:x"], &[], None);
    check(&["--redis", "redis+cluster://:hunter2/@h"], &[], None);
    check(&["--redis", "redis+sentinel://:hunter2@h"], &[], None);
    check(&["--journal", "postgres://u:hunter2@"], &[], None);
    check(&["--journal", "postgres://u:hunter2@h/d?a=b"], &[], None);
    check(&["--journal", "mysql://u:hunter2@h/d"], &[], None);
}

#[test]
fn a_short_api_key_is_a_warning_at_start() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("file"), "").expect("written");
    // The server ends by itself: a file has no files.
    let journal = "sqlite://file/journal.db";
    let started_with = |key: &str| {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--journal", journal];
        let finished = run(dir.path(), &serve, &[("RINGBACK_API_KEY", key)]);
        assert_eq!(finished.status, 1, "{}", finished.stderr);
        assert!(!finished.stderr.contains("hunter2"), "{}", finished.stderr);
        finished.stderr
    };
    let said = "the key of --api-key has fewer than 16 characters";
    let short = started_with("hunter2");
    assert!(short.contains(said), "{short}");
    let long = started_with("hunter2-hunter2-hunter2");
    assert!(!long.contains(said), "{long}");
}

#[test]
fn an_unknown_command_or_flag_is_a_short_message() {
    let check = |arguments: &[&str], expected: &str| {
        let finished = run(Path::new("."), arguments, &[]);
        let expected = format!("ringback: {expected}; see --help\n");
        assert_eq!(finished.stderr, expected);
        assert_eq!(finished.status, 2);
    };
    check(
        &["migrat"],
        "unrecognized subcommand 'migrat' - a similar subcommand exists: 'migrate'",
    );
    check(
        &["serve", "--listn", "x"],
        "unexpected argument '--listn' found - a similar argument exists: '--listen'",
    );
    check(
        &["show", "t"],
        "the following required arguments were not provided: <ID>; `ringback find ID` looks for an id in all topics",
    );
    check(
        &["listen", "--status", "100"],
        "invalid value '100' for '--status <N>': 100 is not in 200..=599",
    );
    let nothing = run(Path::new("."), &[], &[]);
    assert_eq!(nothing.status, 2);
    assert!(nothing.stderr.contains("\n  serve "), "{}", nothing.stderr);
}

#[test]
fn help_names_every_setting() {
    let finished = run(Path::new("."), &["serve", "--help"], &[]);
    assert_eq!((finished.status, finished.stderr.as_str()), (0, ""));
    for setting in ringback::config::settings::ALL {
        let flag = format!("--{}", setting.name);
        assert!(finished.stdout.contains(&flag), "{flag}");
    }
}

#[test]
fn ladders_are_printed_as_in_the_golden_tables() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/ladders");
    let list = run(Path::new("."), &["ladder"], &[]);
    for fixture in fs::read_dir(fixtures).expect("the fixtures") {
        let fixture = fs::read(fixture.expect("readable").path()).expect("readable");
        let golden: Value = serde_json::from_slice(&fixture).expect("JSON");
        let name = golden["name"].as_str().expect("a name");
        let finished = run(Path::new("."), &["ladder", name, "--json"], &[]);
        let shown: Value = serde_json::from_str(&finished.stdout).expect("JSON");
        for member in ["name", "repeat_last", "offsets_ms", "ends_with"] {
            assert_eq!(shown[member], golden[member], "{name} {member}");
        }
        assert_eq!(shown["retry_after"], name == "standard-webhooks", "{name}");
        let ms = |value: &Value| duration::parse_ms(value.as_str().expect("text")).expect("valid");
        assert_eq!(ms(&shown["window"]), ms(&golden["window"]), "{name}");
        let all_ms = |ladder: &Value| -> Vec<i64> {
            let intervals = ladder["intervals"].as_array().expect("a list");
            intervals.iter().map(ms).collect()
        };
        assert_eq!(all_ms(&shown), all_ms(&golden), "{name}");

        let offsets = golden["offsets_ms"].as_array().expect("a list");
        let text = run(Path::new("."), &["ladder", name], &[]).stdout;
        let rows = text.lines().skip(3).take(offsets.len());
        for ((row, offset_ms), number) in rows.zip(offsets).zip(1..) {
            let cells: Vec<&str> = row.split_whitespace().collect();
            let offset = duration::display_ms(offset_ms.as_i64().expect("a number"));
            assert_eq!(cells[0], number.to_string(), "{name} {row}");
            assert_eq!(cells[2], offset, "{name} {row}");
        }
        let line = list
            .stdout
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")));
        let cells: Vec<&str> = line.expect(name).split_whitespace().collect();
        assert_eq!(cells[1], offsets.len().to_string(), "{name}");
    }
}

#[test]
fn an_unknown_ladder_is_a_usage_error() {
    let finished = run(Path::new("."), &["ladder", "alipya"], &[]);
    assert_eq!(finished.status, 2);
    let expected = "ringback: unknown ladder `alipya`; known are alipay, ";
    assert!(finished.stderr.starts_with(expected), "{}", finished.stderr);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for arguments in [&["ladder", "adyen"][..], &["--help"], &["serve", "--help"]] {
        let finished = program::run_into_closed_pipe(arguments);
        assert_eq!((finished.status, finished.stderr.as_str()), (0, ""));
    }
}
