//! A session with the server: opening the connection, and the settings of the session.

use super::error::PostgresFailure;
use crate::journal::JournalError;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Executor as _};
use std::time::Duration;
use tokio::time::timeout;

/// How long opening a connection may take, including the sign-on.
pub(super) const LONGEST_CONNECTING: Duration = Duration::from_secs(3);

/// The settings of every session:
///
/// * The time limits end statements for which this process no longer waits.
/// * The planner must use indexes, because its statistics are old when a table grows by millions of rows an
///   hour.
/// * A plan is used for several calls, because planning costs more than some calls. Because tables grow,
///   `connections.rs` has plans made again after a few seconds.
/// * Statements are not compiled (`jit`): no statement runs long enough for that.
/// * A commit waits until it is on the server's disk, even if the server's default is not to wait.
const SESSION: &str = "
    SET statement_timeout = 8000;
    SET lock_timeout = 3000;
    SET idle_in_transaction_session_timeout = 10000;
    SET tcp_keepalives_idle = 30;
    SET tcp_keepalives_interval = 10;
    SET tcp_keepalives_count = 3;
    SET default_transaction_isolation = 'read committed';
    SET client_min_messages = 'warning';
    SET plan_cache_mode = 'force_generic_plan';
    SET jit = off;
    SET max_parallel_workers_per_gather = 0;
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET enable_sort = off;
    SET enable_incremental_sort = off;
    SET enable_memoize = off;
    SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = 'off'";

/// Begins a transaction that only reads, and in which all statements see the data of the same instant.
pub(super) const AS_OF_NOW: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Likewise, for a transaction that reads attempts or transitions. Its first statement that reads determines which rows are
/// seen; those that are moved later would be missed if the partition where they were is dropped. So none is dropped from now on.
pub(super) const HISTORY_AS_OF_NOW: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
    LOCK TABLE transitions, attempts IN ACCESS SHARE MODE";

/// Opens a connection and makes the settings of its session.
pub(super) async fn connect(options: &PgConnectOptions) -> Result<PgConnection, JournalError> {
    let connecting = async {
        let mut connection = options.connect().await?;
        connection.execute(SESSION).await?;
        Ok::<_, sqlx::Error>(connection)
    };
    match timeout(LONGEST_CONNECTING, connecting).await {
        Ok(connected) => connected.map_err(|error| PostgresFailure::from(error).into()),
        Err(_) => Err(JournalError::Unavailable(format!(
            "no connection to PostgreSQL within {LONGEST_CONNECTING:?}"
        ))),
    }
}
