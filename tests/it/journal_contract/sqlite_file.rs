//! What holds of the SQLite file alone.

use super::samples::{find, keep, key, registering};
use super::{INSTANCE, SqliteStore, Store};
use ringback::journal::sqlite::SqliteJournal;
use ringback::journal::{JournalError, JournalMaintenance, JournalWrites};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use std::fs;
use std::path::Path;
use std::time::Duration;

async fn open(path: &Path) -> Result<SqliteJournal, JournalError> {
    SqliteJournal::open(path, INSTANCE).await
}

async fn check_refused(path: &Path, reason: &str) {
    match open(path).await.err() {
        Some(JournalError::Refused(text)) => {
            assert!(text.contains(reason), "{text}");
            assert!(!text.contains('\n'), "{text}");
            assert!(text.contains(&path.display().to_string()), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

/// A connection beside the journal's own, as support staff may open one.
async fn beside(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .connect()
        .await
        .expect("it opens")
}

async fn run(connection: &mut SqliteConnection, sql: &'static str) {
    sqlx::query(sql).execute(connection).await.expect("it runs");
}

#[tokio::test]
async fn a_second_server_is_refused_until_the_first_has_gone() {
    let store = SqliteStore::new();
    let first = open(&store.path()).await.expect("it opens");
    check_refused(&store.path(), "in use by another server").await;
    first.check().await.expect("still works");
    drop(first);
    let second = open(&store.path()).await.expect("it opens");
    second.close().await;
    open(&store.path()).await.expect("it opens");
}

/// A file that was moved, removed or replaced under a journal that is open.
#[tokio::test]
async fn a_journal_notices_that_its_file_is_another_one() {
    let store = SqliteStore::new();
    let journal = open(&store.path()).await.expect("it opens");
    let check = async |reason: Option<&str>| match (journal.keep_holding().await, reason) {
        (Ok(()), None) => {}
        (Err(JournalError::Refused(text)), Some(reason)) => {
            assert!(text.contains(reason), "{text}");
            assert!(text.contains(&store.path().display().to_string()), "{text}");
        }
        other => panic!("{other:?}"),
    };
    check(None).await;
    let moved = store.directory.path().join("moved.db");
    fs::rename(store.path(), &moved).expect("moved");
    check(Some("it was moved or removed")).await;
    fs::copy(&moved, store.path()).expect("copied");
    check(Some("another file has taken its place")).await;
    fs::rename(&moved, store.path()).expect("moved back");
    check(None).await;

    let lock = store.directory.path().join("journal.db.lock");
    fs::remove_file(&lock).expect("removed");
    check(None).await;
    check_refused(&store.path(), "in use by another server").await;
    fs::remove_file(&lock).expect("it was made again");
    let other = open(&store.path()).await.expect("nothing is locked there");
    check(Some("the place of its lock file")).await;
    drop(other);
    journal.close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn another_name_of_the_file_is_the_same_file() {
    let store = SqliteStore::new();
    let _first = open(&store.path()).await.expect("it opens");
    let link = store.directory.path().join("link.db");
    std::os::unix::fs::symlink(store.path(), &link).expect("a link");
    let error = open(&link).await.err();
    assert!(matches!(error, Some(JournalError::Refused(_))), "{error:?}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let store = SqliteStore::new();
    let text = "these are the accounts of 2025\n".repeat(100);
    fs::write(store.path(), &text).expect("written");
    check_refused(&store.path(), "not an SQLite database").await;
    assert_eq!(fs::read_to_string(store.path()).expect("read"), text);
    check_refused(store.directory.path(), "cannot open").await;
}

#[tokio::test]
async fn a_database_of_another_program_is_refused_and_left_alone() {
    let store = SqliteStore::new();
    run(
        &mut beside(&store.path()).await,
        "CREATE TABLE accounts (id)",
    )
    .await;
    let before = fs::read(store.path()).expect("read");
    check_refused(&store.path(), "another program").await;
    assert_eq!(fs::read(store.path()).expect("read"), before);
}

#[tokio::test]
async fn a_journal_of_a_newer_version_is_refused() {
    let store = SqliteStore::new();
    open(&store.path()).await.expect("it opens").close().await;
    let mut connection = beside(&store.path()).await;
    run(
        &mut connection,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'from the future', TRUE, x'00', 0)",
    )
    .await;
    drop(connection);
    check_refused(&store.path(), "newer version").await;
}

#[tokio::test]
async fn a_batch_that_fails_leaves_nothing_behind() {
    let store = SqliteStore::new();
    let journal = store.open().await;
    let mut connection = beside(&store.path()).await;
    run(
        &mut connection,
        "CREATE TRIGGER poison BEFORE INSERT ON transitions
         WHEN (SELECT id FROM notifications WHERE row_id = NEW.notification) = 'poison'
         BEGIN SELECT RAISE(ROLLBACK, 'poisoned'); END",
    )
    .await;
    let batch = ["1", "poison", "2"].map(registering).to_vec();
    assert!(journal.register(&batch).await.is_err());
    assert_eq!(journal.find(&key("1")).await.expect("read"), None);
    assert_eq!(journal.counts().await.expect("read").registered, 0);
    keep(&*journal, registering("1")).await;
    find(&*journal, &key("1")).await;
}

#[tokio::test]
async fn a_copy_of_the_files_under_a_running_server_holds_all_that_was_answered() {
    let store = SqliteStore::new();
    let journal = store.open().await;
    for number in 0..20 {
        keep(&*journal, registering(&number.to_string())).await;
    }
    // As a machine would find the disk after the process was killed at this point.
    let copy = SqliteStore::new();
    for suffix in ["", "-wal"] {
        let name = format!("journal.db{suffix}");
        let from = store.directory.path().join(&name);
        fs::copy(from, copy.directory.path().join(&name)).expect("copied");
    }
    let copied = copy.open().await;
    assert_eq!(copied.counts().await.expect("read").scheduled, 20);
    for number in 0..20 {
        find(&*copied, &key(&number.to_string())).await;
    }
}

#[tokio::test]
async fn a_relative_looking_uri_is_a_plain_file_name() {
    let store = SqliteStore::new();
    let path = store.directory.path().join("file:x?mode=memory");
    let journal = open(&path).await.expect("it opens");
    keep(&journal, registering("1")).await;
    drop(journal);
    find(&open(&path).await.expect("it opens"), &key("1")).await;
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_owner_may_read_what_is_created() {
    use std::os::unix::fs::PermissionsExt;
    let store = SqliteStore::new();
    let directory = store.directory.path().join("data/of/ringback");
    let journal = open(&directory.join("journal.db")).await.expect("it opens");
    keep(&journal, registering("1")).await;
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    for file in fs::read_dir(&directory).expect("read") {
        let path = file.expect("read").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn a_check_after_a_failed_write_proves_that_there_is_room() {
    const ROOM: i64 = 256 * 1024;
    let store = SqliteStore::new();
    let journal = open(&store.path()).await.expect("it opens");
    let mut beside = beside(&store.path()).await;
    let written = async |beside: &mut SqliteConnection| -> i64 {
        let sql = "SELECT length(value) FROM meta WHERE name = 'checks'";
        sqlx::query_scalar(sql)
            .fetch_one(beside)
            .await
            .expect("a length")
    };
    journal.check().await.expect("it can be written");
    assert_eq!(written(&mut beside).await, 1);
    // Nobody may write, and the one who tries gives up.
    run(&mut beside, "BEGIN IMMEDIATE").await;
    let one = [registering("1")];
    let given_up = tokio::time::timeout(Duration::from_millis(50), journal.register(&one)).await;
    assert!(given_up.is_err());
    run(&mut beside, "ROLLBACK").await;
    journal.check().await.expect("it can be written");
    assert!(written(&mut beside).await > ROOM);
}

#[tokio::test]
async fn a_check_fails_where_the_work_would() {
    let store = SqliteStore::new();
    let journal = open(&store.path()).await.expect("it opens");
    let mut beside = beside(&store.path()).await;
    journal.check().await.expect("works");
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON attempts
                  BEGIN SELECT raise(ABORT, 'not today'); END";
    run(&mut beside, refuse).await;
    assert!(journal.check().await.is_err());
    run(&mut beside, "DROP TRIGGER refuse").await;
    journal.check().await.expect("works");
    let swallow = "CREATE TRIGGER swallow BEFORE INSERT ON notifications
                   BEGIN SELECT raise(IGNORE); END";
    run(&mut beside, swallow).await;
    assert!(journal.check().await.is_err());
    run(&mut beside, "DROP TRIGGER swallow").await;
    journal.check().await.expect("works");
}
