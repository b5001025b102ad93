//! Checks of the API key and of browser requests, and the name of the person or service behind a change.

use crate::api::field_errors::{FieldErrors, FieldLocation};
use crate::api::problem::{Problem, ProblemKind};
use crate::journal::Actor;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, header};
use std::sync::Arc;
use subtle::ConstantTimeEq as _;

/// The header with the actor: the person or service for which the caller sends the request. The
/// notification's history shows the actor.
pub const ACTOR_HEADER: &str = "Ringback-Actor";
/// Maximum length of an actor's name, in bytes.
const LONGEST_ACTOR: usize = 64;
/// The actor, if the header is missing.
const DEFAULT_ACTOR: &str = "api";

/// The API key that every request must contain, if a key is configured.
#[derive(Clone)]
pub struct RequiredApiKey(Option<Arc<str>>);

impl RequiredApiKey {
    /// Requires this key. With `None`, every request is accepted.
    #[must_use]
    pub fn new(key: Option<&str>) -> Self {
        Self(key.map(Arc::from))
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(key) = &self.0 else {
            return true;
        };
        let shown = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.as_bytes().split_at_checked("Bearer ".len()));
        match shown {
            // An attacker can learn only the length of the key from the time of the comparison.
            Some((scheme, shown)) => {
                scheme.eq_ignore_ascii_case(b"Bearer ")
                    && bool::from(shown.trim_ascii().ct_eq(key.as_bytes()))
            }
            None => false,
        }
    }
}

/// Checks a request before it is executed. The API key must be right. A change is refused if a web page of
/// another site made a browser send it.
pub async fn admit(State(key): State<RequiredApiKey>, request: Request, next: Next) -> Response {
    if !key.admits(request.headers()) {
        let detail = match request.headers().contains_key(header::AUTHORIZATION) {
            true => {
                "the key in the header `Authorization: Bearer KEY` is not the API key of this server"
            }
            false => "send the server's API key in the header `Authorization: Bearer KEY`",
        };
        return Problem::new(ProblemKind::Unauthorized, detail).into_response();
    }
    if !request.method().is_safe() && from_another_site(request.headers()) {
        return Problem::new(
            ProblemKind::CrossSite,
            "a web page of another site sent this request; only programs and this server's own pages may make changes",
        )
        .into_response();
    }
    next.run(request).await
}

/// Whether a web page of another site made a browser send the request. Browsers say so in the header
/// `Sec-Fetch-Site` (Fetch Metadata); programs do not send it. Without this check, any web page could
/// replay or retry notifications on a server without a key that runs on the visitor's machine.
fn from_another_site(headers: &HeaderMap) -> bool {
    headers
        .get("sec-fetch-site")
        .is_some_and(|site| site != "same-origin" && site != "none")
}

/// The actor of a request, from the header [`ACTOR_HEADER`].
#[derive(Debug)]
pub struct OnBehalfOf(pub Actor);

impl<S: Sync> FromRequestParts<S> for OnBehalfOf {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        read_actor(&parts.headers).map(Self)
    }
}

fn read_actor(headers: &HeaderMap) -> Result<Actor, Problem> {
    let mut values = headers.get_all(ACTOR_HEADER).iter();
    let Some(value) = values.next() else {
        return Ok(Actor(DEFAULT_ACTOR.into()));
    };
    let refuse = |detail: &str| {
        Err(Problem::fields(FieldErrors::one(
            FieldLocation::Header(ACTOR_HEADER),
            detail,
        )))
    };
    let name = value.to_str().unwrap_or("");
    let printable = name.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    if name.is_empty() || name.len() > LONGEST_ACTOR || !printable {
        return refuse("an actor is 1 to 64 printable ASCII characters");
    }
    if values.next().is_some() {
        return refuse("this header is given twice");
    }
    let actor = Actor(name.into());
    if actor.is_the_server() {
        return refuse("this name is reserved for the server itself");
    }
    Ok(actor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(name: &'static str, value: &[u8]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_bytes(value).expect("a header value");
        headers.insert(name, value);
        headers
    }

    #[test]
    fn only_the_very_key_is_admitted() {
        fn check(shown: &[u8], expected: bool) {
            let key = RequiredApiKey::new(Some("s3cret"));
            assert_eq!(key.admits(&headers("authorization", shown)), expected);
        }
        check(b"Bearer s3cret", true);
        check(b"bearer  s3cret", true);
        check(b"Bearer s3cre", false);
        check(b"Bearer s3crett", false);
        check(b"Bearer S3cret", false);
        check(b"Bearer", false);
        check(b"Bearer ", false);
        check(b"Basic s3cret", false);
        check(b"s3cret", false);
        check(b"\xff\xff\xff\xff\xff\xff\xff\xff", false);
        assert!(!RequiredApiKey::new(Some("s3cret")).admits(&HeaderMap::new()));
        assert!(RequiredApiKey::new(None).admits(&HeaderMap::new()));
    }

    #[test]
    fn the_actor_is_a_short_printable_name() {
        fn check(value: &[u8], expected: Option<&str>) {
            let actor = read_actor(&headers("ringback-actor", value)).ok();
            assert_eq!(actor.as_ref().map(|actor| &*actor.0), expected);
        }
        check(b"li.lei@support", Some("li.lei@support"));
        check(&[b'x'; 64], Some(&"x".repeat(64)));
        check(&[b'x'; 65], None);
        check(b"", None);
        check(b"a\tb", None);
        check("李雷".as_bytes(), None);
        check(b"dispatcher", None);
        check(b"maintenance", None);
        let actor = read_actor(&HeaderMap::new()).expect("a default");
        assert_eq!(&*actor.0, "api");
        let mut twice = headers("ringback-actor", b"a");
        twice.append("ringback-actor", HeaderValue::from_static("b"));
        assert!(read_actor(&twice).is_err());
    }

    #[test]
    fn browsers_tell_when_another_site_asks() {
        fn check(site: &[u8], expected: bool) {
            let headers = headers("sec-fetch-site", site);
            assert_eq!(from_another_site(&headers), expected);
        }
        check(b"same-origin", false);
        check(b"none", false);
        check(b"same-site", true);
        check(b"cross-site", true);
        assert!(!from_another_site(&HeaderMap::new()));
    }
}
