//! What signs the calls that no key of an endpoint signs: the default keys that the servers share.
//!
//! They are kept in the journal, or without one in the schedule ([`super::default_key_store`]). The first one is the secret
//! with which the first server was started ([`super::first_default_key`]); from then on every server signs with what is
//! kept, and asks for it twice a second.
//!
//! Where no secret can be encrypted, since there is no master key, there is only the fingerprint of the secret of
//! the server that started last. A server with another one cannot start while that one is alive. But one that was
//! suspended, or cut off from Redis, counts as ended after half a minute, and may come back when the others were started
//! with another secret. Its signatures would be refused, and attempts spent. So such servers compare the fingerprint twice
//! a second, if there is a journal, and sign nothing with their own secret while it remembers another one.

use super::default_key_store::DefaultKeyStore;
use super::first_default_key::{DefaultKeysError, RememberedSecret, give_first};
use super::known_default_keys::KnownDefaultKeys;
use super::server_secret::ServerSecret;
use super::store::EndpointStoreError;
use crate::domain::default_keys::{DefaultKeyWarning, DefaultKeys};
use crate::domain::signers::DefaultSigners;
use crate::domain::signing_key::SigningKey;
use crate::journal::{ChangingDefaultKeys, DefaultKeysChanged};
use crate::keyring::{Keyring, UnusableKey};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::Mutex;

/// The default keys as this server knows them. The default has none, and signs nothing.
#[derive(Debug, Default)]
pub struct DefaultKeyring {
    own: Option<ServerSecret>,
    store: Option<DefaultKeyStore>,
    known: RwLock<KnownDefaultKeys>,
    /// One reads or changes them at a time, so that what was read before a change does not replace its result.
    turn: Mutex<()>,
}

impl DefaultKeyring {
    /// The default keys of a server that signs with its own secret, whatever others do.
    #[must_use]
    pub fn of_server(own: ServerSecret) -> Self {
        Self {
            known: RwLock::new(KnownDefaultKeys::of_server(&own)),
            own: Some(own),
            store: None,
            turn: Mutex::default(),
        }
    }

    /// These default keys, kept in this store.
    #[must_use]
    pub fn with_store(self, store: Option<DefaultKeyStore>) -> Self {
        Self { store, ..self }
    }

    /// Where they are kept; `None` if they are kept nowhere.
    #[must_use]
    pub fn store(&self) -> Option<&DefaultKeyStore> {
        self.store.as_ref()
    }

    /// The secret that this server was started with.
    pub(super) fn own(&self) -> Option<&ServerSecret> {
        self.own.as_ref()
    }

    /// The default keys as they are kept; none if this server signs with its own secret.
    #[must_use]
    pub fn keys(&self) -> DefaultKeys {
        self.read().keys().clone()
    }

    /// The default keys in the clear.
    ///
    /// # Errors
    /// [`UnusableKey`] if they cannot sign here.
    pub(super) fn signers(&self) -> Result<Arc<DefaultSigners>, UnusableKey> {
        self.read().signers()
    }

    /// What a person should know if the default keys sign nothing here, as a sentence.
    #[must_use]
    pub fn warning(&self) -> Option<DefaultKeyWarning> {
        self.read().warning()
    }

    /// Gives the store a first default key, if it has none, and takes over what it has. Without a master key or a store, or
    /// if servers that sign with another secret may be alive, nothing is given.
    ///
    /// # Errors
    /// [`DefaultKeysError`].
    pub async fn begin(&self, keyring: &Keyring, now_ms: i64) -> Result<(), DefaultKeysError> {
        self.begin_beside(RememberedSecret::MaySign, keyring, now_ms)
            .await
    }

    /// As [`DefaultKeyring::begin`], where it is known what becomes of another secret.
    pub(super) async fn begin_beside(
        &self,
        remembered: RememberedSecret,
        keyring: &Keyring,
        now_ms: i64,
    ) -> Result<(), DefaultKeysError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let _turn = self.turn.lock().await;
        let mut keys = store.read().await?;
        if keys.is_empty()
            && let Some((signing, remembered)) = self.first_key(remembered, keyring)
        {
            keys = give_first((&signing, remembered), store, keyring, now_ms).await?;
        }
        if !keys.is_empty() {
            self.take(keys, keyring, now_ms);
        }
        Ok(())
    }

    /// What signs here now, to become the first key of a store without keys: the secret of this server; or if the store has
    /// lost its keys, the newest of them. All servers of the store sign with that one, whatever the store remembers.
    fn first_key(
        &self,
        remembered: RememberedSecret,
        keyring: &Keyring,
    ) -> Option<(SigningKey, RememberedSecret)> {
        let lost = self.keys();
        if lost.is_empty() {
            let own = self.own.as_ref()?;
            return Some((SigningKey::Symmetric(own.secret.clone()), remembered));
        }
        let newest = lost
            .kept()
            .find(|known| known.key.signs_until_ms.is_none())?;
        let opened = keyring.open_default(&newest.key).ok()?;
        Some((opened, RememberedSecret::IsReplaced))
    }

    /// Changes the default keys in their store. This server signs with the result at once.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn change(
        &self,
        changing: &ChangingDefaultKeys,
        store: &DefaultKeyStore,
        keyring: &Keyring,
    ) -> Result<DefaultKeysChanged, EndpointStoreError> {
        let _turn = self.turn.lock().await;
        let changed = store.change(changing).await?;
        if let DefaultKeysChanged::Done { keys, .. } = &changed {
            self.take(keys.clone(), keyring, changing.at_ms);
        }
        Ok(changed)
    }

    /// Reads what has changed. If that fails and will fail again, nothing is signed with what was read before: it may be
    /// a key that was removed.
    pub(super) async fn refresh(
        &self,
        keyring: &Keyring,
        now_ms: i64,
    ) -> Result<(), EndpointStoreError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let Ok(_turn) = self.turn.try_lock() else {
            return Ok(());
        };
        let keys = match store.read().await {
            Ok(keys) => keys,
            Err(error) => {
                if !error.may_pass() {
                    self.write().note_unreadable(error.to_string());
                }
                return Err(error);
            }
        };
        if !keys.is_empty() {
            self.take(keys, keyring, now_ms);
        } else if self.read().keys().is_empty() {
            self.compare(store).await?;
        } else {
            self.write().note_loss();
        }
        Ok(())
    }

    /// Takes over the default keys that are kept.
    pub(super) fn take(&self, keys: DefaultKeys, keyring: &Keyring, now_ms: i64) {
        if self.read().are(&keys) {
            return;
        }
        let opened = KnownDefaultKeys::open(keys, self.own.as_ref(), keyring, now_ms);
        self.write().replace(opened);
    }

    /// Compares the fingerprint of the own secret with that in the journal. One that is missing there is written again.
    /// Servers without a journal are compared only when one starts.
    async fn compare(&self, store: &DefaultKeyStore) -> Result<(), EndpointStoreError> {
        let (Some(own), DefaultKeyStore::Journal(_)) = (&self.own, store) else {
            return Ok(());
        };
        let own = own.secret.fingerprint();
        match store.remembered_secret().await? {
            Some(remembered) => self.write().note_secret(&own, remembered),
            None => store.remember_secret(&own).await?,
        }
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, KnownDefaultKeys> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, KnownDefaultKeys> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}
