//! Dead letters: the list with filters in the address, groups by whose fault they are, and what is done with some of them
//! ([`selected`]) or with all that match ([`super::bulk`]).

mod groups;
pub(super) mod selected;

use super::Page;
use super::bulk::filters::{BulkFilters, list_filter};
use super::frame::PageFrame;
use super::html::document;
use super::listed::ListedRow;
use super::problem::PageProblem;
use super::search::MOST_SCANNED_AT_FIRST;
use super::texts::bulk::BulkTexts;
use super::texts::letters::LetterTexts;
use super::texts::search::SearchTexts;
use super::times::TimeTag;
use super::visit::Visit;
use crate::api::auth::topic_to_list;
use crate::domain::api_key::ApiKeyName;
use crate::domain::role::Permission;
use crate::journal::Filter;
use crate::service::{ListPage, ListRequest};
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use groups::LetterGroup;
use http::StatusCode;
use std::sync::Arc;

/// Dead letters on a page, and so how many can be selected at once.
const PAGE_SIZE: usize = 50;
/// Of how many dead letters the groups are made: the last ones that match.
const MOST_GROUPED: usize = 500;
/// Maximum length of a cursor, in bytes.
const LONGEST_CURSOR: usize = 256;

#[derive(Template)]
#[template(path = "dead_letters.html")]
struct LettersPage {
    frame: PageFrame,
    t: &'static LetterTexts,
    b: &'static BulkTexts,
    search: &'static SearchTexts,
    filters: BulkFilters,
    /// Where the form of the filter leads.
    path: &'static str,
    /// The address of the list with this filter, to which acts lead back.
    back: String,
    /// The address of the plan for all that match, if the visitor may start a job and there is a journal.
    plan: Option<String>,
    may_select: bool,
    /// How many dead letters there are, if that is counted anyway.
    total: Option<u64>,
    groups: Vec<LetterGroup>,
    /// Of how many dead letters the groups are made, and whether there are more.
    grouped: usize,
    has_more: bool,
    rows: Vec<ListedRow>,
    next: Option<String>,
    has_cursor: bool,
    /// Down to which instant was looked, if there is more to look through.
    searched_until: Option<TimeTag>,
    problem: &'static str,
}

/// What was read for a page.
#[derive(Default)]
struct FoundLetters {
    page: ListPage,
    grouped: ListPage,
}

/// `GET /ui/dead-letters`: the form, the groups and the list.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    let t = LetterTexts::of(visit.language);
    let search = SearchTexts::of(visit.language);
    let now_ms = page.service.clock().now_ms();
    let (filters, filter) = BulkFilters::of_address(&visit, true, now_ms);
    let cursor = visit.parameter("cursor");
    let cursor = cursor.filter(|cursor| cursor.len() <= LONGEST_CURSOR);
    let mut problem = "";
    let mut found = FoundLetters::default();
    if let Some(filter) = filter {
        let mut filter = list_filter(&filter);
        let asked = filter.topic.take();
        match (topic_to_list(visit.caller()?, asked.clone()), asked) {
            (Ok(topic), _) => {
                filter.topic = topic;
                let asked_by = visit.caller()?.name.as_ref();
                found = read(&page, filter, cursor.as_deref(), asked_by).await?;
            }
            (Err(_), Some(_)) => return Err(PageProblem::Topic),
            (Err(_), None) => problem = search.choose_topic,
        }
    }
    let status = match filters.has_problem() || !problem.is_empty() {
        true => StatusCode::UNPROCESSABLE_ENTITY,
        false => StatusCode::OK,
    };
    let FoundLetters {
        page: list,
        grouped,
    } = found;
    let made_again = page.service.are_endpoints_made_again(&list.items).await?;
    let mut rows = ListedRow::all(
        &list.items,
        list.last_attempts.as_deref().unwrap_or_default(),
        visit.language,
    );
    ListedRow::mark_made_again(&mut rows, &made_again);
    let may_plan = visit.may(Permission::Jobs) && page.service.has_journal();
    let shown = LettersPage {
        frame: visit.frame(t.title),
        t,
        b: BulkTexts::of(visit.language),
        search,
        path: "/ui/dead-letters",
        back: filters.address("/ui/dead-letters", &[]),
        plan: may_plan.then(|| filters.address("/ui/dead-letters/plan", &[])),
        may_select: visit.may(Permission::Resend),
        total: list.total,
        groups: groups::of(&grouped, &filters, visit.language),
        grouped: grouped.items.len(),
        has_more: grouped.next.is_some(),
        rows,
        next: (list.next.as_deref())
            .map(|next| filters.address("/ui/dead-letters", &[("cursor", next)])),
        has_cursor: cursor.is_some(),
        searched_until: list.searched_until_ms.map(TimeTag),
        problem,
        filters,
    };
    document(status, &shown)
}

/// Reads a page of the list, and with the first page what the groups are made of.
async fn read(
    page: &Page,
    filter: Filter,
    cursor: Option<&str>,
    asked_by: Option<&ApiKeyName>,
) -> Result<FoundLetters, PageProblem> {
    let cursor_is_first = cursor.is_none();
    let request = |limit, cursor: Option<&str>| ListRequest {
        filter: filter.clone(),
        in_flight: None,
        is_due: false,
        limit,
        cursor: cursor.map(ToString::to_string),
        most_scanned: cursor_is_first.then_some(MOST_SCANNED_AT_FIRST),
        asked_by: asked_by.cloned(),
    };
    let (list, whole) = (request(PAGE_SIZE, cursor), request(MOST_GROUPED, None));
    let list = page.service.dead_letters(&list);
    if cursor.is_some() {
        let page = list.await?;
        return Ok(FoundLetters {
            page,
            ..FoundLetters::default()
        });
    }
    let (list, grouped) = tokio::join!(list, page.service.dead_letters(&whole));
    Ok(FoundLetters {
        page: list?,
        grouped: grouped?,
    })
}
