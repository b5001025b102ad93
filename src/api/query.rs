//! Reads the parameters in the query of a request. What is in its path is read by `path`.
//!
//! An empty parameter means the same as a missing one, because an HTML form sends an empty parameter for a
//! field that was left blank. An unknown parameter is an error. Otherwise a filter with a typing error in its
//! name would show everything.

mod audit_log;
mod described;
mod search;

use crate::api::field_errors::FieldErrors;
use crate::api::problem::Problem;
use crate::domain::endpoint::EndpointName;
use crate::domain::job::{JobId, JobState};
use crate::domain::job_result::JobResult;
use crate::domain::key::check_topic;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::LaneState;
use crate::domain::state::{Cause, State};
use crate::domain::timestamp;
use crate::journal::Filter;
use crate::service::{JobListRequest, LaneListRequest, ListRequest};
pub use audit_log::audit_request;
use axum::extract::FromRequestParts;
pub use described::{
    audit_parameters, dead_letters_parameters, endpoints_parameters, job_notifications_parameters,
    jobs_parameters, lanes_parameters, list_parameters, path_parameter,
};
use http::Uri;
use http::request::Parts;
pub(super) use search::parse_id_part;
use search::{parse_id, parse_id_prefix, parse_url_part, parse_webhook_id};

/// Maximum number of items on a page.
const MOST_ITEMS: usize = 1_000;
/// Default number of items on a page.
const DEFAULT_ITEMS: usize = 100;
/// Maximum length of a cursor, in bytes.
const LONGEST_CURSOR: usize = 256;

const BAD_CURSOR: &str = "invalid cursor; use the `next_cursor` of a list";

/// Maximum length of a cursor of lanes, in bytes. It may contain the name of a lane, which is as long as a URL at
/// most.
const LONGEST_LANE_CURSOR: usize = 4_096;

const LANES: [&str; 3] = ["state", "limit", "cursor"];
const LIST: [&str; 11] = [
    "topic",
    "id",
    "id_prefix",
    "webhook_id",
    "url_contains",
    "state",
    "lane",
    "from",
    "to",
    "limit",
    "cursor",
];
const JOBS: [&str; 3] = ["state", "limit", "cursor"];
const JOB_NOTIFICATIONS: [&str; 3] = ["result", "limit", "cursor"];
const ENDPOINTS: [&str; 2] = ["limit", "cursor"];
const DEAD_LETTERS: [&str; 7] = ["topic", "lane", "cause", "from", "to", "limit", "cursor"];

/// Checks that a request has no query parameters. Handlers of routes without parameters take it as an argument.
#[derive(Debug)]
pub struct NoQuery;

impl<S: Sync> FromRequestParts<S> for NoQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut errors = FieldErrors::default();
        let [] = read(&parts.uri, &[], &mut errors);
        if errors.is_empty() {
            Ok(Self)
        } else {
            Err(Problem::parameters(errors))
        }
    }
}

/// Reads the query of `GET /v1/notifications`.
///
/// # Errors
/// The problem that lists every wrong parameter.
pub fn list_request(uri: &Uri) -> Result<ListRequest, Problem> {
    let mut errors = FieldErrors::default();
    let [topic, id, id_prefix, webhook_id, url_contains, rest @ ..] = read(uri, &LIST, &mut errors);
    let [state, lane, from, to, limit, cursor] = rest;
    let state = parsed("state", state, &mut errors, parse_state);
    let state = state.unwrap_or_default();
    let request = ListRequest {
        filter: Filter {
            state: state.stored,
            id: parsed("id", id, &mut errors, parse_id),
            id_prefix: parsed("id_prefix", id_prefix, &mut errors, parse_id_prefix),
            webhook_id: parsed("webhook_id", webhook_id, &mut errors, parse_webhook_id),
            url: parsed("url_contains", url_contains, &mut errors, parse_url_part),
            ..filter(topic, lane, from, to, &mut errors)
        },
        in_flight: state.in_flight,
        is_due: state.is_due,
        ..page(limit, cursor, &mut errors)
    };
    if errors.is_empty() {
        Ok(request)
    } else {
        Err(Problem::parameters(errors))
    }
}

/// Reads the query of `GET /v1/dead-letters`.
///
/// # Errors
/// The problem that lists every wrong parameter.
pub fn dead_letters_request(uri: &Uri) -> Result<ListRequest, Problem> {
    let mut errors = FieldErrors::default();
    let [topic, lane, cause, from, to, limit, cursor] = read(uri, &DEAD_LETTERS, &mut errors);
    let request = ListRequest {
        filter: Filter {
            cause: parsed("cause", cause, &mut errors, parse_cause),
            ..filter(topic, lane, from, to, &mut errors)
        },
        ..page(limit, cursor, &mut errors)
    };
    if errors.is_empty() {
        Ok(request)
    } else {
        Err(Problem::parameters(errors))
    }
}

/// Reads the query of `GET /v1/endpoints`: the name after which the page begins, and the number of items.
///
/// # Errors
/// The problem that lists every wrong parameter.
pub fn endpoints_request(uri: &Uri) -> Result<(Option<EndpointName>, usize), Problem> {
    let mut errors = FieldErrors::default();
    let [limit, cursor] = read(uri, &ENDPOINTS, &mut errors);
    let limit = parsed("limit", limit, &mut errors, parse_limit).unwrap_or(DEFAULT_ITEMS);
    let cursor = parsed("cursor", cursor, &mut errors, |text| {
        EndpointName::parse(text).map_err(|_| BAD_CURSOR.to_string())
    });
    if errors.is_empty() {
        Ok((cursor, limit))
    } else {
        Err(Problem::parameters(errors))
    }
}

/// Reads the query of `GET /v1/lanes`.
///
/// # Errors
/// The problem that lists every wrong parameter.
pub fn lanes_request(uri: &Uri) -> Result<LaneListRequest, Problem> {
    let mut errors = FieldErrors::default();
    let [state, limit, cursor] = read(uri, &LANES, &mut errors);
    let request = LaneListRequest {
        state: parsed("state", state, &mut errors, parse_lane_state),
        limit: parsed("limit", limit, &mut errors, parse_limit).unwrap_or(DEFAULT_ITEMS),
        cursor: parsed("cursor", cursor, &mut errors, |text| {
            checked_cursor(text, LONGEST_LANE_CURSOR)
        }),
        asked_by: None,
    };
    if errors.is_empty() {
        Ok(request)
    } else {
        Err(Problem::parameters(errors))
    }
}

/// Reads the query of `GET /v1/jobs`.
///
/// # Errors
/// The problem that lists every wrong parameter.
pub fn jobs_request(uri: &Uri) -> Result<JobListRequest, Problem> {
    let mut errors = FieldErrors::default();
    let [state, limit, cursor] = read(uri, &JOBS, &mut errors);
    let request = JobListRequest {
        state: parsed("state", state, &mut errors, parse_job_state),
        limit: parsed("limit", limit, &mut errors, parse_limit).unwrap_or(DEFAULT_ITEMS),
        cursor: parsed("cursor", cursor, &mut errors, |text| {
            JobId::parse(text).map_err(|_| BAD_CURSOR.to_string())
        }),
    };
    if errors.is_empty() {
        Ok(request)
    } else {
        Err(Problem::parameters(errors))
    }
}

/// Reads the query of `GET /v1/jobs/{id}/notifications`: the result, the maximum number of items, and the cursor.
///
/// # Errors
/// The problem that lists every wrong parameter.
pub fn job_notifications_request(uri: &Uri) -> Result<(JobResult, usize, Option<String>), Problem> {
    let mut errors = FieldErrors::default();
    let [result, limit, cursor] = read(uri, &JOB_NOTIFICATIONS, &mut errors);
    let result = parsed("result", result, &mut errors, parse_job_result);
    let ListRequest { limit, cursor, .. } = page(limit, cursor, &mut errors);
    if errors.is_empty() {
        Ok((result.unwrap_or(JobResult::Done), limit, cursor))
    } else {
        Err(Problem::parameters(errors))
    }
}

fn parse_job_result(name: &str) -> Result<JobResult, String> {
    JobResult::from_name(name).ok_or_else(|| "a result is done, skipped or failed".to_string())
}

fn parse_job_state(name: &str) -> Result<JobState, String> {
    JobState::from_name(name)
        .ok_or_else(|| "a state is running, paused, done, stopped or failed".to_string())
}

fn parse_lane_state(name: &str) -> Result<LaneState, String> {
    LaneState::from_name(name).ok_or_else(|| "a state is open, probing or held".to_string())
}

fn filter(
    topic: Option<String>,
    lane: Option<String>,
    from: Option<String>,
    to: Option<String>,
    errors: &mut FieldErrors,
) -> Filter {
    Filter {
        topic: parsed("topic", topic, errors, |topic| {
            check_topic(topic)
                .map(|()| topic.to_string())
                .map_err(|bad| bad.to_string())
        }),
        lane: parsed("lane", lane, errors, parse_lane),
        from_ms: parsed("from", from, errors, parse_time),
        to_ms: parsed("to", to, errors, parse_time),
        ..Filter::default()
    }
}

fn page(limit: Option<String>, cursor: Option<String>, errors: &mut FieldErrors) -> ListRequest {
    ListRequest {
        limit: parsed("limit", limit, errors, parse_limit).unwrap_or(DEFAULT_ITEMS),
        cursor: parsed("cursor", cursor, errors, parse_cursor),
        ..ListRequest::default()
    }
}

/// Reads the values of the known parameters. A duplicate or unknown parameter is added to `errors`.
fn read<const N: usize>(
    uri: &Uri,
    names: &[&'static str; N],
    errors: &mut FieldErrors,
) -> [Option<String>; N] {
    let mut values = [const { None::<String> }; N];
    let query = uri.query().unwrap_or("");
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match names.iter().position(|known| *known == name) {
            Some(position) if values[position].is_none() => {
                values[position] = Some(value.into_owned());
            }
            Some(_) => {
                errors.add_parameter(&name, "this parameter is given twice");
            }
            None if names.is_empty() => {
                errors.add_parameter(&name, "this path takes no parameters");
            }
            None => {
                let known = names.join(", ");
                let detail = format!("unknown parameter; known are {known}");
                errors.add_parameter(&name, detail);
            }
        }
    }
    values
}

fn parsed<Value>(
    name: &str,
    value: Option<String>,
    errors: &mut FieldErrors,
    parse: impl FnOnce(&str) -> Result<Value, String>,
) -> Option<Value> {
    let value = value.filter(|value| !value.is_empty())?;
    parse(&value)
        .map_err(|detail| errors.add_parameter(name, detail))
        .ok()
}

/// The state that a list is restricted to. The default restricts nothing.
#[derive(Debug, Clone, Copy, Default)]
struct ListedState {
    /// What the journal keeps of it.
    stored: Option<State>,
    in_flight: Option<bool>,
    is_due: bool,
}

/// Reads a state. Three are not stored: `pending` means scheduled, whether an attempt is in flight or not; `in_flight` means scheduled, with an attempt in flight, and `due` means scheduled, with
/// an attempt that is due now.
fn parse_state(name: &str) -> Result<ListedState, String> {
    let scheduled = |is_in_flight, is_due| ListedState {
        stored: Some(State::Scheduled),
        in_flight: Some(is_in_flight),
        is_due,
    };
    match (name, State::from_name(name)) {
        ("pending", _) => Ok(ListedState {
            stored: Some(State::Scheduled),
            ..ListedState::default()
        }),
        ("due", _) => Ok(scheduled(false, true)),
        ("in_flight", _) => Ok(scheduled(true, false)),
        (_, Some(State::Scheduled)) => Ok(scheduled(false, false)),
        (_, Some(state @ (State::Delivered | State::Dead | State::Cancelled))) => Ok(ListedState {
            stored: Some(state),
            ..ListedState::default()
        }),
        (_, None) => Err(
            "a state is pending, scheduled, due, in_flight, delivered, dead or cancelled"
                .to_string(),
        ),
    }
}

/// Reads the cause of a dead letter.
pub(super) fn parse_cause(name: &str) -> Result<Cause, String> {
    let cause = Cause::from_name(name).filter(|cause| cause.is_of_dead());
    cause.ok_or_else(|| {
        let known = Cause::ALL.iter().filter(|cause| cause.is_of_dead());
        let known: Vec<&str> = known.map(|cause| cause.as_str()).collect();
        format!("the cause of a dead letter is one of {}", known.join(", "))
    })
}

/// Reads a lane from any URL with its origin, because support staff often know the URL of a notification.
pub(super) fn parse_lane(text: &str) -> Result<String, String> {
    let lane = Lane::parse(text).map_err(|bad| bad.to_string())?;
    Ok(lane.as_str().to_string())
}

/// Reads a time. In a query, a plus sign that is not escaped means a space, and callers often forget to escape
/// `+08:00`. A time contains no space, so a space is read as a plus sign.
pub(super) fn parse_time(text: &str) -> Result<i64, String> {
    timestamp::parse_ms(&text.replace(' ', "+")).map_err(|bad| bad.to_string())
}

fn parse_limit(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|limit| (1..=MOST_ITEMS).contains(limit) && !text.starts_with('+'))
        .ok_or_else(|| format!("a limit is a number from 1 to {MOST_ITEMS}"))
}

fn parse_cursor(text: &str) -> Result<String, String> {
    checked_cursor(text, LONGEST_CURSOR)
}

fn checked_cursor(text: &str, longest: usize) -> Result<String, String> {
    if text.len() > longest || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(BAD_CURSOR.to_string());
    }
    Ok(text.to_string())
}

#[cfg(test)]
mod tests;
