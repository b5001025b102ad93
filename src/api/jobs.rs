//! The routes `/v1/jobs`, and what a request for a job may say.

use crate::api::Api;
use crate::api::auth::{CalledBy, OnBehalfOf};
use crate::api::body::read_optional_json;
use crate::api::field_errors::FieldErrors;
use crate::api::fields::{self, given, optional, plain};
use crate::api::job_notifications::JobNotificationsView;
use crate::api::job_view::{JobListView, JobView};
use crate::api::path::JobPath;
use crate::api::problem::Problem;
use crate::api::query::{NoQuery, job_notifications_request, jobs_request};
use crate::api::reason::{check_reason, reason_of, reason_or_null};
use crate::api::schema::{Part, document, named_schema, or_null};
use crate::api::view::json;
use crate::domain::call_rate::CallRate;
use crate::domain::job::{HIGHEST_JOB_RATE, JobOrder};
use crate::service::default_rate;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use serde_json::value::RawValue;
use std::sync::Arc;
use utoipa::openapi::schema::Type;

const FIELDS: [&str; 3] = ["reason", "rate", "dry_run"];

/// What a request for a job says.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRequest {
    /// The reason; empty if none was given.
    pub reason: String,
    /// How many notifications per second.
    pub rate: CallRate,
    /// Whether the caller only wants to know what would be done.
    pub is_dry_run: bool,
}

/// `GET /v1/jobs`: a page of jobs, newest first.
pub async fn list(State(api): State<Arc<Api>>, uri: Uri) -> Result<Response, Problem> {
    let request = jobs_request(&uri)?;
    let found = api.service.jobs(&request).await;
    let (jobs, next) = found.map_err(Problem::of_service)?;
    let next = next.as_ref().map(|id| id.as_str());
    Ok(json(StatusCode::OK, &JobListView::of(&jobs, next)))
}

/// `GET /v1/jobs/{id}`: one job.
pub async fn show(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    JobPath(id): JobPath,
) -> Result<Response, Problem> {
    let job = api.service.job(&id).await.map_err(Problem::of_service)?;
    Ok(json(StatusCode::OK, &JobView::of(&job)))
}

/// `GET /v1/jobs/{id}/notifications`: what has become of its notifications.
pub async fn notifications(
    State(api): State<Arc<Api>>,
    JobPath(id): JobPath,
    CalledBy(caller): CalledBy,
    uri: Uri,
) -> Result<Response, Problem> {
    let (result, limit, cursor) = job_notifications_request(&uri)?;
    let job = api.service.job(&id).await.map_err(Problem::of_service)?;
    let (service, cursor) = (&api.service, cursor.as_deref());
    let asked_by = caller.name.as_ref();
    let found = service.job_notifications(&job, result, cursor, limit, asked_by);
    let found = found.await.map_err(Problem::of_service)?;
    Ok(json(
        StatusCode::OK,
        &JobNotificationsView::of(&found, result),
    ))
}

/// `POST /v1/jobs/{id}/pause`: nothing more is done until the job is resumed.
pub async fn pause(
    state: State<Arc<Api>>,
    _: NoQuery,
    id: JobPath,
    actor: OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    order(state, id, actor, request, JobOrder::Pause).await
}

/// `POST /v1/jobs/{id}/resume`: the job goes on.
pub async fn resume(
    state: State<Arc<Api>>,
    _: NoQuery,
    id: JobPath,
    actor: OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    order(state, id, actor, request, JobOrder::Resume).await
}

/// `POST /v1/jobs/{id}/stop`: the job ends. What it has done stays.
pub async fn stop(
    state: State<Arc<Api>>,
    _: NoQuery,
    id: JobPath,
    actor: OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    order(state, id, actor, request, JobOrder::Stop).await
}

async fn order(
    State(api): State<Arc<Api>>,
    JobPath(id): JobPath,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
    order: JobOrder,
) -> Result<Response, Problem> {
    let reason = reason_of(&api, request).await?;
    let job = api.service.order_job(&id, order, &actor, &reason).await;
    Ok(json(
        StatusCode::OK,
        &JobView::of(&job.map_err(Problem::of_service)?),
    ))
}

/// Reads `{"reason", "rate", "dry_run"}` from the body of a request. The body and each field may be left out.
///
/// # Errors
/// The problem to answer with.
pub async fn job_request(api: &Api, request: Request) -> Result<JobRequest, Problem> {
    let (parts, body) = request.into_parts();
    let mut share = api.request_memory.share();
    let text = read_optional_json(&parts.headers, body, api.small_bounds(), &mut share).await?;
    parse(text.as_ref().map_or("{}", |text| text.as_str()))
}

fn parse(text: &str) -> Result<JobRequest, Problem> {
    let mut errors = FieldErrors::default();
    let read = fields::read(text, &FIELDS, "", &mut errors).map_err(Problem::unreadable)?;
    let request = job_fields(read, &mut errors).filter(|_| errors.is_empty());
    request.ok_or_else(|| Problem::fields(errors))
}

/// Reads the values of `reason`, `rate` and `dry_run`. `None` if one of them is wrong, which is added to `errors`.
pub(super) fn job_fields(
    [reason, rate, dry_run]: [Option<&RawValue>; 3],
    errors: &mut FieldErrors,
) -> Option<JobRequest> {
    let reason = optional(reason, "/reason", errors, check_reason);
    let calls: Option<f64> = plain(given(rate), "/rate", "a number", errors);
    let rate = calls.map_or(Ok(default_rate()), |calls| {
        read_rate(calls).map_err(|bad| errors.add("/rate", bad))
    });
    let is_dry_run = plain(given(dry_run), "/dry_run", "true or false", errors);
    Some(JobRequest {
        reason: reason.ok()?.unwrap_or_default(),
        rate: rate.ok()?,
        is_dry_run,
    })
}

fn read_rate(calls: f64) -> Result<CallRate, String> {
    let rate = CallRate::per_second(calls).ok();
    rate.filter(|_| calls <= HIGHEST_JOB_RATE).ok_or_else(|| {
        format!(
            "the rate of a job is a number of notifications per second, from 0.001 to {HIGHEST_JOB_RATE}, with at most \
             three decimals"
        )
    })
}

/// A request for a job as a caller writes it.
pub struct JobRequestDocument;
named_schema!(
    JobRequestDocument,
    "JobRequest",
    document(&FIELDS, described_fields(), &[])
        .description(Some("What the job is to do. The body may be left out."))
);

/// The schemas of `reason`, `rate` and `dry_run`.
#[must_use]
pub fn described_fields() -> [Part; 3] {
    let rate = or_null(Type::Number)
        .minimum(Some(0.001))
        .maximum(Some(HIGHEST_JOB_RATE))
        .description(Some(
            "Notifications per second, with at most three decimals; 100 if it is left out.",
        ));
    let dry_run = or_null(Type::Boolean).description(Some("Only says what would be done."));
    [reason_or_null().into(), rate.into(), dry_run.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_a_job_may_leave_everything_out() {
        fn check(text: &str, expected: Result<(&str, f64, bool), &str>) {
            let parsed = parse(text).map_err(|problem| problem.detail().to_string());
            let parsed = parsed.as_ref().map(|request| {
                let rate = request.rate.calls_per_second();
                (request.reason.as_str(), rate, request.is_dry_run)
            });
            assert_eq!(parsed.map_err(String::as_str), expected, "{text}");
        }
        const BAD_RATE: &str = "/rate: the rate of a job is a number of notifications per second, from 0.001 to 1000, \
            with at most three decimals";
        check("{}", Ok(("", 100.0, false)));
        check(
            r#"{"reason":null,"rate":null,"dry_run":null}"#,
            Ok(("", 100.0, false)),
        );
        check(
            r#"{"reason":"back","rate":500,"dry_run":true}"#,
            Ok(("back", 500.0, true)),
        );
        check(r#"{"rate":0.001}"#, Ok(("", 0.001, false)));
        check(r#"{"rate":1000}"#, Ok(("", 1_000.0, false)));
        for rate in ["0", "-1", "1000.001", "1e300", "0.0001", "-0"] {
            check(&format!(r#"{{"rate":{rate}}}"#), Err(BAD_RATE));
        }
        check(r#"{"rate":1e999}"#, Err("/rate: a number is expected"));
        check(r#"{"rate":"5"}"#, Err("/rate: a number is expected"));
        check(
            r#"{"dry_run":1}"#,
            Err("/dry_run: true or false is expected"),
        );
        check(
            r#"{"speed":1}"#,
            Err("/speed: unknown field; known are reason, rate, dry_run"),
        );
    }
}
