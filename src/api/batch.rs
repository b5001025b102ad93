//! `POST /v1/notifications/batch`: many registrations in one request.
//!
//! The registrations are independent: if one is refused, the others are registered nevertheless. They are
//! registered concurrently, so that a store writes many of them in one call. If a store is out of reach, those
//! that need it and have not started yet get the same error.

mod reach;

use crate::api::Api;
use crate::api::auth::{CalledBy, OnBehalfOf, check_topic};
use crate::api::body::read_json;
use crate::api::field_errors::FieldErrors;
use crate::api::fields;
use crate::api::problem::{Problem, ProblemView};
use crate::api::query::NoQuery;
use crate::api::registration::{self, InvalidRequest, RegistrationDocument};
use crate::api::registration_problem::registration_problem;
use crate::api::request_span::RequestSpan;
use crate::api::schema::{array_of, document, named_schema, reference};
use crate::api::view::{NotificationView, json};
use crate::domain::caller::Caller;
use crate::domain::key::Key;
use crate::domain::notification::Registration;
use crate::domain::order::OrderMode;
use crate::journal::Actor;
use crate::service::RegisterReply;
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use reach::OutOfReach;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;
use utoipa::ToSchema;

const FIELDS: [&str; 1] = ["notifications"];
/// Maximum number of registrations in one request.
pub const MOST_ITEMS: usize = 1_000;
/// Maximum number of registrations of one request that run at once. A store takes as many in one call.
const MOST_SIDE_BY_SIDE: usize = 256;
/// Maximum number of errors that are listed for one registration. With as many as a single one may have, a request of some
/// hundred kilobytes would be answered with many megabytes.
const MOST_ERRORS_OF_AN_ITEM: usize = 10;

type ItemResult = Result<RegisterReply, Problem>;

/// The results of a batch, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BatchResults)]
pub struct BatchView<'a> {
    results: Vec<ItemView<'a>>,
}

/// The result of one registration: its status, and the notification or the problem.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BatchResult)]
struct ItemView<'a> {
    /// The status that the registration alone would have been answered with.
    status: u16,
    #[serde(flatten)]
    result: ResultView<'a>,
}

/// What became of one registration.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RegistrationResult)]
#[serde(rename_all = "lowercase")]
enum ResultView<'a> {
    Notification(NotificationView<'a>),
    Problem(ProblemView<'a>),
}

impl<'a> ItemView<'a> {
    fn of(outcome: &'a ItemResult) -> Self {
        let (status, result) = match outcome {
            Ok(RegisterReply::Created(snapshot)) => (
                StatusCode::CREATED,
                ResultView::Notification(NotificationView::of(snapshot)),
            ),
            Ok(RegisterReply::Existing(snapshot)) => (
                StatusCode::OK,
                ResultView::Notification(NotificationView::of(snapshot)),
            ),
            Err(problem) => (problem.status(), ResultView::Problem(problem.view())),
        };
        Self {
            status: status.as_u16(),
            result,
        }
    }
}

/// Registers many notifications. Answers 200 with one result for each, in the order of the request.
pub async fn register(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    CalledBy(caller): CalledBy,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let tracer = &api.settings.tracer;
    let mut span = RequestSpan::begin(tracer, "POST /v1/notifications/batch", request.headers());
    let result = register_items(&api, &caller, &actor, request, &mut span).await;
    span.end(
        result
            .as_ref()
            .map_or_else(Problem::status, Response::status),
    );
    result
}

async fn register_items(
    api: &Arc<Api>,
    caller: &Caller,
    actor: &Actor,
    request: Request,
    span: &mut RequestSpan,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut share = api.request_memory.share();
    let text = read_json(&parts.headers, body, api.batch_bounds(), &mut share).await?;
    // The permit is taken after the body has arrived. Otherwise a slow sender would hold it.
    let _permit = api.batch_permit().await?;
    let measure = api.measure();
    let registrations: Vec<Result<Registration, Problem>> = split(text.as_str())?
        .into_iter()
        .map(|item| {
            let mut registration =
                registration::parse(item.get(), measure).map_err(problem_of_item)?;
            registration.headers = registration.headers.with_trace(span.context().cloned());
            check_topic(caller, registration.key.topic())?;
            Ok(registration)
        })
        .collect();
    drop(text);
    let many = i64::try_from(registrations.len()).unwrap_or(i64::MAX);
    span.note("ringback.batch_size", many);
    let outcomes = register_all(api, registrations, caller, actor).await;
    let results = outcomes.iter().map(ItemView::of).collect();
    Ok(json(StatusCode::OK, &BatchView { results }))
}

fn problem_of_item(invalid: InvalidRequest) -> Problem {
    match invalid {
        InvalidRequest::Fields(errors) => Problem::fields(errors.at_most(MOST_ERRORS_OF_AN_ITEM)),
        unreadable @ InvalidRequest::Unreadable(_) => Problem::invalid(unreadable),
    }
}

/// Splits the body into the JSON texts of the registrations.
fn split(text: &str) -> Result<Vec<&RawValue>, Problem> {
    const POINTER: &str = "/notifications";
    let mut errors = FieldErrors::default();
    let [notifications] =
        fields::read(text, &FIELDS, "", &mut errors).map_err(Problem::unreadable)?;
    let mut items = Vec::new();
    match notifications {
        None => {
            errors.add(POINTER, "this field is missing");
        }
        Some(array) => match fields::elements(array.get(), MOST_ITEMS) {
            Ok((elements, count)) if count <= MOST_ITEMS => items = elements,
            Ok((_, count)) => {
                let detail = format!("a batch has at most {MOST_ITEMS} notifications, not {count}");
                errors.add(POINTER, detail);
            }
            Err(bad) => {
                errors.add(POINTER, bad);
            }
        },
    }
    if errors.is_empty() {
        Ok(items)
    } else {
        Err(Problem::fields(errors))
    }
}

/// Registrations of a batch that are made one after another, with their positions in it: one alone, or those of one strict
/// order. Otherwise a higher number could be sent before its lower ones are known.
type Chain = Vec<(usize, Registration)>;

/// Registers all and returns the results in the order of the registrations.
///
/// If several registrations have the same key, the first one counts: the others start after all first
/// ones have ended. If a store is out of reach, the registrations that have not started and need it are not tried, because
/// each of them would wait for its own time-out ([`OutOfReach`]).
async fn register_all(
    api: &Arc<Api>,
    registrations: Vec<Result<Registration, Problem>>,
    caller: &Caller,
    actor: &Actor,
) -> Vec<ItemResult> {
    let many = registrations.len();
    let caller = Arc::new(caller.clone());
    let mut outcomes: Vec<Option<ItemResult>> = vec![None; many];
    let mut keys: HashSet<Key> = HashSet::with_capacity(many);
    let mut repeated = Vec::new();
    let mut chains: Vec<Chain> = Vec::new();
    let mut of_orders: HashMap<Box<str>, usize> = HashMap::new();
    for (position, registration) in registrations.into_iter().enumerate() {
        match registration {
            Err(problem) => outcomes[position] = Some(Err(problem)),
            Ok(registration) if !keys.insert(registration.key.clone()) => {
                repeated.push((position, registration));
            }
            Ok(registration) => {
                let order = registration.order.as_ref();
                let strict = order.filter(|order| order.mode() == OrderMode::Strict);
                let chain = match strict {
                    None => chains.len(),
                    Some(order) => *of_orders.entry(order.key().into()).or_insert(chains.len()),
                };
                match chains.get_mut(chain) {
                    Some(chain) => chain.push((position, registration)),
                    None => chains.push(vec![(position, registration)]),
                }
            }
        }
    }
    let out_of_reach = Arc::new(Mutex::new(OutOfReach::default()));
    let register = |chain: Chain, is_order: bool| {
        let (api, caller, actor) = (api.clone(), caller.clone(), actor.clone());
        let out_of_reach = out_of_reach.clone();
        async move {
            let by = (caller.as_ref(), &actor);
            register_chain(&api, (chain, is_order), by, &out_of_reach).await
        }
    };
    let mut in_flight = JoinSet::new();
    for chain in chains {
        if in_flight.len() == MOST_SIDE_BY_SIDE {
            keep(in_flight.join_next().await, &mut outcomes);
        }
        in_flight.spawn(register(chain, true));
    }
    while let Some(joined) = in_flight.join_next().await {
        keep(Some(joined), &mut outcomes);
    }
    for (position, outcome) in register(repeated, false).await {
        outcomes[position] = Some(outcome);
    }
    outcomes
        .into_iter()
        // A registration whose task panicked has no result.
        .map(|outcome| outcome.unwrap_or_else(|| Err(Problem::internal())))
        .collect()
}

/// Registers one after another, except what needs a store that is known to be out of reach. If they are those of one order and
/// one of them was not taken in time, the rest is not tried either: a higher number could be sent before a lower one is known.
async fn register_chain(
    api: &Arc<Api>,
    (chain, is_order): (Chain, bool),
    (caller, actor): (&Caller, &Actor),
    out_of_reach: &Mutex<OutOfReach>,
) -> Vec<(usize, ItemResult)> {
    let lock = || out_of_reach.lock().unwrap_or_else(PoisonError::into_inner);
    let mut results = Vec::with_capacity(chain.len());
    let mut broken_off: Option<Problem> = None;
    for (position, registration) in chain {
        let known = match &broken_off {
            Some(problem) => Some(problem.clone()),
            None => lock().problem_of(&api.service, &registration).cloned(),
        };
        let outcome = match known {
            Some(problem) => Err(problem),
            None => {
                let part = api.service.part_for(&registration);
                match api.service.register(registration, actor.clone()).await {
                    Ok(reply) => Ok(reply),
                    Err(error) => {
                        let problem = registration_problem(error.clone(), caller);
                        lock().note(&api.service, part, &error, &problem);
                        Err(problem)
                    }
                }
            }
        };
        if is_order && let Err(problem) = &outcome {
            // Also if there was no room, or the journal could not be read: it may be registered again.
            let may_come = problem.kind().status().is_server_error();
            broken_off = may_come.then(|| problem.clone());
        }
        results.push((position, outcome));
    }
    results
}

/// Puts results at their positions.
fn keep(
    joined: Option<Result<Vec<(usize, ItemResult)>, tokio::task::JoinError>>,
    outcomes: &mut [Option<ItemResult>],
) {
    match joined {
        Some(Ok(results)) => {
            for (position, outcome) in results {
                outcomes[position] = Some(outcome);
            }
        }
        Some(Err(error)) => {
            tracing::error!(
                %error,
                "a registration in a batch (POST /v1/notifications/batch) panicked, which is a bug; its result in the \
                 answer is an error 500"
            );
        }
        None => {}
    }
}

/// A batch as a caller writes it.
pub struct BatchDocument;
named_schema!(BatchDocument, "Batch", {
    let registrations = array_of(reference::<RegistrationDocument>()).max_items(Some(MOST_ITEMS));
    document(&FIELDS, [registrations.into()], &FIELDS)
        .description(Some("Registrations, independent of each other."))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_an_object_with_an_array() {
        fn check(text: &str, expected: Result<usize, &str>) {
            let split = split(text).map(|items| items.len());
            let split = split.map_err(|problem| problem.detail().to_string());
            assert_eq!(
                split.as_ref().copied().map_err(|detail| detail.as_str()),
                expected,
                "{text}"
            );
        }
        let many = |count: usize| format!("{{\"notifications\":[{}0]}}", "0,".repeat(count - 1));
        check(r#"{"notifications":[]}"#, Ok(0));
        check(r#"{"notifications":[{},null]}"#, Ok(2));
        check(&many(1_000), Ok(1_000));
        check(
            &many(1_001),
            Err("/notifications: a batch has at most 1000 notifications, not 1001"),
        );
        check("{}", Err("/notifications: this field is missing"));
        check("[]", Err("an object is expected, not an array"));
        check(
            r#"{"notifications":{}}"#,
            Err("/notifications: an array is expected, not an object"),
        );
        check(
            r#"{"notifications":null}"#,
            Err("/notifications: an array is expected, not null"),
        );
        check(
            r#"{"notifications":[],"x":1}"#,
            Err("/x: unknown field; known are notifications"),
        );
        check(
            r#"{"notifications":[1,]}"#,
            Err("the body is not JSON: expected value at line 1 column 21"),
        );
    }
}
