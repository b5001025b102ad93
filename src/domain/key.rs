//! The name of a notification: its topic and its id.
//!
//! The pair is the idempotency key of a registration, and every store finds a notification by it. A key
//! is written `topic/id`. A topic contains no slash, so the first slash ends the topic.

use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Maximum length of a topic, in bytes.
pub const LONGEST_TOPIC: usize = 64;
/// Maximum length of an id, in bytes.
pub const LONGEST_ID: usize = 128;

/// Why a topic or an id is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadKey {
    /// The topic is empty, too long or contains a character that is not allowed.
    #[error("a topic is 1 to 64 of the characters A-Z a-z 0-9 _ . -")]
    Topic,
    /// The id is empty, too long or contains a character that is not allowed.
    #[error("an id is 1 to 128 printable ASCII characters")]
    Id,
    /// The topic or the id is `.` or `..`. HTTP clients remove these parts from a URL's path, so the
    /// notification could not be requested.
    #[error("`.` and `..` are not accepted, because they cannot be part of a URL's path")]
    Dots,
}

/// A notification's checked topic and id. A clone copies a pointer, not the text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    text: Arc<str>,
}

impl Key {
    /// Makes a key from a topic and an id, and checks both.
    ///
    /// # Errors
    /// [`BadKey`] says which part is wrong.
    pub fn new(topic: &str, id: &str) -> Result<Self, BadKey> {
        check_parts(topic, id)?;
        Ok(Self {
            text: format!("{topic}/{id}").into(),
        })
    }

    /// Reads `topic/id` as written by [`Key::as_str`].
    ///
    /// # Errors
    /// [`BadKey`] says which part is wrong.
    pub fn parse(text: &str) -> Result<Self, BadKey> {
        let (topic, id) = text.split_once('/').ok_or(BadKey::Id)?;
        check_parts(topic, id)?;
        Ok(Self { text: text.into() })
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        self.parts().0
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        let parts = self.text.split_once('/');
        parts.expect("invariant: a key was put together with a slash")
    }

    /// `topic/id`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

fn check_parts(topic: &str, id: &str) -> Result<(), BadKey> {
    check_topic(topic)?;
    check_id(id)
}

/// Checks a topic without an id.
///
/// # Errors
/// [`BadKey`] says what is wrong.
pub fn check_topic(topic: &str) -> Result<(), BadKey> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    if topic.is_empty() || topic.len() > LONGEST_TOPIC || !topic.bytes().all(allowed) {
        return Err(BadKey::Topic);
    }
    check_dots(topic)
}

/// Checks an id without a topic.
///
/// # Errors
/// [`BadKey`] says what is wrong.
pub fn check_id(id: &str) -> Result<(), BadKey> {
    let printable = |byte: u8| (0x20..=0x7e).contains(&byte);
    if id.is_empty() || id.len() > LONGEST_ID || !id.bytes().all(printable) {
        return Err(BadKey::Id);
    }
    check_dots(id)
}

fn check_dots(part: &str) -> Result<(), BadKey> {
    if part == "." || part == ".." {
        return Err(BadKey::Dots);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_splits_back_into_its_parts() {
        for (topic, id) in [
            ("payment.succeeded", "order/1?x=%20 ~"),
            ("a", "b"),
            ("_-.", "//"),
        ] {
            let key = Key::new(topic, id).expect("valid");
            assert_eq!((key.topic(), key.id()), (topic, id));
            assert_eq!(Key::parse(key.as_str()), Ok(key));
        }
    }

    #[test]
    fn both_sides_of_every_bound() {
        fn check(topic: &str, id: &str, expected: Option<BadKey>) {
            assert_eq!(Key::new(topic, id).err(), expected, "{topic} {id}");
        }
        check(&"t".repeat(64), &"i".repeat(128), None);
        check(&"t".repeat(65), "i", Some(BadKey::Topic));
        check("", "i", Some(BadKey::Topic));
        check("a/b", "i", Some(BadKey::Topic));
        check("é", "i", Some(BadKey::Topic));
        check("t", &"i".repeat(129), Some(BadKey::Id));
        check("t", "", Some(BadKey::Id));
        check("t", "a\n", Some(BadKey::Id));
        check("t", "ä", Some(BadKey::Id));
        check("t", "\u{7f}", Some(BadKey::Id));
        check("t", "..", Some(BadKey::Dots));
        check(".", "i", Some(BadKey::Dots));
        check("t", "...", None);
    }
}
