//! Lists: the page that an index gives.
//!
//! A page is a range of one index, from its newest end or the cursor on. No page sorts, skips or
//! counts rows, so it costs the same at the end of a list as at its beginning. What the index does
//! not tell is looked up row by row; a page ends after a bounded number of such rows, short but with
//! a cursor, so that a filter which hardly anything passes cannot keep a connection busy.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::load::{notification_of, stored_columns};
use super::register::ARRIVAL_BITS;
use super::session::AS_OF_NOW;
use crate::domain::state::{Cause, State};
use crate::journal::list_plan::{ListIndex, ListPlan, ListRange};
use crate::journal::rows::{Fields, Ladders, StoredNotification};
use crate::journal::sql_values::limit_of;
use crate::journal::{Cursor, Filter, Order, SnapshotPage};
use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::{AssertSqlSafe, Connection as _, Postgres, Row as _};

/// See [`crate::journal::JournalReads::list`].
pub(super) struct FindListPage<'call> {
    pub(super) filter: &'call Filter,
    pub(super) order: Order,
    pub(super) cursor: Option<Cursor>,
    pub(super) limit: usize,
    pub(super) most_scanned: usize,
}

#[async_trait]
impl PostgresCall for FindListPage<'_> {
    type Reply = SnapshotPage;

    async fn run(&self, connection: &mut PgConnection) -> Result<SnapshotPage, PostgresFailure> {
        let Some(plan) = ListPlan::of(self.filter, self.order) else {
            return Ok(SnapshotPage::default());
        };
        let range = range_of(self.filter, self.order, self.cursor);
        let limit = self.limit.max(1);
        let mut reading = connection.begin_with(AS_OF_NOW).await?;
        let most = (limit.saturating_add(1), self.most_scanned);
        let found = query(page_sql(&plan), &plan, range, most)
            .fetch_all(&mut *reading)
            .await?;
        let more = found.len() > limit;
        let mut ladders = Ladders::default();
        let mut items = Vec::with_capacity(found.len());
        let mut next = None;
        for row in found.iter().take(limit) {
            let row_id: i64 = row.try_get(0)?;
            let at_ms: i64 = row.try_get("at_ms")?;
            next = Some(Cursor { at_ms, row: row_id });
            match Fields::of(row).stored(&mut ladders) {
                Ok(StoredNotification { snapshot, .. }) => items.push(snapshot),
                Err(error) => {
                    tracing::error!(row_id, %error, "a notification cannot be read; repair its row");
                }
            }
        }
        if !more {
            // Everything was looked at, or as much as may be.
            let skipped = self.most_scanned.saturating_sub(1);
            let scan_end = query(scan_end_sql(&plan), &plan, range, (skipped, 0))
                .fetch_optional(&mut *reading)
                .await?;
            next = match scan_end {
                Some(row) => {
                    let (ended_ms, row): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
                    let at_ms = match self.order {
                        Order::Registered => row >> ARRIVAL_BITS,
                        Order::Ended => ended_ms,
                    };
                    Some(Cursor { at_ms, row })
                }
                None => None,
            };
        }
        reading.rollback().await?;
        Ok(SnapshotPage { items, next })
    }
}

fn range_of(filter: &Filter, order: Order, cursor: Option<Cursor>) -> ListRange {
    let first = |at_ms: i64| match order {
        Order::Ended => (at_ms, i64::MIN),
        Order::Registered => (0, at_ms.saturating_mul(1 << ARRIVAL_BITS)),
    };
    let place = |cursor: Cursor| match order {
        Order::Ended => (cursor.at_ms, cursor.row),
        Order::Registered => (0, cursor.row),
    };
    ListRange::of(filter, cursor, first, place)
}

/// What a filter asks for beyond the index is the same text for all filters: a connection keeps
/// a bounded number of statements. The order of the tables is given, and each order of rows is
/// that of one index: sorting is what sessions are told to avoid.
fn page_sql(plan: &ListPlan<'_>) -> String {
    let (driver, other) = if is_of_notifications(plan) {
        let other = "(SELECT * FROM statuses WHERE notification = n.row_id OFFSET 0) AS s";
        ("notifications AS n", other)
    } else {
        ("statuses AS s", notification_of!("s.notification"))
    };
    let alias = if is_of_notifications(plan) { "n" } else { "s" };
    let at_ms = match plan.index {
        ListIndex::Everything | ListIndex::OfLane | ListIndex::OfTopic | ListIndex::OfState(_) => {
            "n.registered_ms"
        }
        ListIndex::Ended | ListIndex::EndedOfState(_) => "s.ended_ms",
    };
    let (range, order) = range_sql(plan);
    format!(
        "SELECT {columns}, {at_ms} AS at_ms
         FROM (
            SELECT * FROM {driver} WHERE {range} ORDER BY {order} LIMIT $10
         ) AS {alias}
         CROSS JOIN LATERAL {other}
         WHERE n.row_id = s.notification
            AND ($1::TEXT IS NULL OR n.lane = $1) AND ($2::TEXT IS NULL OR n.topic = $2)
            AND ($3::TEXT IS NULL OR s.cause = $3) AND ($4::TEXT IS NULL OR s.state = $4)
         ORDER BY {order} LIMIT $9",
        columns = stored_columns!(),
    )
}

/// Finds the last row that a page may look up.
fn scan_end_sql(plan: &ListPlan<'_>) -> String {
    let (columns, table) = match plan.index {
        ListIndex::Everything | ListIndex::OfLane | ListIndex::OfTopic => {
            ("0::BIGINT, n.row_id", "notifications AS n")
        }
        ListIndex::OfState(_) => ("0::BIGINT, s.notification", "statuses AS s"),
        ListIndex::Ended | ListIndex::EndedOfState(_) => {
            ("s.ended_ms, s.notification", "statuses AS s")
        }
    };
    let (range, order) = range_sql(plan);
    format!("SELECT {columns} FROM {table} WHERE {range} ORDER BY {order} LIMIT 1 OFFSET $9")
}

fn is_of_notifications(plan: &ListPlan<'_>) -> bool {
    match plan.index {
        ListIndex::Everything | ListIndex::OfLane | ListIndex::OfTopic => true,
        ListIndex::OfState(_) | ListIndex::Ended | ListIndex::EndedOfState(_) => false,
    }
}

/// The condition for a row to be in the range, and the order of the rows. Some indexes
/// are partial: their condition is repeated here word for word, or PostgreSQL would not use them.
fn range_sql(plan: &ListPlan<'_>) -> (String, &'static str) {
    // A lane or a topic is compared as a part of the place and not by itself: then no other
    // index gives that order.
    let by_row = |row: &str, order| (format!("{row} < $6 AND {row} >= $8"), order);
    let within = |column: &str, order| {
        let place = format!("({column}, n.row_id)");
        let value = if column == "n.lane" { "$1" } else { "$2" };
        let range = format!("{place} < ({value}, $6) AND {place} >= ({value}, $8)");
        (range, order)
    };
    let by_end = "(s.ended_ms, s.notification) < ($5, $6)
        AND (s.ended_ms, s.notification) >= ($7, $8)";
    let end_order = "s.ended_ms DESC, s.notification DESC";
    match plan.index {
        ListIndex::Everything => by_row("n.row_id", "n.row_id DESC"),
        ListIndex::OfLane => within("n.lane", "n.lane DESC, n.row_id DESC"),
        ListIndex::OfTopic => within(
            "n.topic COLLATE \"POSIX\"",
            "n.topic COLLATE \"POSIX\" DESC, n.row_id DESC",
        ),
        ListIndex::OfState(state) => {
            let (range, order) = by_row("s.notification", "s.notification DESC");
            (format!("s.state = '{state}' AND {range}"), order)
        }
        ListIndex::Ended => (format!("s.ended_ms IS NOT NULL AND {by_end}"), end_order),
        ListIndex::EndedOfState(state) => (format!("s.state = '{state}' AND {by_end}"), end_order),
    }
}

/// The statement with the ten values that it may refer to. Its text is put together from constants
/// alone; what comes from outside is bound.
fn query(
    sql: String,
    plan: &ListPlan<'_>,
    range: ListRange,
    rows: (usize, usize),
) -> sqlx::query::Query<'static, Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(sql))
        .bind(plan.filter.lane.clone())
        .bind(plan.filter.topic.clone())
        .bind(plan.filter.cause.map(Cause::as_str))
        .bind(plan.state.map(State::as_str))
        .bind(range.upper.0)
        .bind(range.upper.1)
        .bind(range.lower.0)
        .bind(range.lower.1)
        .bind(limit_of(rows.0))
        .bind(limit_of(rows.1))
}
