//! The routes `/v1/dead-letters`: list, replay and discard dead letters.

use crate::api::Api;
use crate::api::auth::{CalledBy, OnBehalfOf, topic_to_list};
use crate::api::path::KeyPath;
use crate::api::problem::Problem;
use crate::api::query::{NoQuery, dead_letters_request};
use crate::api::reason::reason_of;
use crate::api::view::{ListView, json, notification, requested};
use axum::extract::{Request, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use std::sync::Arc;

/// `GET /v1/dead-letters`: a page of dead letters. The one that died last comes first.
pub async fn list(
    State(api): State<Arc<Api>>,
    CalledBy(caller): CalledBy,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut request = dead_letters_request(&uri)?;
    request.filter.topic = topic_to_list(&caller, request.filter.topic.take())?;
    request.asked_by = caller.name.clone();
    let page = api
        .service
        .dead_letters(&request)
        .await
        .map_err(Problem::of_service)?;
    Ok(json(StatusCode::OK, &ListView::of(&page)))
}

/// `POST /v1/dead-letters/{topic}/{id}/replay`: starts the ladder again. The body is optional.
pub async fn replay(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    KeyPath(key): KeyPath,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let reason = reason_of(&api, request).await?;
    let snapshot = api
        .service
        .replay(&key, actor, &reason)
        .await
        .map_err(Problem::of_service)?;
    let waiting = api.service.waiting_after_request(&snapshot).await;
    Ok(requested(&snapshot, waiting.as_ref()))
}

/// `DELETE /v1/dead-letters/{topic}/{id}`: discards a dead letter. It cannot be replayed after that.
pub async fn discard(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    KeyPath(key): KeyPath,
    OnBehalfOf(actor): OnBehalfOf,
) -> Result<Response, Problem> {
    let snapshot = api
        .service
        .discard(&key, actor)
        .await
        .map_err(Problem::of_service)?;
    Ok(notification(StatusCode::OK, &snapshot))
}
