//! The HTTP headers that a caller adds to a delivery, and the headers that a caller may not set.

use thiserror::Error;

/// Maximum number of headers that a caller may add.
pub const MOST_HEADERS: usize = 32;
/// Maximum total bytes of all header names and values.
pub const MOST_BYTES: usize = 8 * 1024;

/// Headers that a caller may not set. HTTP itself sets most of them (RFC 9110, "Connection" and hop-by-hop
/// fields); the dispatcher sets `content-type` and `user-agent`.
const RESERVED: [&str; 14] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];
const RESERVED_PREFIXES: [&str; 2] = ["webhook-", "ringback-"];

/// Checked headers: pairs of a lower-case name and a value, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

/// Why a header is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadHeader {
    /// The name is empty or contains a character that HTTP does not allow in names.
    #[error("a header name is made of letters, digits and !#$%&'*+-.^_`|~")]
    Name,
    /// The value contains a control character other than tab, or a character that is not ASCII.
    #[error("a header value is printable ASCII")]
    Value,
    /// The dispatcher or HTTP itself sets this header.
    #[error("this header is set by the dispatcher or by HTTP itself")]
    Reserved,
    /// The same name is given twice. Upper and lower case are not distinguished.
    #[error("this header is given twice")]
    Twice,
    /// There are too many headers.
    #[error("a notification has at most {MOST_HEADERS} headers")]
    TooMany,
    /// The headers are too long together.
    #[error("all header names and values together are at most {MOST_BYTES} bytes")]
    TooLong,
}

impl Headers {
    /// Adds one header.
    ///
    /// # Errors
    /// [`BadHeader`] says which rule the header breaks.
    pub fn insert(&mut self, name: &str, value: &str) -> Result<(), BadHeader> {
        let name = name.to_ascii_lowercase();
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(BadHeader::Name);
        }
        if RESERVED.contains(&name.as_str())
            || RESERVED_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix))
        {
            return Err(BadHeader::Reserved);
        }
        if !value
            .bytes()
            .all(|byte| byte == b'\t' || (0x20..=0x7e).contains(&byte))
        {
            return Err(BadHeader::Value);
        }
        if self.0.len() == MOST_HEADERS {
            return Err(BadHeader::TooMany);
        }
        if self.bytes() + name.len() + value.len() > MOST_BYTES {
            return Err(BadHeader::TooLong);
        }
        match self
            .0
            .binary_search_by(|(known, _)| known.as_str().cmp(&name))
        {
            Ok(_) => Err(BadHeader::Twice),
            Err(position) => {
                self.0.insert(position, (name, value.to_string()));
                Ok(())
            }
        }
    }

    /// Wraps headers that were read from a store. They were checked before they were stored.
    #[must_use]
    pub fn from_stored(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// The pairs of name and value, sorted by name.
    #[must_use]
    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// The total bytes of all names and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum()
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_checked_one_by_one() {
        fn check(name: &str, value: &str, expected: Option<BadHeader>) {
            assert_eq!(
                Headers::default().insert(name, value).err(),
                expected,
                "{name}: {value}"
            );
        }
        check("X-Request-Id", "42", None);
        check("authorization", "Bearer a b", None);
        check("", "x", Some(BadHeader::Name));
        check("x y", "x", Some(BadHeader::Name));
        check("x:y", "x", Some(BadHeader::Name));
        check("x", "a\r\nInjected: 1", Some(BadHeader::Value));
        check("x", "é", Some(BadHeader::Value));
        for name in [
            "Host",
            "Content-Length",
            "TRANSFER-ENCODING",
            "Content-Type",
            "User-Agent",
        ] {
            check(name, "x", Some(BadHeader::Reserved));
        }
        for name in [
            "Webhook-Id",
            "webhook-signature",
            "Ringback-Attempt",
            "ringback-x",
        ] {
            check(name, "x", Some(BadHeader::Reserved));
        }
    }

    #[test]
    fn headers_are_bounded_and_unique() {
        let mut headers = Headers::default();
        assert_eq!(headers.insert("b", "1"), Ok(()));
        assert_eq!(headers.insert("A", "2"), Ok(()));
        assert_eq!(headers.insert("a", "3"), Err(BadHeader::Twice));
        assert_eq!(
            headers.pairs(),
            [("a".into(), "2".into()), ("b".into(), "1".into())]
        );
        assert_eq!(
            headers.insert("c", &"x".repeat(MOST_BYTES)),
            Err(BadHeader::TooLong)
        );
        for number in 2..MOST_HEADERS {
            assert_eq!(headers.insert(&format!("h{number}"), ""), Ok(()));
        }
        assert_eq!(headers.insert("one-more", ""), Err(BadHeader::TooMany));
    }
}
