//! Fills a journal with notifications, straight into its tables.
//!
//! One notification is registered as by a server. All others are copies of its row with other ids, destinations, states and
//! times, so their rows are as a server writes them. Notification number `i` of `n` was registered `25 days * i / n` after the
//! first.

use bytes::Bytes;
use ringback::domain::ack::AckRule;
use ringback::domain::activity::{ActivityCounts, MINUTE_MS};
use ringback::domain::destination::Destination;
use ringback::domain::headers::Headers;
use ringback::domain::key::Key;
use ringback::domain::ladder::Ladder;
use ringback::domain::notification::{Registration, Start, Target};
use ringback::domain::priority::Priority;
use ringback::domain::webhook_id::WebhookId;
use ringback::journal::{Actor, Journal, RegisterResult, Registering};
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// The number of destinations. The first [`ENDPOINTS`] are endpoints.
pub const LANES: u64 = 1_000;
/// The number of endpoints.
pub const ENDPOINTS: u64 = 20;
/// The last two digits of the number of a notification that is delivered, and of one that is dead.
pub const A_DELIVERED_ONE: u64 = 50;
pub const A_DEAD_ONE: u64 = 94;

const DAY_MS: i64 = 86_400_000;
/// The time over which the notifications were registered.
const SPAN_MS: i64 = 25 * DAY_MS;

/// How many notifications are written in one transaction.
const CHUNK: u64 = 100_000;
/// Entries of the audit log, and ended jobs.
const ACTS: u64 = 100_000;
const JOBS: u64 = 200;
/// Servers and minutes of which there are counts for the plots.
const SERVERS: usize = 4;
const MINUTES: i64 = 24 * 60;

/// When the notifications were registered.
#[derive(Debug, Clone, Copy)]
pub struct Registered {
    now_ms: i64,
    first_ms: i64,
    step_ms: i64,
}

impl Registered {
    /// The instants of so many notifications. The last one was registered a day ago.
    pub fn of(notifications: u64) -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        let now_ms = i64::try_from(now.as_millis()).expect("fits");
        Self {
            now_ms,
            first_ms: now_ms - SPAN_MS - DAY_MS,
            step_ms: SPAN_MS / i64::try_from(notifications).expect("fits"),
        }
    }

    fn at_ms(self, number: u64) -> i64 {
        self.first_ms + i64::try_from(number).expect("fits") * self.step_ms
    }

    /// The webhook id of a notification.
    pub fn webhook_id(self, number: u64) -> String {
        format!("msg_{:012x}70008{number:015x}", self.at_ms(number))
    }

    /// Puts the instants into a statement.
    fn in_sql(self, sql: &str) -> String {
        sql.replace(
            "{at}",
            &format!("({} + i * {})", self.first_ms, self.step_ms),
        )
        .replace("{now}", &self.now_ms.to_string())
        .replace("{lane_number}", "((i / 100 * 1313 + i % 100 * 7) % 1000)")
        .replace("{state}", STATE)
        .replace("{cause}", CAUSE)
        .replace("{topic}", TOPIC)
        .replace(
            "{attempts}",
            "CASE WHEN i % 100 < 93 THEN 1 WHEN i % 100 < 97 THEN 8 ELSE 0 END",
        )
        .replace("{ended}", ENDED)
        .replace("{due}", DUE)
    }
}

const STATE: &str = "CASE WHEN i % 100 < 93 THEN 'delivered' WHEN i % 100 < 97 THEN 'dead'
    WHEN i % 100 = 97 THEN 'cancelled' ELSE 'scheduled' END";
const CAUSE: &str = "CASE WHEN i % 100 < 93 OR i % 100 > 96 THEN NULL
    WHEN i / 100 % 40 = 0 THEN 'blocked' WHEN i / 100 % 4 = 2 THEN 'window_closed'
    WHEN i / 100 % 4 = 3 THEN 'refused' ELSE 'ladder_exhausted' END";
const TOPIC: &str = "CASE WHEN i % 100003 = 0 THEN 'chargeback.rare' WHEN i / 7 % 10 < 6 THEN 'payment.succeeded'
    WHEN i / 7 % 10 < 8 THEN 'refund.done' WHEN i / 7 % 10 = 8 THEN 'payout.made' ELSE 'invoice.sent' END";
const ENDED: &str = "CASE WHEN i % 100 < 93 THEN {at} + 43 WHEN i % 100 < 98 THEN {at} + 60000 END";
/// What is pending is due in the next days.
const DUE: &str = "CASE WHEN i % 100 > 97 THEN {now} + (1 + i % 20) * 86400000 ELSE {at} END";

/// The id of a notification.
pub fn id(number: u64) -> String {
    format!("order-2026{number:09}")
}

/// The path of the page of a notification.
pub fn path(number: u64) -> String {
    format!("/ui/notifications/{}/{}", topic(number), id(number))
}

/// The topic of a notification, as in [`TOPIC`].
fn topic(number: u64) -> &'static str {
    if number.is_multiple_of(100_003) {
        return "chargeback.rare";
    }
    match number / 7 % 10 {
        0..=5 => "payment.succeeded",
        6 | 7 => "refund.done",
        8 => "payout.made",
        _ => "invoice.sent",
    }
}

/// The name of a destination.
pub fn lane(number: u64) -> String {
    match number < ENDPOINTS {
        true => format!("endpoint:shop-{number}"),
        false => format!("https://m{number}.shop.example"),
    }
}

/// Registers the notification that all others are copies of, and keeps counts for the plots.
pub async fn prepare(journal: &dyn Journal, registered: Registered) {
    let registration = Registration {
        key: Key::new("template", "first").expect("a key"),
        target: Target::Url(Destination::parse("https://shop.example/notify").expect("a URL")),
        body: Bytes::from_static(b"out_trade_no=20261120000001&total_amount=8.88&trade_status=OK"),
        content_type: "application/x-www-form-urlencoded".into(),
        headers: Headers::default(),
        start: Start::After(20 * DAY_MS),
        ladder: Some(Ladder::standard()),
        ack: Some(AckRule::standard()),
        priority: Priority::Normal,
        order: None,
    };
    let webhook_id = WebhookId::new(Uuid::now_v7());
    let (notification, progress) = registration.accept(webhook_id, registered.first_ms, None);
    let registering = Registering {
        notification: Arc::new(notification),
        progress,
        actor: Actor::named("orders"),
    };
    let replies = journal.register(&[registering]).await.expect("kept");
    assert_eq!(replies, [RegisterResult::Created]);
    let now = registered.now_ms / MINUTE_MS;
    for server in 0..SERVERS {
        let minutes = (now - MINUTES..now).map(|minute| {
            let mut values = [0; ActivityCounts::LENGTH];
            for (value, place) in values.iter_mut().zip(1_u64..) {
                *value = minute.unsigned_abs() % 97 / place;
            }
            (minute, ActivityCounts::from_values(values))
        });
        let minutes: Vec<_> = minutes.collect();
        let server = format!("server-{server}");
        let kept = journal.keep_activity(&server, &minutes).await;
        kept.expect("kept");
    }
}

/// Fills a journal in SQLite. `i` is the number of a notification, `t` the row that was registered.
pub async fn sqlite(path: &Path, notifications: u64, registered: Registered) {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(false);
    let mut connection = options.connect().await.expect("a connection");
    let fast = "PRAGMA synchronous = OFF; PRAGMA cache_size = -300000";
    connection.execute(fast).await.expect("set");
    let chunk = "WITH RECURSIVE chunk (i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM chunk WHERE i < {to}),
        t AS (SELECT * FROM notifications WHERE topic = 'template')";
    let copies = [
        "INSERT INTO notifications (row_id, topic, id, webhook_id, lane, url, ladder, ack, content_type, fingerprint,
            state, cause, series, step, attempts, first_due_ms, deadline_ms, due_ms, clamped, registered_ms, ended_ms,
            priority)
         {chunk}
         SELECT 1 + i, {topic}, printf('order-2026%09d', i), unhex(printf('%012x70008%015x', {at}, i)),
            CASE WHEN {lane_number} < 20 THEN 'endpoint:shop-' || {lane_number}
                ELSE 'https://m' || {lane_number} || '.shop.example' END,
            CASE WHEN {lane_number} < 20 THEN '' ELSE 'https://m' || {lane_number} || '.shop.example/notify/'
                || CASE WHEN i % 50000 = 7 THEN 'rare' ELSE 'pay' END || '?order=' || i END,
            t.ladder, t.ack, t.content_type, t.fingerprint, {state}, {cause}, 1,
            CASE WHEN i % 100 BETWEEN 93 AND 96 THEN 7 ELSE 0 END, {attempts}, {due}, {due} + 87720000, {due}, 0, {at},
            {ended}, t.priority
         FROM chunk, t",
        "INSERT INTO payloads (notification, headers, body)
         {chunk} SELECT 1 + i, p.headers, p.body FROM chunk, t JOIN payloads AS p ON p.notification = t.row_id",
        "INSERT INTO transitions (notification, at_ms, kind, actor, instance, detail)
         {chunk} SELECT 1 + i, {at}, 'registered', 'orders', 'fill', '' FROM chunk",
        "INSERT INTO attempts (notification, series, number, due_ms, started_ms, duration_ms, outcome, status, answer,
            reason, instance, at_ms)
         {chunk} SELECT 1 + i, 1, 1, {at}, {at} + 3, 40, 'acknowledged', 200, x'73756363657373', '', 'fill', {at} + 43
         FROM chunk WHERE i % 100 < 93",
        "INSERT INTO attempts (notification, series, number, due_ms, started_ms, duration_ms, outcome, status, answer,
            reason, instance, at_ms)
         {chunk}, tries (number) AS (VALUES (1), (2), (3), (4), (5), (6), (7), (8))
         SELECT 1 + i, 1, number, {at}, {at} + number * 7000, 40,
            CASE number % 2 WHEN 0 THEN 'timeout' ELSE 'http_status' END, CASE number % 2 WHEN 1 THEN 500 END, x'6f6f7073',
            'the receiver failed', 'fill', {at} + number * 7000
         FROM chunk, tries WHERE i % 100 BETWEEN 93 AND 96",
    ];
    for (from, to) in chunks(notifications) {
        let mut transaction = connection.begin().await.expect("begun");
        for sql in copies {
            let sql = sql.replace("{chunk}", chunk);
            let sql = sql.replace("{from}", &from.to_string());
            let sql = registered.in_sql(&sql.replace("{to}", &to.to_string()));
            let sql = registered.in_sql(&sql);
            let copied = transaction.execute(AssertSqlSafe(sql)).await;
            copied.expect("copied");
        }
        transaction.commit().await.expect("written");
    }
    for (sql, many) in OTHERS {
        let rows = "WITH RECURSIVE rows (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM rows WHERE i < {many})";
        let sql = sql
            .replace("{rows}", rows)
            .replace("{many}", &many.to_string());
        let sql = sql.replace("{id}", "printf('%012x-%x', i, i)");
        let sql = registered.in_sql(&sql);
        connection
            .execute(AssertSqlSafe(sql))
            .await
            .expect("filled");
    }
    connection.close().await.expect("closed");
}

/// Fills a journal in PostgreSQL, and lets it look at its tables once, as autovacuum does.
pub async fn postgres(url: &str, notifications: u64, registered: Registered) {
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    let chunk = "generate_series({from}::BIGINT, {to}::BIGINT) AS i";
    let row_id = "(({at} << 21) | (i & 2097151))";
    let copies = [
        "INSERT INTO notifications (row_id, topic, id, webhook_id, lane, url, ladder, ack, content_type, fingerprint,
            registered_ms, actor, instance, priority)
         SELECT {row_id}, {topic}, 'order-2026' || lpad(i::TEXT, 9, '0'),
            decode(lpad(to_hex({at}), 12, '0') || '70008' || lpad(to_hex(i), 15, '0'), 'hex'),
            CASE WHEN {lane_number} < 20 THEN 'endpoint:shop-' || {lane_number}
                ELSE 'https://m' || {lane_number} || '.shop.example' END,
            CASE WHEN {lane_number} < 20 THEN '' ELSE 'https://m' || {lane_number} || '.shop.example/notify/'
                || CASE WHEN i % 50000 = 7 THEN 'rare' ELSE 'pay' END || '?order=' || i END,
            t.ladder, t.ack, t.content_type, t.fingerprint, {at}, t.actor, t.instance, t.priority
         FROM {chunk}, notifications AS t WHERE t.topic = 'template'",
        "INSERT INTO statuses (notification, state, cause, series, step, attempts, first_due_ms, deadline_ms, due_ms,
            clamped, ended_ms)
         SELECT {row_id}, {state}, {cause}, 1, CASE WHEN i % 100 BETWEEN 93 AND 96 THEN 7 ELSE 0 END, {attempts}, {due},
            {due} + 87720000, {due}, FALSE, {ended} FROM {chunk}",
        "INSERT INTO payloads (notification, headers, body)
         SELECT {row_id}, p.headers, p.body FROM {chunk}, notifications AS t JOIN payloads AS p ON p.notification = t.row_id
         WHERE t.topic = 'template'",
        "INSERT INTO attempts (notification, series, number, started_ms, outcome, due_ms, duration_ms, status, answer,
            reason, instance, at_ms)
         SELECT {row_id}, 1, 1, {at} + 3, 'acknowledged', {at}, 40, 200, 'success'::BYTEA, '', 'fill', {at} + 43
         FROM {chunk} WHERE i % 100 < 93",
        "INSERT INTO attempts (notification, series, number, started_ms, outcome, due_ms, duration_ms, status, answer,
            reason, instance, at_ms)
         SELECT {row_id}, 1, number, {at} + number * 7000, CASE number % 2 WHEN 0 THEN 'timeout' ELSE 'http_status' END,
            {at}, 40, CASE number % 2 WHEN 1 THEN 500 END, 'oops'::BYTEA, 'the receiver failed', 'fill',
            {at} + number * 7000
         FROM {chunk}, generate_series(1, 8) AS number WHERE i % 100 BETWEEN 93 AND 96",
    ];
    for (from, to) in chunks(notifications) {
        for sql in copies {
            let sql = sql.replace("{chunk}", chunk).replace("{row_id}", row_id);
            let sql = sql.replace("{from}", &from.to_string());
            let sql = registered.in_sql(&sql.replace("{to}", &to.to_string()));
            let sql = registered.in_sql(&sql);
            connection
                .execute(AssertSqlSafe(sql))
                .await
                .expect("copied");
        }
    }
    for (sql, many) in OTHERS {
        let from = " FROM rows";
        let sql = sql
            .replace("{rows}", "")
            .replace(from, " FROM generate_series(1::BIGINT, {many}) AS i");
        let sql = sql.replace("{many}", &many.to_string());
        let sql = sql.replace("{id}", "lpad(to_hex(i), 12, '0') || '-' || to_hex(i)");
        let sql = registered.in_sql(&sql);
        connection
            .execute(AssertSqlSafe(sql))
            .await
            .expect("filled");
    }
    connection.execute("VACUUM ANALYZE").await.expect("done");
    connection.close().await.expect("closed");
}

/// The audit log and the jobs.
const OTHERS: [(&str, u64); 2] = [
    (
        "INSERT INTO audit_log (at_ms, actor, act, subject_kind, subject, reason, detail, instance)
         {rows} SELECT {now} - ({many} - i) * 20000, CASE i % 3 WHEN 0 THEN 'anna' ELSE 'desk/ben' END,
            'notification.replay', 'notification', 'payment.succeeded/order-2026' || i, 'the shop is back', '', 'fill'
         FROM rows",
        ACTS,
    ),
    (
        "INSERT INTO jobs (id, kind, state, filter, matched, done, skipped, failed, rate, actor, reason, created_ms,
            ended_ms, instance)
         {rows} SELECT {id}, 'replay', 'done', '{}', 100, 90, 10, 0, 10000, 'anna', 'the shop is back',
            {now} - ({many} - i) * 3600000 - 1000, {now} - ({many} - i) * 3600000, 'fill'
         FROM rows",
        JOBS,
    ),
];

/// The first and the last number of each transaction.
fn chunks(notifications: u64) -> impl Iterator<Item = (u64, u64)> {
    let chunks = (0..notifications).step_by(usize::try_from(CHUNK).expect("fits"));
    chunks.map(move |before| (before + 1, (before + CHUNK).min(notifications)))
}
