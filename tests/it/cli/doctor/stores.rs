//! What is found in journals and in Redis.

use super::doctor;
use crate::cli::program::{Running, run};
use crate::support::postgres;
use crate::support::redis::{RedisServer, documented_rights};
use std::fs;
use std::net::TcpListener;
use std::path::Path;

const LISTEN: [&str; 2] = ["--listen", "127.0.0.1:0"];

fn with<'flags>(flags: &[&'flags str]) -> Vec<&'flags str> {
    [&LISTEN, flags].concat()
}

#[test]
fn a_file_that_is_no_journal_is_a_problem() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(
        dir.path().join("j.db"),
        "no database, but a text of some length",
    )
    .expect("written");
    let found = doctor(dir.path(), &with(&["--journal", "sqlite://j.db"]), &[]);
    assert_eq!(found.status, 1);
    found.has(
        ("journal", "problem"),
        "it is not an SQLite database",
        "--journal",
    );
    let text = fs::read_to_string(dir.path().join("j.db")).expect("there");
    assert!(text.starts_with("no database"));
}

#[test]
fn a_journal_in_postgresql_is_examined_and_not_migrated() {
    let dir = tempfile::tempdir().expect("a directory");
    let url = postgres::fresh_database();
    let flags = with(&["--journal", &url]);
    for _ in 0..2 {
        let found = doctor(dir.path(), &flags, &[]);
        found.is_sound();
        found.has(("journal", "ok"), "(PostgreSQL ", "");
        found.has(("migrations", "ok"), "the first start makes", "");
        found.has(("clock", "ok"), "agree within a second", "");
    }
    let not_migrating = [&flags[..], &["--migrate=false"]].concat();
    let found = doctor(dir.path(), &not_migrating, &[]);
    assert_eq!(found.status, 1);
    found.has(
        ("migrations", "problem"),
        "--migrate=false",
        "ringback migrate",
    );
    assert_eq!(
        run(dir.path(), &["migrate", "--journal", &url], &[]).status,
        0
    );
    doctor(dir.path(), &not_migrating, &[]).is_sound();

    let key = "rbmk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let serve = [&["serve"], &flags[..], &["--master-key", key]].concat();
    let mut server = Running::start(dir.path(), &serve, &[]);
    server.address();
    let found = doctor(
        dir.path(),
        &[&flags[..], &["--master-key", key]].concat(),
        &[],
    );
    found.is_sound();
    found.has(("servers", "ok"), "a server with a schedule in memory", "");
    found.has(("master key", "ok"), "it is that of the journal", "");
    let found = doctor(dir.path(), &flags, &[]);
    found.has(
        ("master key", "problem"),
        "none is given",
        "--master-key-file",
    );
    let redis = crate::support::redis::fresh_database();
    let found = doctor(
        dir.path(),
        &[&flags[..], &["--redis", &redis]].concat(),
        &[],
    );
    found.has(
        ("servers", "problem"),
        "a server with a schedule in memory",
        "--redis",
    );
    server.stop("TERM");
}

#[tokio::test]
async fn a_user_of_postgresql_that_may_not_make_tables_is_told_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let url = postgres::fresh_database();
    let mut owner = postgres::connect(&url).await;
    let visitor = format!("visitor_{}", std::process::id());
    for sql in [
        format!("CREATE ROLE {visitor} LOGIN PASSWORD 'hunter2'"),
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC".to_string(),
    ] {
        postgres::run(&mut owner, &sql).await;
    }
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (_, place) = rest.split_once('@').expect("a user");
    let url = format!("{scheme}://{visitor}:hunter2@{place}");
    let found = doctor(dir.path(), &with(&["--journal", &url]), &[]);
    assert_eq!(found.status, 1);
    found.has(
        ("journal", "problem"),
        "may not make tables in the schema public",
        "GRANT CREATE ON SCHEMA public",
    );
    let nowhere = format!("{url}?options=-c%20search_path%3Dnowhere");
    let found = doctor(dir.path(), &with(&["--journal", &nowhere]), &[]);
    found.has(("journal", "problem"), "search_path", "options");
    postgres::run(&mut owner, &format!("DROP ROLE {visitor}")).await;
}

/// Programs that accept connections and say nothing.
#[test]
fn stores_that_do_not_answer_hold_nothing_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let silent = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let [first, second] = silent
        .each_ref()
        .map(|one| one.local_addr().expect("bound"));
    let journal = format!("postgres://me@{first}/x");
    let redis = format!("redis://{second}");
    let flags = with(&["--journal", &journal, "--redis", &redis]);
    let found = doctor(dir.path(), &flags, &[]);
    assert_eq!(found.status, 1);
    found.has(("journal", "problem"), "no connection", "psql");
    found.has(("redis", "problem"), "cannot be used", "redis-cli");
}

#[test]
fn stores_that_cannot_be_reached_are_named_without_their_passwords() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = "postgres://me:hunter2@127.0.0.1:1/orders?sslmode=disable";
    let redis = "redis://me:hunter2@127.0.0.1:1/0";
    let found = doctor(
        dir.path(),
        &with(&["--journal", journal, "--redis", redis]),
        &[],
    );
    assert_eq!(found.status, 1);
    found.has(
        ("journal", "problem"),
        "postgres://127.0.0.1:1/orders",
        "psql",
    );
    found.has(
        ("redis", "problem"),
        "redis://127.0.0.1:1 cannot be used",
        "redis-cli",
    );
}

#[test]
fn a_redis_that_may_lose_data_says_what_to_set() {
    let dir = tempfile::tempdir().expect("a directory");
    let redis = RedisServer::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let url = redis.url(0);
    let found = doctor(dir.path(), &with(&["--redis", &url]), &[]);
    assert_eq!(found.status, 1);
    found.has(("redis", "ok"), "can be reached", "");
    found.has(
        ("redis memory", "problem"),
        "allkeys-lru",
        "maxmemory-policy noeviction",
    );
    found.has(
        ("redis persistence", "warning"),
        "from the journal again",
        "appendonly yes",
    );
    found.has(("redis rights", "ok"), "scripts run", "");
    found.has(("redis data", "ok"), "no schedule yet", "");
    found.has(("clock", "ok"), "agree within a second", "");
    let alone = with(&["--redis", &url, "--journal", "none"]);
    let found = doctor(dir.path(), &alone, &[]);
    found.has(
        ("redis persistence", "warning"),
        "loses notifications",
        "appendonly yes",
    );
}

/// The rights of the documents lack CONFIG, as managed services do.
#[test]
fn what_the_user_of_redis_may_not_see_or_do_is_told_apart() {
    let dir = tempfile::tempdir().expect("a directory");
    let redis = RedisServer::start_for(&documented_rights(), &["--appendonly", "yes"]);
    let url = redis.user_url(0);
    let check = |redis: &str| doctor(dir.path(), &with(&["--redis", redis]), &[]);
    let found = check(&url);
    found.is_sound();
    found.has(("redis persistence", "ok"), "append-only", "");
    drop(redis);

    let mut hidden = documented_rights();
    hidden.retain(|right| right != "+info");
    hidden.push("+info|server".to_string());
    let redis = RedisServer::start_for(&hidden, &[]);
    let found = check(&redis.user_url(0));
    found.is_sound();
    found.has(("redis memory", "unknown"), "cannot be seen", "");
    found.has(("redis persistence", "unknown"), "cannot be seen", "");
    drop(redis);

    let mut rights = documented_rights();
    rights.retain(|right| right != "+zadd" && right != "+subscribe");
    let redis = RedisServer::start_for(&rights, &[]);
    let found = check(&redis.user_url(0));
    assert_eq!(found.status, 1);
    found.has(
        ("redis rights", "problem"),
        "may not use ZADD",
        "docs/operations.md",
    );
    found.has(
        ("redis rights", "problem"),
        "cannot be subscribed to",
        "docs/operations.md",
    );
    drop(redis);

    let mut rights = documented_rights();
    rights.retain(|right| right != "+eval");
    let redis = RedisServer::start_for(&rights, &[]);
    let found = check(&redis.user_url(0));
    found.has(
        ("redis rights", "problem"),
        "scripts cannot be run",
        "docs/operations.md",
    );
}

#[test]
fn a_schedule_of_another_journal_is_a_problem() {
    let redis = crate::support::redis::fresh_database();
    let made = |dir: &Path| {
        let serve = with(&["--redis", &redis]);
        let mut server = Running::start(dir, &[&["serve"], &serve[..]].concat(), &[]);
        server.address();
        server.stop("TERM");
    };
    let dir = tempfile::tempdir().expect("a directory");
    made(dir.path());
    let found = doctor(dir.path(), &with(&["--redis", &redis]), &[]);
    found.is_sound();
    found.has(("redis data", "ok"), "belongs to this journal", "");
    let found = doctor(
        dir.path(),
        &with(&["--redis", &redis, "--partitions", "4"]),
        &[],
    );
    found.has(
        ("redis data", "warning"),
        "has 1 partitions",
        "stop all servers first",
    );
    let other = tempfile::tempdir().expect("a directory");
    let found = doctor(other.path(), &with(&["--redis", &redis]), &[]);
    found.has(
        ("redis data", "problem"),
        "the journal of this server is new",
        "--redis",
    );
    let alone = with(&["--redis", &redis, "--journal", "none"]);
    let found = doctor(other.path(), &alone, &[]);
    found.has(
        ("redis data", "problem"),
        "this server has no journal",
        "--redis",
    );
}
