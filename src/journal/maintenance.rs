//! What maintenance asks of a journal: what a schedule is loaded and compared with, forgetting what is
//! old, checks and audits.

use super::{
    AllSetAside, Cursor, Examined, JournalCounts, JournalError, Noting, Pending, Prune, Pruned,
    Rebuild,
};
use crate::domain::key::Key;
use async_trait::async_trait;

/// The part of a [`super::Journal`] that maintenance, checks and audits use.
#[async_trait]
pub trait JournalMaintenance: Send + Sync + 'static {
    /// The notifications that are pending and set aside; at most `limit` of them by name.
    async fn all_set_aside(&self, limit: usize) -> Result<AllSetAside, JournalError>;

    /// Pending notifications that are not set aside, soonest due first, `limit` at most, after `cursor`
    /// (whose instant is the due time). Gives the cursor of the last one that was looked at. Fewer come
    /// where bodies are large, or none where all are set aside: only a page without a cursor is the end.
    async fn pending_page(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError>;

    /// The same without their bodies, for a schedule that reads them when they are due. A page has as
    /// many as there are, however large the bodies.
    async fn pending_page_without_bodies(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError>;

    /// What was changed by hand from `from_ms` on and before `until_ms`, oldest change first,
    /// `limit` at most, after `cursor`. One that was changed twice comes twice. Only a page without
    /// a cursor is the end.
    async fn changes(
        &self,
        from_ms: i64,
        until_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Key>, Option<Cursor>), JournalError>;

    /// Adds lines to histories; skips those of keys that are not here.
    async fn note(&self, notes: &[Noting]) -> Result<(), JournalError>;

    /// Writes down that the schedule is being rebuilt.
    async fn rebuilding(&self, rebuild: &Rebuild) -> Result<(), JournalError>;

    /// Forgets what is oldest: at most `limit` bodies and `limit` whole notifications.
    async fn prune(&self, prune: &Prune, limit: usize) -> Result<Pruned, JournalError>;

    /// Takes a duty that one instance at a time runs, or keeps it, for `ttl_ms` from now;
    /// `false` if another instance has it.
    async fn duty(&self, name: &str, ttl_ms: i64) -> Result<bool, JournalError>;

    /// What was last remembered under a name.
    async fn recall(&self, name: &str) -> Result<Option<String>, JournalError>;

    /// Keeps a small value under a name: where maintenance has got to.
    async fn remember(&self, name: &str, value: &str) -> Result<(), JournalError>;

    /// How many notifications are in which state.
    async fn counts(&self) -> Result<JournalCounts, JournalError>;

    /// Reads and counts every notification, and names at most `limit` that something is wrong with.
    /// Takes seconds for millions of them.
    async fn examine(&self, limit: usize) -> Result<Examined, JournalError>;

    /// Whether notifications can be registered and attempts recorded: by doing both, and keeping
    /// neither.
    async fn check(&self) -> Result<(), JournalError>;

    /// Waits for what is in flight and closes it.
    async fn close(&self);
}
