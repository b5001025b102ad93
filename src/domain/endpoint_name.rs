//! The name of an endpoint.

use std::fmt;
use thiserror::Error;

/// Maximum length of an endpoint's name, in bytes.
pub const LONGEST_NAME: usize = 64;
/// The checked name of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointName(Box<str>);

/// The error for a text that is not the name of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadEndpointName {
    /// The name is empty, too long or contains a character that is not allowed.
    #[error("an endpoint's name is 1 to {LONGEST_NAME} of the characters A-Z a-z 0-9 _ . -")]
    Form,
    /// The name is `.` or `..`. HTTP clients remove these from a URL's path, so the endpoint could not be
    /// requested.
    #[error("`.` and `..` are not accepted, because they cannot be part of a URL's path")]
    Dots,
}

impl EndpointName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`BadEndpointName`] says which rule it breaks.
    pub fn parse(text: &str) -> Result<Self, BadEndpointName> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if text.is_empty() || text.len() > LONGEST_NAME || !text.bytes().all(allowed) {
            return Err(BadEndpointName::Form);
        }
        if matches!(text, "." | "..") {
            return Err(BadEndpointName::Dots);
        }
        Ok(Self(text.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EndpointName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        fn check(text: &str, expected: Option<BadEndpointName>) {
            assert_eq!(EndpointName::parse(text).err(), expected, "{text}");
        }
        check("shop-1", None);
        check("Shop_1.eu", None);
        check(&"x".repeat(64), None);
        check("", Some(BadEndpointName::Form));
        check(&"x".repeat(65), Some(BadEndpointName::Form));
        check("a/b", Some(BadEndpointName::Form));
        check("店", Some(BadEndpointName::Form));
        check(".", Some(BadEndpointName::Dots));
        check("..", Some(BadEndpointName::Dots));
    }
}
