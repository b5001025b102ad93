//! Fills the journal with pending notifications, straight into its tables.
//!
//! One notification for each destination is registered by the server: the models. All others are copies of the rows of these
//! with other ids, due times and bodies, so their rows are as the server writes them ([`Fill::check`]). They were registered
//! in the course of a day that ended an hour ago. When one is due has nothing to do with when it was registered, so what is
//! due together lies scattered over the tables; with `--in-order 1` they are due in the order of their registrations, as
//! those are that all have the same delay.

use crate::load::{self, register_each};
use crate::postgres::{connect, run};
use crate::receiver::Receiver;
use crate::server::Setup;
use crate::{Options, now_ms};
use ringback::domain::timestamp;
use serde_json::json;
use sqlx::postgres::PgConnection;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// How many notifications are written in one transaction, and by how many connections.
const CHUNK: u64 = 50_000;
const CONNECTIONS: usize = 2;
/// Mixes numbers: a prime number that is larger than the number of notifications. With 1 they stay in order.
const MIXER: u64 = 15_485_863;
const DAY_MS: i64 = 86_400_000;
const HOUR_MS: i64 = 3_600_000;
/// When the models are due.
const MODELS_DUE_MS: i64 = 20 * DAY_MS;

/// Writes the notifications of a chunk. A model is a row of each table.
const COPY: &str = "
    WITH fresh AS MATERIALIZED (
        SELECT (made.at_ms << 21) | (made.i & 2097151) AS row_id, made.*, m.n, m.s, m.p
        FROM (
            SELECT i, {registered_from} + (i * {registered_step}) % 86000000 AS at_ms,
                {due_from} + ((i - {first}) * {mixer} % {many}) * {due_span} / {many} AS due_ms
            FROM generate_series({from}::BIGINT, {to}::BIGINT) AS i
        ) AS made JOIN models AS m ON m.number = made.i % {models}
    ), notification AS (
        INSERT INTO notifications (row_id, id, webhook_id, registered_ms, {notification_columns})
        SELECT row_id, 'order-' || lpad(i::TEXT, 10, '0'),
            decode(lpad(to_hex(at_ms), 12, '0') || '70008' || lpad(to_hex(i), 15, '0'), 'hex'), at_ms,
            {notification_values}
        FROM fresh
    ), status AS (
        INSERT INTO statuses (notification, first_due_ms, deadline_ms, due_ms, {status_columns})
        SELECT row_id, due_ms, due_ms + (s).deadline_ms - (s).due_ms, due_ms, {status_values} FROM fresh
    )
    INSERT INTO payloads (notification, body, {payload_columns})
    SELECT row_id, convert_to(rpad('due=' || due_ms || '&pad=', {body_bytes}, 'x'), 'UTF8'), {payload_values} FROM fresh";

/// The statements of this program are not what is measured.
pub const NOT_LOGGED: &str = "SET log_min_duration_statement = -1";

/// What is copied from a model as it is: all columns of a table but these.
const OWN_COLUMNS: [(&str, &str, &[&str]); 3] = [
    (
        "notification",
        "notifications",
        &["row_id", "id", "webhook_id", "registered_ms"],
    ),
    (
        "status",
        "statuses",
        &["notification", "first_due_ms", "deadline_ms", "due_ms"],
    ),
    ("payload", "payloads", &["notification", "body"]),
];

/// Fills one journal.
pub struct Fill {
    url: String,
    /// The statement, with the columns of the tables.
    copy: String,
    /// The number of the next notification.
    next: AtomicU64,
    registered_from_ms: i64,
    registered_step_ms: u64,
    mixer: u64,
}

/// While the tables are filled, PostgreSQL writes less into its log of changes than usual.
const FILLING: &str = "ALTER SYSTEM SET full_page_writes = off";
const FILLED: &str = "ALTER SYSTEM RESET full_page_writes";
const RELOAD: &str = "SELECT pg_reload_conf()";

impl Fill {
    /// Has the server register the models, waits until its maintenance has seen them, and stops it.
    pub async fn prepare(setup: &mut Setup, receiver: &Receiver, options: &Options) -> Self {
        let due_ms = u64::try_from(now_ms() + MODELS_DUE_MS).expect("after 1970");
        let urls = receiver.urls.clone();
        let registration = move |number: usize, due_ms: u64| {
            json!({
                "topic": "payment.succeeded",
                "id": format!("model-{number:010}"),
                "url": urls[number],
                "body": load::body(due_ms),
                "deliver_at": timestamp::display_ms(i64::try_from(due_ms).expect("in range")),
            })
        };
        let models = vec![due_ms; receiver.urls.len()];
        register_each(setup, models, registration).await;
        let postgres = setup.postgres.as_ref().expect("these stores include it");
        let url = postgres.url("postgres");
        let mut connection = connect(&url).await;
        run(&mut connection, NOT_LOGGED).await;
        // What was registered before this instant is not compared with the schedule one by one at the next start.
        reconciled(&mut connection).await;
        setup.stop_server().await;
        run(&mut connection, FILLING).await;
        run(&mut connection, RELOAD).await;
        Self {
            url,
            copy: copy_statement(&mut connection, options.body_bytes).await,
            next: AtomicU64::new(1),
            registered_from_ms: now_ms() - DAY_MS - HOUR_MS,
            registered_step_ms: (80_000_000 / options.pending).max(1),
            mixer: if options.in_order == 1 { 1 } else { MIXER },
        }
    }

    /// From when on the notifications were registered, in milliseconds since 1970.
    pub fn registered_from_ms(&self) -> i64 {
        self.registered_from_ms
    }

    /// Writes `many` notifications to the first destinations, due evenly in this range, in milliseconds since 1970.
    pub async fn insert(&self, many: u64, destinations: u64, due_ms: Range<i64>) {
        assert!(many < MIXER, "so many cannot be mixed");
        if many == 0 {
            return;
        }
        let first = self.next.fetch_add(many, Ordering::Relaxed);
        let sql = [
            ("{registered_from}", self.registered_from_ms.to_string()),
            ("{registered_step}", self.registered_step_ms.to_string()),
            ("{due_from}", due_ms.start.to_string()),
            ("{due_span}", (due_ms.end - due_ms.start).to_string()),
            ("{first}", first.to_string()),
            ("{mixer}", self.mixer.to_string()),
            ("{many}", many.to_string()),
            ("{models}", destinations.to_string()),
        ];
        let sql = sql.iter().fold(self.copy.clone(), |sql, (name, value)| {
            sql.replace(name, value)
        });
        let chunk = Arc::new(AtomicU64::new(first));
        let mut tasks = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let (sql, url, chunk) = (sql.clone(), self.url.clone(), chunk.clone());
            tasks.spawn(async move {
                let mut connection = connect(&url).await;
                run(&mut connection, NOT_LOGGED).await;
                run(&mut connection, "SET synchronous_commit = off").await;
                run(&mut connection, MODELS).await;
                run(&mut connection, "ANALYZE models").await;
                loop {
                    let from = chunk.fetch_add(CHUNK, Ordering::Relaxed);
                    if from >= first + many {
                        return;
                    }
                    let to = (from + CHUNK).min(first + many) - 1;
                    let sql = sql.replace("{from}", &from.to_string());
                    run(&mut connection, &sql.replace("{to}", &to.to_string())).await;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.expect("filled");
        }
    }

    /// Lets PostgreSQL look at its tables once, as autovacuum does.
    pub async fn vacuum(&self) {
        let mut connection = connect(&self.url).await;
        run(&mut connection, NOT_LOGGED).await;
        sqlx::Executor::execute(&mut connection, "VACUUM ANALYZE")
            .await
            .expect("done");
    }

    /// The id of the notification that was written last.
    fn last_id(&self) -> String {
        format!("order-{:010}", self.next.load(Ordering::Relaxed) - 1)
    }

    /// Ends the filling: looks at the tables, and goes back to the usual settings.
    pub async fn finish(&self) {
        let mut connection = connect(&self.url).await;
        run(&mut connection, NOT_LOGGED).await;
        self.check(&mut connection).await;
        for sql in ["ANALYZE", FILLED, RELOAD, "CHECKPOINT"] {
            let begun = Instant::now();
            sqlx::Executor::execute(&mut connection, sql)
                .await
                .expect("done");
            println!("{sql}: {:.1} s", begun.elapsed().as_secs_f64());
        }
    }

    /// Fails if a copy differs from its model in more than it should: in a column, or in the bytes of its rows.
    async fn check(&self, connection: &mut PgConnection) {
        let rows = |id: &str| {
            format!(
                "SELECT to_jsonb(n) - '{{row_id,id,webhook_id,registered_ms}}'::TEXT[]
                    || to_jsonb(s) - '{{notification,first_due_ms,deadline_ms,due_ms,next_due_ms}}'::TEXT[]
                    || jsonb_build_object(
                        'id', length(n.id), 'webhook_id', length(n.webhook_id), 'headers', p.headers,
                        'registered', n.registered_ms - (n.row_id >> 21), 'ladder window', s.deadline_ms - s.due_ms,
                        'due', s.due_ms - s.first_due_ms, 'next due', s.next_due_ms - s.due_ms,
                        'bytes', pg_column_size(n.*) + pg_column_size(s.*)
                    ) AS told
                 FROM notifications AS n JOIN statuses AS s ON s.notification = n.row_id
                 JOIN payloads AS p ON p.notification = n.row_id
                 WHERE n.topic = 'payment.succeeded' AND n.id = {id}"
            )
        };
        let copy = format!("'{}'", self.last_id());
        let model = format!(
            "(SELECT m.id FROM notifications AS m WHERE m.id LIKE 'model-%' AND m.lane = (
                SELECT lane FROM notifications WHERE topic = 'payment.succeeded' AND id = {copy}
             ))"
        );
        let sql = format!(
            "SELECT c.told::TEXT, m.told::TEXT FROM ({}) AS c, ({}) AS m",
            rows(&copy),
            rows(&model)
        );
        let (copy, model): (String, String) = sqlx::query_as(sqlx::AssertSqlSafe(sql))
            .fetch_one(connection)
            .await
            .expect("a copy and its model");
        assert_eq!(copy, model, "a copy is as its model");
    }
}

/// The models, with their numbers, for one connection.
const MODELS: &str = "
    CREATE TEMP TABLE models AS
    SELECT substr(n.id, 7)::BIGINT AS number, n, s, p
    FROM notifications AS n JOIN statuses AS s ON s.notification = n.row_id JOIN payloads AS p ON p.notification = n.row_id
    WHERE n.id LIKE 'model-%' AND n.topic = 'payment.succeeded'";

/// Puts the columns of the tables into the statement.
async fn copy_statement(connection: &mut PgConnection, body_bytes: u64) -> String {
    let mut sql = COPY.replace("{body_bytes}", &body_bytes.to_string());
    for (row, table, own) in OWN_COLUMNS {
        let columns: Vec<String> = sqlx::query_scalar(
            "SELECT column_name::TEXT FROM information_schema.columns
             WHERE table_schema = current_schema() AND table_name = $1 AND is_generated = 'NEVER'
             ORDER BY ordinal_position",
        )
        .bind(table)
        .fetch_all(&mut *connection)
        .await
        .expect("columns");
        let copied: Vec<&String> = (columns.iter())
            .filter(|column| !own.contains(&column.as_str()))
            .collect();
        let letter = &row[..1];
        let values = copied.iter().map(|column| format!("({letter}).{column}"));
        let values: Vec<String> = values.collect();
        let names: Vec<&str> = copied.iter().map(|column| column.as_str()).collect();
        sql = sql.replace(&format!("{{{row}_columns}}"), &names.join(", "));
        sql = sql.replace(&format!("{{{row}_values}}"), &values.join(", "));
    }
    sql
}

/// Waits until the maintenance has compared what was registered with the schedule, and has noted that.
async fn reconciled(connection: &mut PgConnection) {
    let begun = Instant::now();
    loop {
        let noted: Option<String> =
            sqlx::query_scalar("SELECT value FROM meta WHERE name = 'kept:reconciled_ms'")
                .fetch_optional(&mut *connection)
                .await
                .expect("readable");
        if noted.is_some() {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "nothing is noted"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
