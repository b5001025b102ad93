//! The whole server, and the commands that look into Redis, by a user that has no more rights there than
//! `docs/operations.md` gives it; and that these are the rights that are needed, and no others.

use crate::cli::program::run;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::redis::{RedisServer, connect, documented_rights, documented_rights_besides};
use crate::support::ringback::{Server, Stores, config, registration, with_ladder};
use redis::{FromRedisValue, Value};
use reqwest::Method;
use ringback::config::{JournalConfig, RedisUrl};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Not the first, so that a connection has to select it.
const DATABASE: usize = 3;
/// What only the client library sends, when it connects and when it listens.
const OF_THE_LIBRARY: [&str; 3] = ["client", "select", "subscribe"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_a_journal_is_refused_nothing() {
    check(Stores::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_journal_is_refused_nothing() {
    check(Stores::RedisOnly).await;
}

/// Lets a server do whatever it does with Redis, and asks Redis what it refused.
async fn check(stores: Stores) {
    let mut redis = RedisServer::start_for(&documented_rights(), &["--appendonly", "yes"]);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut settings = config(dir.path(), stores);
    let url = redis.user_url(DATABASE);
    settings.schedule.redis = Some(RedisUrl::parse(&url).expect("a Redis URL"));
    let server = Server::open(settings, None, Some(dir)).await;
    let mut merchant = Merchant::scripted(vec![Reaction::fail()], Reaction::success()).await;
    let later = async |id: &str| {
        let mut asked = registration(id, &merchant);
        asked["delay"] = "30m".into();
        server.register(asked).await
    };
    let ask = async |method: Method, path: &str| {
        let body = (method == Method::POST && path.ends_with("replay")).then(|| json!({}));
        let (status, answer) = server.call(method, path, body).await;
        assert_eq!(status, 200, "{path}: {answer}");
    };

    later("later").await;
    let dead = with_ladder("dead", &merchant, &[]);
    server.register(dead).await;
    server.until_state("dead", "dead").await;
    ask(Method::GET, "/v1/dead-letters").await;
    ask(Method::POST, "/v1/dead-letters/t/dead/replay").await;
    server.until_state("dead", "delivered").await;
    later("cancelled").await;
    ask(Method::DELETE, "/v1/notifications/t/cancelled").await;
    later("retried").await;
    ask(Method::POST, "/v1/notifications/t/retried/retry").await;
    server.until_state("retried", "delivered").await;
    let endpoint = json!({ "url": merchant.url("/n"), "rate": 5 });
    let (status, made) = (server.call(Method::PUT, "/v1/endpoints/shop", Some(endpoint))).await;
    assert_eq!(status, 201, "{made}");
    ask(Method::GET, "/v1/endpoints/shop").await;
    ask(Method::GET, "/v1/endpoints").await;
    let removed = server.call(Method::DELETE, "/v1/endpoints/shop", None);
    assert_eq!(removed.await.0, 204);
    ask(Method::GET, "/readyz").await;
    ask(Method::GET, "/metrics").await;
    let beside = Server::open(server.config().clone(), None, None).await;
    beside.stop().await;
    refused_nothing(&redis).await;

    // Redis is restarted, and then emptied.
    redis.kill();
    redis.start_again().await;
    later("after the restart").await;
    let mut outside = connect(&redis.url(DATABASE)).await;
    let flush = redis::cmd("FLUSHDB").exec_async(&mut outside).await;
    flush.expect("flushed");
    later("after the flush").await;
    server.register(registration("now", &merchant)).await;
    server.until_state("now", "delivered").await;

    if let JournalConfig::Postgres(journal) = server.config().journal.clone() {
        let commands = [&["audit"][..], &["rebuild"], &["rebuild", "--clear"]];
        for words in commands {
            let (words, url, journal) = (words.to_vec(), url.clone(), journal.clone());
            let running = tokio::task::spawn_blocking(move || {
                let stores = ["--journal", journal.expose(), "--redis", &url];
                run(Path::new("."), &[words, stores.to_vec()].concat(), &[])
            });
            let finished = running.await.expect("it ran");
            assert_eq!(finished.status, 0, "{}{}", finished.stdout, finished.stderr);
        }
    }
    server.stop().await;
    refused_nothing(&redis).await;
    while merchant.arrived().is_some() {}
}

/// Redis keeps what it refused to a user, commands within scripts included, until it is restarted.
async fn refused_nothing(redis: &RedisServer) {
    let mut outside = connect(&redis.url(0)).await;
    let command = redis::cmd("ACL").arg("LOG").to_owned();
    let refused: Vec<Value> = command.query_async(&mut outside).await.expect("a log");
    assert!(refused.is_empty(), "{refused:?}");
}

#[tokio::test]
async fn the_documented_rights_are_those_of_the_commands_that_the_sources_name() {
    let redis = RedisServer::start(&[]);
    let mut outside = connect(&redis.url(0)).await;
    let command = redis::cmd("COMMAND");
    let known: Vec<Vec<Value>> = command.query_async(&mut outside).await.expect("a list");
    let known: BTreeSet<String> = (known.into_iter())
        .map(|mut row| String::from_redis_value(row.swap_remove(0)).expect("a name"))
        .collect();
    let mut needed: BTreeSet<String> = OF_THE_LIBRARY.map(String::from).into();
    let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/schedule/redis");
    for folder in [
        sources.clone(),
        sources.join("lua"),
        sources.join("connection"),
        sources.join("recovery"),
        sources.join("servers"),
    ] {
        for entry in fs::read_dir(folder).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let text = fs::read_to_string(&path).expect("readable");
                needed.extend(named(&text).filter(|word| known.contains(word)));
            }
        }
    }
    let documented: BTreeSet<String> = (documented_rights().iter())
        .chain(&documented_rights_besides())
        .filter_map(|right| right.strip_prefix('+'))
        // Of a command that has others within it, the one that is called.
        .map(|right| right.split('|').next().unwrap_or(right).to_string())
        .collect();
    // Only `ringback doctor` asks for this, and says so if it may not.
    needed.remove("config");
    assert_eq!(documented, needed);
}

/// Words in capitals between quotes, as commands are written, and the names of the library's functions
/// that make one.
fn named(text: &str) -> impl Iterator<Item = String> {
    let quoted = text
        .split(['\'', '"'])
        .filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase()));
    let made = text.split("Cmd::").skip(1);
    let made = made.filter_map(|rest| rest.split(|byte: char| !byte.is_ascii_alphabetic()).next());
    quoted.chain(made).map(str::to_lowercase)
}
