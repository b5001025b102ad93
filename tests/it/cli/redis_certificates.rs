//! The settings that name files with certificates for Redis.

use super::check_serve;
use super::program::run;
use crate::support::redis_tls::RedisAuthority;
use std::path::Path;

const TLS: [&str; 2] = ["--redis", "rediss://127.0.0.1:1"];

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn settings_that_do_not_fit_together_and_files_that_cannot_be_used_are_named() {
    let authority = RedisAuthority::new("Redis CA");
    let right = authority.client();
    let client = right.client.expect("given");
    let (ca, certificate, key) = (
        right.ca.expect("given"),
        client.certificate.clone(),
        client.key.clone(),
    );
    let (ca, certificate, key) = (text(&ca), text(&certificate), text(&key));
    let check = |flags: &[&str], expected: &str| {
        check_serve(&[&TLS, flags].concat(), &[], None, expected);
    };
    check(
        &["--redis-client-certificate", certificate],
        "redis-client-certificate is given without redis-client-key; they belong together",
    );
    check(
        &["--redis-client-key", key],
        "redis-client-key is given without redis-client-certificate; they belong together",
    );
    let needs = |name: &str| {
        format!(
            "{name} needs a URL of Redis that begins with rediss://, rediss+sentinel:// or rediss+cluster://"
        )
    };
    check_serve(&["--redis-ca", ca], &[], None, &needs("redis-ca"));
    let plain = ["--redis", "redis+cluster://127.0.0.1:1"];
    let shown = [
        "--redis-client-certificate",
        certificate,
        "--redis-client-key",
        key,
    ];
    let flags = [&plain[..], &shown].concat();
    check_serve(&flags, &[], None, &needs("redis-client-certificate"));
    let missing = "No such file or directory (os error 2)";
    check(
        &["--redis-ca", "nowhere.pem"],
        &format!("nowhere.pem: {missing}"),
    );
    check(
        &["--redis-ca", key],
        &format!(
            "{key}: the file contains a private key, which belongs into the file of redis-client-key alone"
        ),
    );
    check(
        &[
            "--redis-client-certificate",
            certificate,
            "--redis-client-key",
            ca,
        ],
        &format!("{ca}: a PEM text with one private key is expected"),
    );
    // The commands that need only the stores check them too.
    let dir = tempfile::tempdir().expect("a directory");
    let audit = [&["audit"], &TLS[..], &["--redis-ca", "nowhere.pem"]].concat();
    let finished = run(dir.path(), &audit, &[]);
    assert_eq!(finished.status, 2);
    assert_eq!(
        finished.stderr,
        format!("ringback: nowhere.pem: {missing}\n")
    );
}
