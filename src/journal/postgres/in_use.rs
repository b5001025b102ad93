//! The lock that shows other servers that a journal is in use, and keeps away those that do not share its schedule.
//!
//! It belongs to a session, and is lost with it: when the database server restarts or fails over, or a pooler ends the
//! session. So every server looks at that session now and then, and takes the lock again in a new one
//! (`maintenance/in_use.rs`).

use super::PostgresJournal;
use super::error::{LOCK_NOT_AVAILABLE, PostgresFailure, code};
use super::open::with_location;
use super::session::connect;
use crate::journal::{JournalError, PartitionedTables};
use sqlx::postgres::PgConnection;
use std::time::Duration;
use tokio::time::timeout;

/// How long the session with the lock may take to answer.
const LONGEST_ANSWER: Duration = Duration::from_secs(2);

/// How long taking the lock again may take in a new session.
const LONGEST_TAKING: Duration = Duration::from_secs(5);

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
        let held = async {
            mark(&mut session, &self.holder).await?;
            let lock = sqlx::query(lock).bind(lock_name(&self.id));
            lock.execute(&mut session).await
        };
        held.await.map_err(|error| match code(&error).as_deref() {
            Some(LOCK_NOT_AVAILABLE) => at(JournalError::Refused(USED_BY_ANOTHER.into())),
            _ => at(PostgresFailure::from(error).into()),
        })?;
        let mut owns_all = true;
        for tables in [PartitionedTables::Bodies, PartitionedTables::History] {
            let owners = tables.owners(&mut session).await;
            owns_all &= owners.map_err(|error| at(error.into()))?.is_some();
        }
        if !owns_all {
            tracing::info!(
                "the user of the journal does not own its tables, or may not make any: bodies and history are deleted one by one, \
                 not with the partition of their time"
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
        let Some(in_use) = in_use.as_mut() else {
            return Ok(());
        };
        if let Some(alive) = &mut in_use.session {
            let asking = sqlx::query("SELECT 1").execute(alive);
            if let Ok(Ok(_)) = timeout(LONGEST_ANSWER, asking).await {
                return Ok(());
            }
            in_use.session = None;
        }
        let options = self.connections.options();
        let at = |error| with_location(options, error);
        let mut session = connect(options).await.map_err(at)?;
        let taking = take_again(&mut session, &self.id, &self.holder, in_use.sharing);
        let taken = match timeout(LONGEST_TAKING, taking).await {
            Ok(taken) => taken.map_err(|error| at(PostgresFailure::from(error).into()))?,
            Err(_) => Taken::Later("PostgreSQL did not answer in time"),
        };
        match taken {
            Taken::Now => {
                tracing::info!(
                    "the session with the lock of the journal was over; the lock was taken again"
                );
                in_use.session = Some(session);
                Ok(())
            }
            Taken::Later(why) => Err(at(JournalError::Unavailable(why.into()))),
            Taken::ByAnother => Err(at(JournalError::Refused(USED_BY_ANOTHER.into()))),
        }
    }
}

/// What became of taking a lock again.
enum Taken {
    /// The session has it.
    Now,
    /// Not yet, though no other server has it.
    Later(&'static str),
    /// Another server has it.
    ByAnother,
}

/// Marks a session as one of this server, by a lock that nobody else takes: an earlier session may still be there, or be another
/// server's by now, if a pooler gives the sessions.
async fn mark(session: &mut PgConnection, holder: &str) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT pg_advisory_lock_shared(hashtextextended($1, 0))")
        .bind(mark_name(holder))
        .execute(session)
        .await?;
    Ok(())
}

/// Takes the lock in a new session. An earlier one may still have it: if its connection broke, the database server does not know
/// that yet. Then it is ended. A session that only waits for the lock makes this fail as well, and will be refused itself.
async fn take_again(
    session: &mut PgConnection,
    id: &str,
    holder: &str,
    sharing: Sharing,
) -> Result<Taken, sqlx::Error> {
    mark(session, holder).await?;
    let take = match sharing {
        Sharing::WithOthers => "SELECT pg_try_advisory_lock_shared(hashtextextended($1, 0))",
        Sharing::WithNobody => "SELECT pg_try_advisory_lock(hashtextextended($1, 0))",
    };
    let taking = sqlx::query_scalar(take).bind(lock_name(id));
    if taking.fetch_one(&mut *session).await? {
        return Ok(Taken::Now);
    }
    let holders = sessions_with(session, lock_name(id)).await?;
    let own: Vec<i32> = sessions_with(session, mark_name(holder))
        .await?
        .into_iter()
        .map(|(pid, _)| pid)
        .collect();
    let conflicts = |mode: &str| match sharing {
        Sharing::WithOthers => mode == EXCLUSIVE,
        Sharing::WithNobody => true,
    };
    let (mut earlier, mut is_of_another) = (Vec::new(), false);
    for (pid, mode) in holders {
        match own.contains(&pid) {
            true => earlier.push(pid),
            false => is_of_another |= conflicts(&mode),
        }
    }
    if is_of_another {
        return Ok(Taken::ByAnother);
    }
    if earlier.is_empty() {
        return Ok(Taken::Later("another server waits for the lock"));
    }
    for pid in earlier {
        let ending = sqlx::query("SELECT pg_terminate_backend($1)").bind(pid);
        ending.execute(&mut *session).await?;
    }
    Ok(Taken::Later(
        "an earlier session of this server has the lock still, and is ended",
    ))
}

/// The name of the lock that marks the sessions of one server.
fn mark_name(holder: &str) -> String {
    format!("ringback server {holder}")
}

/// The processes that have the lock with this name, and in which mode.
pub(super) async fn sessions_with(
    session: &mut PgConnection,
    name: String,
) -> Result<Vec<(i32, String)>, sqlx::Error> {
    sqlx::query_as(HOLDERS).bind(name).fetch_all(session).await
}

const HOLDERS: &str = "
    SELECT pid, mode FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (classid::bigint << 32) | objid::bigint = hashtextextended($1, 0)";
/// The mode of the lock of a server that shares the journal with nobody.
pub(super) const EXCLUSIVE: &str = "ExclusiveLock";

/// The name of the lock of a journal that is in use.
pub(super) fn lock_name(id: &str) -> String {
    format!("ringback journal {id}")
}
