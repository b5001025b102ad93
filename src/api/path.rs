//! Reads what the path of a request names: a notification, a lane or a job. A name that is not valid is answered 404, because
//! nothing can have it; the `detail` says which rule it breaks.

use crate::api::problem::{Problem, ProblemKind};
use crate::domain::job::JobId;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use serde::de::DeserializeOwned;

/// The key of a notification, from two segments of the path: topic and id.
#[derive(Debug)]
pub struct KeyPath(pub Key);

impl<S: Send + Sync> FromRequestParts<S> for KeyPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let (topic, id): (String, String) = segments(parts, state).await?;
        Key::new(&topic, &id)
            .map(Self)
            .map_err(|bad| Problem::new(ProblemKind::Missing, bad.to_string()))
    }
}

/// The lane of a request, from a segment of the path: the name of a lane, or any URL with its origin, percent-encoded.
#[derive(Debug)]
pub struct LanePath(pub Lane);

impl<S: Send + Sync> FromRequestParts<S> for LanePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let lane: String = segments(parts, state).await?;
        Lane::parse(&lane)
            .map(Self)
            .map_err(|bad| Problem::new(ProblemKind::Missing, bad.to_string()))
    }
}

/// The id of a job, from a segment of the path.
#[derive(Debug)]
pub struct JobPath(pub JobId);

impl<S: Send + Sync> FromRequestParts<S> for JobPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let id: String = segments(parts, state).await?;
        JobId::parse(&id)
            .map(Self)
            .map_err(|bad| Problem::new(ProblemKind::MissingJob, bad.to_string()))
    }
}

/// The segments of the path that the route names, decoded.
async fn segments<Segments: DeserializeOwned + Send>(
    parts: &mut Parts,
    state: &(impl Send + Sync),
) -> Result<Segments, Problem> {
    let Path(segments) = Path::<Segments>::from_request_parts(parts, state)
        .await
        .map_err(|_| {
            let detail = "the path's percent-encoding is not UTF-8";
            Problem::new(ProblemKind::Parameters, detail)
        })?;
    Ok(segments)
}
