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

use super::bulk::Statement;
use super::error::SqliteFailure;
use super::load::stored_columns;
use super::search;
use crate::domain::state::Cause;
use crate::journal::list_plan::{ListIndex, ListPlan, ListRange};
use crate::journal::rows::{Fields, Ladders, StoredNotification};
use crate::journal::search::{Search, SearchFindings, page_of};
use crate::journal::sql_values::{lanes_text, limit_of};
use crate::journal::{Cursor, Filter, Order, SnapshotPage};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _, SqlitePool};

/// What leaves a row out that cannot be read, for the log.
const LEFT_OUT_BY: &str = "lists and comparisons with the schedule leave";

/// Reads a page. For a page, at most `most_scanned` rows are read.
pub(super) async fn list(
    readers: &SqlitePool,
    filter: &Filter,
    order: Order,
    cursor: Option<Cursor>,
    limit: usize,
    most_scanned: usize,
) -> Result<SnapshotPage, SqliteFailure> {
    let Some(plan) = ListPlan::of(filter, order) else {
        return Ok(SnapshotPage::default());
    };
    let mut range = range_of(filter, cursor);
    let limit = limit.max(1);
    let mut reading = readers.begin().await?;
    if let Some(search) = Search::of(filter) {
        match search::find(&mut reading, &search).await? {
            SearchFindings::All(found) => {
                return Ok(page_of(found, (filter, order), range, place_of, limit));
            }
            SearchFindings::TooManyTopics => {
                return Ok(SnapshotPage {
                    too_many_topics: true,
                    ..SnapshotPage::default()
                });
            }
            SearchFindings::TooMany => {}
        }
    }
    let mut scan_end = None;
    if !is_exact(&plan) {
        let skipped = most_scanned.saturating_sub(1);
        let found = query(scan_end_sql(&plan), &plan, range, skipped)
            .fetch_optional(&mut *reading)
            .await?;
        if let Some(row) = found {
            let last = Fields::of(&row).cursor()?;
            range.lower = (last.at_ms, last.row);
            scan_end = Some(last);
        }
    }
    let found = query(page_sql(&plan), &plan, range, limit.saturating_add(1))
        .fetch_all(&mut *reading)
        .await?;
    let more = found.len() > limit;
    let mut ladders = Ladders::default();
    let (mut items, mut unreadable) = (Vec::with_capacity(found.len()), Vec::new());
    for row in found.iter().take(limit) {
        match Fields::of(row).stored(&mut ladders) {
            Ok(StoredNotification { snapshot, .. }) => items.push(snapshot),
            Err(error) => {
                Fields::log_damaged(row, &error, LEFT_OUT_BY);
                unreadable.push(Fields::name_damaged(row, (row.try_get(0)?, 1), &error));
            }
        }
    }
    let next = match found.iter().take(limit).next_back() {
        Some(last) if more => Some(place_of_row(last, order)?),
        _ => scan_end,
    };
    Ok(SnapshotPage {
        items,
        next,
        too_many_topics: false,
        unreadable,
    })
}

fn range_of(filter: &Filter, cursor: Option<Cursor>) -> ListRange {
    ListRange::of(filter, cursor, |at_ms| (at_ms, i64::MIN), place_of)
}

/// The place of a row in the list, also of one that cannot be read.
fn place_of_row(row: &SqliteRow, order: Order) -> Result<Cursor, SqliteFailure> {
    let instant = |column| row.try_get::<Option<i64>, _>(column);
    let at_ms = match order {
        Order::Registered => instant("registered_ms")?,
        Order::Ended => instant("ended_ms")?,
        Order::Due => {
            let (due_ms, retry_at_ms) = (instant("due_ms")?, instant("retry_at_ms")?);
            due_ms.min(retry_at_ms).or(due_ms)
        }
    };
    Ok(Cursor {
        at_ms: at_ms.unwrap_or(i64::MIN),
        row: row.try_get("row_id")?,
    })
}

fn place_of(cursor: Cursor) -> (i64, i64) {
    (cursor.at_ms, cursor.row)
}

/// Whether the index covers the whole filter. Then every row of the range belongs to the list.
fn is_exact(plan: &ListPlan<'_>) -> bool {
    conditions(plan, Parts::All) == conditions(plan, Parts::Covered)
        && uncovered_conditions(plan.filter).is_empty()
}

/// Which conditions of a filter a statement contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    All,
    /// Only those that the index covers.
    Covered,
}

fn page_sql(plan: &ListPlan<'_>) -> String {
    let mut conditions = conditions(plan, Parts::All);
    conditions.push_str(&uncovered_conditions(plan.filter));
    sql(plan, stored_columns!(), &conditions, "LIMIT ?8")
}

/// The conditions that no index covers. A webhook id is not among them, because it is never looked for by a scan.
fn uncovered_conditions(filter: &Filter) -> String {
    let mut conditions = String::new();
    if filter.ids().is_some() {
        conditions.push_str(" AND n.id >= ?9 AND n.id <= ?10");
    }
    if filter.id_contains.is_some() {
        conditions.push_str(" AND instr(n.id, ?13) > 0");
    }
    if filter.url.is_some() {
        conditions.push_str(
            " AND (instr(lower(n.url), ?11) > 0
               OR n.url = '' AND n.lane IN (SELECT key FROM json_each(?12)))",
        );
    }
    conditions
}

/// The statement that finds the last row that may be read for a page. It reads only the index.
fn scan_end_sql(plan: &ListPlan<'_>) -> String {
    let conditions = conditions(plan, Parts::Covered);
    let columns = format!("n.{}, n.row_id", at_of(plan));
    sql(plan, &columns, &conditions, "LIMIT 1 OFFSET ?8")
}

/// Makes a statement over the range of a list. The statement names its index, because SQLite does not know
/// how many notifications there are of each kind. SQLite's own choice might sort millions of rows.
fn sql(plan: &ListPlan<'_>, columns: &str, conditions: &str, limit: &str) -> String {
    let (at, index) = (at_of(plan), index_of(plan));
    format!(
        "SELECT {columns} FROM notifications AS n INDEXED BY {index}
         WHERE (n.{at}, n.row_id) < (?4, ?5) AND (n.{at}, n.row_id) >= (?6, ?7){conditions}
         ORDER BY n.{at} DESC, n.row_id DESC {limit}"
    )
}

fn conditions(plan: &ListPlan<'_>, parts: Parts) -> String {
    let mut conditions = String::new();
    // SQLite uses a partial index only if the statement repeats the condition of the index.
    if plan.index == ListIndex::Ended {
        conditions.push_str(" AND n.ended_ms IS NOT NULL");
    }
    let of_state = matches!(
        plan.index,
        ListIndex::OfState(_)
            | ListIndex::EndedOfState(_)
            | ListIndex::DeadOfLane
            | ListIndex::DeadOfCause
            | ListIndex::Due
    );
    let of_lane = matches!(plan.index, ListIndex::OfLane | ListIndex::DeadOfLane);
    let is_spelt = |covered: bool| covered || parts == Parts::All;
    if let Some(state) = plan.state.filter(|_| is_spelt(of_state)) {
        conditions.push_str(&format!(" AND n.state = '{state}'"));
    }
    if plan.filter.lane.is_some() && is_spelt(of_lane) {
        conditions.push_str(" AND n.lane = ?1");
    }
    if plan.filter.topic.is_some() && is_spelt(plan.index == ListIndex::OfTopic) {
        conditions.push_str(" AND n.topic = ?2");
    }
    if plan.filter.cause.is_some() && is_spelt(plan.index == ListIndex::DeadOfCause) {
        conditions.push_str(" AND n.cause = ?3");
    }
    conditions
}

fn index_of(plan: &ListPlan<'_>) -> String {
    match plan.index {
        ListIndex::Everything => "registered".to_string(),
        ListIndex::OfLane => "registered_by_lane".to_string(),
        ListIndex::OfTopic => "registered_by_topic".to_string(),
        ListIndex::OfState(state) => format!("registered_{state}"),
        ListIndex::Ended => "ended".to_string(),
        ListIndex::EndedOfState(state) => format!("ended_{state}"),
        ListIndex::DeadOfLane => "dead_of_lane".to_string(),
        ListIndex::DeadOfCause => "dead_of_cause".to_string(),
        ListIndex::Due => "pending".to_string(),
    }
}

fn at_of(plan: &ListPlan<'_>) -> &'static str {
    match plan.order {
        Order::Registered => "registered_ms",
        Order::Ended => "ended_ms",
        Order::Due => "next_due_ms",
    }
}

/// Binds the thirteen values that a statement may use. The text of the statement consists of constants; values
/// from outside are only bound.
fn query(sql: String, plan: &ListPlan<'_>, range: ListRange, rows: usize) -> Statement {
    let (first_id, last_id) = plan.filter.ids().unzip();
    let url = plan.filter.url.as_ref();
    sqlx::query(AssertSqlSafe(sql))
        .bind(plan.filter.lane.as_deref())
        .bind(plan.filter.topic.as_deref())
        .bind(plan.filter.cause.map(Cause::as_str))
        .bind(range.upper.0)
        .bind(range.upper.1)
        .bind(range.lower.0)
        .bind(range.lower.1)
        .bind(limit_of(rows))
        .bind(first_id)
        .bind(last_id)
        .bind(url.map(|url| url.contains.to_ascii_lowercase()))
        .bind(url.map(lanes_text))
        .bind(plan.filter.id_contains.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ack::AckRule;
    use crate::domain::destination::Destination;
    use crate::domain::headers::Headers;
    use crate::domain::key::Key;
    use crate::domain::ladder::Ladder;
    use crate::domain::notification::{Registration, Start, Target};
    use crate::domain::priority::Priority;
    use crate::domain::state::State;
    use crate::domain::webhook_id::WebhookId;
    use crate::journal::sqlite::SqliteJournal;
    use crate::journal::{Actor, JournalWrites as _, Registering};

    async fn journal() -> (tempfile::TempDir, SqliteJournal) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal.db");
        let journal = SqliteJournal::open(&path, "test").await.expect("it opens");
        (directory, journal)
    }

    fn filters() -> Vec<Filter> {
        let states = State::ALL.iter().copied().map(Some).chain([None]);
        let mut filters = Vec::new();
        for state in states {
            for part in 0..8 {
                let given = |bit: i32, text: &str| (part & bit != 0).then(|| text.to_string());
                filters.push(Filter {
                    state,
                    topic: given(1, "t"),
                    lane: given(2, "https://shop.example"),
                    cause: (part & 4 != 0).then_some(Cause::Refused),
                    ..Filter::default()
                });
            }
        }
        filters
    }

    #[tokio::test]
    async fn no_list_sorts_or_reads_from_an_end_it_does_not_need() {
        let (_directory, journal) = journal().await;
        for filter in filters() {
            for order in [Order::Registered, Order::Ended, Order::Due] {
                let Some(plan) = ListPlan::of(&filter, order) else {
                    continue;
                };
                for sql in [page_sql(&plan), scan_end_sql(&plan)] {
                    let explain = format!("EXPLAIN QUERY PLAN {sql}");
                    let lines = query(explain, &plan, range_of(&filter, None), 1)
                        .fetch_all(&journal.readers)
                        .await
                        .expect("explained");
                    let [line] = lines.as_slice() else {
                        panic!("{} steps for {sql}", lines.len());
                    };
                    let step: &str = line.get("detail");
                    let expected = format!("INDEX {} (", index_of(&plan));
                    assert!(step.starts_with("SEARCH n USING"), "{step}: {sql}");
                    assert!(step.contains(&expected), "{step}: {sql}");
                    assert!(
                        step.contains(&format!("{}<?", at_of(&plan))),
                        "{step}: {sql}"
                    );
                }
                let scan_end = format!("EXPLAIN QUERY PLAN {}", scan_end_sql(&plan));
                let line = query(scan_end, &plan, range_of(&filter, None), 1)
                    .fetch_one(&journal.readers)
                    .await
                    .expect("explained");
                let step: &str = line.get("detail");
                // For an index of a computed column, SQLite may read the rows too: a bounded number.
                let is_computed = plan.index == ListIndex::Due;
                assert!(is_computed || step.contains("COVERING INDEX"), "{step}");
            }
        }
    }

    #[tokio::test]
    async fn a_filter_that_little_passes_gives_short_pages_and_misses_nothing() {
        let (_directory, journal) = journal().await;
        let mut batch = Vec::new();
        for number in 0..100 {
            let topic = if number % 30 == 0 { "rare" } else { "common" };
            let registration = Registration {
                key: Key::new(topic, &number.to_string()).expect("a key"),
                target: Target::Url(Destination::parse("https://shop.example/").expect("a url")),
                body: "1".into(),
                content_type: "text/plain".into(),
                headers: Headers::default(),
                start: Start::After(0),
                ladder: Some(Ladder::standard()),
                ack: Some(AckRule::standard()),
                priority: Priority::Normal,
                order: None,
            };
            let (notification, progress) =
                registration.accept(WebhookId::from_bytes([0; 16]), 1_000 + number / 7, None);
            batch.push(Registering {
                notification: notification.into(),
                progress,
                actor: Actor::named("test"),
            });
        }
        journal.register(&batch).await.expect("kept");
        let filter = Filter {
            topic: Some("rare".into()),
            lane: Some("https://shop.example".into()),
            ..Filter::default()
        };
        let (mut found, mut pages, mut cursor) = (Vec::new(), 0, None);
        loop {
            let page = list(&journal.readers, &filter, Order::Registered, cursor, 10, 20)
                .await
                .expect("read");
            found.extend(page.items.iter().map(|item| item.key.id().to_string()));
            pages += 1;
            match page.next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(found, ["90", "60", "30", "0"]);
        assert_eq!(pages, 6);
    }
}
