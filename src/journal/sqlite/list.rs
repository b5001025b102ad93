//! Lists: which index serves a filter, and the page that it gives.
//!
//! A page is a stretch of one index, from its newest end or the cursor on. No page sorts, skips or
//! counts rows, so it costs the same at the end of a list as at its beginning. What the index does
//! not tell is looked up row by row; a page ends after [`MOST_SCANNED`] such rows, short but with a
//! cursor, so that a filter which hardly anything passes cannot keep a reader busy.

use super::bulk::Statement;
use super::error::Failure;
use super::load::stored_columns;
use super::read::limit_of;
use crate::domain::state::{Cause, State};
use crate::journal::rows::{Fields, Ladders, Stored};
use crate::journal::{Cursor, Filter, Order, Page};
use sqlx::{AssertSqlSafe, SqlitePool};

/// Most rows looked at for one page.
pub(super) const MOST_SCANNED: usize = 50_000;

/// A filter with the index that serves it best, and the part of the filter that this index covers.
struct Plan<'filter> {
    filter: &'filter Filter,
    /// The state that is asked for; a cause asks for the dead.
    state: Option<State>,
    order: Order,
    index: &'static str,
    sees_state: bool,
    sees_lane: bool,
    sees_topic: bool,
}

/// A stretch of a list: from below `upper` down to `lower` itself, as instant and row number.
#[derive(Clone, Copy)]
struct Stretch {
    upper: (i64, i64),
    lower: (i64, i64),
}

/// Gives a page for which at most `most_scanned` rows are looked up.
pub(super) async fn list(
    readers: &SqlitePool,
    filter: &Filter,
    order: Order,
    cursor: Option<Cursor>,
    limit: usize,
    most_scanned: usize,
) -> Result<Page, Failure> {
    let Some(plan) = Plan::of(filter, order) else {
        return Ok(Page::default());
    };
    let mut stretch = Stretch::of(filter, cursor);
    let limit = limit.max(1);
    let mut reading = readers.begin().await?;
    let mut floor = None;
    if !plan.is_exact() {
        let skipped = most_scanned.saturating_sub(1);
        let found = bound(plan.floor_sql(), &plan, stretch, skipped)
            .fetch_optional(&mut *reading)
            .await?;
        if let Some(row) = found {
            let last = Fields::of(&row).cursor()?;
            stretch.lower = (last.at_ms, last.row);
            floor = Some(last);
        }
    }
    let found = bound(plan.page_sql(), &plan, stretch, limit.saturating_add(1))
        .fetch_all(&mut *reading)
        .await?;
    let more = found.len() > limit;
    let mut ladders = Ladders::default();
    let page: Vec<Stored> = found
        .iter()
        .take(limit)
        .map(|row| Fields::of(row).stored(&mut ladders))
        .collect::<Result<_, _>>()?;
    let next = match page.last() {
        Some(last) if more => Some(Cursor {
            at_ms: match order {
                Order::Registered => last.snapshot.registered_ms,
                Order::Ended => last.snapshot.ended_ms.unwrap_or(i64::MIN),
            },
            row: last.row_id,
        }),
        _ => floor,
    };
    Ok(Page {
        items: page.into_iter().map(|stored| stored.snapshot).collect(),
        next,
    })
}

impl Stretch {
    fn of(filter: &Filter, cursor: Option<Cursor>) -> Self {
        let before = |at_ms| (at_ms, i64::MIN);
        let end = filter.to_ms.map_or((i64::MAX, i64::MAX), before);
        Self {
            upper: cursor.map_or(end, |cursor| end.min((cursor.at_ms, cursor.row))),
            lower: filter.from_ms.map_or((i64::MIN, i64::MIN), before),
        }
    }
}

impl<'filter> Plan<'filter> {
    /// `None` if nothing can pass the filter.
    fn of(filter: &'filter Filter, order: Order) -> Option<Self> {
        use State::{Cancelled, Dead, Delivered, Scheduled};
        let state = match (filter.state, filter.cause) {
            (state, None) => state,
            (None | Some(Dead), Some(_)) => Some(Dead),
            (Some(Scheduled | Delivered | Cancelled), Some(_)) => return None,
        };
        let by_state = |index| (index, true, false, false);
        let (index, sees_state, sees_lane, sees_topic) = match (order, state) {
            (Order::Ended, Some(Scheduled)) => return None,
            (Order::Ended, Some(Dead)) => by_state("ended_dead"),
            (Order::Ended, Some(Cancelled)) => by_state("ended_cancelled"),
            (Order::Ended, Some(Delivered) | None) => ("ended", false, false, false),
            (Order::Registered, Some(Dead)) => by_state("registered_dead"),
            (Order::Registered, Some(Cancelled)) => by_state("registered_cancelled"),
            // What waits in a lane is among the newest of it; all that waits can be far more.
            (Order::Registered, _) if filter.lane.is_some() => {
                ("registered_by_lane", false, true, false)
            }
            (Order::Registered, Some(Scheduled)) => by_state("registered_scheduled"),
            (Order::Registered, Some(Delivered) | None) if filter.topic.is_some() => {
                ("registered_by_topic", false, false, true)
            }
            (Order::Registered, Some(Delivered) | None) => ("registered", false, false, false),
        };
        Some(Self {
            filter,
            state,
            order,
            index,
            sees_state,
            sees_lane,
            sees_topic,
        })
    }

    /// Whether the index covers the whole filter, so that every row of the stretch is an item.
    fn is_exact(&self) -> bool {
        (self.sees_state || self.state.is_none())
            && (self.sees_lane || self.filter.lane.is_none())
            && (self.sees_topic || self.filter.topic.is_none())
            && self.filter.cause.is_none()
    }

    fn page_sql(&self) -> String {
        let conditions = self.conditions(true, true, true);
        let cause = self.filter.cause.map_or("", |_| " AND n.cause = ?3");
        self.sql(
            stored_columns!(),
            &format!("{conditions}{cause}"),
            "LIMIT ?8",
        )
    }

    /// Finds the last row that a page may look up, in the index alone.
    fn floor_sql(&self) -> String {
        let conditions = self.conditions(self.sees_state, self.sees_lane, self.sees_topic);
        let columns = format!("n.{}, n.row_id", self.at());
        self.sql(&columns, &conditions, "LIMIT 1 OFFSET ?8")
    }

    /// Every index is named: SQLite's own choice may sort millions of rows, since it knows nothing
    /// of how many there are of each kind.
    fn sql(&self, columns: &str, conditions: &str, limit: &str) -> String {
        let (at, index) = (self.at(), self.index);
        format!(
            "SELECT {columns} FROM notifications AS n INDEXED BY {index}
             WHERE (n.{at}, n.row_id) < (?4, ?5) AND (n.{at}, n.row_id) >= (?6, ?7){conditions}
             ORDER BY n.{at} DESC, n.row_id DESC {limit}"
        )
    }

    fn conditions(&self, state: bool, lane: bool, topic: bool) -> String {
        let mut conditions = String::new();
        // What an index leaves out is spelt out as in its definition, or SQLite would not use it.
        if self.index == "ended" {
            conditions.push_str(" AND n.ended_ms IS NOT NULL");
        }
        if let (true, Some(state)) = (state, self.state) {
            conditions.push_str(&format!(" AND n.state = '{state}'"));
        }
        if lane && self.filter.lane.is_some() {
            conditions.push_str(" AND n.lane = ?1");
        }
        if topic && self.filter.topic.is_some() {
            conditions.push_str(" AND n.topic = ?2");
        }
        conditions
    }

    fn at(&self) -> &'static str {
        match self.order {
            Order::Registered => "registered_ms",
            Order::Ended => "ended_ms",
        }
    }
}

/// The statement with the eight values that it may refer to. Its text is put together from constants
/// alone; what comes from outside is bound.
fn bound(sql: String, plan: &Plan<'_>, stretch: Stretch, rows: usize) -> Statement {
    sqlx::query(AssertSqlSafe(sql))
        .bind(plan.filter.lane.as_deref())
        .bind(plan.filter.topic.as_deref())
        .bind(plan.filter.cause.map(Cause::as_str))
        .bind(stretch.upper.0)
        .bind(stretch.upper.1)
        .bind(stretch.lower.0)
        .bind(stretch.lower.1)
        .bind(limit_of(rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ack::AckRule;
    use crate::domain::destination::Destination;
    use crate::domain::headers::Headers;
    use crate::domain::key::Key;
    use crate::domain::ladder::Ladder;
    use crate::domain::notification::{Registration, Start};
    use crate::domain::webhook_id::WebhookId;
    use crate::journal::sqlite::SqliteJournal;
    use crate::journal::{Actor, Journal, Registering};
    use sqlx::Row as _;

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
            for order in [Order::Registered, Order::Ended] {
                let Some(plan) = Plan::of(&filter, order) else {
                    continue;
                };
                for sql in [plan.page_sql(), plan.floor_sql()] {
                    let explain = format!("EXPLAIN QUERY PLAN {sql}");
                    let lines = bound(explain, &plan, Stretch::of(&filter, None), 1)
                        .fetch_all(&journal.readers)
                        .await
                        .expect("explained");
                    let [line] = lines.as_slice() else {
                        panic!("{} steps for {sql}", lines.len());
                    };
                    let step: &str = line.get("detail");
                    let expected = format!("INDEX {} (", plan.index);
                    assert!(step.starts_with("SEARCH n USING"), "{step}: {sql}");
                    assert!(step.contains(&expected), "{step}: {sql}");
                    assert!(step.contains(&format!("{}<?", plan.at())), "{step}: {sql}");
                }
                let floor = format!("EXPLAIN QUERY PLAN {}", plan.floor_sql());
                let line = bound(floor, &plan, Stretch::of(&filter, None), 1)
                    .fetch_one(&journal.readers)
                    .await
                    .expect("explained");
                let step: &str = line.get("detail");
                assert!(step.contains("COVERING INDEX"), "{step}");
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
                destination: Destination::parse("https://shop.example/").expect("a url"),
                body: "1".into(),
                content_type: "text/plain".into(),
                headers: Headers::default(),
                start: Start::After(0),
                ladder: Ladder::standard(),
                ack: AckRule::Success,
            };
            let (notification, progress) =
                registration.accept(WebhookId::from_bytes([0; 16]), 1_000 + number / 7);
            batch.push(Registering {
                notification: notification.into(),
                progress,
                actor: Actor("test".into()),
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
