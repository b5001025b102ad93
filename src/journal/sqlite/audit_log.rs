//! The audit log: keeping acts, and listing them.

use super::SqliteJournal;
use super::error::SqliteFailure;
use crate::journal::audit_log::{AuditRange, MOST_SCANNED};
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use crate::journal::{AuditFilter, AuditPage, Cursor, JournalAuditLog, JournalError, PersonAct};
use async_trait::async_trait;
use sqlx::{SqliteConnection, SqlitePool};

/// The entries that a page reads, newest first.
macro_rules! scanned {
    ($columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM audit_log INDEXED BY audit_log_by_time
              WHERE at_ms >= ?1 AND (at_ms, id) < (?2, ?3) ORDER BY at_ms DESC, id DESC"
        )
    };
}

const PAGE: &str = concat!(
    "SELECT id, at_ms, actor, act, subject_kind, subject, reason, detail, instance FROM (",
    scanned!("*"),
    " LIMIT ?4)
      WHERE ?5 IS NULL OR actor = ?5 OR substr(actor, 1, length(?5) + 1) = ?5 || '/'
      ORDER BY at_ms DESC, id DESC LIMIT ?6"
);
const SCAN_END: &str = concat!(scanned!("at_ms, id"), " LIMIT 1 OFFSET ?4 - 1");

#[async_trait]
impl JournalAuditLog for SqliteJournal {
    async fn keep_act(&self, act: &PersonAct) -> Result<(), JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        keep(transaction.connection(), &self.instance, act).await?;
        Ok(transaction.commit().await?)
    }

    async fn audit_log(
        &self,
        filter: &AuditFilter,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<AuditPage, JournalError> {
        Ok(page(&self.readers, filter, cursor, limit, MOST_SCANNED).await?)
    }
}

/// Adds an entry, if the actor is audited. The caller's transaction also makes the change that the entry is about.
pub(super) async fn keep(
    connection: &mut SqliteConnection,
    instance: &str,
    act: &PersonAct,
) -> Result<(), SqliteFailure> {
    if !act.actor.is_audited() {
        return Ok(());
    }
    let texts = act.texts();
    sqlx::query(
        "INSERT INTO audit_log (at_ms, actor, act, subject_kind, subject, reason, detail, instance)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(act.at_ms)
    .bind(act.actor.shared_name())
    .bind(act.act.as_str())
    .bind(act.subject.kind())
    .bind(texts.subject)
    .bind(texts.reason)
    .bind(texts.detail)
    .bind(instance)
    .execute(connection)
    .await?;
    Ok(())
}

/// Reads a page, of at most `scanned` entries.
async fn page(
    readers: &SqlitePool,
    filter: &AuditFilter,
    cursor: Option<Cursor>,
    limit: usize,
    scanned: usize,
) -> Result<AuditPage, SqliteFailure> {
    let AuditRange { upper, from_ms } = AuditRange::of(filter, cursor);
    // Both statements see the same entries.
    let mut reading = readers.begin().await?;
    let found = sqlx::query(PAGE)
        .bind(from_ms)
        .bind(upper.0)
        .bind(upper.1)
        .bind(limit_of(scanned))
        .bind(filter.actor.as_deref())
        .bind(limit_of(limit.saturating_add(1)))
        .fetch_all(&mut *reading)
        .await?;
    let scan_end: Option<(i64, i64)> = sqlx::query_as(SCAN_END)
        .bind(from_ms)
        .bind(upper.0)
        .bind(upper.1)
        .bind(limit_of(scanned))
        .fetch_optional(&mut *reading)
        .await?;
    let scan_end = scan_end.map(|(at_ms, row)| Cursor { at_ms, row });
    Ok(AuditPage::of(
        Fields::audit_entries(&found)?,
        limit,
        scan_end,
    ))
}

/// Deletes entries that are older than `before_ms`, oldest first, at most `limit`. Returns their number.
pub(super) async fn prune(
    connection: &mut SqliteConnection,
    before_ms: i64,
    limit: usize,
) -> Result<u64, SqliteFailure> {
    let deleted = sqlx::query(
        "DELETE FROM audit_log WHERE id IN (
            SELECT id FROM audit_log INDEXED BY audit_log_by_time
            WHERE at_ms < ? ORDER BY at_ms, id LIMIT ?
         )",
    )
    .bind(before_ms)
    .bind(limit_of(limit))
    .execute(connection)
    .await?;
    Ok(deleted.rows_affected())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::act::{Act, ActSubject};
    use crate::journal::Actor;
    use sqlx::{AssertSqlSafe, Row as _};

    async fn journal() -> (tempfile::TempDir, SqliteJournal) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal.db");
        let journal = SqliteJournal::open(&path, "test").await.expect("it opens");
        (directory, journal)
    }

    #[tokio::test]
    async fn a_page_that_finds_little_goes_on_where_it_stopped_reading() {
        let (_directory, journal) = journal().await;
        for number in 0..100 {
            let name = if number % 30 == 0 { "rare" } else { "other" };
            let subject = ActSubject::ApiKey(number.to_string());
            // Several have the same instant.
            let act = PersonAct::of(Act::RevokeApiKey, subject, &Actor::named(name), number / 7);
            journal.keep_act(&act).await.expect("kept");
        }
        let filter = AuditFilter {
            actor: Some("rare".to_string()),
            ..AuditFilter::default()
        };
        let (mut found, mut pages, mut cursor) = (Vec::new(), 0, None);
        loop {
            let read = page(&journal.readers, &filter, cursor, 10, 20).await;
            let read = read.expect("read");
            found.extend(read.items.into_iter().map(|entry| entry.subject));
            pages += 1;
            cursor = read.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(found, ["90", "60", "30", "0"]);
        assert_eq!(pages, 6);
    }

    #[tokio::test]
    async fn no_page_reads_all_entries() {
        let (_directory, journal) = journal().await;
        for sql in [PAGE, SCAN_END] {
            let lines = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")))
                .fetch_all(&journal.readers)
                .await
                .expect("explained");
            let steps: Vec<&str> = lines.iter().map(|line| line.get("detail")).collect();
            let by_time = "SEARCH audit_log USING ";
            let is_searched = steps.iter().any(|step| {
                step.starts_with(by_time) && step.contains("INDEX audit_log_by_time (at_ms>? AND")
            });
            assert!(is_searched, "{steps:?}");
        }
    }
}
