//! A journal in PostgreSQL in which partitions are made and dropped.

use super::PostgresStore;
use super::samples::{apply, changing, delivery, keep, key, refusal, registering_at, registration};
use crate::support::postgres::connect;
use ringback::domain::body::Body;
use ringback::domain::change::Change;
use ringback::journal::postgres::PostgresJournal;
use ringback::journal::{
    ChangeResult, JournalMaintenance, JournalReads, JournalWrites, PartitionWork,
    PartitionedTables, Prune, Pruned,
};
use sqlx::postgres::PgConnection;
use std::sync::Arc;

pub const HOUR_MS: i64 = 3_600_000;
pub const DAY_MS: i64 = 24 * HOUR_MS;
/// So partitions have a day.
pub const KEPT_MS: i64 = 16 * DAY_MS;
/// A full hour. The first partition begins then.
pub const FROM_MS: i64 = 1_795_161_600_000;

pub struct Scene {
    pub store: PostgresStore,
    pub journal: Arc<PostgresJournal>,
    pub now_ms: i64,
    /// One of the tables that are partitioned; and whether it is that of the bodies.
    table: &'static str,
    are_bodies: bool,
}

pub async fn open(store: &PostgresStore, instance: &str) -> Arc<PostgresJournal> {
    let journal = PostgresJournal::open(&store.url, instance, true).await;
    Arc::new(journal.expect("it opens"))
}

impl Scene {
    /// A journal whose first partition of bodies has just begun. History has none.
    pub async fn begun() -> Self {
        Self::of("payloads", true).await
    }

    /// A journal whose first partition of history has just begun. Bodies have none.
    pub async fn of_history() -> Self {
        Self::of("attempts", false).await
    }

    async fn of(table: &'static str, are_bodies: bool) -> Self {
        let store = PostgresStore::new();
        let journal = open(&store, "one").await;
        let scene = Self {
            store,
            journal,
            now_ms: FROM_MS,
            table,
            are_bodies,
        };
        while scene.tend().await.more {}
        assert_eq!(scene.partitions().await, [(0, 1), (1, 2)]);
        scene
    }

    pub fn work(&self) -> PartitionWork {
        PartitionWork {
            tables: match self.are_bodies {
                true => PartitionedTables::Bodies,
                false => PartitionedTables::History,
            },
            now_ms: self.now_ms,
            kept_ms: Some(KEPT_MS),
        }
    }

    pub async fn tend(&self) -> Pruned {
        let tended = self.journal.tend_partitions(&self.work()).await;
        tended.expect("tended")
    }

    /// Deletes bodies one by one, or notifications, as far as they are old now. Returns how many.
    pub async fn prune(&self) -> u64 {
        let old_ms = self.now_ms - KEPT_MS;
        let (payloads_before_ms, records_before_ms) = match self.are_bodies {
            true => (old_ms, i64::MIN),
            false => (i64::MIN, old_ms),
        };
        let prune = Prune {
            payloads_before_ms,
            records_before_ms,
            dead_before_ms: None,
        };
        let mut deleted = 0;
        loop {
            let pruned = self.journal.prune(&prune, 4).await.expect("pruned");
            deleted += pruned.payloads + pruned.records;
            if !pruned.more {
                return deleted;
            }
        }
    }

    pub async fn connect(&self) -> PgConnection {
        connect(&self.store.url).await
    }

    /// The days of the partitions that are there, from the first one on.
    pub async fn partitions(&self) -> Vec<(i64, i64)> {
        let mut connection = self.connect().await;
        let names: Vec<String> = sqlx::query_scalar(
            "SELECT inhrelid::regclass::TEXT FROM pg_inherits
             WHERE inhparent = to_regclass($1 || '_live') AND inhrelid <> to_regclass($1 || '_rest')
             ORDER BY 1",
        )
        .bind(self.table)
        .fetch_all(&mut connection)
        .await
        .expect("read");
        let day = |text: &str| (text.parse::<i64>().expect("an instant") - FROM_MS) / DAY_MS;
        let days = |name: &String| {
            let (_, instants) = name.split_once('_').expect("a name");
            let (from, until) = instants.split_once('_').expect("two instants");
            (day(from), day(until))
        };
        names.iter().map(days).collect()
    }

    /// How many rows a table has.
    pub async fn rows(&self, table: &str) -> i64 {
        let mut connection = self.connect().await;
        let count = format!("SELECT count(*) FROM {table}");
        let counted = sqlx::query_scalar(sqlx::AssertSqlSafe(count));
        counted.fetch_one(&mut connection).await.expect("counted")
    }

    pub async fn register(&self, id: &str) {
        let registering = registering_at(registration(key(id)), self.now_ms);
        keep(&*self.journal, registering).await;
    }

    pub async fn deliver(&self, id: &str) {
        let registering = registering_at(registration(key(id)), self.now_ms);
        let progress = registering.progress;
        let notification = keep(&*self.journal, registering).await;
        apply(&*self.journal, delivery(&notification, progress)).await;
    }

    pub async fn kill(&self, id: &str) {
        let registering = registering_at(registration(key(id)), self.now_ms);
        let progress = registering.progress;
        let notification = keep(&*self.journal, registering).await;
        apply(&*self.journal, refusal(&notification, progress)).await;
    }

    /// Delivers one that is pending, now.
    pub async fn deliver_now(&self, id: &str) {
        let pending = self.journal.pending(&key(id)).await.expect("read");
        let pending = pending.expect("pending");
        let mut recording = delivery(&pending.notification, pending.progress);
        recording.at_ms = self.now_ms;
        apply(&*self.journal, recording).await;
    }

    pub async fn resend(&self, id: &str) -> ChangeResult {
        let change = changing(&key(id), Change::Resend, self.now_ms);
        self.journal.change(change).await.expect("answered")
    }

    pub async fn has_body(&self, id: &str) -> bool {
        let pending = self.journal.pending(&key(id)).await.expect("read");
        let body = pending.expect("pending").notification.body.clone();
        matches!(body, Body::Here(bytes) if &bytes[..] == b"out_trade_no=1")
    }

    /// From now on the first day is old enough, and enough days are there.
    pub async fn make_old(&mut self) {
        self.now_ms = FROM_MS + DAY_MS + KEPT_MS;
        self.prune().await;
        while self.partitions().await.len() < 19 {
            assert!(self.tend().await.more);
        }
    }

    /// From now on the first day is going.
    pub async fn mark(&mut self) {
        self.make_old().await;
        assert!(self.tend().await.more, "it is marked");
        let kept = format!("{}_kept", self.table);
        assert_eq!(self.rows(&kept).await, 0);
    }

    /// Moves what is needed out of the first day. Returns how many bodies are not needed.
    pub async fn move_needed(&self) -> u64 {
        assert!(self.tend().await.more, "all have seen the mark");
        let moved = self.tend().await;
        assert!(moved.more);
        assert_eq!(self.partitions().await[0], (0, 1));
        moved.payloads
    }

    /// Drops the first day.
    pub async fn drop_first(&self) {
        let before = self.partitions().await;
        assert_eq!(before[0], (0, 1));
        while self.tend().await.more {}
        assert_eq!(self.partitions().await, before[1..]);
    }
}
