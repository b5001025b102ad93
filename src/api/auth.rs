//! Who sends a request and whether the request is admitted: the API key, the rights of its role, its topics, and the name
//! of the person or service behind a change.

use crate::access::NotAdmitted;
use crate::api::Api;
use crate::api::cross_site::{from_another_site, is_for_domain};
use crate::api::field_errors::{FieldErrors, FieldLocation};
use crate::api::problem::{Problem, ProblemKind};
use crate::api::rights::needed;
use crate::domain::api_key::ApiKeyName;
use crate::domain::caller::Caller;
use crate::domain::role::Role;
use crate::domain::timestamp::display_ms;
use crate::journal::Actor;
use axum::RequestExt as _;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request};
use http::request::Parts;
use http::{HeaderMap, header};
use std::sync::Arc;

/// The header with the actor: the person or service for which the caller sends the request. The
/// notification's history shows the actor.
pub const ACTOR_HEADER: &str = "Ringback-Actor";
/// Maximum length of an actor's name, in bytes.
const LONGEST_ACTOR: usize = 64;
/// The actor, if the header is missing and the caller's key has no name.
const DEFAULT_ACTOR: &str = "api";

/// Checks a request before it is executed: its API key, and whether the role and the topics of the key permit it. A change
/// is refused if a web page of another site made a browser send it. The handlers find the caller in the request then.
///
/// # Errors
/// The problem to answer with.
pub async fn admit(api: &Api, request: &mut Request) -> Result<(), Problem> {
    let caller = check(api, request).await?;
    request.extensions_mut().insert(caller);
    Ok(())
}

async fn check(api: &Api, request: &mut Request) -> Result<Arc<Caller>, Problem> {
    let now_ms = api.service.clock().now_ms();
    let key = key_of(request.headers())?;
    let caller = api
        .service
        .access()
        .admit(key, now_ms)
        .map_err(not_admitted)?;
    if !request.method().is_safe() && from_another_site(request.headers(), request.uri()) {
        return Err(Problem::new(
            ProblemKind::CrossSite,
            "a web page of another site sent this request; only programs and this server's own pages may make changes",
        ));
    }
    if !api.service.access().needs_key() && is_for_domain(request) {
        return Err(Problem::new(
            ProblemKind::CrossSite,
            "this server has no API key, so it accepts only requests whose `Host` is an IP address other than \
             0.0.0.0, `localhost` or a name without a dot: a web page could use any other name; make a key with `ringback key add`",
        ));
    }
    if caller.name.is_none() {
        return Ok(caller); // an operator, who may do everything
    }
    let route = request.extensions().get::<MatchedPath>();
    let permission = needed(request.method(), route.map_or("", MatchedPath::as_str));
    if !caller.role.permits(permission) {
        let detail = format!(
            "an API key with the role {} may not {}",
            caller.role,
            permission.in_words()
        );
        return Err(Problem::new(ProblemKind::Forbidden, detail));
    }
    if caller.topics.is_some() {
        let params = request.extract_parts::<RawPathParams>().await;
        let params = params.map_err(|_| {
            let detail = "the path's percent-encoding is not UTF-8";
            Problem::new(ProblemKind::Parameters, detail)
        })?;
        if let Some((_, topic)) = params.iter().find(|(name, _)| *name == "topic") {
            check_topic(&caller, topic)?;
        }
    }
    Ok(caller)
}

/// The key that a request has. `None`: it has no header with one.
pub(super) fn key_of(headers: &HeaderMap) -> Result<Option<&[u8]>, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Ok(None);
    };
    let shown = value.as_bytes().split_at_checked("Bearer ".len());
    match shown {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"Bearer ") => {
            Ok(Some(key.trim_ascii()))
        }
        Some(_) | None => Err(Problem::new(
            ProblemKind::Unauthorized,
            "the header `Authorization` is not of the form `Bearer KEY`",
        )),
    }
}

fn not_admitted(problem: NotAdmitted) -> Problem {
    let detail = match problem {
        NotAdmitted::NoKey => {
            "send an API key of this server in the header `Authorization: Bearer KEY`".to_string()
        }
        NotAdmitted::NoKeyExists => {
            "this server has no API key yet, so nobody may use it; set api-key and start it again".to_string()
        }
        NotAdmitted::UnknownKey => {
            "the key in the header `Authorization: Bearer KEY` is no API key of this server; it may have been revoked"
                .to_string()
        }
        NotAdmitted::Expired(name, expires_ms) => {
            format!("the API key `{name}` has expired at {}", display_ms(expires_ms))
        }
        NotAdmitted::TooMany => {
            return Problem::new(
                ProblemKind::TooManyRequests,
                "this API key sends more requests per second than one key may send to a server; nothing was done",
            );
        }
    };
    Problem::new(ProblemKind::Unauthorized, detail)
}

/// Checks that the caller's key is not bound to other topics.
///
/// # Errors
/// The problem to answer with.
pub fn check_topic(caller: &Caller, topic: &str) -> Result<(), Problem> {
    if caller.may_use(topic) {
        return Ok(());
    }
    Err(Problem::new(
        ProblemKind::Forbidden,
        "this API key is bound to other topics",
    ))
}

/// The topic of a list that the caller may read: the one asked for, or the only one of a key that is bound to one.
///
/// # Errors
/// If the key is bound to topics, and the request does not name one of them.
pub fn topic_to_list(caller: &Caller, asked: Option<String>) -> Result<Option<String>, Problem> {
    let Some(topics) = &caller.topics else {
        return Ok(asked);
    };
    if let Some(asked) = asked {
        check_topic(caller, &asked)?;
        return Ok(Some(asked));
    }
    let mut own = topics.iter();
    match (own.next(), own.next()) {
        (Some(only), None) => Ok(Some(only.to_string())),
        _ => Err(Problem::new(
            ProblemKind::Forbidden,
            "this API key is bound to some topics, so a list must name one of them: `?topic=...`",
        )),
    }
}

/// Who sends the request, from [`admit`].
#[derive(Debug)]
pub struct CalledBy(pub Arc<Caller>);

impl<S: Sync> FromRequestParts<S> for CalledBy {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Arc<Caller>>();
        caller.cloned().map(Self).ok_or_else(Problem::internal)
    }
}

/// The actor of a request: the name of its API key, and what the header [`ACTOR_HEADER`] says, with a slash in between.
#[derive(Debug)]
pub struct OnBehalfOf(pub Actor);

impl<S: Sync> FromRequestParts<S> for OnBehalfOf {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Arc<Caller>>();
        let caller = caller.map(Arc::as_ref);
        Ok(Self(actor_of(caller, &parts.headers)?))
    }
}

/// The actor of a request of this caller with these headers.
///
/// # Errors
/// If the header [`ACTOR_HEADER`] is wrong.
pub fn actor_of(caller: Option<&Caller>, headers: &HeaderMap) -> Result<Actor, Problem> {
    let name = caller.and_then(|caller| caller.name.as_ref());
    let actor = read_actor(name.map(ApiKeyName::as_str), headers)?;
    // A producer is the service that registers. What it does with its own notifications is no act of a person, and
    // could be as many entries as it has notifications; their histories say what it did.
    let is_producer = caller.is_some_and(|caller| caller.role == Role::Producer);
    Ok(match is_producer {
        true => Actor::unaudited(actor),
        false => Actor::named(actor),
    })
}

/// A name of a key has no slash, so nobody can act under the name of another key.
fn read_actor(key: Option<&str>, headers: &HeaderMap) -> Result<String, Problem> {
    let mut values = headers.get_all(ACTOR_HEADER).iter();
    let Some(value) = values.next() else {
        return Ok(key.unwrap_or(DEFAULT_ACTOR).to_string());
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
    if Actor::is_name_of_the_server(name) {
        return refuse("this name is reserved for the server itself");
    }
    Ok(match key {
        Some(key) => format!("{key}/{name}"),
        None => name.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::api_key::KeyTopics;
    use http::HeaderValue;

    fn headers(name: &'static str, value: &[u8]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_bytes(value).expect("a header value");
        headers.insert(name, value);
        headers
    }

    #[test]
    fn the_key_is_what_follows_the_scheme() {
        fn check(shown: &[u8], expected: Result<&[u8], ()>) {
            let headers = headers("authorization", shown);
            let found = key_of(&headers).map_err(|_| ());
            assert_eq!(found, expected.map(Some), "{shown:?}");
        }
        check(b"Bearer s3cret", Ok(b"s3cret"));
        check(b"bearer  s3cret ", Ok(b"s3cret"));
        check(b"Bearer", Err(()));
        check(b"Bearer ", Ok(b""));
        check(b"Basic s3cret", Err(()));
        check(b"s3cret", Err(()));
        check(b"\xff\xff\xff\xff\xff\xff\xff\xff", Err(()));
        assert!(matches!(key_of(&HeaderMap::new()), Ok(None)));
    }

    #[test]
    fn a_key_that_is_bound_to_topics_lists_those_alone() {
        fn check(topics: &str, asked: Option<&str>, expected: Result<Option<&str>, ()>) {
            let caller = Caller {
                topics: KeyTopics::from_text(topics),
                ..Caller::operator()
            };
            let found = topic_to_list(&caller, asked.map(str::to_string));
            let expected = expected.map(|topic| topic.map(str::to_string));
            assert_eq!(found.map_err(|_| ()), expected, "{topics} {asked:?}");
        }
        check("", None, Ok(None));
        check("", Some("a"), Ok(Some("a")));
        check("a", None, Ok(Some("a")));
        check("a", Some("a"), Ok(Some("a")));
        check("a", Some("b"), Err(()));
        check("a b", None, Err(()));
        check("a b", Some("b"), Ok(Some("b")));
    }

    #[test]
    fn the_actor_is_a_short_printable_name() {
        fn check(value: &[u8], expected: Option<&str>) {
            let actor = read_actor(None, &headers("ringback-actor", value)).ok();
            assert_eq!(actor.as_deref(), expected);
        }
        check(b"li.lei@support", Some("li.lei@support"));
        check(&[b'x'; 64], Some(&"x".repeat(64)));
        check(&[b'x'; 65], None);
        check(b"", None);
        check(b"a\tb", None);
        check("李雷".as_bytes(), None);
        check(b"dispatcher", None);
        check(b"maintenance", None);
        let actor = |key, headers: &HeaderMap| read_actor(key, headers).expect("an actor");
        assert_eq!(actor(None, &HeaderMap::new()), "api");
        assert_eq!(actor(Some("desk"), &HeaderMap::new()), "desk");
        let named = headers("ringback-actor", b"li.lei");
        assert_eq!(actor(Some("desk"), &named), "desk/li.lei");
        let mut twice = headers("ringback-actor", b"a");
        twice.append("ringback-actor", HeaderValue::from_static("b"));
        assert!(read_actor(None, &twice).is_err());
    }
}
