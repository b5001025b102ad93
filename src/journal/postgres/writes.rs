//! Registering, recording and changing notifications. The code of each call is in a file of its own.

use super::PostgresJournal;
use super::change;
use super::fences;
use super::lanes;
use super::record;
use super::register;
use super::set_aside;
use crate::domain::key::Key;
use crate::domain::snapshot::Snapshot;
use crate::journal::{
    ChangeResult, Changing, JournalError, JournalWrites, LaneOrder, Pending, Recorded, Recording,
    RegisterResult, Registering, SettingAside,
};
use async_trait::async_trait;

#[async_trait]
impl JournalWrites for PostgresJournal {
    async fn register(&self, batch: &[Registering]) -> Result<Vec<RegisterResult>, JournalError> {
        let instance = &self.instance;
        let call = register::RegisterNotifications { batch, instance };
        self.connections.write(&call).await
    }

    async fn record(&self, batch: &[Recording]) -> Result<Vec<Recorded>, JournalError> {
        let instance = &self.instance;
        let call = record::RecordAttempts { batch, instance };
        self.connections.write(&call).await
    }

    async fn fence(&self, keys: &[Key]) -> Result<Vec<Option<Snapshot>>, JournalError> {
        self.connections.write(&fences::RaiseFences(keys)).await
    }

    async fn fence_pendings(&self, keys: &[Key]) -> Result<Vec<Option<Pending>>, JournalError> {
        self.connections.write(&fences::FencePendings(keys)).await
    }

    async fn change(&self, changing: Changing) -> Result<ChangeResult, JournalError> {
        let call = change::ApplyChange {
            changing: &changing,
            instance: &self.instance,
        };
        self.connections.write(&call).await
    }

    async fn change_lane(&self, order: &LaneOrder) -> Result<i64, JournalError> {
        let instance = &self.instance;
        let call = lanes::ChangeLane { order, instance };
        self.connections.write(&call).await
    }

    async fn set_aside(&self, setting: &SettingAside) -> Result<(), JournalError> {
        let instance = &self.instance;
        let call = set_aside::SetOneAside { setting, instance };
        self.connections.write(&call).await
    }
}
