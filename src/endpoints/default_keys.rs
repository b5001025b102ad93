//! What signs the calls that no key of an endpoint signs: the default keys that the servers share.
//!
//! They are kept in the journal, or without one in the schedule ([`super::default_key_store`]). The first one is the secret
//! with which the first server was started; from then on every server signs with what is kept, and asks for it twice a
//! second. A server that was given a secret which is not kept ends at its start. So no two servers sign differently.
//!
//! Where no secret can be encrypted, since there is no master key, there is only the fingerprint of the secret of
//! the server that started last. A server with another one cannot start while that one is alive. But one that was
//! suspended, or cut off from Redis, counts as ended after half a minute, and may come back when the others were started
//! with another secret. Its signatures would be refused, and attempts spent. So such servers compare the fingerprint twice
//! a second, if there is a journal, and sign nothing with their own secret while it remembers another one.

use super::default_key_store::{DefaultKeyStore, DefaultKeysInSchedule};
use super::store::EndpointStoreError;
use crate::domain::default_keys::{DefaultKey, DefaultKeyChange, DefaultKeys};
use crate::domain::endpoint_keys;
use crate::domain::signature::{SecretOrigin, SigningSecret};
use crate::domain::signers::{DefaultSigner, DefaultSigners};
use crate::domain::signing_key::SigningKey;
use crate::journal::{Actor, ChangingDefaultKeys, DefaultKeysChanged};
use crate::keyring::{Keyring, SealFailure, UnusableKey, no_key_signs};
use crate::schedule::ScheduleError;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use thiserror::Error;
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

/// The secret that a server was started with.
#[derive(Debug, Clone)]
pub struct ServerSecret {
    /// The secret.
    pub secret: SigningSecret,
    /// Where it comes from.
    pub origin: SecretOrigin,
}

#[derive(Debug, Default)]
struct KnownDefaultKeys {
    /// As the store has them.
    keys: DefaultKeys,
    signers: Option<Arc<DefaultSigners>>,
    trouble: Option<DefaultKeyTrouble>,
    /// Whether it was logged that the store has lost them.
    is_loss_logged: bool,
}

/// Why the default keys sign nothing here.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DefaultKeyTrouble {
    /// The other servers sign with another secret, of this fingerprint.
    OtherSecret(String),
    /// One of them cannot be opened.
    Unusable(UnusableKey),
    /// One of them cannot be read.
    Unreadable(UnusableKey),
    /// The store has them, and none can be read.
    AllUnreadable(String),
}

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

impl ServerSecret {
    /// Checks that a server with this secret may use these default keys.
    fn check(&self, keys: &DefaultKeys) -> Result<(), DefaultKeysError> {
        let is_known = keys.may_have(&self.secret.fingerprint());
        match self.origin {
            SecretOrigin::Given if !keys.is_empty() && !is_known => {
                Err(DefaultKeysError::UnknownSecret(ids(keys)))
            }
            SecretOrigin::Given | SecretOrigin::Kept => Ok(()),
        }
    }

    /// The key with this id that is this secret.
    fn signers(&self, id: &str) -> Arc<DefaultSigners> {
        Arc::new(DefaultSigners::of(vec![DefaultSigner {
            id: id.into(),
            key: SigningKey::Symmetric(self.secret.clone()),
            signs_until_ms: None,
        }]))
    }

    /// Says if what this server was started with is not what signs.
    fn log_if_replaced(&self, keys: &DefaultKeys) {
        let known = keys.with_fingerprint(&self.secret.fingerprint());
        if known.is_some_and(|known| known.key.signs_until_ms.is_none()) {
            return;
        }
        let signing = ids(keys);
        match self.origin {
            SecretOrigin::Given => tracing::warn!(
                signing,
                "the --signing-secret of this server was replaced by another default key, which signs; leave the setting out"
            ),
            SecretOrigin::Kept => tracing::info!(
                signing,
                "the signing-secret in the data directory is not used: the default keys that the servers share sign"
            ),
        }
    }
}

impl DefaultKeyring {
    /// The default keys of a server that signs with its own secret, whatever others do.
    #[must_use]
    pub fn of_server(own: ServerSecret) -> Self {
        let known = KnownDefaultKeys {
            signers: Some(own.signers(endpoint_keys::DEFAULT_SECRET)),
            ..KnownDefaultKeys::default()
        };
        Self {
            own: Some(own),
            store: None,
            known: RwLock::new(known),
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
        let remembered = journal.remembered_secret().await?;
        let is_sure = remembered.is_none_or(|other| other == own.secret.fingerprint());
        let opened = Self::of_server(own.clone()).with_store(Some(journal.clone()));
        if is_sure {
            opened.begin(keyring, now_ms).await?;
        } else {
            let keys = journal.read().await?;
            if !keys.is_empty() {
                opened.take(keys, keyring, now_ms);
            }
        }
        own.check(&opened.keys())?;
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
        let kept_under = schedule.master_key().await.map_err(store_failure)?;
        if kept_under.is_some_and(|fingerprint| !keyring.has(&fingerprint)) {
            return Err(DefaultKeysError::OtherMasterKey);
        }
        let keys = schedule.read().await.map_err(store_failure)?;
        own.check(&keys)?;
        let fingerprint = own.secret.fingerprint();
        let remembered = schedule.remembered_secret().await.map_err(store_failure)?;
        let is_sure = remembered.is_none_or(|other| other == fingerprint);
        let is_shared = !keys.is_empty() || is_sure && keyring.fingerprint().is_some();
        schedule.sign_with((!is_shared).then_some(fingerprint));
        let store = DefaultKeyStore::Schedule(schedule);
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
        let own = self.own.as_ref()?;
        let has_keys = !self.read().keys.is_empty();
        (!has_keys).then(|| own.secret.fingerprint())
    }

    /// Completes [`DefaultKeyring::open`] when it is known that no server with another secret is alive.
    ///
    /// # Errors
    /// [`DefaultKeysError`].
    pub async fn complete(&self, keyring: &Keyring, now_ms: i64) -> Result<(), DefaultKeysError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        self.begin(keyring, now_ms).await?;
        let keys = self.keys();
        if let Some(own) = &self.own {
            own.check(&keys)?;
            match keys.is_empty() {
                true => announce(&own.secret.fingerprint(), store).await?,
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
            default_keys = ids(&keys),
            "calls are signed with the default keys unless their endpoint has keys of its own; all receivers that share a \
             default key could forge calls to each other"
        );
        Ok(())
    }

    /// The default keys as they are kept; none if this server signs with its own secret.
    #[must_use]
    pub fn keys(&self) -> DefaultKeys {
        self.read().keys.clone()
    }

    /// The default keys in the clear.
    ///
    /// # Errors
    /// [`UnusableKey`] if they cannot sign here.
    pub(super) fn signers(&self) -> Result<Arc<DefaultSigners>, UnusableKey> {
        let known = self.read();
        match (&known.trouble, &known.signers) {
            (Some(trouble), _) => Err(trouble.unusable()),
            (None, Some(signers)) => Ok(signers.clone()),
            (None, None) => Err(no_key_signs()),
        }
    }

    /// What a person should know if the default keys sign nothing here, as a sentence.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        Some(match self.read().trouble.as_ref()? {
            DefaultKeyTrouble::OtherSecret(fingerprint) => format!(
                "the other servers of the journal sign with another default secret (fingerprint {fingerprint}), so this \
                 server sends nothing that it would sign with its own; start it with their --signing-secret"
            ),
            DefaultKeyTrouble::Unreadable(UnusableKey { key_id, why }) => format!(
                "this server cannot read the default key {key_id} ({why}), so it sends nothing that the default keys would \
                 sign; update this server if another version wrote the key; else add another default key and remove this one"
            ),
            DefaultKeyTrouble::AllUnreadable(why) => format!(
                "this server cannot read the default keys ({why}), so it sends nothing that they would sign"
            ),
            DefaultKeyTrouble::Unusable(UnusableKey { key_id, why }) => format!(
                "this server cannot open the default key {key_id} ({why}), so it sends nothing that the default keys would \
                 sign; start it with the master key of the other servers"
            ),
        })
    }

    /// Gives the store the secret of this server as its first default key, if it has none yet, and takes over what it
    /// has. Without a master key or a store, nothing is done.
    ///
    /// # Errors
    /// [`DefaultKeysError`].
    pub async fn begin(&self, keyring: &Keyring, now_ms: i64) -> Result<(), DefaultKeysError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let _turn = self.turn.lock().await;
        let mut keys = store.read().await?;
        if keys.is_empty()
            && let Some(own) = &self.own
        {
            keys = give_first(own, store, keyring, now_ms).await?;
        }
        if !keys.is_empty() {
            self.take(keys, keyring, now_ms);
        }
        Ok(())
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
                    self.write().trouble =
                        Some(DefaultKeyTrouble::AllUnreadable(error.to_string()));
                }
                return Err(error);
            }
        };
        if !keys.is_empty() {
            self.take(keys, keyring, now_ms);
            return Ok(());
        }
        if self.read().keys.is_empty() {
            return self.compare(store).await;
        }
        let mut known = self.write();
        if matches!(known.trouble, Some(DefaultKeyTrouble::AllUnreadable(_))) {
            known.trouble = None;
        }
        if !std::mem::replace(&mut known.is_loss_logged, true) {
            tracing::error!(
                "the journal has lost its default keys, as if it was restored from an old backup; those that were read last \
                 stay in use until this server is started again; then the journal gets the --signing-secret of that server"
            );
        }
        Ok(())
    }

    /// Takes over the default keys that are kept. Those that sign no more need not be usable.
    fn take(&self, keys: DefaultKeys, keyring: &Keyring, now_ms: i64) {
        let known = self.read();
        if known.keys == keys && known.trouble.is_none() {
            return;
        }
        drop(known);
        let signing = keys.kept().filter(|kept| kept.key.signs_at(now_ms));
        let opened: Result<Vec<DefaultSigner>, UnusableKey> = signing
            .map(|kept| {
                Ok(DefaultSigner {
                    id: kept.key.id.as_str().into(),
                    key: keyring.open_default(&kept.key)?,
                    signs_until_ms: kept.key.signs_until_ms,
                })
            })
            .collect();
        let unreadable = (keys.unreadable().iter()).find(|unreadable| unreadable.signs_at(now_ms));
        let (signers, trouble) = match (unreadable, opened) {
            (Some(unreadable), _) => {
                let unusable = UnusableKey {
                    key_id: unreadable.id.clone(),
                    why: unreadable.why.clone(),
                };
                (None, Some(DefaultKeyTrouble::Unreadable(unusable)))
            }
            (None, Ok(opened)) => (Some(Arc::new(DefaultSigners::of(opened))), None),
            (None, Err(unusable)) => match self.own_alone(&keys) {
                Some(own) => (Some(own), None),
                None => (None, Some(DefaultKeyTrouble::Unusable(unusable))),
            },
        };
        let mut known = self.write();
        log_change(&known, &keys, trouble.as_ref());
        *known = KnownDefaultKeys {
            keys,
            signers,
            trouble,
            is_loss_logged: false,
        };
    }

    /// The secret of this server, if it is the only default key: a server without the master key can sign with that.
    fn own_alone(&self, keys: &DefaultKeys) -> Option<Arc<DefaultSigners>> {
        let own = self.own.as_ref()?;
        let mut kept = keys.kept();
        let (Some(only), None) = (kept.next(), kept.next()) else {
            return None;
        };
        (only.fingerprint == own.secret.fingerprint()).then(|| own.signers(&only.key.id))
    }

    /// Compares the fingerprint of the own secret with that in the journal. One that is missing there is written again.
    /// Servers without a journal are compared only when one starts.
    async fn compare(&self, store: &DefaultKeyStore) -> Result<(), EndpointStoreError> {
        let (Some(own), DefaultKeyStore::Journal(_)) = (&self.own, store) else {
            return Ok(());
        };
        let own = own.secret.fingerprint();
        let Some(remembered) = store.remembered_secret().await? else {
            return store.remember_secret(&own).await;
        };
        let trouble = (remembered != own).then_some(DefaultKeyTrouble::OtherSecret(remembered));
        let mut known = self.write();
        if known.trouble == trouble {
            return Ok(());
        }
        match &trouble {
            Some(trouble) => tracing::error!(
                own,
                why = trouble.unusable().why,
                "the servers of this journal sign with another default secret than this one (own and other: \
                 fingerprints), so this server sends nothing that it would sign with its own; give it the \
                 --signing-secret of the others and start it again"
            ),
            None => tracing::info!(
                own,
                "the default secret of this server is that of the others again, so it signs again"
            ),
        }
        known.trouble = trouble;
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, KnownDefaultKeys> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, KnownDefaultKeys> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DefaultKeyTrouble {
    fn unusable(&self) -> UnusableKey {
        match self {
            Self::OtherSecret(fingerprint) => UnusableKey {
                key_id: endpoint_keys::DEFAULT_SECRET.to_string(),
                why: format!(
                    "the servers of this journal sign with another default secret (fingerprint {fingerprint})"
                ),
            },
            Self::Unusable(unusable) | Self::Unreadable(unusable) => unusable.clone(),
            Self::AllUnreadable(why) => UnusableKey {
                key_id: endpoint_keys::DEFAULT_SECRET.to_string(),
                why: format!("the default keys cannot be read: {why}"),
            },
        }
    }
}

fn store_failure(error: ScheduleError) -> DefaultKeysError {
    DefaultKeysError::Store(error.into())
}

/// Gives the store its first default key. Returns what it has then; none if nothing can be encrypted.
async fn give_first(
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

/// Writes the fingerprint of this server's secret into the store. To be called at start, when no server with another
/// one is alive.
async fn announce(own: &str, store: &DefaultKeyStore) -> Result<(), EndpointStoreError> {
    log_if_other(store, own).await?;
    store.remember_secret(own).await
}

/// Says if another secret signed until now.
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

fn log_change(before: &KnownDefaultKeys, keys: &DefaultKeys, trouble: Option<&DefaultKeyTrouble>) {
    match (trouble, &before.trouble) {
        (Some(trouble), known) if known.as_ref() != Some(trouble) => {
            let UnusableKey { key_id, why } = trouble.unusable();
            tracing::error!(
                key = key_id,
                why,
                "a default key cannot be used, so this server sends nothing that the default keys would sign; \
                 if it cannot be opened, give this server the master key of the others and start it again; if it cannot be \
                 read, update this server, or add another default key and remove this one"
            );
        }
        (Some(_), _) => {}
        (None, _) if before.keys.is_empty() => {}
        (None, _) => tracing::info!(
            default_keys = ids(keys),
            "the default keys have changed; calls from now on are signed with these"
        ),
    }
}

/// The ids of the keys that have not ended, the newest first.
fn ids(keys: &DefaultKeys) -> String {
    let ids: Vec<&str> = keys.kept().map(|known| known.key.id.as_str()).collect();
    match ids.is_empty() {
        true => endpoint_keys::DEFAULT_SECRET.to_string(),
        false => ids.join(", "),
    }
}
