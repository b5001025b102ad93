//! API keys that have a name and a role. They are made and revoked while the server runs.
//!
//! A key is `rbk_` and 64 hexadecimal digits, made from 32 random bytes. The stores keep its SHA-256 digest alone. That
//! is enough: a digest of so much randomness cannot be searched, so no slow digest as for passwords is needed.

use crate::domain::key::check_topic;
use crate::domain::role::Role;
use sha2::{Digest as _, Sha256};
use std::fmt;
use subtle::ConstantTimeEq as _;
use thiserror::Error;
use zeroize::Zeroizing;

/// What every key begins with.
pub const PREFIX: &str = "rbk_";
/// Maximum number of keys that a journal keeps.
pub const MOST_API_KEYS: usize = 1_000;
/// Maximum number of topics to which a key is bound.
pub const MOST_TOPICS: usize = 100;
/// Maximum length of a key's name, in bytes.
pub const LONGEST_NAME: usize = 48;
/// Number of random bytes in a key.
pub const RANDOM_BYTES: usize = 32;
/// Names that actors have who are no API key.
const RESERVED: [&str; 3] = ["api", "dispatcher", "maintenance"];

/// The checked name of a key. It is the actor of what is done with the key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKeyName(Box<str>);

/// Why a name is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadApiKeyName {
    /// The name is empty, too long or contains a character that is not allowed.
    #[error("the name of an API key is 1 to {LONGEST_NAME} of the characters A-Z a-z 0-9 _ . -")]
    Form,
    /// The name is `.` or `..`. HTTP clients remove these from a URL's path.
    #[error("`.` and `..` are not accepted, because they cannot be part of a URL's path")]
    Dots,
    /// The history of a notification uses the name for somebody else.
    #[error("this name is reserved: the history of a notification uses it for others")]
    Reserved,
}

impl ApiKeyName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`BadApiKeyName`] says which rule it breaks.
    pub fn parse(text: &str) -> Result<Self, BadApiKeyName> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if text.is_empty() || text.len() > LONGEST_NAME || !text.bytes().all(allowed) {
            return Err(BadApiKeyName::Form);
        }
        if matches!(text, "." | "..") {
            return Err(BadApiKeyName::Dots);
        }
        if RESERVED.contains(&text) {
            return Err(BadApiKeyName::Reserved);
        }
        Ok(Self(text.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ApiKeyName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The SHA-256 digest of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ApiKeyDigest([u8; 32]);

impl ApiKeyDigest {
    /// The digest of a text that a caller sends as its key.
    #[must_use]
    pub fn of(key: &[u8]) -> Self {
        Self(Sha256::digest(key).into())
    }

    /// A digest as a store keeps it. `None` if it has another length.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.try_into().ok()?))
    }

    /// The bytes, as a store keeps them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether both are the same. The time of the comparison does not depend on where they differ.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// The text of a key that is made from random bytes.
#[must_use]
pub fn key_of(random: &[u8; RANDOM_BYTES]) -> Zeroizing<String> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + 2 * RANDOM_BYTES));
    text.push_str(PREFIX);
    for byte in random {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The topics to which a key is bound: sorted, each once, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyTopics(Box<[Box<str>]>);

/// Why a list of topics is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadKeyTopics {
    /// There is none, or there are too many.
    #[error(
        "a key is bound to 1 to {MOST_TOPICS} topics, or to none at all if `topics` is left out"
    )]
    Number,
    /// The topic with this index is none.
    #[error("a topic is 1 to 64 of the characters A-Z a-z 0-9 _ . -")]
    Topic(usize),
}

impl KeyTopics {
    /// Checks a list.
    ///
    /// # Errors
    /// [`BadKeyTopics`] says what is wrong.
    pub fn new<'a>(topics: impl IntoIterator<Item = &'a str>) -> Result<Self, BadKeyTopics> {
        let mut checked: Vec<Box<str>> = Vec::new();
        for (index, topic) in topics.into_iter().enumerate() {
            check_topic(topic).map_err(|_| BadKeyTopics::Topic(index))?;
            if index == MOST_TOPICS {
                return Err(BadKeyTopics::Number);
            }
            checked.push(topic.into());
        }
        checked.sort_unstable();
        checked.dedup();
        if checked.is_empty() {
            return Err(BadKeyTopics::Number);
        }
        Ok(Self(checked.into()))
    }

    /// Whether a topic is one of them.
    #[must_use]
    pub fn contain(&self, topic: &str) -> bool {
        self.0.binary_search_by(|own| (**own).cmp(topic)).is_ok()
    }

    /// The topics, sorted.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|topic| &**topic)
    }

    /// The topics as a store keeps them: with a blank between two, which no topic contains.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.0.join(" ")
    }

    /// Reads what [`KeyTopics::to_text`] has written. `None` if it is something else.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::new(text.split(' ')).ok()
    }
}

/// A key as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRecord {
    /// Its name.
    pub name: ApiKeyName,
    /// What it permits.
    pub role: Role,
    /// The topics of a producer to which it is bound. `None`: all.
    pub topics: Option<KeyTopics>,
    /// Its digest.
    pub digest: ApiKeyDigest,
    /// Who made it.
    pub created_by: Box<str>,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// From when on it is refused, in milliseconds since 1970. `None`: it is valid until it is revoked.
    pub expires_ms: Option<i64>,
}

impl ApiKeyRecord {
    /// Whether it is valid at this instant.
    #[must_use]
    pub fn is_valid_at(&self, now_ms: i64) -> bool {
        self.expires_ms.is_none_or(|expires_ms| now_ms < expires_ms)
    }

    /// Whether it may be used for notifications of this topic.
    #[must_use]
    pub fn covers(&self, topic: &str) -> bool {
        self.topics
            .as_ref()
            .is_none_or(|topics| topics.contain(topic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_nobody_elses() {
        fn check(text: &str, expected: Option<BadApiKeyName>) {
            assert_eq!(ApiKeyName::parse(text).err(), expected, "{text}");
        }
        check("order-service", None);
        check(&"x".repeat(48), None);
        check(&"x".repeat(49), Some(BadApiKeyName::Form));
        check("", Some(BadApiKeyName::Form));
        check("a/b", Some(BadApiKeyName::Form));
        check("a b", Some(BadApiKeyName::Form));
        check("..", Some(BadApiKeyName::Dots));
        for name in RESERVED {
            check(name, Some(BadApiKeyName::Reserved));
        }
    }

    #[test]
    fn a_key_is_hexadecimal_and_its_digest_that_of_the_text() {
        let mut random = [0; RANDOM_BYTES];
        random[0] = 0xa5;
        random[31] = 1;
        let key = key_of(&random);
        assert_eq!(&**key, format!("rbk_a5{}01", "0".repeat(60)));
        let digest = ApiKeyDigest::of(key.as_bytes());
        assert!(digest.is_same(&ApiKeyDigest::of(key.as_bytes())));
        assert!(!digest.is_same(&ApiKeyDigest::of(b"rbk_")));
        assert_eq!(ApiKeyDigest::from_bytes(digest.as_bytes()), Some(digest));
        assert_eq!(ApiKeyDigest::from_bytes(&[0; 31]), None);
        // The first bytes of the digest of nothing, from FIPS 180-4.
        assert_eq!(
            ApiKeyDigest::of(b"").as_bytes()[..4],
            [0xe3, 0xb0, 0xc4, 0x42]
        );
    }

    #[test]
    fn topics_are_sorted_and_each_is_there_once() {
        fn check(topics: &[&str], expected: Result<&str, BadKeyTopics>) {
            let found = KeyTopics::new(topics.iter().copied()).map(|topics| topics.to_text());
            assert_eq!(found, expected.map(str::to_string), "{topics:?}");
        }
        check(&["b", "a", "b"], Ok("a b"));
        check(&[], Err(BadKeyTopics::Number));
        check(&["a", "b c"], Err(BadKeyTopics::Topic(1)));
        check(&["a"; MOST_TOPICS], Ok("a"));
        check(&["a"; MOST_TOPICS + 1], Err(BadKeyTopics::Number));
        let topics = KeyTopics::from_text("a b.c").expect("topics");
        assert!(topics.contain("b.c") && topics.contain("a") && !topics.contain("b"));
        assert_eq!(KeyTopics::from_text(""), None);
    }

    #[test]
    fn a_key_ends_at_its_end() {
        let record = |expires_ms| ApiKeyRecord {
            name: ApiKeyName::parse("a").expect("a name"),
            role: Role::Producer,
            topics: KeyTopics::from_text("x"),
            digest: ApiKeyDigest::of(b"k"),
            created_by: "api".into(),
            created_ms: 0,
            expires_ms,
        };
        assert!(record(None).is_valid_at(i64::MAX));
        assert!(record(Some(10)).is_valid_at(9));
        assert!(!record(Some(10)).is_valid_at(10));
    }
}
