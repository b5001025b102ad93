//! The routes `/v1/notifications`: register, look up, list, cancel, retry and resend notifications.

use crate::api::Api;
use crate::api::auth::{CalledBy, OnBehalfOf, check_topic, topic_to_list};
use crate::api::body::{read_json, read_no_fields};
use crate::api::path::KeyPath;
use crate::api::problem::{Problem, ProblemKind};
use crate::api::query::{NoQuery, list_request};
use crate::api::reason::reason_of;
use crate::api::registration;
use crate::api::registration_problem::registration_problem;
use crate::api::request_span::RequestSpan;
use crate::api::view::{FullView, ListView, created, json, notification, requested};
use crate::domain::caller::Caller;
use crate::journal::Actor;
use crate::service::{RegisterReply, ServiceError, calls_wait};
use axum::extract::{Request, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use std::sync::Arc;

/// `POST /v1/notifications`: registers a notification. Answers 201 if it is new, and 200 if the same one was
/// registered before and nobody has cancelled it.
pub async fn register(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    CalledBy(caller): CalledBy,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let tracer = &api.settings.tracer;
    let mut span = RequestSpan::begin(tracer, "POST /v1/notifications", request.headers());
    let result = register_one(&api, &caller, actor, request, &mut span).await;
    span.end(
        result
            .as_ref()
            .map_or_else(Problem::status, Response::status),
    );
    result
}

async fn register_one(
    api: &Api,
    caller: &Caller,
    actor: Actor,
    request: Request,
    span: &mut RequestSpan,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    // The memory is held until the answer, because the registration takes about as much as its text.
    let mut share = api.request_memory.share();
    let text = read_json(&parts.headers, body, api.single_bounds(), &mut share).await?;
    let mut registration =
        registration::parse(text.as_str(), api.measure()).map_err(Problem::invalid)?;
    registration.headers = registration.headers.with_trace(span.context().cloned());
    // The text is not needed while the stores are called.
    drop(text);
    check_topic(caller, registration.key.topic())?;
    match api.service.register(registration, actor).await {
        Ok(RegisterReply::Created(snapshot)) => {
            span.note_notification(&snapshot, true);
            Ok(created(&snapshot))
        }
        Ok(RegisterReply::Existing(snapshot)) => {
            span.note_notification(&snapshot, false);
            Ok(notification(StatusCode::OK, &snapshot))
        }
        Err(error) => Err(registration_problem(error, caller)),
    }
}

/// `GET /v1/notifications/{topic}/{id}`: one notification with its attempts, its ladder and its history.
pub async fn show(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    KeyPath(key): KeyPath,
) -> Result<Response, Problem> {
    let found = api.service.look_up(&key).await.and_then(|found| {
        // For the service, an unknown key is not an error. The API answers 404.
        found.ok_or(ServiceError::Missing)
    });
    let (snapshot, flights) = found.map_err(Problem::of_service)?;
    let transitions = api
        .service
        .transitions(&key)
        .await
        .map_err(Problem::of_service)?;
    let waiting = api.service.waiting_for(&snapshot).await;
    let hold = api.service.hold_before_due(&snapshot, flights).await;
    let loss = api.service.endpoint_loss(&snapshot).await;
    let loss = loss.map(|loss| loss.in_words(snapshot.state).to_string());
    let hold = hold.as_ref().map(calls_wait);
    let warnings: Vec<String> = loss.into_iter().chain(hold).collect();
    let payload = (api.service.payload_outline(&snapshot).await).map_err(Problem::of_service)?;
    let view = FullView::of(&snapshot, flights, &transitions, waiting.as_ref());
    let view = view.with_warnings(&warnings);
    let view = view.with_payload(payload.as_ref());
    Ok(json(StatusCode::OK, &view))
}

/// `GET /v1/notifications`: a page of notifications, newest first.
pub async fn list(
    State(api): State<Arc<Api>>,
    CalledBy(caller): CalledBy,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut request = list_request(&uri)?;
    request.filter.topic = topic_to_list(&caller, request.filter.topic.take())?;
    request.asked_by = caller.name.clone();
    let page = api
        .service
        .list(&request)
        .await
        .map_err(Problem::of_service)?;
    Ok(json(StatusCode::OK, &ListView::of(&page)))
}

/// `DELETE /v1/notifications/{topic}/{id}`: cancels a notification.
pub async fn cancel(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    KeyPath(key): KeyPath,
    OnBehalfOf(actor): OnBehalfOf,
) -> Result<Response, Problem> {
    let snapshot = api
        .service
        .cancel(&key, actor)
        .await
        .map_err(Problem::of_service)?;
    Ok(notification(StatusCode::OK, &snapshot))
}

/// `POST /v1/notifications/{topic}/{id}/retry`: makes an attempt now. The body is left out or an empty
/// object.
pub async fn retry(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    KeyPath(key): KeyPath,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut share = api.request_memory.share();
    read_no_fields(&parts.headers, body, api.small_bounds(), &mut share).await?;
    let snapshot = api
        .service
        .retry(&key, actor)
        .await
        .map_err(Problem::of_service)?;
    let waiting = api.service.waiting_after_request(&snapshot).await;
    Ok(requested(&snapshot, waiting.as_ref()))
}

/// `POST /v1/notifications/{topic}/{id}/resend`: sends a delivered notification again. The body is optional.
pub async fn resend(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    KeyPath(key): KeyPath,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let reason = reason_of(&api, request).await?;
    let snapshot = api
        .service
        .resend(&key, actor, &reason)
        .await
        .map_err(Problem::of_service)?;
    let waiting = api.service.waiting_after_request(&snapshot).await;
    Ok(requested(&snapshot, waiting.as_ref()))
}

/// Answers a request whose path matches no route.
pub async fn unknown_route(uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::new(ProblemKind::Route, format!("there is nothing at {path}"))
}

/// Answers a request whose path does not accept its method. The header `Allow` lists the methods that the
/// path accepts.
pub async fn unknown_method() -> Problem {
    Problem::new(
        ProblemKind::Method,
        "this path does not accept this method; the header `Allow` lists the accepted ones",
    )
}
