//! Limits the number of requests under `/v1` in flight, and runs each of them to its end.
//!
//! Each of these requests runs in its own task, which holds a permit until the request has ended. So if a
//! client closes its connection, its request is not interrupted between the journal and the schedule, and the
//! permit is not given to another request too early. If a request panics, its client still gets an answer.
//!
//! Callers may be slow, on purpose or not. So an API key may have as many requests in flight as there are free permits, and one
//! at least: alone half of all, and less while others have theirs. Whatever some keys do, another one finds a permit.

use crate::api::key_places::{KeyPlaces, PlaceOfKey};
use crate::api::problem::{Problem, ProblemKind};
use crate::domain::api_key::ApiKeyName;
use crate::domain::caller::Caller;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The permits for requests.
#[derive(Debug, Clone)]
pub struct ConcurrencyLimit {
    permits: Arc<Semaphore>,
    /// The requests in flight of each API key.
    by_key: KeyPlaces,
}

impl ConcurrencyLimit {
    /// Makes a limit of `permits` requests.
    #[must_use]
    pub fn of(permits: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
            by_key: KeyPlaces::default(),
        }
    }

    /// Runs a request if there is a permit. Otherwise answers 503; or 429, if its API key has too many requests in flight.
    pub async fn run(&self, request: Request, next: Next) -> Response {
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            return Problem::busy().into_response();
        };
        let caller = request.extensions().get::<Arc<Caller>>();
        let place = match caller.and_then(|caller| caller.name.clone()) {
            None => None,
            Some(name) => match self.place_of(name) {
                Ok(place) => Some(place),
                Err(problem) => return problem.into_response(),
            },
        };
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let executed = tokio::spawn(async move {
            let response = next.run(request).await;
            drop((permit, place));
            response
        });
        match executed.await {
            Ok(response) => response,
            Err(error) => {
                tracing::error!(
                    %method,
                    path = uri.path(),
                    %error,
                    "a request panicked, which is a bug; the caller gets an error 500"
                );
                Problem::internal().into_response()
            }
        }
    }

    /// A place for a request of this key, which has a permit.
    fn place_of(&self, name: ApiKeyName) -> Result<PlaceOfKey, Problem> {
        let most = self.permits.available_permits().max(1);
        self.by_key.take(Some(name), most).map_err(|held| {
            let detail = format!(
                "this API key has {held} requests in flight, as many as it may have beside those of others; nothing was \
                 done, so send the request again"
            );
            Problem::new(ProblemKind::TooManyRequests, detail)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leaves_half_of_what_is_free_to_the_others() {
        let limit = ConcurrencyLimit::of(8);
        let [first, second] =
            ["first", "second"].map(|name| ApiKeyName::parse(name).expect("a name"));
        let fill = |name: &ApiKeyName| {
            let mut places = Vec::new();
            while let Ok(permit) = limit.permits.clone().try_acquire_owned() {
                match limit.place_of(name.clone()) {
                    Ok(place) => places.push((permit, place)),
                    Err(_) => break,
                }
            }
            places
        };
        let of_first = fill(&first);
        assert_eq!(of_first.len(), 4);
        let of_second = fill(&second);
        assert_eq!(of_second.len(), 2);
        drop(of_first);
        let more = fill(&second);
        assert_eq!(of_second.len() + more.len(), 4);
        drop((of_second, more));
        assert!(limit.by_key.are_all_free());
        assert_eq!(limit.permits.available_permits(), 8);
    }

    #[test]
    fn there_is_a_place_for_each_key_that_has_a_permit() {
        let limit = ConcurrencyLimit::of(1);
        let name = ApiKeyName::parse("only").expect("a name");
        let permit = limit.permits.clone().try_acquire_owned().expect("free");
        let place = limit.place_of(name.clone());
        assert!(place.is_ok() && limit.place_of(name).is_err());
        drop((permit, place));
    }
}
