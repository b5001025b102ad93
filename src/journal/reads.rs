//! Look-ups and lists of notifications.

use super::list_plan::MOST_SCANNED;
use super::{
    BodyReading, Cursor, Filter, FoundStanding, JournalError, Order, Payload, Pending,
    SnapshotPage, Transition,
};
use crate::domain::attempt::Attempt;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::later::{LaneAfter, LaterCount};
use crate::domain::snapshot::Snapshot;
use async_trait::async_trait;
use bytes::Bytes;

/// Maximum number of attempts that are read for one notification. A ladder may have thousands of attempts.
pub const MOST_ATTEMPTS_SHOWN: usize = 500;

/// The part of a [`super::Journal`] that answers look-ups.
#[async_trait]
pub trait JournalReads: Send + Sync + 'static {
    /// The id of this journal, made when the journal was created. A schedule in Redis stores the id, and
    /// refuses a server that has another journal.
    fn id(&self) -> &str;

    /// One notification with its last [`MOST_ATTEMPTS_SHOWN`] attempts, oldest first.
    async fn find(&self, key: &Key) -> Result<Option<Snapshot>, JournalError>;

    /// The notifications of these keys, in the order of the keys and without attempts. `None` for a key
    /// that the journal does not have.
    async fn snapshots(&self, keys: &[Key]) -> Result<Vec<Option<Snapshot>>, JournalError>;

    /// What the journal says of these notifications as far as a schedule must agree with it, in the order of the keys. Damage
    /// elsewhere in a notification, or in one of the others, does not matter.
    async fn standings(&self, keys: &[Key]) -> Result<Vec<FoundStanding>, JournalError>;

    /// The history of one notification, oldest line first: the last
    /// [`MOST_TRANSITIONS_SHOWN`](super::MOST_TRANSITIONS_SHOWN) lines of the notification, and a line
    /// `restored` for each later rebuild of the schedule that began while the notification was pending.
    async fn transitions(&self, key: &Key) -> Result<Vec<Transition>, JournalError>;

    /// One notification with everything that a schedule needs. `None` if it is not pending, or is set aside.
    async fn pending(&self, key: &Key) -> Result<Option<Pending>, JournalError>;

    /// These notifications with everything that a schedule needs but their bodies, in the order of the keys. `None` as for
    /// [`Self::pending`].
    async fn pendings(&self, keys: &[Key]) -> Result<Vec<Option<Pending>>, JournalError>;

    /// As [`Self::pendings`], with those bodies that have [`SHORT_BODY`](super::SHORT_BODY) bytes at most.
    async fn pendings_with_bodies(
        &self,
        keys: &[Key],
    ) -> Result<Vec<Option<Pending>>, JournalError>;

    /// What one notification sends, whatever its state.
    async fn payload(&self, key: &Key, body: BodyReading) -> Result<Option<Payload>, JournalError>;

    /// The bodies of these notifications, in the order of the keys. `None` for a body that the journal does
    /// not have. The caller limits the total size of the bodies.
    async fn bodies(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, JournalError>;

    /// The last attempts of these notifications, in the order of the keys, without the bodies of their answers and without
    /// how their calls went on the network. `None` for a key that the journal does not have, and for a notification
    /// without attempts.
    async fn last_attempts(&self, keys: &[Key]) -> Result<Vec<Option<Attempt>>, JournalError>;

    /// The destinations that have pending notifications which are due later, more than
    /// [`LATER_MS`](crate::domain::later::LATER_MS) after they were registered: `limit` at most, after the name `after`, in
    /// the order of their names. The work does not depend on how many notifications there are.
    async fn later_lanes(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Lane>, JournalError>;

    /// Of these destinations, in their order, how many such notifications are due after an instant, those included that are
    /// set aside. For each, counting stops at `most`.
    async fn count_later(
        &self,
        lanes: &[LaneAfter],
        most: usize,
    ) -> Result<Vec<LaterCount>, JournalError>;

    /// A page of a list. If few notifications pass the filter, a page can be short or even empty although
    /// there are more; it has a cursor then. At most `most_scanned` notifications are read for a page.
    async fn list_scanned(
        &self,
        filter: &Filter,
        order: Order,
        cursor: Option<Cursor>,
        limit: usize,
        most_scanned: usize,
    ) -> Result<SnapshotPage, JournalError>;

    /// As [`Self::list_scanned`], of at most 20,000 notifications.
    async fn list(
        &self,
        filter: &Filter,
        order: Order,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<SnapshotPage, JournalError> {
        let listing = self.list_scanned(filter, order, cursor, limit, MOST_SCANNED);
        listing.await
    }
}
