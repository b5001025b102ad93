//! The first default key of a store: the secret of the server that is started first.
//!
//! However many servers give it at once, the store gets one, and all sign with that. A server without a master key cannot
//! give one: it signs with its own secret, and the store remembers the fingerprint.

use super::default_key_store::DefaultKeyStore;
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
    /// Another server was started at the same moment, and signs with another secret.
    #[error(
        "another server was started at the same moment and signs with another secret, so merchants would reject some of the \
         signatures; start this one again with the same --signing-secret, or stop the other one first"
    )]
    OtherSecretSigns,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] EndpointStoreError),
}

/// What becomes of another secret that the store remembers as the one that signs, when a first key is to be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RememberedSecret {
    /// A server that is alive may sign with it, so no key is given.
    MaySign,
    /// No server that is alive signs with it. The key takes its place.
    IsReplaced,
}

/// Gives the store this key as its first default key. Returns what it has then; none if nothing can be encrypted, or if
/// another secret may sign.
pub(super) async fn give_first(
    (signing, remembered): (&SigningKey, RememberedSecret),
    store: &DefaultKeyStore,
    keyring: &Keyring,
    now_ms: i64,
) -> Result<DefaultKeys, DefaultKeysError> {
    let fingerprint = signing.fingerprint();
    let before = other_secret(store, &fingerprint).await?;
    if before.is_some() && remembered == RememberedSecret::MaySign {
        return Ok(DefaultKeys::default());
    }
    let sealed = match keyring.seal_default(signing, now_ms) {
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
    log_replaced(before, &fingerprint);
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

/// Writes the fingerprint of this server's secret into a journal that gets no default key. To be called at start, when no
/// server with another one is alive.
pub(super) async fn announce(own: &str, store: &DefaultKeyStore) -> Result<(), EndpointStoreError> {
    log_replaced(other_secret(store, own).await?, own);
    store.remember_secret(own).await
}

/// The fingerprint of the secret that the store remembers, if it is another than this.
pub(super) async fn other_secret(
    store: &DefaultKeyStore,
    own: &str,
) -> Result<Option<String>, EndpointStoreError> {
    let remembered = store.remembered_secret().await?;
    Ok(remembered.filter(|remembered| remembered != own))
}

/// Logs if another secret signed until now.
fn log_replaced(before: Option<String>, now: &str) {
    if let Some(before) = before {
        tracing::warn!(
            before,
            now,
            "the default signing secret is another one than at the last start (before and now: fingerprints); \
             every receiver that verifies with it needs the new one"
        );
    }
}
