//! The default signing keys: reading and changing them.

use super::rows::{Fields, StoredRow, corrupt};
use super::{Actor, JournalError};
use crate::domain::default_keys::{
    BadDefaultKeyChange, DefaultKey, DefaultKeyChange, DefaultKeys, DefaultKeysEffect,
    UnreadableDefaultKey,
};
use crate::domain::endpoint_keys::EndpointKey;
use crate::domain::signing_key::KeyKind;
use async_trait::async_trait;
use sqlx::{ColumnIndex, Decode, Type};

/// The part of a [`super::Journal`] that keeps the default signing keys.
#[async_trait]
pub trait JournalDefaultKeys: Send + Sync + 'static {
    /// All of them, also those that have ended. A row that cannot be read is told apart and hides no other.
    async fn default_keys(&self) -> Result<DefaultKeys, JournalError>;

    /// Changes them. Changes wait for each other, and each is decided by what is there then. So however many servers
    /// give the journal its first key, it gets one. It can be repeated.
    ///
    /// As with the keys of endpoints, the first ones that are written decide the master key of the journal. The journal
    /// also remembers the fingerprint of the newest key ([`super::DEFAULT_SECRET`]), for servers that sign with a secret
    /// of their own.
    async fn change_default_keys(
        &self,
        changing: &ChangingDefaultKeys,
    ) -> Result<DefaultKeysChanged, JournalError>;
}

/// A request to change the default keys.
#[derive(Debug, Clone)]
pub struct ChangingDefaultKeys {
    /// The change.
    pub change: DefaultKeyChange,
    /// The fingerprint of the master key, if a key was encrypted just now.
    pub master_key: Option<String>,
    /// Who asks for it.
    pub actor: Actor,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

/// The result of changing the default keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultKeysChanged {
    /// They are these now, or were before. `existing`: the key that was to be added, and is there already.
    Done {
        /// The keys.
        keys: DefaultKeys,
        /// The key.
        existing: Option<EndpointKey>,
    },
    /// The keys do not allow it. Nothing was changed.
    Refused(BadDefaultKeyChange),
    /// The store has keys that another master key encrypted. Nothing was changed.
    OtherMasterKey,
}

/// What a change means for the keys that a store has.
pub enum DefaultKeysDecision {
    /// They are replaced by these.
    Write(DefaultKeys),
    /// Nothing is written, and this is the answer.
    Answer(DefaultKeysChanged),
}

/// What a change means for the keys that were there before. The same for all stores that keep default keys.
#[must_use]
pub fn decide(before: DefaultKeys, changing: &ChangingDefaultKeys) -> DefaultKeysDecision {
    let answer = match before.effect(&changing.change, changing.at_ms) {
        DefaultKeysEffect::Changed(keys) => return DefaultKeysDecision::Write(keys),
        DefaultKeysEffect::Begun => DefaultKeysChanged::Done {
            keys: before,
            existing: None,
        },
        DefaultKeysEffect::Existing(key) => DefaultKeysChanged::Done {
            keys: before,
            existing: Some(key),
        },
        DefaultKeysEffect::Refused(bad) => DefaultKeysChanged::Refused(bad),
    };
    DefaultKeysDecision::Answer(answer)
}

/// The fingerprint of the newest of these keys.
pub(super) fn newest(keys: &DefaultKeys) -> Option<&str> {
    let newest = keys.kept().next();
    newest.map(|newest| newest.fingerprint.as_str())
}

impl<'row, R> Fields<'row, R>
where
    R: StoredRow,
    usize: ColumnIndex<R>,
    bool: Decode<'row, R::Database> + Type<R::Database>,
    i64: Decode<'row, R::Database> + Type<R::Database>,
    &'row str: Decode<'row, R::Database> + Type<R::Database>,
    &'row [u8]: Decode<'row, R::Database> + Type<R::Database>,
    R::Count: Decode<'row, R::Database> + Type<R::Database>,
{
    /// Reads each row of `id, kind, sealed, public_key, fingerprint, created_ms, signs_until_ms`.
    pub(super) fn default_keys(rows: &'row [R]) -> Result<DefaultKeys, JournalError> {
        let (mut keys, mut unreadable) = (Vec::new(), Vec::new());
        for row in rows {
            match Self::of(row).default_key() {
                Ok(key) => keys.push(key),
                Err(error) => unreadable.push(Self::unreadable(row, error)?),
            }
        }
        Ok(DefaultKeys::of(keys).with_unreadable(unreadable))
    }

    /// What is known of a row that cannot be read. What of it cannot be read either counts as that of a key that signs.
    ///
    /// # Errors
    /// `error`, if not even the id can be read.
    fn unreadable(row: &'row R, error: JournalError) -> Result<UnreadableDefaultKey, JournalError> {
        let Some(id) = Self::at::<&str>(row, 0) else {
            return Err(error);
        };
        Ok(UnreadableDefaultKey {
            id: id.to_string(),
            fingerprint: Self::at::<&str>(row, 4).map(str::to_string),
            why: error.to_string(),
            is_former: Self::at::<&str>(row, 2).is_some_and(str::is_empty),
            signs_until_ms: Self::at::<Option<i64>>(row, 6).flatten(),
        })
    }

    fn default_key(&mut self) -> Result<DefaultKey, JournalError> {
        let id = self.take::<&str>()?.to_string();
        let kind: &str = self.take()?;
        let kind = KeyKind::from_name(kind).ok_or_else(|| corrupt("kind of key", &kind))?;
        let sealed = self.take::<&str>()?.to_string();
        let public_key = self.take::<Option<&str>>()?.map(str::to_string);
        let fingerprint = self.take::<&str>()?.to_string();
        let key = EndpointKey {
            id,
            kind,
            sealed,
            public_key,
            created_ms: self.take()?,
            signs_until_ms: self.take()?,
        };
        Ok(DefaultKey { key, fingerprint })
    }
}
