//! The list of the endpoints, in the order of their names.

use super::Page;
use super::frame::PageFrame;
use super::html::{address, document};
use super::paths::endpoint_path;
use super::problem::PageProblem;
use super::texts::endpoint_fields::EndpointFieldTexts;
use super::texts::endpoints::EndpointTexts;
use super::times::TimeTag;
use super::visit::Visit;
use crate::domain::call_rate::CallRate;
use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::domain::role::Permission;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use std::num::NonZeroU32;
use std::sync::Arc;

const PATH: &str = "/ui/endpoints";
/// Endpoints on a page.
const PAGE_SIZE: usize = 50;

#[derive(Template)]
#[template(path = "endpoints.html")]
struct EndpointList<'a> {
    frame: PageFrame,
    t: &'static EndpointTexts,
    f: &'static EndpointFieldTexts,
    may_operate: bool,
    rows: Vec<EndpointListRow<'a>>,
    is_first: bool,
    next: Option<String>,
}

struct EndpointListRow<'a> {
    href: String,
    name: &'a str,
    url: &'a str,
    concurrency: Option<NonZeroU32>,
    rate: Option<f64>,
    keys: usize,
    version: u32,
    changed: TimeTag,
}

impl<'a> EndpointListRow<'a> {
    fn of(endpoint: &'a Endpoint) -> Self {
        let limits = endpoint.settings.limits;
        Self {
            href: endpoint_path(&endpoint.name),
            name: endpoint.name.as_str(),
            url: endpoint.settings.url.as_str(),
            concurrency: limits.concurrency,
            rate: limits.rate.map(CallRate::calls_per_second),
            keys: endpoint.keys.list().len(),
            version: endpoint.version,
            changed: TimeTag(endpoint.changed_ms),
        }
    }
}

/// `GET /ui/endpoints`: a page of the list. Every server has it in memory.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    let t = EndpointTexts::of(visit.language);
    let after = visit.parameter("cursor");
    let after = after.and_then(|name| EndpointName::parse(&name).ok());
    let found = page.service.list_endpoints(after.as_ref(), PAGE_SIZE)?;
    let next = found.next.as_ref();
    let shown = EndpointList {
        frame: visit.frame(t.title),
        t,
        f: EndpointFieldTexts::of(visit.language),
        may_operate: visit.may(Permission::Operate),
        rows: (found.items.iter())
            .map(|endpoint| EndpointListRow::of(endpoint))
            .collect(),
        is_first: after.is_none(),
        next: next.map(|name| address(PATH, &[("cursor", name.as_str())])),
    };
    document(StatusCode::OK, &shown)
}
