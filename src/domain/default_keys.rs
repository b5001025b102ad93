//! The default signing keys: they sign what names no endpoint, and what names one without keys of its own.
//!
//! They are kept in the journal, or without one in the schedule, so all servers that share it sign with the same ones. The
//! rules of a rotation are those of an endpoint ([`crate::domain::endpoint_keys`]). All receivers that verify with a
//! default key share it, so each of them can forge calls to the others.
//!
//! Keys that sign no more are remembered without their secrets: a server that is still started with one of them is told
//! that it was replaced, and signs with the present ones.

use crate::domain::endpoint_keys::{
    BadKeyChange, DEFAULT_SECRET, EndpointKey, EndpointKeys, MOST_KEYS,
};
use crate::domain::sentence::sentences;
use thiserror::Error;

/// Maximum number of keys that are remembered after they have ended.
pub const MOST_FORMER_KEYS: usize = 20;

/// A default key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultKey {
    /// The key. The sealed secret is empty if the key has ended.
    pub key: EndpointKey,
    /// A text that identifies the secret, and from which it cannot be computed.
    pub fingerprint: String,
}

/// The default keys of a journal, the newest first, and after them those that have ended. None: the journal has not got
/// its first one yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DefaultKeys {
    keys: Vec<DefaultKey>,
    unreadable: Vec<UnreadableDefaultKey>,
}

/// A default key that this server cannot read: another version wrote it, or it is damaged. Changes of other keys leave it
/// as it is; it can be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableDefaultKey {
    /// Its id.
    pub id: String,
    /// Its fingerprint, if that can be read.
    pub fingerprint: Option<String>,
    /// Why it cannot be read.
    pub why: String,
    /// Whether the key has ended, and its secret was deleted.
    pub is_former: bool,
    /// Until when it signs, in milliseconds since 1970. `None`: for good, as far as that can be read.
    pub signs_until_ms: Option<i64>,
}

/// A change of the default keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultKeyChange {
    /// The journal gets its first key. If it has one, nothing is changed.
    First(DefaultKey),
    /// A key that signs for good. The others sign along for this time, in milliseconds.
    Add(DefaultKey, i64),
    /// The key of this id signs no more.
    Remove(String),
}

/// What a change of the default keys does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultKeysEffect {
    /// They become these.
    Changed(DefaultKeys),
    /// Nothing: they have this key already, and it signs for good.
    Existing(EndpointKey),
    /// Nothing: they have a first key already.
    Begun,
    /// It is refused.
    Refused(BadDefaultKeyChange),
}

/// Why the default keys cannot be changed in this way.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadDefaultKeyChange {
    /// There are too many.
    #[error("there are at most {MOST_KEYS} default keys that still sign; remove one first")]
    TooMany,
    /// There is no such key.
    #[error("there is no default key of this id")]
    Unknown,
    /// No other key would sign for good.
    #[error("this is the last default key that signs for good; add another one first")]
    Last,
    /// The secret is there already, but only for some time. Contains the id.
    #[error(
        "this secret is there already, as the default key {0}, which signs only for some time; remove that key first"
    )]
    Ending(String),
    /// There is no first key yet.
    #[error("there is no default key yet")]
    NotBegun,
}

sentences!(
    /// Why the default keys sign nothing on a server.
    DefaultKeyWarning {
        OtherSecret { fingerprint: String } = "the other servers of the journal sign with another default secret (fingerprint {fingerprint}), so this server sends nothing that it would sign with its own; start it with their --signing-secret";
        Unreadable { key: String, why: String } = "this server cannot read the default key {key} ({why}), so it sends nothing that the default keys would sign; update this server if another version wrote the key; else add another default key and remove this one";
        AllUnreadable { why: String } = "this server cannot read the default keys ({why}), so it sends nothing that they would sign";
        Unusable { key: String, why: String } = "this server cannot open the default key {key} ({why}), so it sends nothing that the default keys would sign; start it with the master key of the other servers";
    }
);

impl From<BadKeyChange> for BadDefaultKeyChange {
    fn from(bad: BadKeyChange) -> Self {
        match bad {
            BadKeyChange::TooMany => Self::TooMany,
            BadKeyChange::Unknown => Self::Unknown,
            BadKeyChange::Last => Self::Last,
        }
    }
}

impl DefaultKey {
    /// Whether the key has ended, and its secret was deleted.
    #[must_use]
    pub fn is_former(&self) -> bool {
        self.key.sealed.is_empty()
    }
}

impl UnreadableDefaultKey {
    /// Whether it may sign at this instant, so that this server cannot sign as others do.
    #[must_use]
    pub fn signs_at(&self, now_ms: i64) -> bool {
        !self.is_former && self.signs_until_ms.is_none_or(|until_ms| now_ms < until_ms)
    }
}

impl DefaultKeys {
    /// These keys, in the order in which they were stored.
    #[must_use]
    pub fn of(keys: Vec<DefaultKey>) -> Self {
        Self {
            keys,
            unreadable: Vec::new(),
        }
    }

    /// These keys, and those that cannot be read.
    #[must_use]
    pub fn with_unreadable(self, unreadable: Vec<UnreadableDefaultKey>) -> Self {
        Self { unreadable, ..self }
    }

    /// Those that cannot be read, also ended ones.
    #[must_use]
    pub fn unreadable(&self) -> &[UnreadableDefaultKey] {
        &self.unreadable
    }

    /// Whether a key may have this fingerprint: one has it, or the fingerprint of one cannot be read.
    #[must_use]
    pub fn may_have(&self, fingerprint: &str) -> bool {
        let may_be = |key: &UnreadableDefaultKey| {
            (key.fingerprint.as_deref()).is_none_or(|other| other == fingerprint)
        };
        self.with_fingerprint(fingerprint).is_some() || self.unreadable.iter().any(may_be)
    }

    /// All that can be read, in the order in which they are stored.
    #[must_use]
    pub fn all(&self) -> &[DefaultKey] {
        &self.keys
    }

    /// Whether the journal has not got its first key yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.unreadable.is_empty()
    }

    /// The keys that have not ended, the newest first. The time of some may have passed.
    pub fn kept(&self) -> impl Iterator<Item = &DefaultKey> {
        self.keys.iter().filter(|key| !key.is_former())
    }

    /// The ids of the keys that have not ended, the newest first, for a log or an error. [`DEFAULT_SECRET`] if there are none.
    #[must_use]
    pub fn ids(&self) -> String {
        let ids: Vec<&str> = self.kept().map(|known| known.key.id.as_str()).collect();
        match ids.is_empty() {
            true => DEFAULT_SECRET.to_string(),
            false => ids.join(", "),
        }
    }

    /// The key with this fingerprint: one that has not ended, if there is one.
    #[must_use]
    pub fn with_fingerprint(&self, fingerprint: &str) -> Option<&DefaultKey> {
        let same = |key: &&DefaultKey| key.fingerprint == fingerprint;
        self.kept()
            .find(same)
            .or_else(|| self.keys.iter().find(same))
    }

    /// What a change does at this instant.
    #[must_use]
    pub fn effect(&self, change: &DefaultKeyChange, now_ms: i64) -> DefaultKeysEffect {
        let changed = match change {
            DefaultKeyChange::First(key) => match self.is_empty() {
                true => Ok(Self::of(vec![key.clone()])),
                false => return DefaultKeysEffect::Begun,
            },
            DefaultKeyChange::Add(added, overlap_ms) => {
                if self.is_empty() {
                    return DefaultKeysEffect::Refused(BadDefaultKeyChange::NotBegun);
                }
                let signing = self.kept().filter(|known| known.key.signs_at(now_ms));
                let mut same = signing.filter(|known| known.fingerprint == added.fingerprint);
                if let Some(DefaultKey { key, .. }) = same.next() {
                    return match key.signs_until_ms {
                        None => DefaultKeysEffect::Existing(key.clone()),
                        Some(_) => {
                            let ending = BadDefaultKeyChange::Ending(key.id.clone());
                            DefaultKeysEffect::Refused(ending)
                        }
                    };
                }
                (self.rules())
                    .with_added(added.key.clone(), now_ms, *overlap_ms)
                    .map(|keys| self.turned_into(&keys, Some(added), now_ms))
            }
            DefaultKeyChange::Remove(id) if self.is_unreadable(id) => self.without_unreadable(id),
            DefaultKeyChange::Remove(id) => (self.rules())
                .without(id)
                .map(|keys| self.turned_into(&keys, None, now_ms)),
        };
        match changed {
            Ok(keys) => DefaultKeysEffect::Changed(keys),
            Err(bad) => DefaultKeysEffect::Refused(bad.into()),
        }
    }

    fn is_unreadable(&self, id: &str) -> bool {
        self.unreadable.iter().any(|key| key.id == id)
    }

    /// These keys without one that cannot be read. Nothing of it is remembered.
    fn without_unreadable(&self, id: &str) -> Result<Self, BadKeyChange> {
        let mut next = self.clone();
        next.unreadable.retain(|key| key.id != id);
        let signs = next.kept().any(|known| known.key.signs_until_ms.is_none());
        signs.then_some(next).ok_or(BadKeyChange::Last)
    }

    /// The keys that have not ended, as those of an endpoint. There may be more than can be added, if servers of different
    /// versions have added them and could not read each other's.
    fn rules(&self) -> EndpointKeys {
        EndpointKeys::stored(self.kept().map(|known| known.key.clone()).collect())
    }

    /// These keys, and of those before the ones that are not among them any more, without their secrets.
    fn turned_into(&self, keys: &EndpointKeys, added: Option<&DefaultKey>, now_ms: i64) -> Self {
        let known = |id: &str| {
            self.keys
                .iter()
                .chain(added)
                .find(|known| known.key.id == id)
        };
        let mut next: Vec<DefaultKey> = (keys.list().iter())
            .filter_map(|key| {
                let fingerprint = known(&key.id)?.fingerprint.clone();
                let key = key.clone();
                Some(DefaultKey { key, fingerprint })
            })
            .collect();
        let is_left = |known: &&DefaultKey| keys.list().iter().all(|key| key.id != known.key.id);
        let former = self.keys.iter().filter(is_left).take(MOST_FORMER_KEYS);
        next.extend(former.map(|known| {
            DefaultKey {
                key: EndpointKey {
                    sealed: String::new(),
                    signs_until_ms: Some(
                        known
                            .key
                            .signs_until_ms
                            .map_or(now_ms, |end_ms| end_ms.min(now_ms)),
                    ),
                    ..known.key.clone()
                },
                fingerprint: known.fingerprint.clone(),
            }
        }));
        Self::of(next).with_unreadable(self.unreadable.clone())
    }
}

#[cfg(test)]
mod tests;
