//! The routes `/v1/lanes`: how the lanes are doing, holding and releasing one.

use crate::api::Api;
use crate::api::auth::{CalledBy, OnBehalfOf};
use crate::api::job_view::{accepted, previewed, released};
use crate::api::jobs::job_request;
use crate::api::path::LanePath;
use crate::api::problem::Problem;
use crate::api::query::{NoQuery, lanes_request};
use crate::api::reason::reason_of;
use crate::api::schema::{LaneStateName, OutcomeName};
use crate::api::view::json;
use crate::domain::call_rate::CallRate;
use crate::domain::timestamp::display_ms;
use crate::schedule::lane_status::{LanePage, LaneStatus};
use crate::service::{HoldReply, LaneRetryRequest};
use axum::extract::{Request, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// A lane: everything that goes to one destination.
// Callers rely on the names of the members.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Lane)]
pub struct LaneView<'a> {
    /// `endpoint:NAME`, or an origin.
    lane: &'a str,
    /// The endpoint whose lane it is; `null` if it is an origin.
    #[schema(required)]
    endpoint: Option<String>,
    #[schema(value_type = LaneStateName)]
    state: &'static str,
    /// Its notifications that have not ended, those in flight included.
    pending: u64,
    /// Whether there may be more: of those that wait in the journal alone, only so many are counted, and none while the
    /// journal is away.
    pending_is_at_least: bool,
    /// Those that wait and are due.
    due: u64,
    in_flight: u64,
    /// The largest number of calls in flight.
    concurrency: usize,
    /// How many calls may be in flight now, by how the destination is doing.
    concurrency_now: usize,
    /// Calls per second; `null`: no limit.
    #[schema(required)]
    rate: Option<f64>,
    /// When the one that waits longest was due.
    #[schema(required, format = DateTime)]
    oldest_due_at: Option<String>,
    /// Since when no call was answered; `null` if the last one was.
    #[schema(required, format = DateTime)]
    failing_since: Option<String>,
    /// How the last call ended; `null` if that is not known.
    #[schema(required, value_type = Option<OutcomeName>)]
    last_outcome: Option<&'static str>,
    /// Its HTTP status.
    #[schema(required)]
    last_status: Option<u16>,
    /// Since when all calls have ended like this.
    #[schema(required, format = DateTime)]
    last_outcome_since: Option<String>,
    /// Since when it is held; `null` if it is not.
    #[schema(required, format = DateTime)]
    held_at: Option<String>,
    #[schema(required)]
    held_by: Option<&'a str>,
    #[schema(required)]
    held_reason: Option<&'a str>,
}

/// The answer to a hold.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HeldLane)]
pub struct HoldView<'a> {
    #[serde(flatten)]
    lane: LaneView<'a>,
    /// The hold that was there before; `null` if nobody held the lane.
    #[schema(required)]
    held_before: Option<HeldBeforeView<'a>>,
}

/// A hold that was there before another one.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HeldBefore)]
struct HeldBeforeView<'a> {
    #[schema(format = DateTime)]
    at: String,
    by: &'a str,
    reason: &'a str,
}

/// A page of lanes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LaneList)]
pub struct LaneListView<'a> {
    items: Vec<LaneView<'a>>,
    /// The `cursor` of the next page; `null` on the last one.
    #[schema(required)]
    next_cursor: Option<&'a str>,
}

impl<'a> LaneView<'a> {
    fn of(status: &'a LaneStatus) -> Self {
        let hold = status.settings.hold.as_ref();
        let last = status.last_outcome;
        Self {
            lane: status.lane.as_str(),
            endpoint: status.lane.endpoint().map(|name| name.to_string()),
            state: status.state().as_str(),
            pending: status.pending(),
            pending_is_at_least: status.is_pending_at_least(),
            due: status.due,
            in_flight: status.in_flight,
            concurrency: status.cap,
            concurrency_now: status.limit,
            rate: status.settings.limits.rate.map(CallRate::calls_per_second),
            oldest_due_at: status.oldest_due_ms.map(display_ms),
            failing_since: status.failing_since_ms.map(display_ms),
            last_outcome: last.map(|last| last.call.outcome.as_str()),
            last_status: last.and_then(|last| last.call.status),
            last_outcome_since: last.map(|last| display_ms(last.since_ms)),
            held_at: hold.map(|hold| display_ms(hold.since_ms)),
            held_by: hold.map(|hold| &*hold.by),
            held_reason: hold.map(|hold| &*hold.reason),
        }
    }
}

impl<'a> HoldView<'a> {
    fn of(reply: &'a HoldReply) -> Self {
        Self {
            lane: LaneView::of(&reply.status),
            held_before: reply.before.as_ref().map(|before| HeldBeforeView {
                at: display_ms(before.since_ms),
                by: &before.by,
                reason: &before.reason,
            }),
        }
    }
}

impl<'a> LaneListView<'a> {
    fn of(page: &'a LanePage) -> Self {
        Self {
            items: page.lanes.iter().map(LaneView::of).collect(),
            next_cursor: page.next.as_deref(),
        }
    }
}

/// `GET /v1/lanes`: a page of lanes, in no order.
pub async fn list(
    State(api): State<Arc<Api>>,
    CalledBy(caller): CalledBy,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut request = lanes_request(&uri)?;
    request.asked_by = caller.name.clone();
    let page = api
        .service
        .lanes(&request)
        .await
        .map_err(Problem::of_service)?;
    Ok(json(StatusCode::OK, &LaneListView::of(&page)))
}

/// `GET /v1/lanes/{lane}`: one lane.
pub async fn show(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    LanePath(lane): LanePath,
) -> Result<Response, Problem> {
    let status = api.service.lane(&lane).await.map_err(Problem::of_service)?;
    Ok(json(StatusCode::OK, &LaneView::of(&status)))
}

/// `POST /v1/lanes/{lane}/hold`: holds a lane. The body is optional. The answer says who held it before.
pub async fn hold(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    LanePath(lane): LanePath,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let reason = reason_of(&api, request).await?;
    let held = api
        .service
        .hold_lane(&lane, actor, &reason)
        .await
        .map_err(Problem::of_service)?;
    Ok(json(StatusCode::OK, &HoldView::of(&held)))
}

/// `POST /v1/lanes/{lane}/release`: releases a lane, and answers with a job that is done, and whether the lane was
/// held. The body is optional.
pub async fn release(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    LanePath(lane): LanePath,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let reason = reason_of(&api, request).await?;
    let reply = api
        .service
        .release_lane(&lane, actor, &reason)
        .await
        .map_err(Problem::of_service)?;
    Ok(released(&reply))
}

/// `POST /v1/lanes/{lane}/retry`: makes what is pending in a lane due now, as a job. The body is optional. The answer says if the
/// lane is held.
pub async fn retry(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    LanePath(lane): LanePath,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let asked = job_request(&api, request).await?;
    let request = LaneRetryRequest {
        lane: lane.clone(),
        rate: asked.rate,
        actor,
        reason: asked.reason,
    };
    if asked.is_dry_run {
        let preview = api.service.preview_retry(request).await;
        let preview = preview.map_err(Problem::of_service)?;
        let hold = api.service.hold_of(&lane).await;
        return Ok(previewed(&preview, hold.as_ref()));
    }
    let job = api.service.retry_lane(request).await;
    let job = job.map_err(Problem::of_service)?;
    let hold = api.service.hold_of(&lane).await;
    Ok(accepted(&job, hold.as_ref()))
}
