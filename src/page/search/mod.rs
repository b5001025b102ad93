//! The search: one box for what support staff are told on the phone, and filters. All of it lives in the address, so that a
//! link can be sent to a colleague.
//!
//! What is in the box is looked for as an id in any topic or a webhook id, then as the beginning of an id, then as a part of
//! a URL if it looks like one, until something is found. Exactly one exact hit leads to its notification.

mod filters;
mod rows;

use super::Page;
use super::frame::PageFrame;
use super::html::{address, document};
use super::notification::path_of;
use super::paths::endpoint_path;
use super::problem::PageProblem;
use super::texts::bulk::BulkTexts;
use super::texts::search::SearchTexts;
use super::times::TimeTag;
use super::visit::Visit;
use crate::api::auth::topic_to_list;
use crate::domain::endpoint::EndpointName;
use crate::domain::key::{Key, check_id};
use crate::domain::role::Permission;
use crate::domain::webhook_id::WebhookId;
use crate::journal::{Filter, UrlFilter};
use crate::service::{Flights, ListPage, ListRequest, ServiceError};
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use filters::Filters;
use http::StatusCode;
use rows::ResultRow;
use std::sync::Arc;

/// Results on a page.
const PAGE_SIZE: usize = 50;
/// Results on a page of what is in flight. The journal does not know that, so these are picked out of what is pending.
const PAGE_SIZE_IN_FLIGHT: usize = 500;
/// Maximum number of notifications that are read one by one for a first page, so that it comes at once. Whoever looks on
/// from there waits for what the journal reads at a time.
pub(super) const MOST_SCANNED_AT_FIRST: usize = 3_000;
/// Endpoints that are shown beside the results.
const MOST_ENDPOINTS_SHOWN: usize = 10;

/// As what a text is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchedAs {
    Id,
    WebhookId,
    Prefix,
    Url,
    /// Nothing is in the box: all that pass the filters.
    Everything,
}

impl SearchedAs {
    /// The name in the links to further pages.
    fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::WebhookId => "webhook",
            Self::Prefix => "prefix",
            Self::Url => "url",
            Self::Everything => "",
        }
    }

    /// As what a text may be looked for, in order. After a first page, only as what has been found there.
    fn of(text: &str, name: Option<&str>) -> Vec<Self> {
        let all = match (text.is_empty(), WebhookId::parse(text)) {
            (true, _) => return vec![Self::Everything],
            (false, Some(_)) => vec![Self::WebhookId, Self::Id, Self::Prefix],
            (false, None) if check_id(text).is_err() => vec![Self::Url],
            // URLs are read one by one, so only what looks like a part of one is looked for in them unasked.
            (false, None) if text.contains(['.', '/', ':']) => {
                vec![Self::Id, Self::Prefix, Self::Url]
            }
            (false, None) => vec![Self::Id, Self::Prefix],
        };
        match name {
            Some("url") => vec![Self::Url],
            name => match all.iter().find(|way| Some(way.name()) == name) {
                Some(way) => vec![*way],
                None => all,
            },
        }
    }

    fn filter(self, text: &str, filter: Filter) -> Filter {
        let own = || Some(text.to_string());
        match self {
            Self::Id => Filter {
                id: own(),
                ..filter
            },
            Self::Prefix => Filter {
                id_prefix: own(),
                ..filter
            },
            Self::WebhookId => Filter {
                webhook_id: WebhookId::parse(text),
                ..filter
            },
            Self::Url => Filter {
                url: Some(UrlFilter {
                    contains: text.to_string(),
                    ..UrlFilter::default()
                }),
                ..filter
            },
            Self::Everything => filter,
        }
    }

    fn in_words(self, t: &'static SearchTexts) -> &'static str {
        match self {
            Self::Id => t.by_id,
            Self::WebhookId => t.by_webhook,
            Self::Prefix => t.by_prefix,
            Self::Url => t.by_url,
            Self::Everything => t.by_filter,
        }
    }

    fn is_exact(self) -> bool {
        matches!(self, Self::Id | Self::WebhookId)
    }
}

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage<'a> {
    frame: PageFrame,
    t: &'static SearchTexts,
    filters: Filters,
    heading: &'static str,
    rows: Vec<ResultRow<'a>>,
    endpoints: Vec<EndpointHit>,
    /// The address of the next page.
    next: Option<String>,
    has_cursor: bool,
    /// Down to which instant was looked, if there is more to look through.
    searched_until: Option<TimeTag>,
    is_unsure: bool,
    /// The address of the search in URLs, if nothing was found and they were not looked at.
    in_urls: Option<String>,
    problem: &'static str,
    /// The plan to cancel all that are listed, if they are pending ones and the visitor may.
    cancel: Option<(String, &'static str)>,
}

/// An endpoint whose name contains what is looked for.
struct EndpointHit {
    name: String,
    href: String,
}

/// `GET /ui/search`: the form and the results.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    let t = SearchTexts::of(visit.language);
    let now_ms = page.service.clock().now_ms();
    let (filters, filter) = Filters::of(&visit, now_ms);
    let mut found = FoundResults::default();
    let mut problem = "";
    if let Ok(filter) = filter {
        match search(&page, &visit, &filters, filter).await {
            Ok(results) => found = results,
            Err(SearchStopped::Choose) => problem = t.choose_topic,
            Err(SearchStopped::Topics) => problem = t.many_topics,
            Err(SearchStopped::Problem(problem)) => return Err(problem),
        }
    }
    if let Some(only) = found.only_exact(&filters) {
        return Ok(Redirect::to(&path_of(&only)).into_response());
    }
    let status = match filters.has_problem() || !problem.is_empty() {
        true => StatusCode::UNPROCESSABLE_ENTITY,
        false => StatusCode::OK,
    };
    let way = found.way.unwrap_or(SearchedAs::Everything);
    let next = found.page.next.as_deref();
    let next = next.map(|cursor| filters.address(&[("by", way.name()), ("cursor", cursor)]));
    let mut frame = visit.frame(t.title);
    frame.has_search = false;
    let shown = SearchPage {
        t,
        heading: way.in_words(t),
        rows: rows::of(&found.page, visit.language),
        endpoints: found.endpoints,
        next,
        has_cursor: visit.parameter("cursor").is_some(),
        searched_until: found.page.searched_until_ms.map(TimeTag),
        is_unsure: found.page.flights == Flights::Unknown,
        in_urls: (found.page.items.is_empty() && way == SearchedAs::Prefix)
            .then(|| filters.address(&[("by", SearchedAs::Url.name())])),
        problem,
        cancel: cancellation(&visit, &filters, found.page.items.is_empty()),
        filters,
        frame,
    };
    document(status, &shown)
}

/// The plan to cancel all pending notifications that the filters let pass.
fn cancellation(
    visit: &Visit,
    filters: &Filters,
    is_empty: bool,
) -> Option<(String, &'static str)> {
    let is_of_pending = matches!(filters.state.as_str(), "scheduled" | "in_flight");
    let is_shown = is_of_pending && filters.query.is_empty() && !is_empty;
    let parts = [
        ("topic", filters.topic.as_str()),
        ("lane", &filters.lane),
        ("from", &filters.from),
        ("to", &filters.to),
    ];
    let plan = (
        address("/ui/cancel", &parts),
        BulkTexts::of(visit.language).cancel_all,
    );
    (is_shown && visit.may(Permission::Jobs)).then_some(plan)
}

#[derive(Default)]
struct FoundResults {
    page: ListPage,
    way: Option<SearchedAs>,
    endpoints: Vec<EndpointHit>,
}

/// Why nothing was looked for.
enum SearchStopped {
    /// The key is bound to several topics, and none is given.
    Choose,
    /// There are too many topics.
    Topics,
    Problem(PageProblem),
}

impl FoundResults {
    /// The one notification that was found, if it was looked for by the whole of its id.
    fn only_exact(&self, filters: &Filters) -> Option<Key> {
        let is_whole = self.page.next.is_none() && filters.cursor.is_empty();
        match (self.way, self.page.items.as_slice()) {
            (Some(way), [one]) if way.is_exact() && is_whole => Some(one.key.clone()),
            _ => None,
        }
    }
}

async fn search(
    page: &Page,
    visit: &Visit,
    filters: &Filters,
    mut filter: Filter,
) -> Result<FoundResults, SearchStopped> {
    let caller = visit.caller().map_err(SearchStopped::Problem)?;
    let asked = filter.topic.take();
    filter.topic = match (topic_to_list(caller, asked.clone()), asked) {
        (Ok(topic), _) => topic,
        (Err(_), Some(_)) => return Err(SearchStopped::Problem(PageProblem::Topic)),
        (Err(_), None) => return Err(SearchStopped::Choose),
    };
    if let Some(found) = without_journal(page, filters, &filter).await {
        return found;
    }
    let text = filters.query.as_str();
    let mut results = FoundResults::default();
    for way in SearchedAs::of(text, visit.parameter("by").as_deref()) {
        let request = ListRequest {
            filter: way.filter(text, filter.clone()),
            in_flight: filters.in_flight,
            is_due: filters.is_due,
            limit: match filters.in_flight {
                Some(true) => PAGE_SIZE_IN_FLIGHT,
                Some(false) | None => PAGE_SIZE,
            },
            most_scanned: filters.cursor.is_empty().then_some(MOST_SCANNED_AT_FIRST),
            cursor: Some(filters.cursor.clone()).filter(|cursor| !cursor.is_empty()),
            asked_by: caller.name.clone(),
        };
        let by_end = filters.is_by_end() && way == SearchedAs::Everything;
        let listed = match by_end {
            true => page.service.dead_letters(&request).await,
            false => page.service.list(&request).await,
        };
        results.page = listed.map_err(stopped)?;
        results.way = Some(way);
        if !results.page.items.is_empty() || results.page.next.is_some() {
            break;
        }
    }
    let is_first = filters.cursor.is_empty() && !text.is_empty();
    if is_first && visit.may(crate::domain::role::Permission::Inspect) {
        results.endpoints = endpoints(page, text);
    }
    Ok(results)
}

fn stopped(error: ServiceError) -> SearchStopped {
    match error {
        ServiceError::TooManyTopics => SearchStopped::Topics,
        error => SearchStopped::Problem(PageProblem::from(error)),
    }
}

/// Without a journal there are no lists. A notification is found by its topic and its whole id, and dead letters are listed.
async fn without_journal(
    page: &Page,
    filters: &Filters,
    filter: &Filter,
) -> Option<Result<FoundResults, SearchStopped>> {
    if page.service.has_journal() {
        return None;
    }
    let key = filter
        .topic
        .as_deref()
        .map(|topic| Key::new(topic, &filters.query));
    if let Some(Ok(key)) = key {
        let found = match page.service.look_up(&key).await {
            Ok(found) => found,
            Err(error) => return Some(Err(stopped(error))),
        };
        let items = found.into_iter().map(|(snapshot, _)| snapshot).collect();
        let found = ListPage {
            items,
            ..ListPage::default()
        };
        return Some(Ok(FoundResults {
            page: found,
            way: Some(SearchedAs::Id),
            endpoints: Vec::new(),
        }));
    }
    (!filters.query.is_empty() || !filters.is_by_end()).then(|| {
        Err(stopped(ServiceError::NoJournal(
            "search without a topic and an id",
        )))
    })
}

/// The endpoints whose names contain a text.
fn endpoints(page: &Page, text: &str) -> Vec<EndpointHit> {
    let text = text.to_ascii_lowercase();
    let hits = |name: &EndpointName| name.as_str().to_ascii_lowercase().contains(&text);
    let found = page.service.endpoint_names(hits, MOST_ENDPOINTS_SHOWN);
    let found = found.into_iter().map(|name| EndpointHit {
        href: endpoint_path(&name),
        name: name.to_string(),
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::SearchedAs::{Everything, Id, Prefix, Url, WebhookId};
    use super::*;

    #[test]
    fn a_text_is_looked_for_as_what_it_can_be() {
        fn check(text: &str, by: Option<&str>, expected: &[SearchedAs]) {
            assert_eq!(SearchedAs::of(text, by), expected, "{text} {by:?}");
        }
        check("", None, &[Everything]);
        check("order-1", None, &[Id, Prefix]);
        check("order-1", Some("prefix"), &[Prefix]);
        check("order-1", Some("webhook"), &[Id, Prefix]);
        check("order-1", Some("url"), &[Url]);
        check("shop.example", None, &[Id, Prefix, Url]);
        check("/notify", None, &[Id, Prefix, Url]);
        let webhook_id = format!("msg_{}", "0".repeat(32));
        check(&webhook_id, None, &[WebhookId, Id, Prefix]);
        check("商户", None, &[Url]);
        check("..", None, &[Url]);
    }
}
