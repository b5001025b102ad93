//! The pending notifications, in the order of their due times, with which a schedule is loaded; and what one notification
//! sends.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::load::{notification_of, payload_columns, stored_columns};
use crate::domain::key::Key;
use crate::journal::rows::{Fields, Ladders};
use crate::journal::sql_values::limit_of;
use crate::journal::{BodyReading, Cursor, PageBodies, Payload, Pending};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use sqlx::postgres::{PgBindIterExt as _, PgConnection};
use sqlx::{Connection as _, Executor as _};
use tokio::task::coop::consume_budget;

/// A page ends when its bodies have this many bytes together.
const PAGE_BYTES: i64 = 16 * 1024 * 1024;

/// See [`crate::journal::JournalMaintenance::count_due_by`].
pub(super) struct CountDueBy {
    pub(super) due_ms: i64,
    pub(super) most: usize,
}

#[async_trait]
impl PostgresCall for CountDueBy {
    type Reply = u64;

    async fn run(&self, connection: &mut PgConnection) -> Result<u64, PostgresFailure> {
        let mut reading = connection.begin().await?;
        // For the reason below.
        (&mut *reading)
            .execute("SET LOCAL statement_timeout = 1000")
            .await?;
        let counted: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM (
                SELECT 1 FROM statuses WHERE state = 'scheduled' AND next_due_ms <= $1 LIMIT $2
             ) AS found",
        )
        .bind(self.due_ms)
        .bind(limit_of(self.most))
        .fetch_one(&mut *reading)
        .await?;
        reading.rollback().await?;
        Ok(counted.unsigned_abs())
    }
}

/// See [`crate::journal::JournalMaintenance::oldest_due`].
pub(super) struct OldestDue;

#[async_trait]
impl PostgresCall for OldestDue {
    type Reply = Option<i64>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Option<i64>, PostgresFailure> {
        let mut reading = connection.begin().await?;
        // While an old snapshot is open, the first part of the index may be entries that nobody can see.
        (&mut *reading)
            .execute("SET LOCAL statement_timeout = 1000")
            .await?;
        let found: Option<i64> = sqlx::query_scalar(
            "SELECT s.next_due_ms FROM statuses AS s
             WHERE s.state = 'scheduled' AND NOT EXISTS (
                SELECT 1 FROM notifications AS n JOIN set_aside AS a ON a.topic = n.topic AND a.id = n.id
                WHERE n.row_id = s.notification
             )
             ORDER BY s.next_due_ms, s.notification LIMIT 1",
        )
        .fetch_optional(&mut *reading)
        .await?;
        reading.rollback().await?;
        Ok(found)
    }
}

/// Whether the notification `n` is set aside. Hardly any is, so it is asked once for the whole page whether any is at all.
macro_rules! is_set_aside {
    () => {
        "CASE WHEN EXISTS (SELECT 1 FROM set_aside) THEN EXISTS (
            SELECT 1 FROM set_aside AS a WHERE a.topic = n.topic AND a.id = n.id
         ) ELSE FALSE END"
    };
}
pub(super) use is_set_aside;

/// The statuses of a page: a range of one index.
macro_rules! due_range {
    () => {
        "(
            SELECT * FROM statuses
            WHERE state = 'scheduled' AND (next_due_ms, notification) > ($1, $2) AND next_due_ms <= $4
            ORDER BY next_due_ms, notification LIMIT $3
        )"
    };
}
pub(super) use due_range;

/// Reads a page: a range of one index, for which the other tables are looked up row by row. PostgreSQL
/// stores a long body outside of its row. So the bodies of rows beyond the end of the page are not read.
const PAGE: &str = concat!(
    "WITH weighed AS (
        SELECT
            s.*,
            p.headers,
            p.body,
            p.len,
            sum(octet_length(p.body)) OVER (
                ORDER BY s.next_due_ms, s.notification ROWS UNBOUNDED PRECEDING
            ) - coalesce(octet_length(p.body), 0) AS bytes_before
        FROM ",
    due_range!(),
    " AS s
        LEFT JOIN LATERAL (
            SELECT headers, body, octet_length(body) AS len
            FROM payloads WHERE notification = s.notification OFFSET 0
        ) AS p ON TRUE
    )
    SELECT ",
    stored_columns!(),
    ", ",
    payload_columns!("s"),
    ", s.len, s.next_due_ms, ",
    is_set_aside!(),
    " AS set_aside
     FROM weighed AS s CROSS JOIN LATERAL ",
    notification_of!("s.notification"),
    " WHERE coalesce(s.bytes_before, 0) < $5
     ORDER BY s.next_due_ms, s.notification"
);

/// Reads a page without the bodies. Where the notification says how long its body is, and that it has no headers, its
/// payload is not looked up. PostgreSQL knows the length of a long body without reading the body.
const PAGE_WITHOUT_BODIES: &str = concat!(
    "SELECT ",
    stored_columns!(),
    ", n.ack, n.content_type, CASE WHEN n.body_bytes IS NULL THEN p.headers ELSE '[]' END, coalesce(n.body_bytes, p.len),
        s.next_due_ms, ",
    is_set_aside!(),
    " AS set_aside
     FROM ",
    due_range!(),
    " AS s CROSS JOIN LATERAL ",
    notification_of!("s.notification"),
    " LEFT JOIN LATERAL (
        SELECT headers, octet_length(body) AS len FROM payloads
        WHERE notification = s.notification AND n.body_bytes IS NULL OFFSET 0
     ) AS p ON TRUE
     ORDER BY s.next_due_ms, s.notification"
);

const BODIES: &str = "
    SELECT n.topic, n.id, p.body
    FROM unnest($1::TEXT[], $2::TEXT[]) AS g (topic, id)
    CROSS JOIN LATERAL (
        SELECT * FROM notifications AS n WHERE n.topic = g.topic AND n.id = g.id OFFSET 0
    ) AS n
    CROSS JOIN LATERAL (
        SELECT body FROM payloads WHERE notification = n.row_id OFFSET 0
    ) AS p";

/// Each key is looked up by itself, so that the plan does not depend on the statistics of PostgreSQL.
macro_rules! pendings {
    ($payload_columns:expr, $payload:expr) => {
        concat!(
            "SELECT ",
            stored_columns!(),
            ", ",
            $payload_columns,
            " FROM unnest($1::TEXT[], $2::TEXT[]) AS g (topic, id)
             CROSS JOIN LATERAL (
                SELECT * FROM notifications AS n WHERE n.topic = g.topic AND n.id = g.id OFFSET 0
             ) AS n
             CROSS JOIN LATERAL (
                SELECT * FROM statuses AS s WHERE s.notification = n.row_id OFFSET 0
             ) AS s
             LEFT JOIN LATERAL ",
            $payload,
            " ON TRUE
             WHERE s.state = 'scheduled' AND NOT EXISTS (
                SELECT 1 FROM set_aside AS a WHERE a.topic = n.topic AND a.id = n.id
             )"
        )
    };
}

const PENDINGS: &str = pendings!(
    "n.ack, n.content_type, CASE WHEN n.body_bytes IS NULL THEN p.headers ELSE '[]' END, coalesce(n.body_bytes, p.len)",
    "(
        SELECT headers, octet_length(body) AS len FROM payloads
        WHERE notification = n.row_id AND n.body_bytes IS NULL OFFSET 0
     ) AS p"
);

/// What [`Fields::pending_of_page`] reads of `n` and of [`short_payload`], whose columns are in the table `$payload`.
macro_rules! short_payload_columns {
    ($payload:literal) => {
        concat!(
            "n.ack, n.content_type, CASE WHEN n.body_bytes IS NULL THEN ",
            $payload,
            ".headers ELSE '[]' END, CASE WHEN ",
            $payload,
            ".len <= 4096 THEN ",
            $payload,
            ".body END, coalesce(n.body_bytes, ",
            $payload,
            ".len)"
        )
    };
}
/// The payload of `n`, unless `n` says that its body is long. PostgreSQL knows the length of a long body without reading the
/// body. The length in it is [`crate::journal::SHORT_BODY`].
macro_rules! short_payload {
    () => {
        "(
            SELECT headers, body, octet_length(body) AS len FROM payloads
            WHERE notification = n.row_id AND (n.body_bytes IS NULL OR n.body_bytes <= 4096) OFFSET 0
         ) AS p"
    };
}
pub(super) use {short_payload, short_payload_columns};

const PENDINGS_WITH_BODIES: &str = pendings!(short_payload_columns!("p"), short_payload!());

/// PostgreSQL knows the length of a long body without reading the body.
macro_rules! payload_of {
    ($body:literal) => {
        concat!(
            "SELECT n.ack, n.content_type, p.headers, p.body
             FROM (
                SELECT * FROM notifications AS n WHERE n.topic = $1 AND n.id = $2 OFFSET 0
             ) AS n
             LEFT JOIN LATERAL (
                SELECT headers, ",
            $body,
            " AS body FROM payloads WHERE notification = n.row_id OFFSET 0
             ) AS p ON TRUE"
        )
    };
}

/// See [`crate::journal::JournalReads::payload`].
pub(super) struct FindPayload<'call> {
    pub(super) key: &'call Key,
    pub(super) body: BodyReading,
}

#[async_trait]
impl PostgresCall for FindPayload<'_> {
    type Reply = Option<Payload>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Option<Payload>, PostgresFailure> {
        let statement = match self.body {
            BodyReading::Read => payload_of!("body"),
            BodyReading::LengthOnly => payload_of!("octet_length(body)"),
        };
        let found = sqlx::query(statement)
            .bind(self.key.topic())
            .bind(self.key.id())
            .fetch_optional(connection)
            .await?;
        let payload = found.map(|row| Fields::of(&row).payload(self.body));
        Ok(payload.transpose()?)
    }
}

/// See [`crate::journal::JournalReads::bodies`].
pub(super) struct FindBodies<'call>(pub(super) &'call [Key]);

#[async_trait]
impl PostgresCall for FindBodies<'_> {
    type Reply = Vec<Option<Bytes>>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let found = sqlx::query(BODIES)
            .bind(self.0.iter().map(Key::topic).bind_iter())
            .bind(self.0.iter().map(Key::id).bind_iter())
            .fetch_all(connection)
            .await?;
        Ok(Fields::bodies(&found, self.0)?)
    }
}

/// See [`crate::journal::JournalReads::pending`].
pub(super) struct FindPending<'call>(pub(super) &'call Key);

#[async_trait]
impl PostgresCall for FindPending<'_> {
    type Reply = Option<Pending>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Option<Pending>, PostgresFailure> {
        let found = sqlx::query(concat!(
            "SELECT ",
            stored_columns!(),
            ", ",
            payload_columns!("p"),
            " FROM notifications AS n
              JOIN statuses AS s ON s.notification = n.row_id
              LEFT JOIN payloads AS p ON p.notification = n.row_id
              WHERE n.topic = $1 AND n.id = $2 AND s.state = 'scheduled' AND NOT EXISTS (
                SELECT 1 FROM set_aside AS a WHERE a.topic = n.topic AND a.id = n.id
              )"
        ))
        .bind(self.0.topic())
        .bind(self.0.id())
        .fetch_optional(connection)
        .await?;
        let pending = found.map(|row| Fields::of(&row).pending(&mut Ladders::default()));
        Ok(pending.transpose()?)
    }
}

/// See [`crate::journal::JournalReads::pendings`], and [`crate::journal::JournalReads::pendings_with_bodies`].
pub(super) struct FindPendings<'call> {
    pub(super) keys: &'call [Key],
    /// If all, then of those that are short.
    pub(super) bodies: PageBodies,
}

#[async_trait]
impl PostgresCall for FindPendings<'_> {
    type Reply = Vec<Option<Pending>>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let statement = match self.bodies {
            PageBodies::All => PENDINGS_WITH_BODIES,
            PageBodies::None => PENDINGS,
        };
        let found = sqlx::query(statement)
            .bind(self.keys.iter().map(Key::topic).bind_iter())
            .bind(self.keys.iter().map(Key::id).bind_iter())
            .fetch_all(connection)
            .await?;
        Ok(Fields::pendings(&found, self.keys, self.bodies)?)
    }
}

/// See [`crate::journal::JournalMaintenance::pending_page`].
pub(super) struct FindPendingPage {
    pub(super) cursor: Option<Cursor>,
    pub(super) until_ms: i64,
    pub(super) limit: usize,
    pub(super) bodies: PageBodies,
}

#[async_trait]
impl PostgresCall for FindPendingPage {
    type Reply = (Vec<Pending>, Option<Cursor>);

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let after = self.cursor.unwrap_or(Cursor {
            at_ms: i64::MIN,
            row: i64::MIN,
        });
        let page = match self.bodies {
            PageBodies::All => sqlx::query(PAGE),
            PageBodies::None => sqlx::query(PAGE_WITHOUT_BODIES),
        };
        let page = page
            .bind(after.at_ms)
            .bind(after.row)
            .bind(limit_of(self.limit))
            .bind(self.until_ms);
        let page = match self.bodies {
            PageBodies::All => page.bind(PAGE_BYTES),
            PageBodies::None => page,
        };
        // Rows are taken one by one, while PostgreSQL sends the next, so that not all of a page is there twice.
        let mut found = page.fetch(connection);
        let mut ladders = Ladders::default();
        let mut page = Vec::new();
        let mut cursor = None;
        while let Some(row) = &found.try_next().await? {
            // There may be thousands of rows. Other tasks of this thread get their turn in between.
            consume_budget().await;
            Fields::read_page_row(row, &mut cursor, |fields| {
                page.push(fields.pending_of_page(&mut ladders, self.bodies)?);
                Ok(())
            })?;
        }
        Ok((page, cursor))
    }
}
