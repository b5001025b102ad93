//! The routes `/v1/endpoints/{name}/keys`: add, show and remove signing keys.

use crate::api::Api;
use crate::api::auth::OnBehalfOf;
use crate::api::endpoints::EndpointPath;
use crate::api::key_document::{AddedKeyView, KeyView};
use crate::api::key_requests::{answer_added, read_key_to_add};
use crate::api::problem::{Problem, ProblemKind};
use crate::api::query::NoQuery;
use crate::api::view::json;
use crate::domain::endpoint::EndpointName;
use crate::domain::endpoint_keys::BadKeyChange;
use crate::service::ServiceError;
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::request::Parts;
use std::sync::Arc;

/// The name of an endpoint and the id of a key, from the path. If they are not valid, the answer is 404, because
/// there is no such key.
#[derive(Debug)]
pub struct SigningKeyPath(EndpointName, String);

impl<S: Send + Sync> FromRequestParts<S> for SigningKeyPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path((name, id)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|_| {
                let detail = "the path's percent-encoding is not UTF-8";
                Problem::new(ProblemKind::Parameters, detail)
            })?;
        EndpointName::parse(&name)
            .map(|name| Self(name, id))
            .map_err(|bad| Problem::new(ProblemKind::MissingEndpoint, bad.to_string()))
    }
}

/// `POST /v1/endpoints/{name}/keys`: adds a signing key. The body may be left out. Answers 201; 200 if the given
/// secret was added before and signs for good.
pub async fn add(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    EndpointPath(name): EndpointPath,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let asked = read_key_to_add(&api, request).await?;
    let added = api.service.add_signing_key(&name, asked, &actor).await;
    let added = added.map_err(Problem::of_service)?;
    let keys = format!("/v1/endpoints/{name}/keys");
    Ok(answer_added(&AddedKeyView::of(&added), &added, &keys))
}

/// `GET /v1/endpoints/{name}/keys/{id}`: one signing key, without its secret.
pub async fn show(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    SigningKeyPath(name, id): SigningKeyPath,
) -> Result<Response, Problem> {
    let endpoint = api.service.stored_endpoint(&name).await;
    let endpoint = endpoint.map_err(Problem::of_service)?;
    let found = endpoint.keys.list().iter().find(|key| key.id == id);
    let missing = || Problem::of_service(ServiceError::KeyChange(BadKeyChange::Unknown));
    let key = found.ok_or_else(missing)?;
    Ok(json(StatusCode::OK, &KeyView::of(key)))
}

/// `DELETE /v1/endpoints/{name}/keys/{id}`: removes a signing key at once.
pub async fn remove(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    SigningKeyPath(name, id): SigningKeyPath,
    OnBehalfOf(actor): OnBehalfOf,
) -> Result<Response, Problem> {
    let removed = api.service.remove_signing_key(&name, &id, &actor).await;
    removed.map_err(Problem::of_service)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
