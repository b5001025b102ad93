//! Where a notification goes: a URL that can be called at all.
//!
//! Checks the form only. Whether its addresses may be called is decided when they are known, at
//! dial time (`delivery::address_filter`).

use std::fmt;
use thiserror::Error;
use url::Url;

/// Longest URL, in bytes.
pub const LONGEST_URL: usize = 2_048;

/// A checked `http` or `https` URL, kept as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination(Box<str>);

/// Why a URL is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadDestination {
    /// Too long.
    #[error("a URL is at most {LONGEST_URL} bytes long")]
    Length,
    /// No absolute URL.
    #[error("not an absolute URL like https://shop.example/notify")]
    Form,
    /// Another scheme.
    #[error("the scheme of a URL is https or http")]
    Scheme,
    /// User name or password in it; they would end up in logs.
    #[error("a URL with a user name or password in it is not accepted; use a header")]
    Credentials,
}

impl Destination {
    /// Checks a URL.
    ///
    /// # Errors
    /// [`BadDestination`] says what is wrong, without repeating the URL.
    pub fn parse(text: &str) -> Result<Self, BadDestination> {
        if text.len() > LONGEST_URL {
            return Err(BadDestination::Length);
        }
        // The parser drops tabs and newlines and repairs much else; such text is a mistake here.
        if text
            .bytes()
            .any(|byte| byte <= b' ' || byte == 0x7f || byte == b'\\')
        {
            return Err(BadDestination::Form);
        }
        let url = Url::parse(text).map_err(|_| BadDestination::Form)?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(BadDestination::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadDestination::Credentials);
        }
        let slashes = text[url.scheme().len()..].starts_with("://");
        if !url.has_host() || !slashes || url.port() == Some(0) {
            return Err(BadDestination::Form);
        }
        Ok(Self(text.into()))
    }

    /// A URL read back from a store, where it was checked before.
    #[must_use]
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// The URL as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The URL in parts; `None` if a store gave back something else than was checked.
    #[must_use]
    pub fn url(&self) -> Option<Url> {
        Url::parse(&self.0).ok()
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_that_can_be_called_pass() {
        fn check(text: &str, expected: Option<BadDestination>) {
            assert_eq!(Destination::parse(text).err(), expected, "{text}");
        }
        use BadDestination::{Credentials, Form, Length, Scheme};
        check("https://shop.example/notify?a=1#x", None);
        check("http://127.0.0.1:8080", None);
        check("https://[2001:db8::1]/", None);
        check("ftp://shop.example/", Some(Scheme));
        check("javascript:alert(1)", Some(Scheme));
        check("file:///etc/passwd", Some(Scheme));
        check("https://user:pass@shop.example/", Some(Credentials));
        check("https://user@shop.example/", Some(Credentials));
        check("/notify", Some(Form));
        check("shop.example/notify", Some(Form));
        check("https://", Some(Form));
        check("https://sh op.example/", Some(Form));
        check("https://shop.example/\nx", Some(Form));
        check("https://[::1", Some(Form));
        check("https://shop.example:99999/", Some(Form));
        check("https://shop.example:0/", Some(Form));
        check("http:shop.example", Some(Form));
        check("http:/shop.example", Some(Form));
        check("http:\\\\shop.example\\x", Some(Form));
        check("HTTPS://shop.example/", None);
        check("", Some(Form));
        let at_bound = format!("https://a.example/{}", "a".repeat(LONGEST_URL - 18));
        check(&at_bound, None);
        check(&format!("{at_bound}a"), Some(Length));
    }
}
