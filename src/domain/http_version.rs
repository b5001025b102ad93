//! The versions of HTTP that calls to receivers speak.

use thiserror::Error;

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HttpVersion {
    /// HTTP/1.1 (RFC 9112).
    #[default]
    Http1,
    /// HTTP/2 (RFC 9113).
    Http2,
}

/// A text that names no version of HTTP that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a version of HTTP is \"1.1\" or \"2\"")]
pub struct BadHttpVersion;

impl HttpVersion {
    /// The name of the version: `1.1` or `2`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http1 => "1.1",
            Self::Http2 => "2",
        }
    }

    /// Reads the name of a version.
    ///
    /// # Errors
    /// [`BadHttpVersion`] if it is neither `1.1` nor `2`.
    pub fn parse(text: &str) -> Result<Self, BadHttpVersion> {
        let mut known = [Self::Http1, Self::Http2].into_iter();
        known
            .find(|version| version.as_str() == text)
            .ok_or(BadHttpVersion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_one_of_two_texts() {
        fn check(text: &str, expected: Result<HttpVersion, BadHttpVersion>) {
            assert_eq!(HttpVersion::parse(text), expected, "{text}");
        }
        check("1.1", Ok(HttpVersion::Http1));
        check("2", Ok(HttpVersion::Http2));
        for wrong in ["", "1", "1.0", "2.0", "3", "h2", "HTTP/2", " 2"] {
            check(wrong, Err(BadHttpVersion));
        }
    }
}
