//! Reading a day, in one transaction over a connection of its own.
//!
//! A row number begins with the instant of registration, so a day is a range of row numbers, and each page a range of an
//! index that begins behind the page before. The joins fix the order of the tables, and the rows have the order of the
//! index, so PostgreSQL need not sort.

use super::error::PostgresFailure;
use super::meta::recall;
use super::register::ARRIVAL_BITS;
use super::session::{HISTORY_AS_OF_NOW, LONGEST_CONNECTING, connect};
use crate::domain::lane::Lane;
use crate::journal::day::{DayPage, DayReading, DaySelection, PrunedUntil, state_counts};
use crate::journal::pruning::{DEAD_PRUNED, RECORDS_PRUNED};
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use crate::journal::{JournalCounts, JournalError};
use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, Postgres};
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;

/// Settings of the transaction. Counting a day takes longer than a usual call may. If the process that reads stands still,
/// the server ends its transaction, because old versions of rows are kept as long as it is open.
const LIMITS: &str = "
    SET LOCAL statement_timeout = 600000;
    SET LOCAL idle_in_transaction_session_timeout = 120000";

/// The last change that a standby has taken over. It is read before the transaction begins, which has at least that. After its
/// start a standby does not know it until it takes over the next change. `NULL` on a primary.
const STANDBY_UNTIL: &str = "
    SELECT CASE WHEN pg_is_in_recovery()
           THEN coalesce(floor(extract(epoch FROM pg_last_xact_replay_timestamp()) * 1000)::bigint, 0) END";

/// How long a statement may take here. The server ends it somewhat earlier, unless the connection is broken.
const LONGEST_STATEMENT: Duration = Duration::from_secs(610);

/// A reading of a day.
struct PostgresDay {
    connection: PgConnection,
    selection: DaySelection,
    pruned: PrunedUntil,
    standby_until_ms: Option<i64>,
    /// The number of the last row that was read, or the one before the first.
    after: i64,
    is_at_end: bool,
}

/// Begins a reading.
pub(super) async fn read_day(
    options: &PgConnectOptions,
    selection: &DaySelection,
) -> Result<Box<dyn DayReading>, JournalError> {
    let mut connection = connect(options).await?;
    let (standby_until_ms, pruned) = within(begin(&mut connection)).await?;
    Ok(Box::new(PostgresDay {
        connection,
        after: before_first(selection),
        selection: selection.clone(),
        pruned,
        standby_until_ms,
        is_at_end: false,
    }))
}

/// Begins the transaction. The first of its statements that reads decides as of which instant it reads.
async fn begin(
    connection: &mut PgConnection,
) -> Result<(Option<i64>, PrunedUntil), PostgresFailure> {
    let standby_until_ms = sqlx::query_scalar(STANDBY_UNTIL)
        .fetch_one(&mut *connection)
        .await?;
    connection.execute(HISTORY_AS_OF_NOW).await?;
    connection.execute(LIMITS).await?;
    let position = recall(connection, RECORDS_PRUNED).await?;
    let dead = recall(connection, DEAD_PRUNED).await?;
    let pruned = PrunedUntil::of(position.as_deref(), dead.as_deref())?;
    Ok((standby_until_ms, pruned))
}

#[async_trait]
impl DayReading for PostgresDay {
    fn pruned(&self) -> PrunedUntil {
        self.pruned
    }

    fn standby_until_ms(&self) -> Option<i64> {
        self.standby_until_ms
    }

    async fn counts(&mut self) -> Result<JournalCounts, JournalError> {
        let from = before_first(&self.selection);
        let statement = query(counts_sql(&self.selection), &self.selection, from);
        let found = within(statement.fetch_one(&mut self.connection)).await?;
        Fields::day_counts(&found)
    }

    async fn page(&mut self, limit: usize) -> Result<Option<DayPage>, JournalError> {
        if self.is_at_end {
            return Ok(None);
        }
        let limit = limit.max(1);
        let statement = query(page_sql(&self.selection), &self.selection, self.after);
        let statement = statement.bind(limit_of(limit));
        let found = within(statement.fetch_all(&mut self.connection)).await?;
        let (page, last) = Fields::day_page(&found, &self.selection)?;
        self.is_at_end = found.len() < limit;
        if let Some(last) = last {
            self.after = last.row;
        }
        Ok(Some(page))
    }

    async fn end(mut self: Box<Self>) {
        // Nothing was written, and the end of the connection ends the transaction too.
        let _ = timeout(LONGEST_CONNECTING, async {
            self.connection.execute("ROLLBACK").await?;
            self.connection.close().await
        })
        .await;
    }
}

/// Waits for a reply of the server, with a limit.
async fn within<Reply, Failure: Into<PostgresFailure>>(
    call: impl Future<Output = Result<Reply, Failure>>,
) -> Result<Reply, JournalError> {
    match timeout(LONGEST_STATEMENT, call).await {
        Ok(reply) => reply.map_err(|failure| {
            let failure: PostgresFailure = failure.into();
            failure.into()
        }),
        Err(_) => Err(JournalError::Unavailable(format!(
            "no answer from PostgreSQL within {LONGEST_STATEMENT:?}"
        ))),
    }
}

/// The place before the first row of a day.
fn before_first(selection: &DaySelection) -> i64 {
    first_row(selection.from_ms).saturating_sub(1)
}

/// The number from which on the rows of an instant are.
fn first_row(at_ms: i64) -> i64 {
    at_ms.saturating_mul(1 << ARRIVAL_BITS)
}

/// The condition that a row of `notifications` is behind `$1`, before `$2` and selected, and the order of the rows. The lane
/// or the topic is compared together with the row number, so only one index has this order.
fn range(selection: &DaySelection) -> (String, &'static str) {
    let (place, value, order) = match (&selection.lane, &selection.topic) {
        (Some(_), _) => ("(n.lane, n.row_id)", "$3", "n.lane, n.row_id"),
        (None, Some(_)) => (
            "(n.topic COLLATE \"POSIX\", n.row_id)",
            "$4",
            "n.topic COLLATE \"POSIX\", n.row_id",
        ),
        (None, None) => ("(n.row_id)", "", "n.row_id"),
    };
    let range = match value {
        "" => "n.row_id > $1 AND n.row_id < $2".to_string(),
        value => format!("{place} > ({value}, $1) AND {place} < ({value}, $2)"),
    };
    let selected = "($3::TEXT IS NULL OR n.lane = $3) AND ($4::TEXT IS NULL OR n.topic = $4)";
    (format!("{range} AND {selected}"), order)
}

/// A notification without a row in `statuses` is read too, and found to be unreadable.
fn page_sql(selection: &DaySelection) -> String {
    let (range, order) = range(selection);
    format!(
        "SELECT n.registered_ms, n.row_id, n.topic, n.id, n.webhook_id, n.lane, n.url, s.state, s.cause, s.superseded,
            CASE WHEN s.state = 'cancelled' AND s.superseded IS NULL THEN (
                SELECT TRUE FROM transitions AS t
                WHERE t.notification = n.row_id AND t.kind = 'discarded' LIMIT 1
            ) IS TRUE ELSE FALSE END,
            s.first_due_ms, s.deadline_ms, s.next_due_ms, s.ended_ms, s.series, s.attempts,
            a.outcome, a.status, a.started_ms, a.duration_ms
         FROM (
            SELECT * FROM notifications AS n WHERE {range} ORDER BY {order} LIMIT $5
         ) AS n
         LEFT JOIN LATERAL (
            SELECT * FROM statuses WHERE notification = n.row_id OFFSET 0
         ) AS s ON TRUE
         LEFT JOIN LATERAL (
            SELECT outcome, status, started_ms, duration_ms FROM attempts WHERE notification = n.row_id
            ORDER BY series DESC, number DESC, started_ms DESC, outcome DESC LIMIT 1
         ) AS a ON TRUE
         ORDER BY {order}"
    )
}

/// The rows of both tables are counted, each by itself where no filter needs the other one.
fn counts_sql(selection: &DaySelection) -> String {
    let (range, _) = range(selection);
    let counts = state_counts!();
    let registered = format!("SELECT count(*) FROM notifications AS n WHERE {range}");
    if selection.lane.is_none() && selection.topic.is_none() {
        return format!(
            "SELECT ({registered}), {counts} FROM statuses AS s
             WHERE s.notification > $1 AND s.notification < $2"
        );
    }
    format!(
        "SELECT ({registered}), {counts} FROM notifications AS n
         CROSS JOIN LATERAL (
            SELECT state FROM statuses WHERE notification = n.row_id OFFSET 0
         ) AS s
         WHERE {range}"
    )
}

/// Binds the four values that both statements use. The text of a statement consists of constants; values from outside are
/// only bound.
fn query(
    sql: String,
    selection: &DaySelection,
    after: i64,
) -> sqlx::query::Query<'static, Postgres, PgArguments> {
    let lane = selection.lane.as_ref().map(Lane::as_str);
    sqlx::query(AssertSqlSafe(sql))
        .bind(after)
        .bind(first_row(selection.until_ms))
        .bind(lane.map(str::to_owned))
        .bind(selection.topic.clone())
}
