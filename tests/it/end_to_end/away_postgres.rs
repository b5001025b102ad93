//! The ways in which PostgreSQL can be away, on the real program. See [`super::away`].

use super::away::{JOURNAL, Scene};
use crate::support::postgres::{PostgresServer, connect, run};
use crate::support::{redis, within};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

/// A server, and the scene on one of its databases.
async fn set(settings: &[&str]) -> (PostgresServer, String, Scene) {
    let server = PostgresServer::start(settings);
    let url = server.fresh_database();
    let scene = Scene::set(&["--journal", &url, "--redis", &redis::fresh_database()]).await;
    (server, url, scene)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_killed_and_started_again() {
    let (mut server, _, scene) = set(&[]).await;
    server.kill();
    scene.play(JOURNAL, server.start_again()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_stands_still() {
    let (mut server, _, scene) = set(&[]).await;
    server.pause();
    scene.play(JOURNAL, async { server.resume() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_takes_no_writes_as_a_replica_does() {
    let (server, _, scene) = set(&[]).await;
    let mut beside = connect(&server.url("postgres")).await;
    let switch = |on: &str| {
        format!(
            "ALTER SYSTEM SET default_transaction_read_only = {on};
             SELECT pg_reload_conf()"
        )
    };
    // One by one: the first may not stand in a transaction. The sessions of the server are told before one is new that has
    // the setting.
    let mut each = async |on: &str| {
        for statement in switch(on).split(';') {
            run(&mut beside, statement).await;
        }
        let told = async {
            loop {
                let mut new = connect(&server.url("postgres")).await;
                let shown = sqlx::query_scalar("SHOW default_transaction_read_only");
                let shown: String = shown.fetch_one(&mut new).await.expect("shown");
                if shown == on {
                    return;
                }
            }
        };
        within("the setting to be told", told).await;
    };
    each("on").await;
    scene.play(JOURNAL, each("off")).await;
}

/// Locks tables while the scene is played.
async fn locked(lock: &str) {
    let (_server, url, scene) = set(&[]).await;
    let mut beside = connect(&url).await;
    let mut locking = beside.begin().await.expect("begun");
    run(&mut locking, lock).await;
    let end = async { locking.rollback().await.expect("unlocked") };
    scene.play(JOURNAL, end).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_its_tables_are_locked() {
    locked("LOCK TABLE meta, notifications, statuses IN EXCLUSIVE MODE").await;
}

/// What a check could write to is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tables_of_its_notifications_are_locked() {
    let tables = "notifications, statuses, payloads, attempts, transitions";
    locked(&format!("LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE")).await;
}

/// They can be read, as while an index is built.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_registering_and_recording_need_is_locked_against_writes() {
    locked("LOCK TABLE statuses IN SHARE MODE").await;
}

/// Sessions of a server that has few.
const MOST_SESSIONS: usize = 20;

/// As when it has as many sessions as it takes, and closed ours to make room for others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_has_no_room_for_our_sessions() {
    let settings = [
        &*format!("max_connections={MOST_SESSIONS}"),
        "superuser_reserved_connections=0",
    ];
    let (server, _, scene) = set(&settings).await;
    let mut others = vec![connect(&server.url("postgres")).await];
    let options: PgConnectOptions = server.url("postgres").parse().expect("a URL");
    let taken = async {
        // One that is being opened takes its place before it can be seen, so the others are counted.
        while others.len() < MOST_SESSIONS {
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                       WHERE application_name = 'ringback'";
            run(&mut others[0], end).await;
            if let Ok(other) = options.connect().await {
                others.push(other);
            }
        }
    };
    within("all sessions to be taken", taken).await;
    scene.play(JOURNAL, async { others.clear() }).await;
}
