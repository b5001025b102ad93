//! The lock that shows other servers that a journal is in use, and keeps away those that do not share its schedule.
//!
//! It belongs to a session, and is lost with it: when the database server restarts or fails over, or a pooler ends the
//! session. So every server looks at that session now and then, and takes the lock again in a new one
//! (`maintenance/in_use.rs`).

use super::PostgresJournal;
use super::error::{LOCK_NOT_AVAILABLE, PostgresFailure, code};
use super::open::with_location;
use super::payload_partition::owner;
use super::session::connect;
use crate::journal::JournalError;
use sqlx::postgres::PgConnection;
use std::time::Duration;
use tokio::time::timeout;

/// How long the session with the lock may take to answer.
const LONGEST_ANSWER: Duration = Duration::from_secs(2);

const USED_BY_ANOTHER: &str = "it is in use by another server, and one of the two has its schedule in memory; \
    servers that share a journal must share a Redis too";

/// Whether several servers may use a journal at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Other servers may use the journal too. They must have the same schedule.
    WithOthers,
    /// Only this server may use the journal, because its schedule is in its own memory.
    WithNobody,
}

/// The lock of a server that uses the journal.
pub(super) struct InUse {
    sharing: Sharing,
    /// The session that has the lock; `None` since it was found to be over.
    session: Option<PgConnection>,
}

impl PostgresJournal {
    /// Takes a lock that shows other servers that the journal is in use. The lock is released when this value
    /// is closed or dropped, or its session ends ([`crate::journal::JournalMaintenance::keep_holding`]).
    ///
    /// # Errors
    /// [`JournalError::Refused`] if another server uses the journal, and one of the two servers does not
    /// share its journal.
    pub async fn hold(&self, sharing: Sharing) -> Result<(), JournalError> {
        let options = self.connections.options();
        let at = |error| with_location(options, error);
        let mut session = connect(options).await.map_err(at)?;
        // Waits for the lock as long as `lock_timeout` allows: if a server was just killed, PostgreSQL ends
        // its session a moment later.
        let lock = match sharing {
            Sharing::WithOthers => "SELECT pg_advisory_lock_shared(hashtextextended($1, 0))",
            Sharing::WithNobody => "SELECT pg_advisory_lock(hashtextextended($1, 0))",
        };
        let held = sqlx::query(lock)
            .bind(lock_name(&self.id))
            .execute(&mut session)
            .await;
        held.map_err(|error| match code(&error).as_deref() {
            Some(LOCK_NOT_AVAILABLE) => at(JournalError::Refused(USED_BY_ANOTHER.into())),
            _ => at(PostgresFailure::from(error).into()),
        })?;
        let owner = owner(&mut session).await;
        if owner.map_err(|error| at(error.into()))?.is_none() {
            tracing::info!(
                "the user of the journal does not own its tables, or may not make any: bodies are deleted one by one, not with \
                 the partition of their time"
            );
        }
        *self.in_use.lock().await = Some(InUse {
            sharing,
            session: Some(session),
        });
        Ok(())
    }

    /// Takes the lock again if its session is over. Nothing if it was never taken.
    ///
    /// # Errors
    /// As [`PostgresJournal::hold`].
    pub(super) async fn take_lock_again(&self) -> Result<(), JournalError> {
        let mut in_use = self.in_use.lock().await;
        let Some(InUse { sharing, session }) = in_use.as_mut() else {
            return Ok(());
        };
        if let Some(alive) = session {
            let asking = sqlx::query("SELECT 1").execute(alive);
            if let Ok(Ok(_)) = timeout(LONGEST_ANSWER, asking).await {
                return Ok(());
            }
            *session = None;
        }
        let options = self.connections.options();
        let at = |error| with_location(options, error);
        let mut new = connect(options).await.map_err(at)?;
        let lock = match sharing {
            Sharing::WithOthers => "SELECT pg_try_advisory_lock_shared(hashtextextended($1, 0))",
            Sharing::WithNobody => "SELECT pg_try_advisory_lock(hashtextextended($1, 0))",
        };
        let is_ours: bool = sqlx::query_scalar(lock)
            .bind(lock_name(&self.id))
            .fetch_one(&mut new)
            .await
            .map_err(|error| at(PostgresFailure::from(error).into()))?;
        if !is_ours {
            return Err(at(JournalError::Refused(USED_BY_ANOTHER.into())));
        }
        tracing::info!(
            "the session with the lock of the journal was over; the lock was taken again"
        );
        *session = Some(new);
        Ok(())
    }
}

/// The name of the lock of a journal that is in use.
pub(super) fn lock_name(id: &str) -> String {
    format!("ringback journal {id}")
}
