//! `ringback listen`, called as a dispatcher would call it; signed by an independent library.

use super::RIGHT_SECRET;
use super::program::{Running, run};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

struct Merchant {
    running: Running,
    port: u16,
}

impl Merchant {
    fn open(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Self::open_in(dir.path(), arguments, &[])
    }

    fn open_in(dir: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut all = vec!["listen", "--port", "0"];
        all.extend(arguments);
        let mut running = Running::start(dir, &all, variables);
        let line = running.line();
        let port = line
            .strip_prefix("listening on http://127.0.0.1:")
            .and_then(|rest| rest.strip_suffix('/'))
            .and_then(|port| port.parse().ok());
        Self {
            running,
            port: port.unwrap_or_else(|| panic!("no address in `{line}`")),
        }
    }

    /// Posts a body and gives the answer's status and body.
    fn post(&self, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
        let mut request = format!(
            "POST /notify?a=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connects");
        stream.write_all(request.as_bytes()).expect("sent");
        // A merchant that refuses a large body closes before it has read it all.
        let _ = stream.write_all(body);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
        (status.unwrap_or(0), body.to_string())
    }

    fn line(&mut self) -> String {
        self.running.line()
    }
}

fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(now.expect("after 1970").as_secs()).expect("fits")
}

fn sign(id: &str, timestamp_s: i64, body: &[u8]) -> String {
    let judge = Webhook::new(RIGHT_SECRET).expect("a secret");
    judge.sign(id, timestamp_s, body).expect("signed")
}

/// What `listen` says of a call that is signed like this.
fn check_signature(arguments: &[&str], timestamp_s: i64, signed: &[u8], body: &[u8], says: &str) {
    let mut merchant = Merchant::open(arguments);
    let headers = [
        ("Webhook-Id", "msg_1"),
        ("Webhook-Timestamp", &timestamp_s.to_string()),
        ("Webhook-Signature", &sign("msg_1", timestamp_s, signed)),
        ("Ringback-Topic", "payment.succeeded"),
        ("Ringback-Attempt", "3"),
    ];
    assert_eq!(merchant.post(&headers, body), (200, "success".to_string()));
    let line = merchant.line();
    let (_, line) = line.split_once("Z  ").expect("a time");
    assert_eq!(
        line,
        format!("msg_1  topic payment.succeeded  attempt 3  {says}  -> 200 `success`")
    );
}

#[test]
fn every_call_is_judged_by_its_signature() {
    let check = check_signature;
    let known = ["--secret", RIGHT_SECRET];
    let body = "a=1\n失败\u{1b}[2J".as_bytes();
    let shown = "14 bytes `a=1\\n失败\\u{1b}[2J`";
    let now_s = now_s();
    check(&known, now_s, body, body, &format!("verified  {shown}"));
    check(
        &known,
        now_s,
        b"other",
        body,
        &format!("bad signature (no signature matches)  {shown}"),
    );
    check(
        &known,
        now_s - 400,
        body,
        body,
        &format!(
            "bad signature (the timestamp differs by more than 300 s from the receiver's clock)  {shown}"
        ),
    );
    check(&[], now_s, body, body, &format!("unverified  {shown}"));
}

#[test]
fn a_call_without_signature_or_with_too_large_a_body_is_told_apart() {
    let mut merchant = Merchant::open(&["--secret", RIGHT_SECRET]);
    assert_eq!(merchant.post(&[], b"x").0, 200);
    let line = merchant.line();
    let expected = "-  topic -  attempt -  bad signature (the header webhook-id is missing)  1 bytes `x`  -> 200 `success`";
    assert!(line.ends_with(expected), "{line}");
    merchant.post(&[], &vec![b'x'; 1024 * 1024 + 1]);
    let line = merchant.line();
    assert!(
        line.ends_with("  unverified  body not read completely  -> 413 ``"),
        "{line}"
    );
    merchant.post(&[], &vec![b'x'; 1024 * 1024]);
    let line = merchant.line();
    let expected = format!("  1048576 bytes `{}...`  -> 200 `success`", "x".repeat(77));
    assert!(line.ends_with(&expected), "{line}");
}

/// Headers that sign this body.
fn signed(body: &[u8]) -> [(&'static str, String); 3] {
    let timestamp_s = now_s();
    [
        ("webhook-id", "msg_1".to_string()),
        ("webhook-timestamp", timestamp_s.to_string()),
        ("webhook-signature", sign("msg_1", timestamp_s, body)),
    ]
}

#[test]
fn a_strict_merchant_refuses_what_is_not_signed_and_says_why() {
    let flags = ["--secret", RIGHT_SECRET, "--strict", "--fail-first", "1"];
    let mut merchant = Merchant::open(&flags);
    let headers = signed(b"x");
    let headers: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect();
    let mut check = |headers: &[(&str, &str)], body: &[u8], status: u16, answer: &str| {
        assert_eq!(merchant.post(headers, body), (status, answer.to_string()));
        let line = merchant.line();
        assert!(
            line.ends_with(&format!("  -> {status} `{answer}`")),
            "{line}"
        );
    };
    check(&headers, b"y", 401, "bad signature: no signature matches");
    for (missing, _) in &headers {
        let others: Vec<(&str, &str)> = headers
            .iter()
            .copied()
            .filter(|(name, _)| name != missing)
            .collect();
        let why = format!("bad signature: the header {missing} is missing");
        check(&others, b"x", 401, &why);
    }
    // What was refused does not count as a call of the notification.
    check(&headers, b"x", 500, "fail");
    check(&headers, b"x", 200, "success");
    let finished = merchant.running.stop("TERM");
    assert_eq!(finished.stderr, "");

    let dir = tempfile::tempdir().expect("a directory");
    let without_key = run(dir.path(), &["listen", "--strict"], &[]);
    assert_eq!(without_key.status, 2);
    let expected = "ringback: --strict needs a signing secret; use --secret or --data-dir\n";
    assert_eq!(without_key.stderr, expected);
}

#[test]
fn a_merchant_that_is_not_strict_warns_of_every_bad_signature() {
    let warning = "WARNING: a call with a bad signature (no signature matches) was answered 200; a merchant must \
                   refuse it: anybody can forge such a call; with --strict it is answered 401";
    let headers = signed(b"x");
    let headers: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect();
    let mut merchant = Merchant::open(&["--secret", RIGHT_SECRET]);
    for body in [b"x", b"y", b"z"] {
        assert_eq!(merchant.post(&headers, body).0, 200);
        merchant.line();
    }
    let finished = merchant.running.stop("TERM");
    assert_eq!(finished.stderr, format!("ringback: {warning}\n").repeat(2));

    let mut merchant = Merchant::open(&["--secret", RIGHT_SECRET, "--json"]);
    merchant.post(&headers, b"y");
    let line: Value = serde_json::from_str(&merchant.line()).expect("JSON");
    assert_eq!(line["warning"], warning);
    assert_eq!(merchant.running.stop("TERM").stderr, "");

    // Another status than 2xx acknowledges nothing.
    let mut merchant = Merchant::open(&["--secret", RIGHT_SECRET, "--status", "500"]);
    merchant.post(&headers, b"y");
    merchant.line();
    assert_eq!(merchant.running.stop("TERM").stderr, "");
}

#[test]
fn the_secret_is_found_where_serve_keeps_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("ringback-data");
    fs::create_dir(&data).expect("made");
    fs::write(data.join("signing-secret"), format!("{RIGHT_SECRET}\n")).expect("written");
    let data = data.to_str().expect("UTF-8");
    let elsewhere = tempfile::tempdir().expect("a directory");
    let check = |dir: &Path, arguments: &[&str], variables: &[(&str, &str)]| {
        let mut merchant = Merchant::open_in(dir, arguments, variables);
        let timestamp_s = now_s();
        let headers = [
            ("webhook-id", "msg_1"),
            ("webhook-timestamp", &timestamp_s.to_string()),
            ("webhook-signature", &sign("msg_1", timestamp_s, b"x")),
        ];
        merchant.post(&headers, b"x");
        let line = merchant.line();
        assert!(line.contains("  verified  "), "{line}");
    };
    check(dir.path(), &[], &[]);
    check(elsewhere.path(), &["--data-dir", data], &[]);
    check(elsewhere.path(), &[], &[("RINGBACK_DATA_DIR", data)]);
    check(
        elsewhere.path(),
        &[],
        &[("RINGBACK_SIGNING_SECRET", RIGHT_SECRET)],
    );

    let none = run(elsewhere.path(), &["listen", "--data-dir", "."], &[]);
    assert_eq!(none.status, 2);
    assert_eq!(
        none.stderr,
        "ringback: --data-dir: there is no signing-secret in .\n"
    );
    let wrong = run(elsewhere.path(), &["listen", "--secret", "abc"], &[]);
    assert_eq!(wrong.status, 2);
    assert_eq!(
        wrong.stderr,
        "ringback: --secret: a signing secret starts with `whsec_`\n"
    );
}

#[test]
fn the_first_calls_of_each_notification_fail() {
    let merchant = Merchant::open(&["--fail-first", "2", "--answer", "OK", "--status", "202"]);
    let check = |id: &str, expected: (u16, &str)| {
        let (status, body) = merchant.post(&[("Webhook-Id", id)], b"");
        assert_eq!((status, body.as_str()), expected, "{id}");
    };
    check("a", (500, "fail"));
    check("b", (500, "fail"));
    check("a", (500, "fail"));
    check("a", (202, "OK"));
    check("b", (500, "fail"));
    check("b", (202, "OK"));
}

#[test]
fn json_lines_say_the_same() {
    let mut merchant = Merchant::open(&["--json", "--delay", "1ms"]);
    merchant.post(
        &[("Webhook-Id", "msg_1"), ("Ringback-Attempt", "1")],
        b"a\xff",
    );
    let line: Value = serde_json::from_str(&merchant.line()).expect("JSON");
    let mut line = line.as_object().expect("an object").clone();
    line.remove("at").expect("a time");
    let expected = json!({
        "method": "POST", "path": "/notify?a=1", "webhook_id": "msg_1", "topic": null,
        "attempt": "1", "signature": "unverified", "problem": null, "warning": null, "body_bytes": 2,
        "body": "a\\xff", "answered": { "status": 200, "body": "success" },
    });
    assert_eq!(Value::Object(line), expected);
}

#[test]
fn a_signal_ends_it_with_status_0() {
    for signal in ["TERM", "INT"] {
        let merchant = Merchant::open(&[]);
        let finished = merchant.running.stop(signal);
        assert_eq!((finished.status, finished.stdout.as_str()), (0, ""));
        let expected = "ringback: no signing secret is known, so no signature can be verified; use \
                        --secret or --data-dir\n";
        assert_eq!(finished.stderr, expected);
    }
}
