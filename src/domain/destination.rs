//! The destination of a notification: a URL whose form was checked.
//!
//! Whether the dispatcher may call the addresses of its host is decided later, when an attempt connects
//! and the addresses are known (`delivery::address_filter`).

use crate::domain::url_parts::UrlParts;
use std::fmt;
use thiserror::Error;
use url::Url;

/// Maximum length of a URL, in bytes.
pub const LONGEST_URL: usize = 2_048;

/// A checked `http` or `https` URL, stored exactly as the caller wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination(Box<str>);

/// Why a URL is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadDestination {
    /// The URL is too long.
    #[error("a URL is at most {LONGEST_URL} bytes long")]
    Length,
    /// The text is not an absolute URL.
    #[error("not an absolute URL like https://shop.example/notify")]
    Form,
    /// The scheme is neither `https` nor `http`.
    #[error("the scheme of a URL is https or http")]
    Scheme,
    /// The URL contains a user name or password. They would be written to logs.
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
        if UrlParts::of_plain(text).is_some() {
            return Ok(Self(text.into()));
        }
        // The parser would silently remove tabs and newlines and repair other mistakes. A caller who sends
        // such a text gets an error instead.
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

    /// Wraps a URL that was read from a store. It was checked before it was stored.
    #[must_use]
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// The text in which stores keep the destination of a notification: empty if it is that of an endpoint.
    #[must_use]
    pub fn to_stored(own: Option<&Self>) -> &str {
        own.map_or("", Self::as_str)
    }

    /// Reads what [`Destination::to_stored`] wrote.
    #[must_use]
    pub fn own_from_stored(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self::from_stored(text))
    }

    /// The URL as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts of the URL, if they are found without parsing it.
    #[must_use]
    pub fn plain_parts(&self) -> Option<UrlParts<'_>> {
        UrlParts::of_plain(&self.0)
    }

    /// The parsed URL; `None` if a store returned a text that is not a URL.
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
