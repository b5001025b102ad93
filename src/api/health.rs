//! The routes `/healthz` and `/readyz`: whether the process is alive, and whether it can work.

use crate::api::Api;
use crate::api::problem::{Problem, ProblemKind, ProblemView};
use crate::api::schema::{
    StoreName, StoreStateName, WorkName, array_of, named_schema, reference, text,
};
use crate::api::view::json;
use crate::clock::millis;
use crate::domain::duration;
use crate::domain::lane::Lane;
use crate::domain::timestamp::display_ms;
use crate::health::{HealthReport, Store, StoreReport, StoreState, Work, names, words_of};
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use utoipa::ToSchema;
use utoipa::openapi::schema::{AllOfBuilder, ObjectBuilder};

/// The answer of `/healthz`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Liveness {
    /// Always `ok`.
    status: &'static str,
}

/// The answer of `/readyz`: ready or a problem, and the state of each store.
#[derive(Debug, Serialize)]
struct Readiness<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(flatten)]
    problem: Option<ProblemView<'a>>,
    stores: Vec<StoreView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// The state of one store.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StoreHealth)]
pub struct StoreView {
    #[schema(value_type = StoreName)]
    store: &'static str,
    #[schema(value_type = StoreStateName)]
    state: &'static str,
    /// What it does not do.
    #[schema(value_type = Vec<WorkName>)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failing: Vec<&'static str>,
    #[schema(format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_calls: Option<u64>,
}

impl StoreView {
    fn of(store: Store, report: &StoreReport, now_ms: i64) -> Self {
        let up = report.state == StoreState::Up;
        let since = |lasted| display_ms(now_ms.saturating_sub(millis(lasted)));
        Self {
            store: store.as_str(),
            state: report.state.as_str(),
            failing: report.failing.iter().map(|work| work.as_str()).collect(),
            since: report.lasted.map(since),
            cause: report.cause.as_deref().map(words_of),
            failed_calls: (!up).then_some(report.failed_calls),
        }
    }
}

/// `GET /healthz`: answers 200 as long as the process runs. It does not check the stores. Otherwise a store
/// outage would make an orchestrator restart every instance.
pub async fn alive() -> Response {
    json(StatusCode::OK, &Liveness { status: "ok" })
}

/// `GET /readyz`: answers 200 if registrations can be accepted and attempts can be made. Otherwise it
/// answers 503 and says which store does not work, since when and why. Recent calls count as well as a check
/// that is made now, because a store may answer a check and still refuse the real work. `warnings` say what else a
/// person should see to.
pub async fn ready(State(api): State<Arc<Api>>) -> Response {
    let report = api.service.check().await;
    let now_ms = api.service.clock().now_ms();
    let stores = report
        .stores
        .iter()
        .map(|(store, report)| StoreView::of(*store, report, now_ms))
        .collect();
    let of_endpoints = unusable(&api.service.unusable_endpoints());
    let of_default_keys = api.service.default_keys_warning();
    let of_default_keys = of_default_keys.map(|warning| warning.to_string());
    let warnings: Vec<String> = of_endpoints.into_iter().chain(of_default_keys).collect();
    if report.is_ready() {
        let readiness = Readiness {
            status: Some("ready"),
            problem: None,
            stores,
            warnings,
        };
        return json(StatusCode::OK, &readiness);
    }
    let problem = Problem::new(ProblemKind::Unavailable, reasons(&report).join("; "));
    let readiness = Readiness {
        status: None,
        problem: Some(problem.view()),
        stores,
        warnings,
    };
    problem.respond(&readiness)
}

/// The warning about endpoints whose keys cannot be opened, if there are any. It names none of them: `/readyz` needs no key, and
/// endpoints are often named for business partners. The log names each once.
fn unusable(lanes: &BTreeSet<Lane>) -> Option<String> {
    let endpoints = lanes.iter().filter(|lane| lane.is_of_endpoint()).count();
    (endpoints > 0).then(|| {
        format!(
            "this server cannot open a signing key of {endpoints} endpoints, so it sends nothing to them; the log and \
             `ringback doctor` name them; start it with the master key of the other servers"
        )
    })
}

/// The reasons why the server is not ready, each as a clause of a sentence.
fn reasons(report: &HealthReport) -> Vec<String> {
    let mut reasons: Vec<String> = report
        .stores
        .iter()
        .filter_map(|(store, report)| {
            let failing = |work: &[Work]| names(work);
            match report.state {
                StoreState::Up => None,
                StoreState::Away => Some(format!("the {store} is away")),
                StoreState::Refusing => Some(format!(
                    "the {store} is refusing work: {}",
                    failing(&report.failing)
                )),
                StoreState::Rebuilding => Some(format!(
                    "the {store} has lost data or is being emptied, and this server has not inspected it yet"
                )),
            }
        })
        .collect();
    reasons.extend(report.stalled.map(|stalled| {
        let stalled = duration::display_ms(millis(stalled) / 1_000 * 1_000);
        format!("nothing could be claimed for {stalled}: attempts may be stuck")
    }));
    reasons
}

/// The answer of `/readyz` if the server is ready.
pub struct ReadyDocument;
named_schema!(ReadyDocument, "Ready", {
    readiness()
        .property("status", text().enum_values(Some(["ready"])))
        .required("status")
});

/// The answer of `/readyz` if it is not: a problem, with the same members.
pub struct NotReadyDocument;
named_schema!(NotReadyDocument, "NotReady", {
    AllOfBuilder::new()
        .item(reference::<ProblemView<'_>>())
        .item(readiness())
});

fn readiness() -> ObjectBuilder {
    let warnings = array_of(text()).description(Some(
        "What a person should solve although the server works. Left out if there is nothing.",
    ));
    ObjectBuilder::new()
        .property("stores", array_of(reference::<StoreView>()))
        .required("stores")
        .property("warnings", warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn endpoints_are_counted_and_not_named() {
        let check = |lanes: &[&str], expected: Option<&str>| {
            let lanes = lanes.iter().map(|lane| Lane::parse(lane).expect("a lane"));
            let lanes: BTreeSet<Lane> = lanes.collect();
            let warning = unusable(&lanes);
            let start = warning.as_ref().and_then(|text| text.split(',').next());
            assert_eq!(start, expected);
            assert!(!warning.is_some_and(|text| text.contains("shop")));
        };
        check(&[], None);
        check(&["https://shop.example"], None);
        let expected = "this server cannot open a signing key of 2 endpoints";
        let lanes = ["endpoint:shop-1", "endpoint:shop-2", "https://shop.example"];
        check(&lanes, Some(expected));
    }

    #[test]
    fn what_stands_in_the_way_is_named() {
        let report = |state, failing: &[Work]| StoreReport {
            state,
            failing: failing.to_vec(),
            lasted: Some(Duration::from_secs(5)),
            cause: Some("10.0.0.7 is down".to_string()),
            failed_calls: 3,
        };
        let check = |state, failing: &[Work], stalled: Option<u64>, expected: &[&str]| {
            let report = HealthReport {
                stores: vec![(Store::Schedule, report(state, failing))],
                stalled: stalled.map(Duration::from_millis),
            };
            assert_eq!(reasons(&report), expected);
        };
        check(StoreState::Up, &[], None, &[]);
        check(
            StoreState::Away,
            &[Work::Claim],
            None,
            &["the schedule is away"],
        );
        check(
            StoreState::Refusing,
            &[Work::Accept, Work::Settle],
            None,
            &["the schedule is refusing work: accepting, settling"],
        );
        check(
            StoreState::Rebuilding,
            &[Work::Claim],
            None,
            &[
                "the schedule has lost data or is being emptied, and this server has not inspected it yet",
            ],
        );
        check(
            StoreState::Up,
            &[],
            Some(36_500),
            &["nothing could be claimed for 36s: attempts may be stuck"],
        );
        let view = StoreView::of(
            Store::Schedule,
            &report(StoreState::Away, &[Work::Claim]),
            1_795_163_400_000,
        );
        assert_eq!(
            serde_json::to_string(&view).expect("JSON"),
            concat!(
                r#"{"store":"schedule","state":"away","failing":["claiming"],"#,
                r#""since":"2026-11-20T08:29:55.000Z","cause":"... is down","failed_calls":3}"#
            )
        );
    }
}
