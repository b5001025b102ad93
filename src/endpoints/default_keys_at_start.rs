//! Which default keys a server has when it starts: those that are kept, or else its own secret, which becomes the first.
//!
//! A server that was given a secret which is not kept ends at its start. So no two servers sign differently.

use super::default_key_store::{DefaultKeyStore, DefaultKeysInSchedule};
use super::default_keys::DefaultKeyring;
use super::first_default_key::{DefaultKeysError, RememberedSecret, announce, other_secret};
use super::server_secret::ServerSecret;
use crate::domain::default_keys::DefaultKeys;
use crate::keyring::Keyring;
use crate::schedule::ScheduleError;

impl DefaultKeyring {
    /// Reads the default keys of a journal. If it has none, gives it the secret of this server as its first one, unless
    /// servers that sign with another secret may be alive. To be called before the schedule is opened: see
    /// [`DefaultKeyring::signs_with`].
    ///
    /// # Errors
    /// [`DefaultKeysError`].
    pub async fn open(
        own: ServerSecret,
        journal: DefaultKeyStore,
        keyring: &Keyring,
        now_ms: i64,
    ) -> Result<Self, DefaultKeysError> {
        let opened = Self::of_server(own.clone()).with_store(Some(journal));
        opened.begin(keyring, now_ms).await?;
        check(&own, &opened.keys())?;
        Ok(opened)
    }

    /// Reads the default keys of a schedule. To be called before it is inspected: writes nothing, but says whether the
    /// inspection compares the secret of this server with that of others. It does so unless they share default keys, or
    /// this server will give the first one.
    ///
    /// # Errors
    /// [`DefaultKeysError`].
    pub async fn open_in_schedule(
        own: ServerSecret,
        schedule: DefaultKeysInSchedule,
        keyring: &Keyring,
        now_ms: i64,
    ) -> Result<Self, DefaultKeysError> {
        let read = schedule.read_with_master_key().await;
        let (keys, master_key) = read.map_err(store_failure)?;
        check_master_key(master_key, keyring)?;
        check(&own, &keys)?;
        let fingerprint = own.secret.fingerprint();
        let store = DefaultKeyStore::Schedule(schedule.clone());
        let is_sure = other_secret(&store, &fingerprint).await?.is_none();
        let is_shared = !keys.is_empty() || is_sure && keyring.fingerprint().is_some();
        schedule.sign_with((!is_shared).then_some(fingerprint));
        let opened = Self::of_server(own).with_store(Some(store));
        if !keys.is_empty() {
            opened.take(keys, keyring, now_ms);
        }
        Ok(opened)
    }

    /// The fingerprint of the secret of this server, if it signs with that. Such a server may not start beside others that
    /// sign with another secret. `None`: the default keys that are kept sign, which are the same for all.
    #[must_use]
    pub fn signs_with(&self) -> Option<String> {
        let own = self.own()?;
        let keys = self.keys();
        keys.is_empty().then(|| own.secret.fingerprint())
    }

    /// Completes [`DefaultKeyring::open`] after the schedule was inspected. Other servers may have been started since this
    /// one has looked, so everything that ends a start is checked once more.
    ///
    /// # Errors
    /// [`DefaultKeysError`].
    pub async fn complete(&self, keyring: &Keyring, now_ms: i64) -> Result<(), DefaultKeysError> {
        let Some(store) = self.store() else {
            return Ok(());
        };
        let remembered = match store {
            // The inspection refuses servers that sign otherwise than living ones.
            DefaultKeyStore::Journal(_) => RememberedSecret::IsReplaced,
            // Not those that are about to give the first key.
            DefaultKeyStore::Schedule(_) => RememberedSecret::MaySign,
        };
        self.begin_beside(remembered, keyring, now_ms).await?;
        check_master_key(store.master_key().await?, keyring)?;
        let keys = self.keys();
        if let Some(own) = self.own() {
            check(own, &keys)?;
            match keys.is_empty() {
                true => sign_alone(own, store).await?,
                false => own.log_if_replaced(&keys),
            }
        }
        if let DefaultKeyStore::Schedule(schedule) = store {
            let resealed = schedule.reseal(keyring, now_ms).await;
            let resealed = resealed.map_err(store_failure)?;
            if resealed > 0 {
                tracing::info!(
                    resealed,
                    "the default keys were encrypted again, under the master key of this server"
                );
            }
        }
        tracing::info!(
            default_keys = keys.ids(),
            "calls are signed with the default keys unless their endpoint has keys of its own; all receivers that share a \
             default key could forge calls to each other"
        );
        Ok(())
    }
}

/// Checks that a server with this secret may use these default keys.
fn check(own: &ServerSecret, keys: &DefaultKeys) -> Result<(), DefaultKeysError> {
    match own.may_use(keys) {
        true => Ok(()),
        false => Err(DefaultKeysError::UnknownSecret(keys.ids())),
    }
}

/// Checks that this server can open what is encrypted under the master key of this fingerprint.
fn check_master_key(
    fingerprint: Option<String>,
    keyring: &Keyring,
) -> Result<(), DefaultKeysError> {
    match fingerprint.is_none_or(|fingerprint| keyring.has(&fingerprint)) {
        true => Ok(()),
        false => Err(DefaultKeysError::OtherMasterKey),
    }
}

/// Has a server sign with its own secret, because there are no default keys and it cannot give the first one.
async fn sign_alone(own: &ServerSecret, store: &DefaultKeyStore) -> Result<(), DefaultKeysError> {
    let own = own.secret.fingerprint();
    match store {
        DefaultKeyStore::Journal(_) => Ok(announce(&own, store).await?),
        // The inspection has remembered it, unless another server was faster.
        DefaultKeyStore::Schedule(_) => match other_secret(store, &own).await? {
            None => Ok(()),
            Some(_) => Err(DefaultKeysError::OtherSecretSigns),
        },
    }
}

fn store_failure(error: ScheduleError) -> DefaultKeysError {
    DefaultKeysError::Store(error.into())
}
