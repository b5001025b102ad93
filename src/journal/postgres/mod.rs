//! The journal in a PostgreSQL database: for production, and for several servers at once.
//!
//! A group of registrations is one statement and one round trip, and so is a group of recordings
//! whose notifications still stand where their attempts began, which is nearly all of them. What was
//! answered is on the server's disk. The database decides between instances: its unique index who
//! registers a key, its row locks who moves a notification on.
//!
//! A call may be made twice when a connection breaks, which registering and recording are made for;
//! a change by hand is not, once its commit was sent.

mod change;
mod check;
mod connections;
mod error;
mod examine;
mod list;
mod load;
mod maintenance;
mod open;
mod pending;
mod read;
mod record;
mod register;
mod schema;
mod set_aside;
mod statements;

use super::list::MOST_SCANNED;
use super::{
    AllSetAside, Bodies, ChangeResult, Changing, Cursor, Examined, Filter, Journal, JournalCounts,
    JournalError, Noting, Order, Page, Pending, Prune, Pruned, Rebuild, Recorded, Recording,
    RegisterResult, Registering, SettingAside, Transition,
};
use crate::domain::key::Key;
use crate::domain::snapshot::Snapshot;
use async_trait::async_trait;
use bytes::Bytes;
use connections::Connections;
pub use open::Sharing;
use sqlx::postgres::PgConnection;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long reading every notification may take.
const LONGEST_EXAMINING: Duration = Duration::from_secs(3_600);

/// A journal in a PostgreSQL database. See [`PostgresJournal::open`].
pub struct PostgresJournal {
    id: String,
    instance: Arc<str>,
    /// Who takes on duties: this very value, since names of instances can be alike.
    holder: String,
    connections: Connections,
    /// The session that says who is at work on it.
    held: Mutex<Option<PgConnection>>,
}

#[async_trait]
impl Journal for PostgresJournal {
    fn id(&self) -> &str {
        &self.id
    }

    async fn register(&self, batch: &[Registering]) -> Result<Vec<RegisterResult>, JournalError> {
        let instance = &self.instance;
        let call = register::Register { batch, instance };
        self.connections.write(&call).await
    }

    async fn record(&self, batch: &[Recording]) -> Result<Vec<Recorded>, JournalError> {
        let instance = &self.instance;
        let call = record::Record { batch, instance };
        self.connections.write(&call).await
    }

    async fn fence(&self, key: &Key) -> Result<Option<Snapshot>, JournalError> {
        self.connections.write(&change::Fence(key)).await
    }

    async fn change(&self, changing: Changing) -> Result<ChangeResult, JournalError> {
        let call = change::Change {
            changing: &changing,
            instance: &self.instance,
        };
        self.connections.write(&call).await
    }

    async fn set_aside(&self, setting: &SettingAside) -> Result<(), JournalError> {
        let instance = &self.instance;
        let call = set_aside::SetOneAside { setting, instance };
        self.connections.write(&call).await
    }

    async fn all_set_aside(&self, limit: usize) -> Result<AllSetAside, JournalError> {
        self.connections.read(&set_aside::All { limit }).await
    }

    async fn find(&self, key: &Key) -> Result<Option<Snapshot>, JournalError> {
        self.connections.read(&read::Find(key)).await
    }

    async fn snapshots(&self, keys: &[Key]) -> Result<Vec<Option<Snapshot>>, JournalError> {
        self.connections.read(&read::Snapshots(keys)).await
    }

    async fn transitions(&self, key: &Key) -> Result<Vec<Transition>, JournalError> {
        self.connections.read(&read::Transitions(key)).await
    }

    async fn pending(&self, key: &Key) -> Result<Option<Pending>, JournalError> {
        self.connections.read(&read::FindPending(key)).await
    }

    async fn pending_page(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError> {
        let bodies = Bodies::Read;
        let call = pending::PendingPage {
            cursor,
            limit,
            bodies,
        };
        self.connections.read(&call).await
    }

    async fn pending_page_without_bodies(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError> {
        let bodies = Bodies::Left;
        let call = pending::PendingPage {
            cursor,
            limit,
            bodies,
        };
        self.connections.read(&call).await
    }

    async fn bodies(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, JournalError> {
        self.connections.read(&pending::FindBodies(keys)).await
    }

    async fn list(
        &self,
        filter: &Filter,
        order: Order,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Page, JournalError> {
        let call = list::List {
            filter,
            order,
            cursor,
            limit,
            most_scanned: MOST_SCANNED,
        };
        self.connections.read(&call).await
    }

    async fn changes(
        &self,
        from_ms: i64,
        until_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Key>, Option<Cursor>), JournalError> {
        let call = maintenance::Changes {
            from_ms,
            until_ms,
            cursor,
            limit,
        };
        self.connections.read(&call).await
    }

    async fn note(&self, notes: &[Noting]) -> Result<(), JournalError> {
        let instance = &self.instance;
        let call = change::Note { notes, instance };
        self.connections.write(&call).await
    }

    async fn rebuilding(&self, rebuild: &Rebuild) -> Result<(), JournalError> {
        let instance = &self.instance;
        let call = maintenance::Rebuilding { rebuild, instance };
        self.connections.write(&call).await
    }

    async fn prune(&self, prune: &Prune, limit: usize) -> Result<Pruned, JournalError> {
        let call = maintenance::Pruning { prune, limit };
        self.connections.write(&call).await
    }

    async fn duty(&self, name: &str, ttl_ms: i64) -> Result<bool, JournalError> {
        let call = maintenance::Duty {
            name,
            holder: &self.holder,
            ttl_ms,
        };
        self.connections.write(&call).await
    }

    async fn recall(&self, name: &str) -> Result<Option<String>, JournalError> {
        self.connections.read(&maintenance::Recall(name)).await
    }

    async fn remember(&self, name: &str, value: &str) -> Result<(), JournalError> {
        let call = maintenance::Remember { name, value };
        self.connections.write(&call).await
    }

    async fn counts(&self) -> Result<JournalCounts, JournalError> {
        self.connections.read(&read::Counts).await
    }

    async fn examine(&self, limit: usize) -> Result<Examined, JournalError> {
        let call = examine::Examine { limit };
        self.connections
            .read_at_length(&call, LONGEST_EXAMINING)
            .await
    }

    async fn check(&self) -> Result<(), JournalError> {
        let call = check::Check {
            instance: &self.instance,
            after_failure: self.connections.last_write_failed(),
        };
        self.connections.write(&call).await
    }

    async fn close(&self) {
        let resigning = maintenance::Resign(&self.holder);
        if let Err(error) = self.connections.write(&resigning).await {
            tracing::debug!(%error, "duties are not given back; they run out by themselves");
        }
        self.connections.close().await;
        *self.held.lock().await = None;
    }
}
