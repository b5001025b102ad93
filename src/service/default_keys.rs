//! The default signing keys: adding, removing and listing them.
//!
//! As with the keys of endpoints, a secret is in the clear only while a request is handled, and the answer to the request
//! that made it is the only one that shows it.

use super::endpoint_keys::sealing;
use super::timeouts::{TooLate, with_timeout};
use super::{AddedKey, KeyToAdd, Service, ServiceError};
use crate::domain::default_keys::{DefaultKey, DefaultKeyChange, DefaultKeys};
use crate::domain::endpoint_keys::EndpointKey;
use crate::endpoints::default_key_store::DefaultKeyStore;
use crate::endpoints::first_default_key::DefaultKeysError;
use crate::endpoints::store::EndpointStoreError;
use crate::journal::{Actor, ChangingDefaultKeys, DefaultKeysChanged};
use crate::keyring::Sealed;

/// The error of a server that keeps no default keys.
const NO_DEFAULT_KEYS: ServiceError = ServiceError::NoJournal("keep default keys");

impl TooLate for DefaultKeysError {
    fn too_late() -> Self {
        Self::Store(EndpointStoreError::too_late())
    }
}

impl From<DefaultKeysError> for ServiceError {
    fn from(error: DefaultKeysError) -> Self {
        match error {
            // It is an error of the start alone.
            DefaultKeysError::UnknownSecret(_)
            | DefaultKeysError::OtherSecretSigns
            | DefaultKeysError::OtherMasterKey => Self::OtherMasterKey,
            DefaultKeysError::Store(error) => error.into(),
        }
    }
}

impl Service {
    /// The default keys, the newest first, as they are kept now. None: every server signs with its own secret.
    ///
    /// # Errors
    /// [`ServiceError::NoJournal`] if there is no store for them; if the store fails.
    pub async fn default_keys(&self) -> Result<DefaultKeys, ServiceError> {
        let store = self.default_key_store()?;
        Ok(with_timeout(store.read()).await?)
    }

    /// Adds a default key. It signs from now on; all others sign along for the overlap.
    ///
    /// A given secret that signs for good already is left as it is, so that the request can be repeated. A key that
    /// is made is another one each time: if the answer was lost, add one more and remove the lost one.
    ///
    /// # Errors
    /// [`ServiceError::DefaultKeyChange`], [`ServiceError::NoJournal`]; if the key cannot be encrypted; if the store
    /// fails.
    pub async fn add_default_key(
        &self,
        KeyToAdd {
            key,
            kind,
            overlap_ms,
        }: KeyToAdd,
        actor: &Actor,
    ) -> Result<AddedKey, ServiceError> {
        self.default_key_store()?;
        let keyring = self.endpoints.keyring();
        let is_made = key.is_none();
        let signing = match key {
            Some(given) => given,
            None => keyring.generate(kind).map_err(sealing)?,
        };
        let now_ms = self.clock.now_ms();
        let Sealed { key, master_key } =
            (keyring.seal_default(&signing, now_ms)).map_err(sealing)?;
        // A server that could encrypt nothing when it started may be able to now. What signed until now must sign along.
        let beginning = (self.endpoints.default_keys()).begin(keyring, now_ms);
        with_timeout(beginning).await?;
        let added = DefaultKey {
            fingerprint: signing.fingerprint(),
            key: key.clone(),
        };
        let change = DefaultKeyChange::Add(added, overlap_ms);
        let existing = self
            .change_default_keys(change, Some(master_key), actor)
            .await?;
        // The store may have been asked twice, because its first answer was lost.
        if let Some(existing) = existing.filter(|existing| existing.id != key.id) {
            return Ok(AddedKey {
                key: existing,
                secret: None,
                is_new: false,
            });
        }
        tracing::info!(
            key = key.id, kind = key.kind.as_str(), overlap_ms, actor = %actor.name(),
            "a default key was added; it signs from now on, and the others for the overlap"
        );
        Ok(AddedKey {
            key,
            secret: is_made.then(|| signing.expose()),
            is_new: true,
        })
    }

    /// Removes a default key. It signs no attempt that begins from now on; other servers know that within a second.
    ///
    /// # Errors
    /// [`ServiceError::DefaultKeyChange`], [`ServiceError::NoJournal`]; if the store fails.
    pub async fn remove_default_key(&self, id: &str, actor: &Actor) -> Result<(), ServiceError> {
        let change = DefaultKeyChange::Remove(id.to_string());
        self.change_default_keys(change, None, actor).await?;
        tracing::info!(key = id, actor = %actor.name(), "a default key was removed");
        Ok(())
    }

    /// Returns the key that was to be added if it was there before.
    async fn change_default_keys(
        &self,
        change: DefaultKeyChange,
        master_key: Option<String>,
        actor: &Actor,
    ) -> Result<Option<EndpointKey>, ServiceError> {
        let store = self.default_key_store()?;
        let changing = ChangingDefaultKeys {
            change,
            master_key,
            actor: actor.clone(),
            at_ms: self.clock.now_ms(),
        };
        let (keys, keyring) = (self.endpoints.default_keys(), self.endpoints.keyring());
        match with_timeout(keys.change(&changing, store, keyring)).await? {
            DefaultKeysChanged::Done { existing, .. } => Ok(existing),
            DefaultKeysChanged::Refused(bad) => Err(ServiceError::DefaultKeyChange(bad)),
            DefaultKeysChanged::OtherMasterKey => Err(ServiceError::OtherMasterKey),
        }
    }

    fn default_key_store(&self) -> Result<&DefaultKeyStore, ServiceError> {
        let store = self.endpoints.default_keys().store();
        store.ok_or(NO_DEFAULT_KEYS)
    }
}
