//! The URL of the proxy through which all calls to receivers go.

use std::fmt;
use url::{Host, Url};
use zeroize::Zeroizing;

/// Maximum length of a user name and of a password, in bytes (RFC 1929).
const LONGEST_CREDENTIAL: usize = 255;
const RIGHT: &str =
    "not a URL like http://user:password@proxy.example:3128 or socks5://proxy.example:1080";

/// How the proxy is asked for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyKind {
    /// HTTP/1.1 with `CONNECT`.
    Http,
    /// SOCKS version 5.
    Socks5,
}

/// A user name and a password.
#[derive(Clone)]
pub struct ProxyCredentials {
    /// The user name.
    pub user: Zeroizing<String>,
    /// The password.
    pub password: Zeroizing<String>,
}

/// The URL of a proxy, with its user name and password if it has them.
#[derive(Clone)]
pub struct ProxyUrl {
    kind: ProxyKind,
    host: Host,
    port: u16,
    credentials: Option<ProxyCredentials>,
}

impl ProxyUrl {
    /// Parses a URL with `http` or `socks5`. The port must be given.
    ///
    /// # Errors
    /// Says what is wrong, without repeating the URL, because the URL may contain a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|_| RIGHT)?;
        let kind = match url.scheme() {
            "http" => ProxyKind::Http,
            "socks5" | "socks5h" => ProxyKind::Socks5,
            "https" => {
                return Err("a proxy is asked by http:// or socks5://, not by https://".into());
            }
            _ => return Err(RIGHT.into()),
        };
        let has_more =
            !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some();
        if has_more {
            return Err("only the address may be in the URL of a proxy, and no path".into());
        }
        let host = match url.host().ok_or(RIGHT)? {
            // In URLs of unknown schemes, addresses are not read as such.
            Host::Domain(name) => Host::parse(name).map_err(|_| RIGHT)?,
            Host::Ipv4(address) => Host::Ipv4(address),
            Host::Ipv6(address) => Host::Ipv6(address),
        };
        // The parser leaves out the port that is usual for http.
        let port = url.port().or((kind == ProxyKind::Http).then_some(80));
        let credentials = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some(ProxyCredentials {
                user: credential(user)?,
                password: credential(password.unwrap_or_default())?,
            }),
        };
        if (credentials.as_ref()).is_some_and(|own| own.user.is_empty() || own.user.contains(':')) {
            return Err("the user name of a proxy is not empty and has no colon".into());
        }
        Ok(Self {
            kind,
            host,
            port: port
                .ok_or("the port of the proxy is missing, as in socks5://proxy.example:1080")?,
            credentials,
        })
    }

    /// How it is asked.
    #[must_use]
    pub fn kind(&self) -> ProxyKind {
        self.kind
    }

    /// Its host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it may ask for.
    #[must_use]
    pub fn credentials(&self) -> Option<&ProxyCredentials> {
        self.credentials.as_ref()
    }
}

/// Shows only the kind and the address.
impl fmt::Display for ProxyUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            ProxyKind::Http => "http",
            ProxyKind::Socks5 => "socks5",
        };
        write!(out, "{scheme}://{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ProxyUrl({self})")
    }
}

/// Decodes the percent-encoding of a user name or a password.
fn credential(text: &str) -> Result<Zeroizing<String>, String> {
    let bad = "the user name or the password of the proxy is not UTF-8, or longer than 255 bytes";
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let decoded = match (first, after) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match decoded {
            Some((high, low)) => {
                bytes.push(high << 4 | low);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    if bytes.len() > LONGEST_CREDENTIAL {
        return Err(bad.into());
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| bad)?;
    Ok(Zeroizing::new(text.to_string()))
}

fn hex(digit: u8) -> Option<u8> {
    let digit = char::from(digit).to_digit(16)?;
    u8::try_from(digit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_has_an_address_and_credentials_that_are_not_shown() {
        fn check(text: &str, shown: &str, credentials: Option<(&str, &str)>) {
            let url = ProxyUrl::parse(text).expect(text);
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), format!("ProxyUrl({shown})"));
            let own = url.credentials();
            let own = own.map(|own| (own.user.as_str(), own.password.as_str()));
            assert_eq!(own, credentials, "{text}");
        }
        check(
            "http://proxy.example:3128",
            "http://proxy.example:3128",
            None,
        );
        check("http://proxy.example/", "http://proxy.example:80", None);
        check("socks5://127.0.0.1:1080", "socks5://127.0.0.1:1080", None);
        check("socks5h://[::1]:1080", "socks5://[::1]:1080", None);
        check(
            "http://ann:p%40ss%3A%25@10.0.0.1:8080",
            "http://10.0.0.1:8080",
            Some(("ann", "p@ss:%")),
        );
        check(
            "socks5://ann@p.example:1",
            "socks5://p.example:1",
            Some(("ann", "")),
        );
    }

    #[test]
    fn what_is_no_proxy_is_refused_without_its_password() {
        let long = "x".repeat(256);
        for wrong in [
            "",
            "proxy.example:3128",
            "ftp://hunter2@proxy.example:3128",
            "https://ann:hunter2@proxy.example:3128",
            "socks5://ann:hunter2@proxy.example",
            "socks4://proxy.example:1080",
            "http://ann:hunter2@proxy.example:3128/path",
            "http://ann:hunter2@proxy.example:3128?a",
            "http://:hunter2@proxy.example:3128",
            "http://a%3Ab:hunter2@proxy.example:3128",
            "http://ann:%ffhunter2@proxy.example:3128",
            &format!("http://ann:hunter2{long}@proxy.example:3128"),
        ] {
            let why = ProxyUrl::parse(wrong).expect_err(wrong);
            assert!(!why.contains("hunter2"), "{wrong}: {why}");
        }
    }
}
