//! Registering, recording and changing notifications: the calls that the service and the delivery make.

use super::{
    ChangeResult, Changing, JournalError, LaneOrder, Pending, Recorded, Recording, RegisterResult,
    Registering, SettingAside,
};
use crate::domain::key::Key;
use crate::domain::snapshot::Snapshot;
use async_trait::async_trait;

/// The part of a [`super::Journal`] that registers, records and changes notifications.
#[async_trait]
pub trait JournalWrites: Send + Sync + 'static {
    /// Registers a batch of notifications. A key that occurs twice in the batch is created once.
    async fn register(&self, batch: &[Registering]) -> Result<Vec<RegisterResult>, JournalError>;

    /// Records a batch of attempts and applies their decisions.
    async fn record(&self, batch: &[Recording]) -> Result<Vec<Recorded>, JournalError>;

    /// Raises the fences of those of these notifications that are pending. From now on, changes that a server prepared
    /// under an earlier lease are refused. Returns the notifications without their attempts, in the order of the keys;
    /// `None` for one that the journal does not have. If a key is given twice, its fence is raised twice. A worker makes this call before it sends a notification whose
    /// earlier lease has expired or may have been lost.
    async fn fence(&self, keys: &[Key]) -> Result<Vec<Option<Snapshot>>, JournalError>;

    /// Raises fences as [`Self::fence`] does, and returns what
    /// [`pendings_with_bodies`](super::JournalReads::pendings_with_bodies) returns.
    async fn fence_pendings(&self, keys: &[Key]) -> Result<Vec<Option<Pending>>, JournalError>;

    /// Applies a change by hand, if the fence of the notification is still [`Changing::fence`].
    async fn change(&self, changing: Changing) -> Result<ChangeResult, JournalError>;

    /// Changes the settings of a lane. Returns the number of the change. Repeated, it is another change. A hold of the
    /// dispatcher leaves one that is there as it is.
    async fn change_lane(&self, order: &LaneOrder) -> Result<i64, JournalError>;

    /// Sets a notification aside, unless it is set aside already. Writes nothing else.
    async fn set_aside(&self, setting: &SettingAside) -> Result<(), JournalError>;
}
