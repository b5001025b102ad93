//! Whether destinations can be reached, and why not.

use super::doctor;
use crate::cli::program::run;
use crate::support::merchant::Merchant;
use crate::support::process::Process;
use crate::support::refusing_port::RefusingPort;
use crate::support::tls::Authority;

const ALLOWED: [&str; 2] = ["--allow-destination", "127.0.0.0/8"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destination_that_can_be_reached_gets_no_request() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut merchant = Merchant::start().await;
    let url = merchant.url("/notify");
    let flags = [&["--destination", &url], &ALLOWED[..]].concat();
    let found = doctor(dir.path(), &flags, &[]);
    found.is_sound();
    found.has(("connection", "ok"), "a connection to 127.0.0.1:", "");
    found.has(("destination", "ok"), "nothing was sent to it", "");
    let blocked = doctor(dir.path(), &["--destination", &url], &[]);
    assert_eq!(blocked.status, 1);
    blocked.has(
        ("address", "problem"),
        "is loopback",
        "--allow-destination 127.0.0.1",
    );
    assert!(merchant.arrived().is_none());
    assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 0);
}

#[test]
fn each_obstacle_is_told_in_words_with_what_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let check = |url: &str, (subject, text, mend): (&str, &str, &str)| {
        let found = doctor(
            dir.path(),
            &[&["--destination", url], &ALLOWED[..]].concat(),
            &[],
        );
        assert_eq!(found.status, 1);
        found.has((subject, "problem"), text, mend);
    };
    let refusing = RefusingPort::take();
    let refused = format!("https://{}/", refusing.address());
    check(&refused, ("connection", "it was refused", "firewall"));
    check(
        "https://10.0.0.1/",
        ("address", "is private", "--allow-destination 10.0.0.1"),
    );
    let name = "https://no-such-host.invalid/";
    check(name, ("name", "cannot be resolved", "getent hosts"));
    check("http://1.1.1.1/", ("address", "plain http", "--allow-http"));
    let wrong = run(dir.path(), &["doctor", "--destination", "ftp://a/"], &[]);
    assert_eq!((wrong.status, wrong.stdout.as_str()), (2, ""));
    assert!(
        wrong.stderr.starts_with("ringback: --destination: "),
        "{}",
        wrong.stderr
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_checked_and_an_endpoint_has_its_own_authority() {
    let dir = tempfile::tempdir().expect("a directory");
    let authority = Authority::new("doctor");
    let roots = authority.write(dir.path());
    let roots = roots.to_str().expect("UTF-8");
    let receiver = authority.issue(&["127.0.0.1"]).serve().await;
    let url = format!("https://{receiver}/notify");
    let flags = [&["--destination", &url], &ALLOWED[..]].concat();
    let unknown = doctor(dir.path(), &flags, &[]);
    assert_eq!(unknown.status, 1);
    unknown.has(("connection", "ok"), "a connection to", "");
    unknown.has(("tls", "problem"), "certificate", "SSL_CERT_FILE");
    let known = doctor(dir.path(), &flags, &[("SSL_CERT_FILE", roots)]);
    known.is_sound();
    known.has(("tls", "ok"), "the certificate is valid", "");
    let other = authority.issue(&["shop.example"]).serve().await;
    let other = format!("https://{other}/");
    let flags = [&["--destination", &other], &ALLOWED[..]].concat();
    let named = doctor(dir.path(), &flags, &[("SSL_CERT_FILE", roots)]);
    named.has(("tls", "problem"), "shop.example", "");

    let server = Process::start(dir.path(), &[]).await;
    let words = ["endpoint", "set", "shop", "--url", &url, "--ca", roots];
    let at = ["--server", server.api().url()];
    let set = run(dir.path(), &[&words[..], &at].concat(), &[]);
    assert_eq!(set.status, 0, "{}", set.stderr);
    let journal = format!("sqlite://{}/journal.db", dir.path().display());
    let flags = |name| {
        let data = dir.path().to_str().expect("UTF-8");
        let settings = [
            "--journal",
            &journal,
            "--data-dir",
            data,
            "--endpoint",
            name,
        ];
        [&settings[..], &ALLOWED]
            .concat()
            .into_iter()
            .map(String::from)
            .collect::<Vec<_>>()
    };
    let ask = |name| {
        let flags = flags(name);
        doctor(
            dir.path(),
            &flags.iter().map(String::as_str).collect::<Vec<_>>(),
            &[],
        )
    };
    let found = ask("shop");
    found.is_sound();
    found.has(("endpoint", "ok"), &url, "");
    found.has(("tls", "ok"), "the certificate is valid", "");
    let missing = ask("nobody");
    assert_eq!(missing.status, 1);
    missing.has(
        ("endpoint", "problem"),
        "there is no endpoint nobody",
        "endpoint list",
    );
}

/// Without a journal, endpoints are kept in Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_is_found_without_a_journal() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut merchant = Merchant::start().await;
    let redis = crate::support::redis::fresh_database();
    let stores = ["--redis", &redis, "--journal", "none"];
    let server = Process::start(dir.path(), &stores).await;
    let url = merchant.url("/notify");
    let words = ["endpoint", "set", "shop", "--url", &url];
    let at = ["--server", server.api().url()];
    let set = run(dir.path(), &[&words[..], &at].concat(), &[]);
    assert_eq!(set.status, 0, "{}", set.stderr);
    let flags = [&stores[..], &ALLOWED, &["--endpoint", "shop"]].concat();
    doctor(dir.path(), &flags, &[]).is_sound();
    // The endpoints that get the alerts are examined with all else.
    let alerts = ["--alert-endpoint", "shop,nobody"];
    let flags = [&stores[..], &ALLOWED, &alerts].concat();
    let found = doctor(dir.path(), &flags, &[]);
    found.has(("alerts", "ok"), "the endpoint shop", "");
    found.has(
        ("alerts", "warning"),
        "there is no endpoint nobody",
        "endpoint list",
    );
    assert!(merchant.arrived().is_none());
}
