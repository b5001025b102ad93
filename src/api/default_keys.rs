//! The routes `/v1/default-keys`: add, list, show and remove the default signing keys.

use crate::api::Api;
use crate::api::auth::OnBehalfOf;
use crate::api::key_document::{AddedKeyView, KeyView};
use crate::api::key_requests::{answer_added, read_key_to_add};
use crate::api::problem::{Problem, ProblemKind};
use crate::api::query::NoQuery;
use crate::api::view::json;
use crate::domain::default_keys::{BadDefaultKeyChange, DefaultKeys};
use crate::domain::timestamp::display_ms;
use crate::service::ServiceError;
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::request::Parts;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// What everybody should know who uses a default key.
const SHARED: &str = "every receiver that verifies with a default key knows it or shares it with others, so each of them \
    can forge calls to the others; give a receiver an endpoint with a key of its own";

/// The id of a default key, from the path.
#[derive(Debug)]
pub struct DefaultKeyPath(String);

impl<S: Send + Sync> FromRequestParts<S> for DefaultKeyPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(id) = path.map_err(|_| {
            let detail = "the path's percent-encoding is not UTF-8";
            Problem::new(ProblemKind::Parameters, detail)
        })?;
        Ok(Self(id))
    }
}

/// The default keys in an answer, the newest first. None if every server signs with its own `--signing-secret`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DefaultKeyList)]
pub(super) struct DefaultKeysView<'a> {
    items: Vec<ListedKeyView<'a>>,
    warning: &'static str,
}

/// A default key, or one that this server cannot read.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ListedDefaultKey)]
#[serde(untagged)]
pub(super) enum ListedKeyView<'a> {
    Known(KeyView<'a>),
    /// A key that this server cannot read, and why.
    Unreadable {
        id: &'a str,
        /// Always `unreadable`.
        kind: &'static str,
        #[schema(required, format = DateTime)]
        signs_until: Option<String>,
        unreadable: &'a str,
    },
}

/// What an answer gives as the kind of a key that cannot be read.
const UNREADABLE: &str = "unreadable";

/// The keys that have not ended, and before them those that cannot be read.
fn listed(keys: &DefaultKeys) -> impl Iterator<Item = ListedKeyView<'_>> {
    let unreadable = keys.unreadable().iter().filter(|key| !key.is_former);
    let unreadable = unreadable.map(|key| ListedKeyView::Unreadable {
        id: &key.id,
        kind: UNREADABLE,
        signs_until: key.signs_until_ms.map(display_ms),
        unreadable: &key.why,
    });
    let known = keys.kept().map(|known| KeyView::of(&known.key));
    unreadable.chain(known.map(ListedKeyView::Known))
}

impl ListedKeyView<'_> {
    fn is(&self, asked: &str) -> bool {
        match self {
            Self::Known(key) => key.id() == asked,
            Self::Unreadable { id, .. } => *id == asked,
        }
    }
}

/// A default key in the answer to the request that made it.
#[derive(Serialize, ToSchema)]
#[schema(as = AddedDefaultKey)]
pub(super) struct AddedDefaultKeyView<'a> {
    #[serde(flatten)]
    key: AddedKeyView<'a>,
    warning: &'static str,
}

/// `GET /v1/default-keys`: the default keys, without their secrets.
pub async fn list(State(api): State<Arc<Api>>, _: NoQuery) -> Result<Response, Problem> {
    let keys = api.service.default_keys().await;
    let keys = keys.map_err(Problem::of_service)?;
    let view = DefaultKeysView {
        items: listed(&keys).collect(),
        warning: SHARED,
    };
    Ok(json(StatusCode::OK, &view))
}

/// `POST /v1/default-keys`: adds a default key. The body may be left out. Answers 201; 200 if the given secret was added
/// before and signs for good.
pub async fn add(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let asked = read_key_to_add(&api, request).await?;
    let added = api.service.add_default_key(asked, &actor).await;
    let added = added.map_err(Problem::of_service)?;
    let view = AddedDefaultKeyView {
        key: AddedKeyView::of(&added),
        warning: SHARED,
    };
    Ok(answer_added(&view, &added, "/v1/default-keys"))
}

/// `GET /v1/default-keys/{id}`: one default key, without its secret.
pub async fn show(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    DefaultKeyPath(id): DefaultKeyPath,
) -> Result<Response, Problem> {
    let keys = api.service.default_keys().await;
    let keys = keys.map_err(Problem::of_service)?;
    let found = listed(&keys).find(|known| known.is(&id));
    let missing = || ServiceError::DefaultKeyChange(BadDefaultKeyChange::Unknown);
    let known = found.ok_or_else(|| Problem::of_service(missing()))?;
    Ok(json(StatusCode::OK, &known))
}

/// `DELETE /v1/default-keys/{id}`: removes a default key at once.
pub async fn remove(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    DefaultKeyPath(id): DefaultKeyPath,
    OnBehalfOf(actor): OnBehalfOf,
) -> Result<Response, Problem> {
    let removed = api.service.remove_default_key(&id, &actor).await;
    removed.map_err(Problem::of_service)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
