//! The schema of the database: comparing it with the schema of this version, and bringing it up to date.
//!
//! Migrations only add to the schema. So servers of the version before can work while a server of this
//! version brings the schema up to date. Several servers that start at once take turns.

use super::error::{LOCK_NOT_AVAILABLE, PostgresFailure, code};
use crate::journal::JournalError;
use sqlx::migrate::{Migrate as _, MigrateError, Migration, Migrator};
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Executor as _};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// All migrations, oldest first. A migration is never changed after its release. The applied ones are noted
/// in a table with a name of our own, because other programs may use the same database.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let known: Migrator = sqlx::migrate!("migrations/postgres");
    let mut migrations = Migrator::with_migrations(known.iter().cloned().collect());
    migrations.dangerous_set_table_name(TABLE);
    // `migrate` takes a lock of its own: the wait for that lock has a limit.
    migrations.set_locking(false);
    migrations
});
const TABLE: &str = "ringback_migrations";

/// The settings for migrations. A migration may take as long as it needs, but the wait for a lock has a
/// limit.
const SESSION: &str = "
    SET statement_timeout = 0;
    SET lock_timeout = 30000;
    SET enable_seqscan = on;
    SET enable_sort = on;
    SET enable_hashjoin = on";

/// The schema of the database, compared with the schema of this version.
pub(super) enum Schema {
    /// Both are the same.
    UpToDate,
    /// The database lacks these migrations.
    Older(Vec<&'static Migration>),
}

/// Compares the schema of the database with that of this version. Changes nothing.
pub(super) async fn look(connection: &mut PgConnection) -> Result<Schema, JournalError> {
    let known: BTreeSet<i64> = MIGRATIONS.iter().map(|one| one.version).collect();
    let applied = BTreeSet::from_iter(applied(connection).await?);
    if let Some(version) = applied.difference(&known).next() {
        return Err(JournalError::Refused(format!(
            "it was written by a newer version of Ringback (schema {version})"
        )));
    }
    let missing: Vec<&Migration> = MIGRATIONS
        .iter()
        .filter(|one| !applied.contains(&one.version))
        .collect();
    if missing.is_empty() {
        return Ok(Schema::UpToDate);
    }
    Ok(Schema::Older(missing))
}

/// Brings the schema up to date, then closes the connection. Returns the names of the migrations that were
/// applied.
pub(super) async fn migrate(mut connection: PgConnection) -> Result<Vec<String>, JournalError> {
    let db = &mut connection;
    db.execute(SESSION).await.map_err(PostgresFailure::from)?;
    // PostgreSQL releases this lock when the connection ends.
    let locked = sqlx::query("SELECT pg_advisory_lock(hashtextextended('ringback migrate', 0))")
        .execute(&mut *db)
        .await;
    locked.map_err(|error| match code(&error).as_deref() {
        Some(LOCK_NOT_AVAILABLE) => JournalError::Refused(
            "another server is bringing its schema up to date and takes more than 30 s; try again later".into(),
        ),
        _ => PostgresFailure::from(error).into(),
    })?;
    let missing = match look(db).await? {
        Schema::UpToDate => Vec::new(),
        Schema::Older(missing) => missing,
    };
    if !missing.is_empty() {
        // Not `run`: with it, the compiler cannot find out that this future is `Send`.
        MIGRATIONS
            .run_direct(None, db, false)
            .await
            .map_err(failed)?;
    }
    let names = missing
        .iter()
        .map(|one| format!("{:04} {}", one.version, one.description));
    let names = names.collect();
    // The migrations are applied, so an error at closing does not matter.
    let _ = connection.close().await;
    Ok(names)
}

/// The versions of the migrations that were applied to the database.
pub(super) async fn applied(connection: &mut PgConnection) -> Result<Vec<i64>, JournalError> {
    let (ours, theirs): (bool, bool) =
        sqlx::query_as("SELECT to_regclass($1) IS NOT NULL, to_regclass($2) IS NOT NULL")
            .bind(TABLE)
            .bind("notifications")
            .fetch_one(&mut *connection)
            .await
            .map_err(PostgresFailure::from)?;
    if !ours && theirs {
        return Err(JournalError::Refused(
            "it has tables of another program; give Ringback a database or a schema of its own"
                .into(),
        ));
    }
    if !ours {
        return Ok(Vec::new());
    }
    let applied = connection.list_applied_migrations(TABLE).await;
    let applied = applied.map_err(failed)?;
    Ok(applied.into_iter().map(|one| one.version).collect())
}

/// The numbers and descriptions of the migrations of this version.
pub(super) fn known() -> Vec<(i64, &'static str)> {
    let all = MIGRATIONS.iter();
    all.map(|one| (one.version, &*one.description)).collect()
}

fn failed(error: MigrateError) -> JournalError {
    match error {
        MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _) => {
            PostgresFailure::from(cause).into()
        }
        _ => JournalError::Refused(error.to_string()),
    }
}
