//! The routes `/v1/keys`: make, list, show and revoke API keys.

use crate::api::Api;
use crate::api::auth::OnBehalfOf;
use crate::api::body::read_json;
use crate::api::field_errors::{FieldErrors, Noted};
use crate::api::fields::{self, UnreadableJson, elements, given, optional, required, string};
use crate::api::problem::{Problem, ProblemKind};
use crate::api::query::NoQuery;
use crate::api::registration::InvalidRequest;
use crate::api::schema::{
    RoleName, array_of, document, named_schema, or_null_list, reference, text, time_or_null, topic,
};
use crate::api::view::json;
use crate::domain::api_key::{ApiKeyName, ApiKeyRecord, BadKeyTopics, KeyTopics, MOST_TOPICS};
use crate::domain::role::Role;
use crate::domain::timestamp::{self, display_ms};
use crate::journal::ApiKeyRow;
use crate::service::{ApiKeyRequest, BadApiKeyChange, ServiceError};
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use utoipa::ToSchema;

const FIELDS: [&str; 4] = ["name", "role", "topics", "expires_at"];
const TOPICS: &str = "/topics";

/// The name of an API key, from the path.
#[derive(Debug)]
pub struct ApiKeyPath(String);

impl<S: Send + Sync> FromRequestParts<S> for ApiKeyPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(name) = path.map_err(|_| {
            let detail = "the path's percent-encoding is not UTF-8";
            Problem::new(ProblemKind::Parameters, detail)
        })?;
        Ok(Self(name))
    }
}

/// An API key in an answer. `topics` is `null` if it is bound to none, `expires_at` if it does not expire.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApiKey)]
pub(super) struct ApiKeyView<'a> {
    name: &'a str,
    #[schema(value_type = RoleName)]
    role: &'static str,
    #[schema(required)]
    topics: Option<Vec<&'a str>>,
    #[schema(format = DateTime)]
    created_at: String,
    created_by: &'a str,
    #[schema(required, format = DateTime)]
    expires_at: Option<String>,
    has_expired: bool,
}

impl<'a> ApiKeyView<'a> {
    fn of(record: &'a ApiKeyRecord, now_ms: i64) -> Self {
        Self {
            name: record.name.as_str(),
            role: record.role.as_str(),
            topics: record.topics.as_ref().map(|topics| topics.iter().collect()),
            created_at: display_ms(record.created_ms),
            created_by: &record.created_by,
            expires_at: record.expires_ms.map(display_ms),
            has_expired: !record.is_valid_at(now_ms),
        }
    }
}

/// An API key, or one that this server cannot read.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ListedApiKey)]
#[serde(untagged)]
pub(super) enum ListedApiKeyView<'a> {
    Known(ApiKeyView<'a>),
    /// A key that this server cannot read, and why. It permits nothing.
    Unreadable {
        name: &'a str,
        #[schema(required)]
        role: Option<&'static str>,
        unreadable: &'a str,
    },
}

impl<'a> ListedApiKeyView<'a> {
    fn of(row: &'a ApiKeyRow, now_ms: i64) -> Self {
        match &row.read {
            Ok(record) => Self::Known(ApiKeyView::of(record, now_ms)),
            Err(unreadable) => Self::Unreadable {
                name: &row.name,
                role: None,
                unreadable,
            },
        }
    }
}

/// All API keys.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApiKeyList)]
pub(super) struct ApiKeysView<'a> {
    items: Vec<ListedApiKeyView<'a>>,
}

/// An API key in the answer to the request that made it.
#[derive(Serialize, ToSchema)]
#[schema(as = MadeApiKey)]
pub(super) struct MadeApiKeyView<'a> {
    #[serde(flatten)]
    view: ApiKeyView<'a>,
    /// The key itself, shown this once.
    key: &'a str,
    /// What the caller has to know: that it is the first key, so that from now on requests without one are refused. Missing
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'static str>,
}

/// The warning in the answer that makes the first key.
const FIRST_KEY: &str = "this is the first API key: from now on, requests without a key are refused with 401, so give \
     every caller one";

/// `GET /v1/keys`: all API keys, by name, without the keys themselves.
pub async fn list(State(api): State<Arc<Api>>, _: NoQuery) -> Result<Response, Problem> {
    let rows = api.service.api_keys().await;
    let rows = rows.map_err(Problem::of_service)?;
    let now_ms = api.service.clock().now_ms();
    let items = rows.iter().map(|row| ListedApiKeyView::of(row, now_ms));
    let items = items.collect();
    Ok(json(StatusCode::OK, &ApiKeysView { items }))
}

/// `GET /v1/keys/{name}`: one API key, without the key itself.
pub async fn show(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    ApiKeyPath(name): ApiKeyPath,
) -> Result<Response, Problem> {
    let rows = api.service.api_keys().await;
    let rows = rows.map_err(Problem::of_service)?;
    let missing = || Problem::of_service(ServiceError::ApiKeyChange(BadApiKeyChange::Missing));
    let row = rows.iter().find(|row| row.name == name);
    let view = ListedApiKeyView::of(row.ok_or_else(missing)?, api.service.clock().now_ms());
    Ok(json(StatusCode::OK, &view))
}

/// `POST /v1/keys`: makes an API key. Answers 201 with the key, which is shown this once.
pub async fn make(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut share = api.request_memory.share();
    let text = read_json(&parts.headers, body, api.small_bounds(), &mut share).await?;
    let now_ms = api.service.clock().now_ms();
    let asked = parse(text.as_str(), now_ms).map_err(Problem::invalid)?;
    let made = api.service.make_api_key(asked, &actor).await;
    let made = made.map_err(Problem::of_service)?;
    let view = MadeApiKeyView {
        view: ApiKeyView::of(&made.record, now_ms),
        key: &made.key,
        warning: made.is_first.then_some(FIRST_KEY),
    };
    let mut response = json(StatusCode::CREATED, &view);
    let location = format!("/v1/keys/{}", made.record.name);
    let headers = response.headers_mut();
    if let Ok(location) = HeaderValue::from_str(&location) {
        headers.insert(header::LOCATION, location);
    }
    // No proxy or client may keep the key.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// `DELETE /v1/keys/{name}`: revokes an API key at once.
pub async fn revoke(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    ApiKeyPath(name): ApiKeyPath,
    OnBehalfOf(actor): OnBehalfOf,
) -> Result<Response, Problem> {
    let revoked = api.service.revoke_api_key(&name, &actor).await;
    revoked.map_err(Problem::of_service)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Reads the request to make a key.
fn parse(text: &str, now_ms: i64) -> Result<ApiKeyRequest, InvalidRequest> {
    let mut errors = FieldErrors::default();
    let unreadable = |unreadable: UnreadableJson| InvalidRequest::Unreadable(unreadable);
    let [name, role, topics, expires_at] =
        fields::read(text, &FIELDS, "", &mut errors).map_err(unreadable)?;
    let read = (
        required(name, "/name", &mut errors, |name| {
            ApiKeyName::parse(name).map_err(|bad| bad.to_string())
        }),
        required(role, "/role", &mut errors, |role| {
            Role::from_name(role).ok_or("a role is `producer`, `support` or `operator`")
        }),
        read_topics(topics, &mut errors),
        optional(expires_at, "/expires_at", &mut errors, |text| {
            check_end(text, now_ms)
        }),
    );
    if let (_, Ok(role), Ok(Some(_)), _) = &read
        && *role != Role::Producer
    {
        errors.add(
            TOPICS,
            "only a key with the role producer is bound to topics",
        );
    }
    match read {
        (Ok(name), Ok(role), Ok(topics), Ok(expires_ms)) if errors.is_empty() => {
            Ok(ApiKeyRequest {
                name,
                role,
                topics,
                expires_ms,
            })
        }
        _ => Err(InvalidRequest::Fields(errors)),
    }
}

fn read_topics(
    field: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<Option<KeyTopics>, Noted> {
    let Some(array) = given(field) else {
        return Ok(None);
    };
    let (values, count) =
        elements(array.get(), MOST_TOPICS).map_err(|bad| errors.add(TOPICS, bad))?;
    if count > MOST_TOPICS {
        return Err(errors.add(TOPICS, BadKeyTopics::Number));
    }
    let mut topics = Vec::with_capacity(values.len());
    for (index, value) in values.into_iter().enumerate() {
        let topic = string(value).map_err(|bad| errors.add(&format!("{TOPICS}/{index}"), bad))?;
        topics.push(topic);
    }
    let checked = KeyTopics::new(topics.iter().map(|topic| &**topic));
    checked.map(Some).map_err(|bad| match bad {
        BadKeyTopics::Number => errors.add(TOPICS, bad),
        BadKeyTopics::Topic(index) => errors.add(&format!("{TOPICS}/{index}"), bad),
    })
}

fn check_end(text: &str, now_ms: i64) -> Result<i64, String> {
    let end_ms = timestamp::parse_ms(text).map_err(|bad| bad.to_string())?;
    if end_ms <= now_ms {
        return Err("this is in the past".to_string());
    }
    Ok(end_ms)
}

/// A request to make an API key, as a caller writes it.
pub struct ApiKeyToMakeDocument;
named_schema!(ApiKeyToMakeDocument, "ApiKeyToMake", {
    let name = text().pattern(Some("^(?!\\.{1,2}$)[A-Za-z0-9_.-]{1,48}$"));
    let topics = array_of(topic())
        .min_items(Some(1))
        .max_items(Some(MOST_TOPICS));
    let topics = or_null_list(topics).description(Some(
        "Only with the role `producer`: the topics that it reaches.",
    ));
    let expires_at =
        time_or_null().description(Some("In the future. Left out, it does not expire."));
    let members = [
        name.into(),
        reference::<RoleName>().into(),
        topics.into(),
        expires_at.into(),
    ];
    document(&FIELDS, members, &["name", "role"]).description(Some("An API key to be made."))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_key_and_its_role() {
        fn check(text: &str, expected: Result<&str, &str>) {
            let found = parse(text, 1_000).map(|asked| {
                let topics = asked.topics.map(|topics| topics.to_text());
                format!(
                    "{} {} {topics:?} {:?}",
                    asked.name, asked.role, asked.expires_ms
                )
            });
            let found = found.map_err(|bad| Problem::invalid(bad).detail().to_string());
            assert_eq!(
                found,
                expected.map(str::to_string).map_err(str::to_string),
                "{text}"
            );
        }
        check(
            r#"{"name":"a","role":"support"}"#,
            Ok("a support None None"),
        );
        check(
            r#"{"name":"a","role":"producer","topics":["b","a"],"expires_at":"1970-01-01T00:00:02Z"}"#,
            Ok(r#"a producer Some("a b") Some(2000)"#),
        );
        check(
            r#"{"name":"a","role":"operator","topics":null,"expires_at":null}"#,
            Ok("a operator None None"),
        );
        check(
            r#"{"name":"a","role":"root"}"#,
            Err("/role: a role is `producer`, `support` or `operator`"),
        );
        check(
            r#"{"name":"a","role":"support","topics":["a"]}"#,
            Err("/topics: only a key with the role producer is bound to topics"),
        );
        check(
            r#"{"name":"a","role":"support","expires_at":"1970-01-01T00:00:01Z"}"#,
            Err("/expires_at: this is in the past"),
        );
    }

    #[test]
    fn every_wrong_topic_is_named_by_its_place() {
        fn check(topics: &str, expected: &str) {
            let text = format!(r#"{{"name":"a","role":"producer","topics":{topics}}}"#);
            let bad = parse(&text, 0).expect_err("refused");
            let detail = Problem::invalid(bad).detail().to_string();
            assert!(detail.starts_with(expected), "{topics}: {detail}");
        }
        check("[]", "/topics: a key is bound to 1 to 100 topics");
        check("\"a\"", "/topics: ");
        check("[\"a\",1]", "/topics/1: ");
        check("[\"a\",\"b c\"]", "/topics/1: a topic is 1 to 64");
    }
}
