//! A session with the server: opening its connection, and the settings that it is given.

use super::error::PostgresFailure;
use crate::journal::JournalError;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Executor as _};
use std::time::Duration;
use tokio::time::timeout;

/// How long opening a connection may take, sign-on included.
pub(super) const LONGEST_CONNECTING: Duration = Duration::from_secs(3);

/// What every session is told.
///
/// The limits end statements on the server that this process no longer waits for. The planner is told to
/// follow the indexes: its statistics are old when a table grows by millions an hour. For the same reason
/// plans are made again every few seconds, but not for every call, which would cost more than some calls
/// do. None is worth compiling. What is answered is on the server's disk, whatever its default.
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

/// Begins a transaction in which everything is seen as of the same instant.
pub(super) const AS_OF_NOW: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Opens a connection and tells its session what all are told.
pub(super) async fn connect(options: &PgConnectOptions) -> Result<PgConnection, JournalError> {
    let connecting = async {
        let mut connection = options.connect().await?;
        connection.execute(SESSION).await?;
        Ok::<_, sqlx::Error>(connection)
    };
    match timeout(LONGEST_CONNECTING, connecting).await {
        Ok(connected) => connected.map_err(|error| PostgresFailure::from(error).into()),
        Err(_) => Err(JournalError::Unavailable(format!(
            "no connection within {LONGEST_CONNECTING:?}"
        ))),
    }
}
