//! Lists: reads one page of a list.
//!
//! A page is a range of one index, which begins at the newest end or at the cursor. Rows before the page
//! are not read, and no rows are sorted. So a page at the end of a list costs the same as one at its
//! beginning.
//!
//! An id and a webhook id are looked for in another way (`search.rs`).
//!
//! Conditions that the index does not cover are checked row by row. After a limited number of rows the page
//! ends, even if it is short, and has a cursor. So a filter that few notifications pass cannot occupy a
//! connection for long.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::load::{notification_of, stored_columns};
use super::register::ARRIVAL_BITS;
use super::search;
use super::session::AS_OF_NOW;
use crate::domain::state::{Cause, State};
use crate::journal::list_plan::{ListIndex, ListPlan, ListRange};
use crate::journal::rows::{Fields, Ladders, StoredNotification};
use crate::journal::search::{Search, SearchFindings, page_of};
use crate::journal::sql_values::{lanes_text, limit_of};
use crate::journal::{Cursor, Filter, Order, SnapshotPage};
use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::{AssertSqlSafe, Connection as _, Postgres, Row as _};

/// What leaves a row out that cannot be read, for the log.
const LEFT_OUT_BY: &str = "lists and comparisons with the schedule leave";

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
        if let Some(search) = Search::of(self.filter) {
            let place = |cursor| place_of(self.order, cursor);
            let page = match search::find(&mut reading, &search).await? {
                SearchFindings::All(found) => {
                    let listed = (self.filter, self.order);
                    Some(page_of(found, listed, range, place, limit))
                }
                SearchFindings::TooManyTopics => Some(SnapshotPage {
                    too_many_topics: true,
                    ..SnapshotPage::default()
                }),
                SearchFindings::TooMany => None,
            };
            if let Some(page) = page {
                reading.rollback().await?;
                return Ok(page);
            }
        }
        let most = (limit.saturating_add(1), self.most_scanned);
        let found = query(page_sql(&plan), &plan, range, most)
            .fetch_all(&mut *reading)
            .await?;
        let more = found.len() > limit;
        let mut ladders = Ladders::default();
        let (mut items, mut unreadable) = (Vec::with_capacity(found.len()), Vec::new());
        let mut next = None;
        for row in found.iter().take(limit) {
            let row_id: i64 = row.try_get(0)?;
            let at_ms: i64 = row.try_get("at_ms")?;
            next = Some(Cursor { at_ms, row: row_id });
            match Fields::of(row).stored(&mut ladders) {
                Ok(StoredNotification { snapshot, .. }) => items.push(snapshot),
                Err(error) => {
                    Fields::log_damaged(row, &error, LEFT_OUT_BY);
                    unreadable.push(Fields::name_damaged(row, (row_id, 1), &error));
                }
            }
        }
        if !more {
            // The list has ended, or the maximum number of rows was read for this page.
            let skipped = self.most_scanned.saturating_sub(1);
            let scan_end = query(scan_end_sql(&plan), &plan, range, (skipped, 0))
                .fetch_optional(&mut *reading)
                .await?;
            next = match scan_end {
                Some(row) => {
                    let (sorted_ms, row): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
                    let at_ms = match self.order {
                        Order::Registered => row >> ARRIVAL_BITS,
                        Order::Ended | Order::Due => sorted_ms,
                    };
                    Some(Cursor { at_ms, row })
                }
                None => None,
            };
        }
        reading.rollback().await?;
        Ok(SnapshotPage {
            items,
            next,
            too_many_topics: false,
            unreadable,
        })
    }
}

fn range_of(filter: &Filter, order: Order, cursor: Option<Cursor>) -> ListRange {
    let first = |at_ms: i64| match order {
        Order::Ended | Order::Due => (at_ms, i64::MIN),
        Order::Registered => (0, at_ms.saturating_mul(1 << ARRIVAL_BITS)),
    };
    ListRange::of(filter, cursor, first, |cursor| place_of(order, cursor))
}

/// The place of a cursor. A row number begins with the instant of registration.
fn place_of(order: Order, cursor: Cursor) -> (i64, i64) {
    match order {
        Order::Ended | Order::Due => (cursor.at_ms, cursor.row),
        Order::Registered => (0, cursor.row),
    }
}

/// The statement that reads a page. Conditions beyond the index have the same text for all filters, because
/// a connection keeps a limited number of prepared statements. The joins fix the order of the tables, and
/// the rows have the order of the index, so PostgreSQL need not sort.
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
        ListIndex::Ended
        | ListIndex::EndedOfState(_)
        | ListIndex::DeadOfLane
        | ListIndex::DeadOfCause => "s.ended_ms",
        ListIndex::Due => "s.next_due_ms",
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
            AND ($11::TEXT IS NULL OR (n.id >= $11 AND n.id <= $12))
            AND ($13::TEXT IS NULL OR strpos(lower(n.url), $13) > 0
                OR (n.url = '' AND jsonb_exists((SELECT $14::TEXT::JSONB), n.lane)))
            AND ($15::TEXT IS NULL OR strpos(n.id, $15) > 0)
         ORDER BY {order} LIMIT $9",
        columns = stored_columns!(),
    )
}

/// The statement that finds the last row that may be read for a page.
fn scan_end_sql(plan: &ListPlan<'_>) -> String {
    let (columns, table) = match plan.index {
        ListIndex::Everything | ListIndex::OfLane | ListIndex::OfTopic => {
            ("0::BIGINT, n.row_id", "notifications AS n")
        }
        ListIndex::OfState(_) => ("0::BIGINT, s.notification", "statuses AS s"),
        ListIndex::Ended
        | ListIndex::EndedOfState(_)
        | ListIndex::DeadOfLane
        | ListIndex::DeadOfCause => ("s.ended_ms, s.notification", "statuses AS s"),
        ListIndex::Due => ("s.next_due_ms, s.notification", "statuses AS s"),
    };
    let (range, order) = range_sql(plan);
    format!("SELECT {columns} FROM {table} WHERE {range} ORDER BY {order} LIMIT 1 OFFSET $9")
}

fn is_of_notifications(plan: &ListPlan<'_>) -> bool {
    match plan.index {
        ListIndex::Everything | ListIndex::OfLane | ListIndex::OfTopic => true,
        ListIndex::OfState(_)
        | ListIndex::Ended
        | ListIndex::EndedOfState(_)
        | ListIndex::DeadOfLane
        | ListIndex::DeadOfCause
        | ListIndex::Due => false,
    }
}

/// The condition that a row is in the range, and the order of the rows. Some indexes are partial.
/// PostgreSQL uses a partial index only if its condition is repeated in the statement, so it is repeated
/// here.
fn range_sql(plan: &ListPlan<'_>) -> (String, &'static str) {
    // The lane or the topic is compared together with the row number, and is a part of the order. So only one
    // index has this order, and PostgreSQL cannot choose another.
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
        // The lane is in the other table.
        ListIndex::DeadOfLane => (format!("s.state = 'dead' AND {by_end}"), end_order),
        // As with a lane: the cause is compared together with the place, so only one index fits.
        ListIndex::DeadOfCause => (
            "s.state = 'dead' AND (s.cause, s.ended_ms, s.notification) < ($3, $5, $6)
                AND (s.cause, s.ended_ms, s.notification) >= ($3, $7, $8)"
                .to_string(),
            "s.cause DESC, s.ended_ms DESC, s.notification DESC",
        ),
        ListIndex::Due => (
            "s.state = 'scheduled' AND (s.next_due_ms, s.notification) < ($5, $6)
                AND (s.next_due_ms, s.notification) >= ($7, $8)"
                .to_string(),
            "s.next_due_ms DESC, s.notification DESC",
        ),
    }
}

/// Binds the fifteen values that a statement may use. The text of the statement consists of constants; values
/// from outside are only bound.
fn query(
    sql: String,
    plan: &ListPlan<'_>,
    range: ListRange,
    rows: (usize, usize),
) -> sqlx::query::Query<'static, Postgres, PgArguments> {
    let (first_id, last_id) = plan.filter.ids().unzip();
    let url = plan.filter.url.as_ref();
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
        .bind(first_id)
        .bind(last_id)
        .bind(url.map(|url| url.contains.to_ascii_lowercase()))
        .bind(url.map(lanes_text))
        .bind(plan.filter.id_contains.clone())
}
