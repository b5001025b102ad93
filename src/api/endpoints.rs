//! The routes `/v1/endpoints`: set, change, remove, show, list and test endpoints.

use crate::api::Api;
use crate::api::attempt_view::AttemptView;
use crate::api::auth::OnBehalfOf;
use crate::api::body::{read_json, read_no_fields};
use crate::api::endpoint_document;
use crate::api::endpoint_view::EndpointView;
use crate::api::field_errors::{FieldErrors, FieldLocation};
use crate::api::problem::{Problem, ProblemKind};
use crate::api::query::{NoQuery, endpoints_request};
use crate::api::view::json;
use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::service::EndpointReply;
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use http::{HeaderValue, StatusCode, Uri, header};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// The name of an endpoint, from the path.
///
/// If the name is not valid, the answer is 404, because no endpoint can have it. The `detail` says why.
#[derive(Debug)]
pub struct EndpointPath(pub EndpointName);

impl<S: Send + Sync> FromRequestParts<S> for EndpointPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let name = name_in_path(parts, state).await?;
        EndpointName::parse(&name)
            .map(Self)
            .map_err(|bad| Problem::new(ProblemKind::MissingEndpoint, bad.to_string()))
    }
}

/// The name of an endpoint to be made, from the path. A name that is not valid is an error of the request.
#[derive(Debug)]
pub struct NewEndpointPath(EndpointName);

impl<S: Send + Sync> FromRequestParts<S> for NewEndpointPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let name = name_in_path(parts, state).await?;
        EndpointName::parse(&name).map(Self).map_err(|bad| {
            let location = FieldLocation::Parameter("name".to_string());
            Problem::parameters(FieldErrors::one(location, bad))
        })
    }
}

async fn name_in_path<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<String, Problem> {
    let path = Path::<String>::from_request_parts(parts, state).await;
    path.map(|Path(name)| name).map_err(|_| {
        let detail = "the path's percent-encoding is not UTF-8";
        Problem::new(ProblemKind::Parameters, detail)
    })
}

/// A page of endpoints, in the order of their names.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EndpointList)]
pub struct EndpointListView<'a> {
    items: Vec<EndpointView<'a>>,
    /// The `cursor` of the next page; `null` on the last one.
    #[schema(required)]
    next_cursor: Option<&'a str>,
}

/// `PUT /v1/endpoints/{name}`: makes or replaces an endpoint. Answers 201 if it is new, else 200.
pub async fn set(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    NewEndpointPath(name): NewEndpointPath,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut share = api.request_memory.share();
    let text = read_json(&parts.headers, body, api.small_bounds(), &mut share).await?;
    let asked = endpoint_document::parse(text.as_str(), api.settings.longest_timeout)
        .map_err(Problem::invalid)?;
    let set = api.service.set_endpoint(&name, asked, actor).await;
    match set.map_err(Problem::of_service)? {
        EndpointReply::Created(endpoint) => {
            let mut response = answer(StatusCode::CREATED, &endpoint);
            let location = HeaderValue::from_str(&format!("/v1/endpoints/{name}"));
            if let Ok(location) = location {
                response.headers_mut().insert(header::LOCATION, location);
            }
            Ok(response)
        }
        EndpointReply::Existing(endpoint) => Ok(answer(StatusCode::OK, &endpoint)),
    }
}

/// `PATCH /v1/endpoints/{name}`: changes an endpoint by a merge patch (RFC 7396).
pub async fn change(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    EndpointPath(name): EndpointPath,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut share = api.request_memory.share();
    let text = read_json(&parts.headers, body, api.small_bounds(), &mut share).await?;
    let longest = api.settings.longest_timeout;
    let change = |before: &Endpoint| {
        endpoint_document::patched(&before.settings, text.as_str(), longest)
            .map_err(Problem::invalid)
    };
    let changed = api.service.change_endpoint(&name, actor, change).await?;
    let (EndpointReply::Created(endpoint) | EndpointReply::Existing(endpoint)) = changed;
    Ok(answer(StatusCode::OK, &endpoint))
}

/// `GET /v1/endpoints/{name}`: one endpoint.
pub async fn show(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    EndpointPath(name): EndpointPath,
) -> Result<Response, Problem> {
    let found = api.service.stored_endpoint(&name).await;
    Ok(answer(StatusCode::OK, &found.map_err(Problem::of_service)?))
}

/// `GET /v1/endpoints`: a page of endpoints, in the order of their names.
pub async fn list(State(api): State<Arc<Api>>, uri: Uri) -> Result<Response, Problem> {
    let (cursor, limit) = endpoints_request(&uri)?;
    let page = api
        .service
        .list_endpoints(cursor.as_ref(), limit)
        .map_err(Problem::of_service)?;
    let view = EndpointListView {
        items: page
            .items
            .iter()
            .map(|endpoint| EndpointView::in_list(endpoint))
            .collect(),
        next_cursor: page.next.as_ref().map(EndpointName::as_str),
    };
    Ok(json(StatusCode::OK, &view))
}

/// `DELETE /v1/endpoints/{name}`: removes an endpoint that nothing pending names.
pub async fn remove(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    EndpointPath(name): EndpointPath,
    OnBehalfOf(actor): OnBehalfOf,
) -> Result<Response, Problem> {
    let removed = api.service.remove_endpoint(&name, actor).await;
    removed.map_err(Problem::of_service)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /v1/endpoints/{name}/test`: makes one signed call that is not kept. The body is left out or an empty
/// object. The answer is the attempt, also if it failed.
pub async fn test(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    EndpointPath(name): EndpointPath,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut share = api.request_memory.share();
    read_no_fields(&parts.headers, body, api.small_bounds(), &mut share).await?;
    let attempt = api.service.test_endpoint(&name, &actor).await;
    let attempt = attempt.map_err(Problem::of_service)?;
    Ok(json(StatusCode::OK, &AttemptView::of(&attempt)))
}

fn answer(status: StatusCode, endpoint: &Endpoint) -> Response {
    json(status, &EndpointView::of(endpoint))
}
