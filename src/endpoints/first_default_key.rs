//! The first default key of a store: the secret of the server that is started first.

use super::default_key_store::DefaultKeyStore;
use super::server_secret::ServerSecret;
use super::store::EndpointStoreError;
use crate::domain::default_keys::{DefaultKey, DefaultKeyChange, DefaultKeys};
use crate::domain::signing_key::SigningKey;
use crate::journal::{Actor, ChangingDefaultKeys, DefaultKeysChanged};
use crate::keyring::{Keyring, SealFailure};
use thiserror::Error;

/// Why a server cannot start with the default keys that are kept.
#[derive(Debug, Clone, Error)]
pub enum DefaultKeysError {
    /// It was given a secret that is not kept. Contains the ids of those that are.
    #[error(
        "--signing-secret: the default keys that the servers share are others ({0}); leave the setting out, and this server signs \
         with them; to make this secret the default key, run `ringback default-key add --secret -` beside a running server"
    )]
    UnknownSecret(String),
    /// They were encrypted with another master key, and this server has none or another one.
    #[error(
        "the default keys that the servers share were encrypted with another master key than that of this server, or this \
         server has none; start it with the master key of the others: --master-key or --master-key-file"
    )]
    OtherMasterKey,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] EndpointStoreError),
}

/// Gives the store its first default key. Returns what it has then; none if nothing can be encrypted.
pub(super) async fn give_first(
    own: &ServerSecret,
    store: &DefaultKeyStore,
    keyring: &Keyring,
    now_ms: i64,
) -> Result<DefaultKeys, DefaultKeysError> {
    let sealed = match keyring.seal_default(&SigningKey::Symmetric(own.secret.clone()), now_ms) {
        Ok(sealed) => sealed,
        Err(SealFailure::NoMasterKey) => return Ok(DefaultKeys::default()),
        Err(failure) => {
            tracing::warn!(
                %failure,
                "the signing secret is not kept for other servers, because it cannot be encrypted; this server signs with it"
            );
            return Ok(DefaultKeys::default());
        }
    };
    let fingerprint = own.secret.fingerprint();
    log_if_other(store, &fingerprint).await?;
    let changing = ChangingDefaultKeys {
        change: DefaultKeyChange::First(DefaultKey {
            key: sealed.key,
            fingerprint,
        }),
        master_key: Some(sealed.master_key),
        actor: Actor::maintenance(),
        at_ms: now_ms,
    };
    match store.change(&changing).await? {
        DefaultKeysChanged::Done { keys, .. } => Ok(keys),
        DefaultKeysChanged::OtherMasterKey => Err(DefaultKeysError::OtherMasterKey),
        // A first key is never refused.
        DefaultKeysChanged::Refused(_) => Ok(DefaultKeys::default()),
    }
}

/// Writes the fingerprint of this server's secret into the store, if it cannot become a default key. To be called at
/// start, when no server with another one is alive.
pub(super) async fn announce(own: &str, store: &DefaultKeyStore) -> Result<(), EndpointStoreError> {
    log_if_other(store, own).await?;
    store.remember_secret(own).await
}

/// Logs if another secret signed until now.
async fn log_if_other(store: &DefaultKeyStore, now: &str) -> Result<(), EndpointStoreError> {
    let before = store.remembered_secret().await?;
    if let Some(before) = before.filter(|before| before != now) {
        tracing::warn!(
            before,
            now,
            "the default signing secret is another one than at the last start (before and now: fingerprints); \
             every receiver that verifies with it needs the new one"
        );
    }
    Ok(())
}
