//! Finds the default keys of a server: those of its journal, which gets the secret of the first server.

use crate::config::ServeConfig;
use crate::endpoints::default_keys::{DefaultKeyring, DefaultKeysError, ServerSecret};
use crate::journal::Journal;
use crate::keyring::Keyring;
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

/// Finds the default keys, before the schedule is opened. Without a journal, the secret of the server is the only one.
///
/// # Errors
/// [`WrongSetting`] if the server was given a secret that the journal does not have; if other servers have another master
/// key; if the journal fails. The journal is closed then.
pub(super) async fn open(
    config: &ServeConfig,
    journal: Option<&dyn Journal>,
    keyring: &Keyring,
    now_ms: i64,
) -> anyhow::Result<DefaultKeyring> {
    let own = own_secret(config);
    let Some(journal) = journal else {
        tracing::info!(
            "there is no journal, so calls are signed with the signing secret of this server unless their endpoint has keys \
             of its own; all receivers that know it could forge calls to each other"
        );
        return Ok(DefaultKeyring::of_server(own));
    };
    let opened = DefaultKeyring::open(own, journal, keyring, now_ms).await;
    if opened.is_err() {
        journal.close().await;
    }
    opened.map_err(without_default_keys)
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
    let Some(journal) = journal else {
        return Ok(());
    };
    let completed = default_keys.complete(journal, keyring, now_ms).await;
    if completed.is_err() {
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
        DefaultKeysError::OtherMasterKey => error.into(),
        DefaultKeysError::Journal(_) => {
            anyhow::Error::new(error).context("the default keys cannot be read")
        }
    }
}
