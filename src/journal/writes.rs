//! Accepting, recording and changing notifications: what the service and the delivery write.

use super::{
    ChangeResult, Changing, JournalError, Recorded, Recording, RegisterResult, Registering,
    SettingAside,
};
use crate::domain::key::Key;
use crate::domain::snapshot::Snapshot;
use async_trait::async_trait;

/// The part of a [`super::Journal`] that accepts, records and changes.
#[async_trait]
pub trait JournalWrites: Send + Sync + 'static {
    /// Keeps a batch of notifications. A key that occurs twice in it is created once.
    async fn register(&self, batch: &[Registering]) -> Result<Vec<RegisterResult>, JournalError>;

    /// Keeps a batch of attempts and applies their decisions.
    async fn record(&self, batch: &[Recording]) -> Result<Vec<Recorded>, JournalError>;

    /// Refuses, from now on, changes that were decided under an earlier lease on this notification. Returns
    /// its state (without its attempts). A server that leases a notification whose earlier lease has expired
    /// calls this before it does anything else.
    async fn fence(&self, key: &Key) -> Result<Option<Snapshot>, JournalError>;

    /// Applies a change by hand, if the fence is the one it was decided on.
    async fn change(&self, changing: Changing) -> Result<ChangeResult, JournalError>;

    /// Sets a notification aside, unless it is already. Touches nothing else of it.
    async fn set_aside(&self, setting: &SettingAside) -> Result<(), JournalError>;
}
