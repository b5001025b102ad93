//! Databases of earlier versions.
//!
//! One is made by copying everything from a filled one of this version, table by table and column by column, into one that
//! lacks the newer migrations: migrations only add, so that leaves out nothing but what the newer ones add.

use super::{PostgresStore, SqliteStore};
use crate::support::postgres::{connect, run};
use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Row as _};
use std::path::Path;

/// The migrations in a folder.
pub async fn migrations(folder: &str) -> Migrator {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    Migrator::new(folder).await.expect("readable")
}

/// The numbers of all migrations but the newest, oldest first.
pub fn before_the_newest(migrator: &Migrator) -> Vec<i64> {
    let mut versions: Vec<i64> = migrator.iter().map(|one| one.version).collect();
    versions.pop();
    versions
}

/// A file of this version with what is in another file, whose journal is closed.
pub async fn older_sqlite(filled: &SqliteStore, version: i64) -> SqliteStore {
    let older = SqliteStore::new();
    let mut migrator = migrations("migrations/sqlite").await;
    let mut connection = SqliteConnectOptions::new()
        .filename(older.path())
        .create_if_missing(true)
        .foreign_keys(false)
        .connect()
        .await
        .expect("it opens");
    // As the program marks a file of its own.
    let mark = "PRAGMA application_id = 1380861762";
    connection.execute(mark).await.expect("marked");
    migrator.set_locking(false);
    migrator
        .run_direct(Some(version), &mut connection, false)
        .await
        .expect("migrated");
    let attach = format!("ATTACH '{}' AS filled", filled.path().display());
    connection
        .execute(AssertSqlSafe(attach))
        .await
        .expect("attached");
    // The counts last: triggers have counted on the way.
    let tables = "SELECT name FROM main.sqlite_schema
        WHERE type = 'table' AND name NOT LIKE '\\_sqlx%' ESCAPE '\\' AND name NOT LIKE 'sqlite%'
        ORDER BY name = 'counts'";
    let tables: Vec<String> = sqlx::query_scalar(tables)
        .fetch_all(&mut connection)
        .await
        .expect("read");
    for table in tables {
        let columns = format!("SELECT name FROM pragma_table_info('{table}', 'main')");
        let columns: Vec<String> = sqlx::query_scalar(AssertSqlSafe(columns))
            .fetch_all(&mut connection)
            .await
            .expect("read");
        let columns = columns.join(", ");
        let copy = format!(
            "DELETE FROM main.{table};
             INSERT INTO main.{table} ({columns}) SELECT {columns} FROM filled.{table}"
        );
        connection
            .execute(AssertSqlSafe(copy))
            .await
            .expect("copied");
    }
    connection.close().await.expect("closed");
    older
}

/// The URL of a schema of this version in the same database, with what is in its schema `public`, whose journal is closed.
pub async fn older_postgres(filled: &PostgresStore, version: i64) -> String {
    let mut connection = connect(&filled.url).await;
    let schema = format!("older_{version}");
    let make = format!("CREATE SCHEMA {schema}; SET search_path = {schema}");
    run(&mut connection, &make).await;
    let mut migrator = migrations("migrations/postgres").await;
    migrator.set_locking(false);
    migrator.dangerous_set_table_name("ringback_migrations");
    migrator
        .run_direct(Some(version), &mut connection, false)
        .await
        .expect("migrated");
    // The counts last: triggers have counted on the way. What refers to jobs comes after these.
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT tablename::TEXT FROM pg_tables
         WHERE schemaname = $1 AND tablename <> 'ringback_migrations'
         ORDER BY tablename = 'counts', tablename LIKE 'job\\_%'",
    )
    .bind(&schema)
    .fetch_all(&mut connection)
    .await
    .expect("read");
    for table in tables {
        let columns = columns(&mut connection, &schema, &table).await;
        let copy = format!(
            "DELETE FROM {schema}.{table};
             INSERT INTO {schema}.{table} ({columns}) SELECT {columns} FROM public.{table}"
        );
        run(&mut connection, &copy).await;
    }
    let sequences = "SELECT sequencename::TEXT, last_value FROM pg_sequences
        WHERE schemaname = 'public' AND last_value IS NOT NULL";
    let sequences = sqlx::query(sequences).fetch_all(&mut connection).await;
    for sequence in sequences.expect("read") {
        let (name, last): (String, i64) = (sequence.get(0), sequence.get(1));
        // Before attempts and transitions were partitioned, columns had sequences of their own.
        let name_before = match &name[..] {
            "attempt_rows" => "attempts_row_id_seq",
            "transition_rows" => "transitions_row_id_seq",
            name => name,
        };
        for name in [&name, name_before] {
            let set = format!("SELECT setval(to_regclass('{schema}.{name}'), {last})");
            run(&mut connection, &set).await;
        }
    }
    format!("{}?options=-c%20search_path%3D{schema}", filled.url)
}

/// The columns of a table that can be written to. In a schema in which nothing has partitions of times yet, all rows are kept.
async fn columns(connection: &mut PgConnection, schema: &str, table: &str) -> String {
    let columns: Vec<String> = sqlx::query_scalar(
        "SELECT column_name::TEXT FROM information_schema.columns
         WHERE table_schema = $1 AND table_name = $2 AND is_generated = 'NEVER'
            AND column_name <> 'kept'
         ORDER BY ordinal_position",
    )
    .bind(schema)
    .bind(table)
    .fetch_all(connection)
    .await
    .expect("read");
    columns.join(", ")
}
