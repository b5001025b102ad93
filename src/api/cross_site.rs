//! What is about web browsers, which any web page can make send requests to the machine that they run on.
//!
//! A change is refused if a page of another site sends it. A server that needs no key also refuses requests to a domain
//! name: a page can let its own name point to 127.0.0.1 (DNS rebinding), and the browser then takes the server for a part
//! of that site.

use axum::extract::Request;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Uri, header};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether a web page of another site made a browser send the request. Browsers say so in the header `Sec-Fetch-Site`
/// (Fetch Metadata). They leave it out for addresses that they do not trust, such as `0.0.0.0` or another machine's without
/// TLS; with a change they send `Origin` then, which is not the host of the request. Programs send neither. Without this
/// check, any web page could replay or retry notifications on a server without a key that runs on the visitor's machine.
#[must_use]
pub fn from_another_site(headers: &HeaderMap, uri: &Uri) -> bool {
    match headers.get("sec-fetch-site") {
        Some(site) => site != "same-origin" && site != "none",
        None => has_other_origin(headers, uri),
    }
}

/// Whether a request has an `Origin` that is not its host. A proxy that replaces `Host` makes it another one.
#[must_use]
pub fn has_other_origin(headers: &HeaderMap, uri: &Uri) -> bool {
    let host = match (uri.authority(), headers.get(header::HOST)) {
        (Some(authority), _) => Some(authority.as_str().as_bytes()),
        (None, host) => host.map(HeaderValue::as_bytes),
    };
    let is_other = |origin: &HeaderValue| {
        let origin = origin.as_bytes();
        let authority = [&b"http://"[..], b"https://"]
            .iter()
            .find_map(|scheme| origin.strip_prefix(*scheme));
        match (authority, host) {
            (Some(authority), Some(host)) => !authority.eq_ignore_ascii_case(host),
            _ => true,
        }
    };
    headers.get(header::ORIGIN).is_some_and(is_other)
}

/// Whether the request is for a name that the public DNS can have: one with a dot, except those below `localhost`. So is
/// `0.0.0.0` (`[::]`): systems take it for the own machine, and browsers do not say which site sends a request to it.
#[must_use]
pub fn is_for_domain(request: &Request) -> bool {
    let header = request.headers().get(header::HOST);
    let authority = match (request.uri().authority(), header) {
        (Some(authority), _) => authority.clone(),
        (None, Some(host)) => match Authority::try_from(host.as_bytes()) {
            Ok(authority) => authority,
            Err(_) => return !host.is_empty(),
        },
        // HTTP/1.0. Browsers send the header.
        (None, None) => return false,
    };
    let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
    let address = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(host) => host.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    };
    match address {
        Some(address) => address.is_unspecified(),
        None => host.contains('.') && !host.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &[u8]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_bytes(value).expect("a header value");
        headers.insert(name, value);
        headers
    }

    #[test]
    fn browsers_tell_when_another_site_asks() {
        let uri = Uri::from_static("/v1/x");
        let check = |site: &[u8], expected: bool| {
            let headers = headers("sec-fetch-site", site);
            assert_eq!(from_another_site(&headers, &uri), expected);
        };
        check(b"same-origin", false);
        check(b"none", false);
        check(b"same-site", true);
        check(b"cross-site", true);
        assert!(!from_another_site(&HeaderMap::new(), &uri));
        // A proxy may have replaced the host; the browser knows better.
        let mut own = headers("sec-fetch-site", b"same-origin");
        own.insert(header::ORIGIN, HeaderValue::from_static("https://a"));
        own.insert(header::HOST, HeaderValue::from_static("b"));
        assert!(!from_another_site(&own, &uri));
        assert!(has_other_origin(&own, &uri));
    }

    #[test]
    fn so_does_the_origin_of_a_request() {
        fn check(host: &'static str, origin: Option<&'static str>, expected: bool) {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            let found = from_another_site(&headers, &Uri::from_static("/v1/x"));
            assert_eq!(found, expected, "{host} {origin:?}");
        }
        check("desk.example", None, false);
        check("desk.example", Some("https://desk.example"), false);
        check("Desk.example:8400", Some("http://desk.example:8400"), false);
        check("desk.example", Some("https://desk.example:8443"), true);
        check("desk.example", Some("https://other.example"), true);
        check("desk.example", Some("null"), true);
        check("desk.example", Some(""), true);
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("a"));
        headers.insert("sec-fetch-site", HeaderValue::from_static("same-site"));
        assert!(from_another_site(&headers, &Uri::from_static("/v1/x")));
    }

    #[test]
    fn a_domain_name_is_no_name_of_this_machine() {
        fn check(host: &[u8], expected: bool) {
            let mut request = Request::default();
            let value = HeaderValue::from_bytes(host).expect("a header value");
            request.headers_mut().insert(header::HOST, value);
            assert_eq!(is_for_domain(&request), expected, "{host:?}");
        }
        for host in [
            "127.0.0.1:8400",
            "[::1]:8400",
            "localhost",
            "LOCALHOST:1",
            "localhost.",
            "ui.localhost",
            "ringback",
        ] {
            check(host.as_bytes(), false);
        }
        for host in [
            "rebind.example:8400",
            "127.0.0.1.example",
            "localhost.example",
            "a.example.",
            "0x7f.1",
            "0.0.0.0:8400",
            "[::]:8400",
        ] {
            check(host.as_bytes(), true);
        }
        check(b"\xff", true);
        assert!(!is_for_domain(&Request::default()));
    }
}
