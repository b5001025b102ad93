//! The places of pending notifications, in the order of their due times.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::load::notification_of;
use super::pending::{due_range, is_set_aside};
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use crate::journal::{Cursor, PlacesPage};
use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use sqlx::postgres::PgConnection;
use tokio::task::coop::consume_budget;

/// Reads a page: a range of one index, for which the notifications are looked up row by row.
const PAGE: &str = concat!(
    "SELECT s.notification, n.topic, n.id, n.lane, n.priority, s.series_priority, s.next_due_ms,
        n.order_key IS NOT NULL OR s.retry_at_ms IS NOT NULL, ",
    is_set_aside!(),
    " AS set_aside
     FROM ",
    due_range!(),
    " AS s CROSS JOIN LATERAL ",
    notification_of!("s.notification"),
    " ORDER BY s.next_due_ms, s.notification"
);

/// See [`crate::journal::JournalMaintenance::places_page`].
pub(super) struct FindPlacesPage {
    pub(super) cursor: Option<Cursor>,
    pub(super) until_ms: i64,
    pub(super) limit: usize,
}

#[async_trait]
impl PostgresCall for FindPlacesPage {
    type Reply = PlacesPage;

    async fn run(&self, connection: &mut PgConnection) -> Result<PlacesPage, PostgresFailure> {
        let after = self.cursor.unwrap_or(Cursor {
            at_ms: i64::MIN,
            row: i64::MIN,
        });
        let mut found = sqlx::query(PAGE)
            .bind(after.at_ms)
            .bind(after.row)
            .bind(limit_of(self.limit))
            .bind(self.until_ms)
            .fetch(connection);
        let mut page = PlacesPage::default();
        while let Some(row) = &found.try_next().await? {
            // There may be thousands of rows. Other tasks of this thread get their turn in between.
            consume_budget().await;
            let mut next = page.next;
            Fields::read_page_row(row, &mut next, |fields| fields.add_place(&mut page))?;
            page.next = next;
        }
        Ok(page)
    }
}
