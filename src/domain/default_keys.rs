//! The default signing keys: they sign what names no endpoint, and what names one without keys of its own.
//!
//! They belong to the journal, so all its servers sign with the same ones. The rules of a rotation are those of an
//! endpoint ([`crate::domain::endpoint_keys`]). All receivers that verify with a default key share it, so each of them
//! can forge calls to the others.
//!
//! Keys that sign no more are remembered without their secrets: a server that is still started with one of them is told
//! that it was replaced, and signs with the present ones.

use crate::domain::endpoint_keys::{BadKeyChange, EndpointKey, EndpointKeys, MOST_KEYS};
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
pub struct DefaultKeys(Vec<DefaultKey>);

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
    #[error("the journal has no default key yet")]
    NotBegun,
}

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

impl DefaultKeys {
    /// These keys, in the order in which they were stored.
    #[must_use]
    pub fn of(keys: Vec<DefaultKey>) -> Self {
        Self(keys)
    }

    /// All of them, in the order in which they are stored.
    #[must_use]
    pub fn all(&self) -> &[DefaultKey] {
        &self.0
    }

    /// Whether the journal has not got its first key yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys that have not ended, the newest first. The time of some may have passed.
    pub fn kept(&self) -> impl Iterator<Item = &DefaultKey> {
        self.0.iter().filter(|key| !key.is_former())
    }

    /// The key with this fingerprint: one that has not ended, if there is one.
    #[must_use]
    pub fn with_fingerprint(&self, fingerprint: &str) -> Option<&DefaultKey> {
        let same = |key: &&DefaultKey| key.fingerprint == fingerprint;
        self.kept().find(same).or_else(|| self.0.iter().find(same))
    }

    /// What a change does at this instant.
    #[must_use]
    pub fn effect(&self, change: &DefaultKeyChange, now_ms: i64) -> DefaultKeysEffect {
        let changed = match change {
            DefaultKeyChange::First(key) => match self.is_empty() {
                true => Ok(Self(vec![key.clone()])),
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
                self.rules()
                    .and_then(|keys| keys.with_added(added.key.clone(), now_ms, *overlap_ms))
                    .map(|keys| self.turned_into(&keys, Some(added), now_ms))
            }
            DefaultKeyChange::Remove(id) => self
                .rules()
                .and_then(|keys| keys.without(id))
                .map(|keys| self.turned_into(&keys, None, now_ms)),
        };
        match changed {
            Ok(keys) => DefaultKeysEffect::Changed(keys),
            Err(bad) => DefaultKeysEffect::Refused(bad.into()),
        }
    }

    /// The keys that have not ended, as those of an endpoint.
    fn rules(&self) -> Result<EndpointKeys, BadKeyChange> {
        EndpointKeys::of(self.kept().map(|known| known.key.clone()).collect())
    }

    /// These keys, and of those before the ones that are not among them any more, without their secrets.
    fn turned_into(&self, keys: &EndpointKeys, added: Option<&DefaultKey>, now_ms: i64) -> Self {
        let known = |id: &str| self.0.iter().chain(added).find(|known| known.key.id == id);
        let mut next: Vec<DefaultKey> = (keys.list().iter())
            .filter_map(|key| {
                let fingerprint = known(&key.id)?.fingerprint.clone();
                let key = key.clone();
                Some(DefaultKey { key, fingerprint })
            })
            .collect();
        let is_left = |known: &&DefaultKey| keys.list().iter().all(|key| key.id != known.key.id);
        let former = self.0.iter().filter(is_left).take(MOST_FORMER_KEYS);
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
        Self(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::signing_key::KeyKind;

    fn key(id: &str) -> DefaultKey {
        DefaultKey {
            key: EndpointKey {
                id: id.to_string(),
                kind: KeyKind::Symmetric,
                sealed: format!("sealed {id}"),
                public_key: None,
                created_ms: 0,
                signs_until_ms: None,
            },
            fingerprint: format!("print {id}"),
        }
    }

    fn changed(keys: &DefaultKeys, change: DefaultKeyChange, now_ms: i64) -> DefaultKeys {
        match keys.effect(&change, now_ms) {
            DefaultKeysEffect::Changed(keys) => keys,
            other => panic!("{change:?}: {other:?}"),
        }
    }

    fn refused(keys: &DefaultKeys, change: DefaultKeyChange, now_ms: i64) -> BadDefaultKeyChange {
        match keys.effect(&change, now_ms) {
            DefaultKeysEffect::Refused(bad) => bad,
            other => panic!("{change:?}: {other:?}"),
        }
    }

    /// Ids, ends, and whether the secret is there.
    fn rows(keys: &DefaultKeys) -> Vec<(&str, Option<i64>, bool)> {
        let row = |key: &'_ DefaultKey| key.key.signs_until_ms;
        (keys.all().iter())
            .map(|key| (key.key.id.as_str(), row(key), !key.is_former()))
            .collect()
    }

    #[test]
    fn a_rotation_signs_with_both_and_remembers_what_has_ended() {
        let none = DefaultKeys::default();
        let add = |id: &str, overlap_ms| DefaultKeyChange::Add(key(id), overlap_ms);
        let remove = |id: &str| DefaultKeyChange::Remove(id.to_string());
        assert_eq!(
            refused(&none, add("a", 0), 0),
            BadDefaultKeyChange::NotBegun
        );
        let one = changed(&none, DefaultKeyChange::First(key("a")), 0);
        let again = one.effect(&DefaultKeyChange::First(key("b")), 0);
        assert_eq!(again, DefaultKeysEffect::Begun);
        let existing = one.effect(&add("a", 5), 0);
        assert_eq!(existing, DefaultKeysEffect::Existing(key("a").key));
        assert_eq!(refused(&one, remove("a"), 0), BadDefaultKeyChange::Last);
        assert_eq!(refused(&one, remove("x"), 0), BadDefaultKeyChange::Unknown);
        let two = changed(&one, add("b", 50), 100);
        assert_eq!(rows(&two), [("b", None, true), ("a", Some(150), true)]);
        let ending = BadDefaultKeyChange::Ending("a".to_string());
        assert_eq!(refused(&two, add("a", 5), 149), ending);
        assert_eq!(
            rows(&changed(&two, remove("a"), 101)),
            [("b", None, true), ("a", Some(101), false)]
        );
        // Once its time has passed, the same secret is a new key.
        let back = DefaultKey {
            fingerprint: key("a").fingerprint,
            ..key("c")
        };
        let three = changed(&two, DefaultKeyChange::Add(back, 0), 150);
        assert_eq!(
            rows(&three),
            [
                ("c", None, true),
                ("b", Some(150), false),
                ("a", Some(150), false)
            ]
        );
        let found = three.with_fingerprint("print a").expect("known");
        assert_eq!(found.key.id, "c");
        let former = three.with_fingerprint("print b").expect("known");
        assert!(former.is_former());
        assert_eq!(three.with_fingerprint("print c"), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut keys = changed(
            &DefaultKeys::default(),
            DefaultKeyChange::First(key("0")),
            0,
        );
        for number in 1..100 {
            let id = number.to_string();
            keys = changed(&keys, DefaultKeyChange::Add(key(&id), 0), number);
        }
        assert_eq!(keys.kept().count(), 1);
        assert_eq!(keys.all().len(), 1 + MOST_FORMER_KEYS);
        assert_eq!(keys.all()[1].key.id, "98");
        for number in 100..109 {
            let id = number.to_string();
            keys = changed(&keys, DefaultKeyChange::Add(key(&id), 1_000), number);
        }
        let one_more = DefaultKeyChange::Add(key("x"), 1_000);
        assert_eq!(refused(&keys, one_more, 109), BadDefaultKeyChange::TooMany);
    }
}
