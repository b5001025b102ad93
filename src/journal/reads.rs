//! Look-ups of single notifications, and lists of them.

use super::{Cursor, Filter, JournalError, Order, Pending, SnapshotPage, Transition};
use crate::domain::key::Key;
use crate::domain::snapshot::Snapshot;
use async_trait::async_trait;
use bytes::Bytes;

/// Maximum number of attempts of one notification that are read at a time. A ladder may make thousands.
pub const MOST_ATTEMPTS_SHOWN: usize = 500;

/// The part of a [`super::Journal`] that answers look-ups.
#[async_trait]
pub trait JournalReads: Send + Sync + 'static {
    /// The name of this journal, made when it was created; the schedule's epoch refers to it.
    fn id(&self) -> &str;

    /// One notification with its attempts: the last [`MOST_ATTEMPTS_SHOWN`], oldest first.
    async fn find(&self, key: &Key) -> Result<Option<Snapshot>, JournalError>;

    /// How these stand, in order and without attempts; `None` for each that is not here.
    async fn snapshots(&self, keys: &[Key]) -> Result<Vec<Option<Snapshot>>, JournalError>;

    /// The transitions of one notification, oldest first: the last
    /// [`MOST_TRANSITIONS_SHOWN`](super::MOST_TRANSITIONS_SHOWN). A rebuild shows as `restored` in the
    /// history of all that were pending when it began.
    async fn transitions(&self, key: &Key) -> Result<Vec<Transition>, JournalError>;

    /// One notification as the schedule needs it, if it is pending and not set aside.
    async fn pending(&self, key: &Key) -> Result<Option<Pending>, JournalError>;

    /// The bodies of these, in order; `None` for each that is not here. The caller bounds how much
    /// they come to.
    async fn bodies(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, JournalError>;

    /// A page of a list. One that was hard to gather may come short or empty, but with a cursor.
    async fn list(
        &self,
        filter: &Filter,
        order: Order,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<SnapshotPage, JournalError>;
}
