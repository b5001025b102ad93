//! What is found of certificates for Redis.

use super::doctor;
use crate::support::redis::RedisServer;
use crate::support::redis_node::Node;
use crate::support::redis_tls::RedisAuthority;
use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn doctor_says_until_when_certificates_can_be_used_and_why_a_server_is_refused() {
    if !RedisServer::knows_tls() {
        println!("NOT TRIED: the Redis server was built without TLS");
        return;
    }
    let authority = RedisAuthority::new("Redis CA");
    let redis = Node::start(&[], Some(&authority));
    let url = format!("rediss://127.0.0.1:{}", redis.port());
    let right = authority.client();
    let client = right.client.expect("given");
    let ca = right.ca.expect("given");
    let dir = tempfile::tempdir().expect("a directory");
    let trusting = [
        "--listen",
        "127.0.0.1:0",
        "--redis",
        &url,
        "--redis-ca",
        text(&ca),
    ];
    let showing = [
        "--redis-client-certificate",
        text(&client.certificate),
        "--redis-client-key",
        text(&client.key),
    ];
    let found = doctor(dir.path(), &[&trusting[..], &showing].concat(), &[]);
    found.is_sound();
    found.has(("redis", "ok"), "can be reached", "");
    found.has(("redis certificates", "ok"), "redis-ca is valid until ", "");
    let found = doctor(dir.path(), &trusting, &[]);
    assert_eq!(found.status, 1);
    found.has(
        ("redis", "problem"),
        "CertificateRequired",
        "--redis-client-certificate",
    );
}
