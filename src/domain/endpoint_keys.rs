//! The signing keys of one endpoint as the journal keeps them, and the rules of a rotation.
//!
//! The newest key comes first. Beside the keys that sign for good there are those that sign along until an instant,
//! so that a receiver can change over. An endpoint that has keys always has one that signs for good. An endpoint
//! without keys signs with the default secret of the server.

use crate::domain::signing_key::KeyKind;
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// Maximum number of keys of an endpoint.
pub const MOST_KEYS: usize = 10;
/// Longest time that the other keys sign along, in milliseconds.
pub const LONGEST_OVERLAP_MS: i64 = 30 * 86_400_000;
/// How long the other keys sign along if the request does not say it, in milliseconds.
pub const STANDARD_OVERLAP_MS: i64 = 86_400_000;
/// Where a list of ids says that the default secret of the server signed.
pub const DEFAULT_SECRET: &str = "default";

/// The keys of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndpointKeys {
    keys: Vec<EndpointKey>,
    /// Until when the default secret signs along, if the endpoint has keys.
    default_until_ms: Option<i64>,
}

/// One key, with its secret encrypted.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointKey {
    /// Its id, unique within the endpoint.
    pub id: String,
    /// Its kind.
    pub kind: KeyKind,
    /// The encrypted secret: see [`crate::domain::master_key`].
    pub sealed: String,
    /// The public key of an asymmetric key.
    pub public_key: Option<String>,
    /// When it was added, in milliseconds since 1970.
    pub created_ms: i64,
    /// Until when it signs, in milliseconds since 1970. `None`: for good.
    pub signs_until_ms: Option<i64>,
}

/// Why the keys cannot be changed in this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadKeyChange {
    /// There are too many.
    #[error("an endpoint has at most {MOST_KEYS} signing keys that still sign; remove one first")]
    TooMany,
    /// There is no such key.
    #[error("the endpoint has no signing key of this id")]
    Unknown,
    /// No other key would sign for good.
    #[error(
        "this is the last signing key of the endpoint that signs for good; add another one first, or set `keys` of the \
         endpoint to []: then the default keys sign, which all receivers without keys share"
    )]
    Last,
}

impl EndpointKey {
    /// Whether it signs at this instant.
    #[must_use]
    pub fn signs_at(&self, now_ms: i64) -> bool {
        self.signs_until_ms.is_none_or(|until_ms| now_ms < until_ms)
    }
}

impl EndpointKeys {
    /// These keys, which all sign for good.
    ///
    /// # Errors
    /// [`BadKeyChange::TooMany`].
    pub fn of(keys: Vec<EndpointKey>) -> Result<Self, BadKeyChange> {
        if keys.len() > MOST_KEYS {
            return Err(BadKeyChange::TooMany);
        }
        Ok(Self::stored(keys))
    }

    /// These keys, as a store has them. They may be more than can be added.
    #[must_use]
    pub fn stored(keys: Vec<EndpointKey>) -> Self {
        Self {
            keys,
            default_until_ms: None,
        }
    }

    /// The keys, the newest first.
    #[must_use]
    pub fn list(&self) -> &[EndpointKey] {
        &self.keys
    }

    /// The keys that sign at this instant, the newest first.
    pub fn signing_at(&self, now_ms: i64) -> impl Iterator<Item = &EndpointKey> {
        self.keys.iter().filter(move |key| key.signs_at(now_ms))
    }

    /// Whether the default secret signs at this instant.
    #[must_use]
    pub fn default_signs_at(&self, now_ms: i64) -> bool {
        let until = self.default_until_ms;
        self.keys.is_empty() || until.is_some_and(|until_ms| now_ms < until_ms)
    }

    /// Until when the default secret signs along with the keys.
    #[must_use]
    pub fn default_until_ms(&self) -> Option<i64> {
        self.default_until_ms
    }

    /// Adds a key that signs for good. All others sign along for `overlap_ms` from now, or less if they would have
    /// ended before. Keys that sign no more are removed.
    ///
    /// # Errors
    /// [`BadKeyChange::TooMany`].
    pub fn with_added(
        &self,
        key: EndpointKey,
        now_ms: i64,
        overlap_ms: i64,
    ) -> Result<Self, BadKeyChange> {
        let end_ms = now_ms.saturating_add(overlap_ms);
        let earlier = |until: Option<i64>| until.map_or(end_ms, |until_ms| until_ms.min(end_ms));
        let before = self.default_signs_at(now_ms);
        let default_until_ms = before.then(|| earlier(self.default_until_ms));
        let mut keys = vec![key];
        keys.extend(self.keys.iter().cloned().map(|mut key| {
            key.signs_until_ms = Some(earlier(key.signs_until_ms));
            key
        }));
        keys.retain(|key| key.signs_at(now_ms));
        if keys.len() > MOST_KEYS {
            return Err(BadKeyChange::TooMany);
        }
        Ok(Self {
            keys,
            default_until_ms: default_until_ms.filter(|until_ms| now_ms < *until_ms),
        })
    }

    /// The same keys, of which those are replaced for which `replace` returns another one.
    #[must_use]
    pub fn map_keys(
        mut self,
        mut replace: impl FnMut(&EndpointKey) -> Option<EndpointKey>,
    ) -> Self {
        for key in &mut self.keys {
            if let Some(other) = replace(key) {
                *key = other;
            }
        }
        self
    }

    /// Removes a key at once. [`DEFAULT_SECRET`] stands for the default secret that signs along.
    ///
    /// # Errors
    /// [`BadKeyChange::Unknown`], [`BadKeyChange::Last`].
    pub fn without(&self, id: &str) -> Result<Self, BadKeyChange> {
        let mut left = self.clone();
        if id == DEFAULT_SECRET && left.default_until_ms.take().is_some() {
            return Ok(left);
        }
        left.keys.retain(|key| key.id != id);
        if left.keys.len() == self.keys.len() {
            return Err(BadKeyChange::Unknown);
        }
        if left.keys.iter().all(|key| key.signs_until_ms.is_some()) {
            return Err(BadKeyChange::Last);
        }
        Ok(left)
    }
}

impl fmt::Debug for EndpointKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("EndpointKey")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("public_key", &self.public_key)
            .field("created_ms", &self.created_ms)
            .field("signs_until_ms", &self.signs_until_ms)
            .finish_non_exhaustive()
    }
}

/// The stored form of the keys.
#[derive(Serialize, Deserialize)]
struct StoredKeys {
    keys: Vec<StoredKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    default_until_ms: Option<i64>,
}

/// The stored form of one key.
#[derive(Serialize, Deserialize)]
struct StoredKey {
    id: String,
    kind: String,
    sealed: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    created_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signs_until_ms: Option<i64>,
}

impl EndpointKeys {
    /// The text in which stores keep the keys; empty if there are none.
    ///
    /// # Panics
    /// Never: strings and numbers can be written as JSON.
    #[must_use]
    pub fn to_text(&self) -> String {
        if self.keys.is_empty() {
            return String::new();
        }
        let stored = StoredKeys {
            keys: (self.keys.iter().cloned())
                .map(|key| StoredKey {
                    id: key.id,
                    kind: key.kind.as_str().to_string(),
                    sealed: key.sealed,
                    public_key: key.public_key,
                    created_ms: key.created_ms,
                    signs_until_ms: key.signs_until_ms,
                })
                .collect(),
            default_until_ms: self.default_until_ms,
        };
        serde_json::to_string(&stored).expect("invariant: strings and numbers serialise")
    }

    /// Reads what [`EndpointKeys::to_text`] wrote.
    ///
    /// # Errors
    /// Says what cannot be read.
    pub fn from_text(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let stored: StoredKeys = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let read = |key: StoredKey| {
            let kind = KeyKind::from_name(&key.kind);
            Ok(EndpointKey {
                kind: kind.ok_or_else(|| format!("unknown kind of key `{}`", key.kind))?,
                id: key.id,
                sealed: key.sealed,
                public_key: key.public_key,
                created_ms: key.created_ms,
                signs_until_ms: key.signs_until_ms,
            })
        };
        Ok(Self {
            keys: stored
                .keys
                .into_iter()
                .map(read)
                .collect::<Result<_, String>>()?,
            default_until_ms: stored.default_until_ms,
        })
    }
}

#[cfg(test)]
mod tests;
