//! Finds the default keys of a server: those of its journal, or without one of its schedule, which gets the secret of the
//! first server.

use super::stores::ServerStores;
use crate::config::ServeConfig;
use crate::endpoints::default_key_store::{DefaultKeyStore, DefaultKeysInSchedule};
use crate::endpoints::default_keys::DefaultKeyring;
use crate::endpoints::first_default_key::DefaultKeysError;
use crate::endpoints::server_secret::ServerSecret;
use crate::journal::Journal;
use crate::keyring::Keyring;
use anyhow::Context as _;
use std::sync::Arc;
use thiserror::Error;

/// A setting with which the server cannot start, because of what its stores have. The text is one line.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct WrongSetting(String);

impl WrongSetting {
    pub(super) fn new(text: &str) -> Self {
        Self(text.to_string())
    }
}

/// Finds the default keys of the journal, before the schedule is opened. Without a journal, the secret of the server is
/// the only one until [`open_in_schedule`].
///
/// # Errors
/// [`WrongSetting`] if the server was given a secret that the journal does not have; if other servers have another master
/// key; if the journal fails. The journal is closed then.
pub(super) async fn open(
    config: &ServeConfig,
    journal: Option<&Arc<dyn Journal>>,
    keyring: &Keyring,
    now_ms: i64,
) -> anyhow::Result<DefaultKeyring> {
    let own = own_secret(config);
    let Some(journal) = journal else {
        return Ok(DefaultKeyring::of_server(own));
    };
    let store = DefaultKeyStore::Journal(journal.clone());
    let opened = DefaultKeyring::open(own, store, keyring, now_ms).await;
    if opened.is_err() {
        journal.close().await;
    }
    opened.map_err(without_default_keys)
}

/// Continues [`open`] before the schedule is inspected: without a journal, finds the default keys of the schedule.
///
/// # Errors
/// As [`open`], of the schedule.
pub(super) async fn open_in_schedule(
    opened: DefaultKeyring,
    config: &ServeConfig,
    stores: &ServerStores,
    keyring: &Keyring,
    now_ms: i64,
) -> anyhow::Result<DefaultKeyring> {
    if let Some(journal) = &stores.journal {
        let store = DefaultKeyStore::Journal(journal.clone());
        return Ok(opened.with_store(Some(store)));
    }
    let Some(schedule) = DefaultKeysInSchedule::of(stores.schedule.clone()) else {
        return Ok(opened);
    };
    let own = own_secret(config);
    let opened = DefaultKeyring::open_in_schedule(own, schedule, keyring, now_ms).await;
    let opened = opened.map_err(without_default_keys);
    match &config.schedule.redis {
        Some(redis)
            if !opened
                .as_ref()
                .is_err_and(|error| error.is::<WrongSetting>()) =>
        {
            opened.with_context(|| format!("--redis {redis}"))
        }
        Some(_) | None => opened,
    }
}

/// Completes [`open`] after the schedule was inspected, which refuses servers that sign with another secret than those
/// that are alive.
///
/// # Errors
/// As [`open`].
pub(super) async fn complete(
    default_keys: &DefaultKeyring,
    journal: Option<&dyn Journal>,
    keyring: &Keyring,
    now_ms: i64,
) -> anyhow::Result<()> {
    let completed = default_keys.complete(keyring, now_ms).await;
    if completed.is_err()
        && let Some(journal) = journal
    {
        journal.close().await;
    }
    completed.map_err(without_default_keys)
}

/// The secret that this server was started with.
fn own_secret(config: &ServeConfig) -> ServerSecret {
    ServerSecret {
        secret: config.delivery.signing_secret.clone(),
        origin: config.delivery.secret_origin,
    }
}

fn without_default_keys(error: DefaultKeysError) -> anyhow::Error {
    match error {
        DefaultKeysError::UnknownSecret(_) => WrongSetting(error.to_string()).into(),
        DefaultKeysError::OtherMasterKey | DefaultKeysError::OtherSecretSigns => error.into(),
        DefaultKeysError::Store(_) => {
            anyhow::Error::new(error).context("the default keys cannot be read")
        }
    }
}
