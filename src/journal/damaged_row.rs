//! Rows of notifications that cannot be read: what is asked about many notifications leaves them out, because they must
//! not delay the others, and the log names them.

use super::rows::{Fields, StoredRow};
use super::{JournalError, UnreadableNotification};
use sqlx::{ColumnIndex, Decode, Type};

impl<'row, R> Fields<'row, R>
where
    R: StoredRow,
    usize: ColumnIndex<R>,
    bool: Decode<'row, R::Database> + Type<R::Database>,
    i64: Decode<'row, R::Database> + Type<R::Database>,
    &'row str: Decode<'row, R::Database> + Type<R::Database>,
    &'row [u8]: Decode<'row, R::Database> + Type<R::Database>,
    R::Count: Decode<'row, R::Database> + Type<R::Database>,
{
    /// Names a notification whose row cannot be read. The topic is in the column `topic_column`, and the id in the next one.
    pub(super) fn name_damaged(
        row: &'row R,
        (row_id, topic_column): (i64, usize),
        error: &JournalError,
    ) -> UnreadableNotification {
        let topic = Self::at::<&str>(row, topic_column);
        UnreadableNotification {
            name: match topic.zip(Self::at::<&str>(row, topic_column + 1)) {
                Some((topic, id)) => format!("{topic}/{id}"),
                None => format!("row {row_id}"),
            },
            problem: error.to_string(),
        }
    }

    /// Logs that a row cannot be read, which begins with `row_id, topic, id`. `left_out_by` is what leaves it out.
    pub(super) fn log_damaged(row: &'row R, error: &JournalError, left_out_by: &'static str) {
        tracing::error!(
            row_id = Self::at::<i64>(row, 0),
            topic = Self::at::<&str>(row, 1),
            id = Self::at::<&str>(row, 2),
            %error,
            "a notification in the journal cannot be read, so {left_out_by} it out; repair its rows in `notifications`, \
             `payloads` and, in PostgreSQL, `statuses`"
        );
    }
}
