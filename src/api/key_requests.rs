//! Adding a signing key, to an endpoint or to the default keys: what both requests share, and both answers.

use crate::api::Api;
use crate::api::body::read_optional_json;
use crate::api::key_document;
use crate::api::problem::Problem;
use crate::api::view::json;
use crate::service::{AddedKey, KeyToAdd};
use axum::extract::Request;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

/// Reads the request to add a key. The body may be left out.
///
/// # Errors
/// The [`Problem`] with the body. It contains no secret.
pub async fn read_key_to_add(api: &Api, request: Request) -> Result<KeyToAdd, Problem> {
    let (parts, body) = request.into_parts();
    let mut share = api.request_memory.share();
    let text = read_optional_json(&parts.headers, body, api.small_bounds(), &mut share).await?;
    let text = text.as_ref().map_or("{}", |text| text.as_str());
    key_document::parse(text).map_err(Problem::invalid)
}

/// The answer to a request that has added a key to those of this path: 201, or 200 if it was there before.
pub fn answer_added(view: &impl Serialize, added: &AddedKey, keys: &str) -> Response {
    let status = match added.is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    let mut response = json(status, view);
    let headers = response.headers_mut();
    if added.is_new
        && let Ok(location) = HeaderValue::from_str(&format!("{keys}/{}", added.key.id))
    {
        headers.insert(header::LOCATION, location);
    }
    // No proxy or client may keep the secret.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
