//! The parts of a URL that a call needs: its origin, its host and its path.
//!
//! Nearly all URLs of receivers are in the form that the URL parser would give them. [`UrlParts::of_plain`] recognises
//! those without the parser, which took 5 % of the work of a server: every registration and every attempt needs the
//! parts. What it does not recognise goes through the parser, so a URL is read the same in both ways.

use url::{Position, Url};

/// The parts of an `http` or `https` URL without user and password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UrlParts<'url> {
    /// Whether the scheme is `https`.
    pub is_https: bool,
    /// Scheme, host and port, such as `https://shop.example`; without the port if it is the default one of the scheme.
    pub origin: &'url str,
    /// Host and port, such as `shop.example:8443`.
    pub authority: &'url str,
    /// Path and query. It begins with a slash.
    pub path: &'url str,
    /// The host alone; an IPv6 address is in brackets.
    pub host: &'url str,
    /// Whether the host is an IP address.
    pub is_address: bool,
}

impl<'url> UrlParts<'url> {
    /// The parts of a URL that was parsed.
    #[must_use]
    pub fn of(url: &'url Url) -> Self {
        Self {
            is_https: url.scheme() == "https",
            origin: &url[..Position::BeforePath],
            authority: &url[Position::BeforeHost..Position::BeforePath],
            path: &url[Position::BeforePath..Position::AfterQuery],
            // The parser has normalised unusual notations of addresses.
            host: url.host_str().unwrap_or_default(),
            is_address: matches!(url.host(), Some(url::Host::Ipv4(_) | url::Host::Ipv6(_))),
        }
    }

    /// The parts of a URL in the form that the parser gives it. `None` if it is not certain that this text has that form.
    #[must_use]
    pub fn of_plain(text: &'url str) -> Option<Self> {
        let (is_https, rest) = match text.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("http://")?),
        };
        let (authority, path) = rest.split_at(rest.find('/')?);
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        let is_address = is_plain_address(host);
        if !is_address && !is_plain_name(host) {
            return None;
        }
        if port.is_some_and(|port| !is_plain_port(port, is_https)) || !is_plain_path(path) {
            return None;
        }
        Some(Self {
            is_https,
            origin: &text[..text.len() - path.len()],
            authority,
            path,
            host,
            is_address,
        })
    }
}

/// Whether a host is an IPv4 address in the form of the parser: four decimal numbers.
fn is_plain_address(host: &str) -> bool {
    let is_number = |text: &str| {
        let is_canonical = text == "0" || !text.starts_with('0');
        is_canonical && text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u8>().is_ok()
    };
    host.split('.').count() == 4 && host.split('.').all(is_number)
}

/// Whether a host is a name in the form of the parser.
fn is_plain_name(host: &str) -> bool {
    let is_label = |label: &str| {
        let mut bytes = label.bytes();
        // `xn--` begins a label that has to be decoded.
        bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !label.is_empty()
            && !label.starts_with("xn--")
    };
    // A host whose last label is a number in any notation is an address, and is written otherwise.
    let last = host.rsplit('.').next().unwrap_or_default();
    last.starts_with(|first: char| first.is_ascii_lowercase()) && host.split('.').all(is_label)
}

/// Whether a port is in the form of the parser, which leaves out the default one of the scheme.
fn is_plain_port(port: &str, is_https: bool) -> bool {
    let default = if is_https { 443 } else { 80 };
    let is_digits = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
    is_digits && (port.parse::<u16>()).is_ok_and(|port| port != default)
}

/// Whether a path and its query are in the form of the parser: nothing to be encoded, no `.` or `..`, no fragment.
fn is_plain_path(text: &str) -> bool {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let stays = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/=&+,;:@!$*()".contains(&byte);
    // A percent sign may be that of an encoded dot.
    path.bytes().all(stays)
        && !path.contains("/.")
        && query
            .bytes()
            .all(|byte| stays(byte) || b"?%".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is recognised is read as the parser reads it.
    fn check(text: &str) -> bool {
        let Some(plain) = UrlParts::of_plain(text) else {
            return false;
        };
        let url = Url::parse(text).expect(text);
        assert_eq!(url.as_str(), text);
        assert_eq!(plain, UrlParts::of(&url), "{text}");
        assert_eq!(plain.origin, url.origin().ascii_serialization(), "{text}");
        assert!(url.username().is_empty() && url.password().is_none());
        true
    }

    #[test]
    fn the_usual_urls_are_recognised() {
        for text in [
            "https://shop.example/notify",
            "http://127.0.0.1:8080/a/b.php?order=1&x=%20",
            "https://a-1.shop.example:8443/",
            "http://localhost/x?a=b?c",
        ] {
            assert!(check(text), "{text}");
        }
    }

    #[test]
    fn what_the_parser_writes_otherwise_is_left_to_it() {
        for text in [
            "https://shop.example",
            "https://Shop.example/",
            "https://shop.example:443/",
            "http://shop.example:80/",
            "http://shop.example:080/",
            "http://shop.example:0/",
            "http://shop.example:/",
            "http://shop.example:99999/",
            "http://user@shop.example/",
            "http://a:b@shop.example/",
            "http://[::1]/",
            "http://0x7f.1/",
            "http://127.1/",
            "http://127.0.0.01/",
            "http://1.2.3.4.5/",
            "http://shop.0x1/",
            "http://shop..example/",
            "http://shop.example./",
            "http://xn--a/",
            "http://a_b.example/",
            "http://shop.example/a b",
            "http://shop.example/\"",
            "http://shop.example/%2e%2e/x",
            "http://shop.example/a/../b",
            "http://shop.example/./b",
            "http://shop.example/#x",
            "http://shop.example/?'",
            "http://shop.example/\u{e9}",
            "http:/shop.example/",
            "HTTP://shop.example/",
            "ftp://shop.example/",
        ] {
            assert!(!check(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_the_parser_reads_it(
            text in "https?://[a-z0-9A-Zx.:@%_-]{1,12}(:[0-9]{0,6})?/[a-z0-9.%2e/?#&'\"<>{}|^`~!$*();,=+\\\\-]{0,16}"
        ) {
            check(&text);
        }

        #[test]
        fn any_host_is_read_as_the_parser_reads_it(host in "[0-9a-fx.n-]{1,14}", port in 0u32..70_000) {
            check(&format!("http://{host}/"));
            check(&format!("https://{host}:{port}/x?y=%zz"));
        }
    }
}
