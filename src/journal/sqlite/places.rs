//! The places of pending notifications, in the order of their due times.

use super::error::SqliteFailure;
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use crate::journal::{Cursor, PlacesPage};
use futures_util::{Stream, TryStreamExt as _};
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteRow;
use tokio::task::coop::consume_budget;

macro_rules! places_where {
    ($which:literal) => {
        concat!(
            "SELECT n.row_id, n.topic, n.id, n.lane, n.priority, n.series_priority, n.next_due_ms,
                n.order_key IS NOT NULL OR n.retry_at_ms IS NOT NULL, EXISTS (
                    SELECT 1 FROM set_aside AS a WHERE a.topic = n.topic AND a.id = n.id
                ) AS set_aside
             FROM notifications AS n INDEXED BY pending
             WHERE n.state = 'scheduled' AND ",
            $which,
            " ORDER BY n.next_due_ms, n.row_id LIMIT ?"
        )
    };
}
/// Two searches, for the reason that `pending.rs` gives.
const DUE_WITH: &str = places_where!("n.next_due_ms = ? AND n.row_id > ?");
const DUE_AFTER: &str = places_where!("n.next_due_ms > ? AND n.next_due_ms <= ?");

/// See [`crate::journal::JournalMaintenance::places_page`].
pub(super) async fn page(
    readers: &SqlitePool,
    cursor: Option<Cursor>,
    until_ms: i64,
    limit: usize,
) -> Result<PlacesPage, SqliteFailure> {
    let mut reading = readers.begin().await?;
    let mut page = PlacesPage::default();
    let mut read = 0;
    if let Some(cursor) = cursor {
        let found = sqlx::query(DUE_WITH)
            .bind(cursor.at_ms)
            .bind(cursor.row)
            .bind(limit_of(limit))
            .fetch(&mut *reading);
        read = add(found, &mut page).await?;
    }
    if read < limit {
        let later = sqlx::query(DUE_AFTER)
            .bind(cursor.map_or(i64::MIN, |cursor| cursor.at_ms))
            .bind(until_ms)
            .bind(limit_of(limit - read))
            .fetch(&mut *reading);
        add(later, &mut page).await?;
    }
    Ok(page)
}

/// Adds the rows to a page, and says how many there were.
async fn add(
    mut rows: impl Stream<Item = Result<SqliteRow, sqlx::Error>> + Unpin + Send,
    page: &mut PlacesPage,
) -> Result<usize, SqliteFailure> {
    let mut many = 0;
    while let Some(row) = rows.try_next().await? {
        // There may be thousands of rows. Other tasks of this thread get their turn in between.
        consume_budget().await;
        let mut next = page.next;
        Fields::read_page_row(&row, &mut next, |fields| fields.add_place(page))?;
        page.next = next;
        many += 1;
    }
    Ok(many)
}
