//! The audit log: keeping acts, and listing them.

use super::PostgresJournal;
use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::session::AS_OF_NOW;
use super::statements::storable;
use crate::journal::audit_log::{AuditRange, MOST_SCANNED};
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use crate::journal::{AuditFilter, AuditPage, Cursor, JournalAuditLog, JournalError, PersonAct};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

/// The entries that a page reads, newest first.
macro_rules! scanned {
    ($columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM audit_log WHERE at_ms >= $1 AND (at_ms, id) < ($2, $3) ORDER BY at_ms DESC, id DESC"
        )
    };
}

#[async_trait]
impl JournalAuditLog for PostgresJournal {
    async fn keep_act(&self, act: &PersonAct) -> Result<(), JournalError> {
        let instance = &self.instance;
        self.connections.write(&KeepAct { act, instance }).await
    }

    async fn audit_log(
        &self,
        filter: &AuditFilter,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<AuditPage, JournalError> {
        let call = FindAuditPage {
            filter,
            cursor,
            limit,
        };
        self.connections.read(&call).await
    }
}

/// See [`JournalAuditLog::keep_act`]. It is not executed twice: that would be two entries.
struct KeepAct<'call> {
    act: &'call PersonAct,
    instance: &'call str,
}

#[async_trait]
impl PostgresCall for KeepAct<'_> {
    type Reply = ();

    async fn run(&self, connection: &mut PgConnection) -> Result<(), PostgresFailure> {
        let kept = keep(connection, self.instance, self.act).await;
        kept.map_err(PostgresFailure::in_doubt)
    }
}

/// Adds an entry, if the actor is audited. The caller's transaction also makes the change that the entry is about.
pub(super) async fn keep(
    connection: &mut PgConnection,
    instance: &str,
    act: &PersonAct,
) -> Result<(), PostgresFailure> {
    if !act.actor.is_audited() {
        return Ok(());
    }
    let texts = act.texts();
    sqlx::query(
        "INSERT INTO audit_log (at_ms, actor, act, subject_kind, subject, reason, detail, instance)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(act.at_ms)
    .bind(storable(act.actor.name()))
    .bind(act.act.as_str())
    .bind(act.subject.kind())
    .bind(storable(&texts.subject))
    .bind(storable(&texts.reason))
    .bind(storable(&texts.detail))
    .bind(instance)
    .execute(connection)
    .await?;
    Ok(())
}

/// Whether an earlier try of a call has been committed, which keeps this act ([`keep`]). Not known of an actor that is not
/// audited: then it counts as not committed. No other call has the same actor, instance, instant, act and subject, unless both
/// do the same in the same millisecond.
pub(super) async fn has(
    connection: &mut PgConnection,
    instance: &str,
    act: &PersonAct,
) -> Result<bool, PostgresFailure> {
    let texts = act.texts();
    let found = sqlx::query_scalar(
        "SELECT EXISTS (
            SELECT 1 FROM audit_log
            WHERE at_ms = $1 AND actor = $2 AND act = $3 AND subject_kind = $4 AND subject = $5 AND instance = $6
         )",
    )
    .bind(act.at_ms)
    .bind(storable(act.actor.name()))
    .bind(act.act.as_str())
    .bind(act.subject.kind())
    .bind(storable(&texts.subject))
    .bind(instance)
    .fetch_one(connection)
    .await?;
    Ok(found)
}

/// See [`JournalAuditLog::audit_log`].
struct FindAuditPage<'call> {
    filter: &'call AuditFilter,
    cursor: Option<Cursor>,
    limit: usize,
}

#[async_trait]
impl PostgresCall for FindAuditPage<'_> {
    type Reply = AuditPage;

    async fn run(&self, connection: &mut PgConnection) -> Result<AuditPage, PostgresFailure> {
        let AuditRange { upper, from_ms } = AuditRange::of(self.filter, self.cursor);
        // Both statements see the same entries.
        let mut reading = connection.begin_with(AS_OF_NOW).await?;
        let found = sqlx::query(concat!(
            "SELECT id, at_ms, actor, act, subject_kind, subject, reason, detail, instance FROM (",
            scanned!("*"),
            " LIMIT $4) AS scanned
              WHERE $5::TEXT IS NULL OR actor = $5 OR left(actor, length($5) + 1) = $5 || '/'
              ORDER BY at_ms DESC, id DESC LIMIT $6"
        ))
        .bind(from_ms)
        .bind(upper.0)
        .bind(upper.1)
        .bind(limit_of(MOST_SCANNED))
        .bind(self.filter.actor.as_deref().map(storable))
        .bind(limit_of(self.limit.saturating_add(1)))
        .fetch_all(&mut *reading)
        .await?;
        let scan_end: Option<(i64, i64)> =
            sqlx::query_as(concat!(scanned!("at_ms, id"), " LIMIT 1 OFFSET $4 - 1"))
                .bind(from_ms)
                .bind(upper.0)
                .bind(upper.1)
                .bind(limit_of(MOST_SCANNED))
                .fetch_optional(&mut *reading)
                .await?;
        reading.rollback().await?;
        let scan_end = scan_end.map(|(at_ms, row)| Cursor { at_ms, row });
        let entries = Fields::audit_entries(&found)?;
        Ok(AuditPage::of(entries, self.limit, scan_end))
    }
}

/// Deletes entries that are older than `before_ms`, oldest first, at most `limit`. Returns their number.
pub(super) async fn prune(
    connection: &mut PgConnection,
    before_ms: i64,
    limit: usize,
) -> Result<u64, PostgresFailure> {
    let deleted = sqlx::query(
        "DELETE FROM audit_log WHERE (at_ms, id) IN (
            SELECT at_ms, id FROM audit_log WHERE at_ms < $1 ORDER BY at_ms, id LIMIT $2
         )",
    )
    .bind(before_ms)
    .bind(limit_of(limit))
    .execute(connection)
    .await?;
    Ok(deleted.rows_affected())
}
