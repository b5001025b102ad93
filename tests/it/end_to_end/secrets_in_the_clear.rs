//! Where no secret may be: in what the stores keep, in the files of a server, and in its log.

use crate::support::merchant::{Merchant, Reaction};
use crate::support::process::Process;
use crate::support::signing::{DEFAULT_KEYS, GIVEN};
use crate::support::tls::Identity;
use crate::support::{postgres, redis as redis_servers};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redis::{Cmd, Value as Reply};
use reqwest::Method;
use ringback::config::{SECRET_FILE, read_secret};
use ringback::domain::master_key::MasterKey;
use serde_json::json;
use sqlx::Row as _;
use std::sync::{Arc, Mutex};
use zeroize::Zeroizing;

const KEYS: &str = "/v1/endpoints/shop-1/keys";
/// The file that the test gives with `--master-key-file`.
const MASTER_KEY: &str = "given-master-key";

/// The texts of which nothing may be found: the secrets as they are written, and their bytes.
fn traces_of(secret: &str) -> Vec<Vec<u8>> {
    let (_, encoded) = secret.split_once('_').expect("a prefix");
    let bytes = STANDARD.decode(encoded).expect("base64");
    let half = &encoded.as_bytes()[..20];
    vec![half.to_vec(), bytes[..16].to_vec()]
}

fn assert_none(secrets: &[String], place: &str, bytes: &[u8]) {
    for trace in secrets.iter().flat_map(|secret| traces_of(secret)) {
        let found = bytes.windows(trace.len()).any(|window| window == trace);
        assert!(!found, "a secret is in {place}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_stored_or_logged_in_the_clear() {
    let mut merchant = Merchant::scripted(vec![Reaction::fail()], Reaction::success()).await;
    let database = postgres::fresh_database();
    let redis = redis_servers::fresh_database();
    let embedded: [&str; 0] = [];
    let in_postgres = ["--journal", database.as_str()];
    let in_redis_alone = ["--redis", redis.as_str(), "--journal", "none"];
    for stores in [&embedded[..], &in_postgres[..], &in_redis_alone[..]] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let master = MasterKey::from_random(Zeroizing::new([5; 32])).expose();
        let file = dir.path().join(MASTER_KEY);
        std::fs::write(&file, &*master).expect("written");
        let file = file.to_str().expect("UTF-8").to_string();
        let mut arguments = vec!["--log", "trace", "--master-key-file", &file];
        arguments.extend(stores);
        let mut server = Process::start(dir.path(), &arguments).await;
        let log = Arc::new(Mutex::new(String::new()));
        let lines = log.clone();
        server.take_log(move |line| lines.lock().expect("unharmed").push_str(line));
        let api = server.api().clone();
        let client = Identity::self_signed(&["client"], |_| {});
        let endpoint = json!({ "url": merchant.url("/n"), "keys": [{ "secret": GIVEN }],
            "ladder": { "intervals": ["20ms"] }, "client_certificate": client.certificate_pem(),
            "client_key": client.key_pem() });
        let path = "/v1/endpoints/shop-1";
        let (status, view) = api.call(Method::PUT, path, Some(endpoint)).await;
        assert_eq!(status, 201, "{view}");
        let mut secrets = vec![GIVEN.to_string(), master.to_string()];
        // The private number of the key begins at byte 36; from byte 33 on, its base64 is a part of that of the whole.
        secrets.push(format!(
            "key_{}",
            STANDARD.encode(&client.key_der()[33..81])
        ));
        // The first default key.
        let own = read_secret(dir.path()).expect("readable").expect("made");
        secrets.push(own.expose().to_string());
        for (path, body) in [
            (KEYS, json!({ "kind": "symmetric" })),
            (KEYS, json!({ "kind": "ed25519" })),
            (DEFAULT_KEYS, json!({})),
        ] {
            let (status, added) = api.call(Method::POST, path, Some(body)).await;
            assert_eq!(status, 201, "{added}");
            secrets.push(added["secret"].as_str().expect("made").to_string());
        }
        let asked = json!({ "topic": "t", "id": "a", "endpoint": "shop-1", "body": "id=a" });
        api.register(asked).await;
        api.until_state("a", "delivered").await;
        let signatures = merchant
            .call()
            .await
            .header("Webhook-Signature")
            .to_string();
        server.signal("TERM").await;
        assert!(server.ended().await.success());
        let logged = log.lock().expect("unharmed").clone();
        assert!(
            logged.contains("a signing key was added to an endpoint"),
            "{logged}"
        );
        assert_none(&secrets, "the log", logged.as_bytes());
        for signature in signatures.split([' ', ',']).filter(|text| text.len() > 3) {
            assert!(!logged.contains(signature), "a signature is in the log");
        }
        for entry in std::fs::read_dir(dir.path()).expect("readable") {
            let path = entry.expect("readable").path();
            let may_contain_one = path.ends_with(MASTER_KEY) || path.ends_with(SECRET_FILE);
            if path.is_file() && !may_contain_one {
                let bytes = std::fs::read(&path).expect("readable");
                assert_none(&secrets, &path.display().to_string(), &bytes);
            }
        }
        if stores == in_postgres {
            let text = in_database(&database).await;
            assert_none(&secrets, "the database", text.as_bytes());
        }
        if stores == in_redis_alone {
            assert_none(&secrets, "Redis", &in_redis(&redis).await);
        }
        while merchant.arrived().is_some() {}
    }
}

/// Every row of every table of a PostgreSQL database, as a text.
async fn in_database(database: &str) -> String {
    let mut connection = postgres::connect(database).await;
    let tables = sqlx::query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'");
    let tables = tables.fetch_all(&mut connection).await.expect("readable");
    let mut text = String::new();
    for table in tables {
        let table: String = table.get(0);
        let query = format!("SELECT t::TEXT FROM \"{table}\" t");
        let rows = sqlx::query(sqlx::AssertSqlSafe(query));
        for row in rows.fetch_all(&mut connection).await.expect("readable") {
            text.push_str(&row.get::<String, _>(0));
        }
    }
    assert!(text.contains("shop-1"), "the endpoint is in the dump");
    text
}

/// Every key of a Redis database, with all that it contains.
async fn in_redis(url: &str) -> Vec<u8> {
    let mut redis = redis_servers::connect(url).await;
    let (mut cursor, mut keys) = (0_u64, Vec::new());
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor);
        let (next, some): (u64, Vec<String>) = scan.query_async(&mut redis).await.expect("scanned");
        keys.extend(some);
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    let mut bytes = Vec::new();
    for key in keys {
        bytes.extend_from_slice(key.as_bytes());
        bytes.push(b'\n');
        let mut asking = redis::cmd("TYPE");
        asking.arg(&key);
        let kind: String = asking.query_async(&mut redis).await.expect("a type");
        let mut read = Cmd::new();
        match kind.as_str() {
            "string" => read.arg("GET").arg(&key),
            "hash" => read.arg("HGETALL").arg(&key),
            "zset" => read.arg("ZRANGE").arg(&key).arg(0).arg(-1),
            "list" => read.arg("LRANGE").arg(&key).arg(0).arg(-1),
            "set" => read.arg("SMEMBERS").arg(&key),
            "stream" => read.arg("XRANGE").arg(&key).arg("-").arg("+"),
            // It has expired since.
            "none" => continue,
            other => panic!("{key} is of the type {other}, which this test does not read"),
        };
        let content: Reply = read.query_async(&mut redis).await.expect("read");
        add(&content, &mut bytes);
    }
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(has(b"shop-1"), "the endpoint is in Redis");
    assert!(has(b"}:default_keys\n"), "the default keys are in Redis");
    bytes
}

/// Adds all texts of a reply.
fn add(reply: &Reply, bytes: &mut Vec<u8>) {
    match reply {
        Reply::BulkString(text) => {
            bytes.extend_from_slice(text);
            bytes.push(b'\n');
        }
        Reply::Array(items) => items.iter().for_each(|item| add(item, bytes)),
        Reply::Nil => {}
        other => panic!("{other:?} is no content that this test reads"),
    }
}
