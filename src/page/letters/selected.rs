//! Some dead letters, selected on the list: what would be done, and replaying or discarding them one by one.
//!
//! There are at most [`PAGE_SIZE`] of them, so no job is made. Each is changed as on its own page. If all are done, the
//! browser is led back to the list; else the page says of each what became of it.

use super::PAGE_SIZE;
use crate::api::reason::check_reason;
use crate::domain::change::Change;
use crate::domain::key::Key;
use crate::domain::role::Permission;
use crate::page::Page;
use crate::page::form::FormFields;
use crate::page::frame::PageFrame;
use crate::page::html::document;
use crate::page::listed::{ListedRow, key_of_value};
use crate::page::problem::PageProblem;
use crate::page::texts::bulk::BulkTexts;
use crate::page::texts::letters::LetterTexts;
use crate::page::texts::search::SearchTexts;
use crate::page::visit::Visit;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "selected_letters.html")]
struct SelectedPage {
    frame: PageFrame,
    t: &'static LetterTexts,
    b: &'static BulkTexts,
    search: &'static SearchTexts,
    back: String,
    letters: Vec<SelectedLetter>,
    /// How many can be replayed now.
    ready: usize,
    /// How many can be discarded now.
    dead: usize,
    /// How many are dead and can never be replayed, because their endpoints were made again.
    stuck: usize,
    repeated: usize,
    may_discard: bool,
    reason: String,
    problem: String,
}

/// A selected dead letter.
struct SelectedLetter {
    /// The notification; `None` if there is none any more.
    row: Option<ListedRow>,
    value: String,
    /// Whether it can be replayed.
    is_ready: bool,
    /// Whether it can be discarded.
    is_dead: bool,
    /// What became of it: whether it was done, and the words. `None` if nothing was tried.
    result: Option<(bool, String)>,
}

/// `POST /ui/dead-letters/selected`: what would be done with the selected ones. It changes nothing.
pub(in crate::page) async fn plan(
    State(page): State<Arc<Page>>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    answer(&page, &visit, &form, StatusCode::OK, "", &[]).await
}

/// `POST /ui/dead-letters/selected/replay`: replays them.
pub(in crate::page) async fn replay(
    State(page): State<Arc<Page>>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    make(&page, &visit, &form, Change::Replay).await
}

/// `POST /ui/dead-letters/selected/discard`: gives them up.
pub(in crate::page) async fn discard(
    State(page): State<Arc<Page>>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    make(&page, &visit, &form, Change::Discard).await
}

async fn make(
    page: &Page,
    visit: &Visit,
    form: &FormFields,
    change: Change,
) -> Result<Response, PageProblem> {
    let t = LetterTexts::of(visit.language);
    let keys = keys_of(form);
    let wrong = StatusCode::UNPROCESSABLE_ENTITY;
    let Ok(reason) = check_reason(&form.text("reason")) else {
        let problem = BulkTexts::of(visit.language).bad_reason;
        return answer(page, visit, form, wrong, problem, &[]).await;
    };
    if keys.is_empty() {
        return answer(page, visit, form, wrong, t.none_selected, &[]).await;
    }
    let actor = visit.actor()?;
    let mut results: Vec<(bool, String)> = Vec::new();
    let mut failed = None;
    for key in &keys {
        check_topic(visit, key)?;
        let service = &page.service;
        let changed = service.change_for_reason(key, change, actor.clone(), &reason);
        match changed.await {
            Ok(_) => results.push((true, done_in_words(t, change).to_string())),
            Err(error) => {
                let problem = PageProblem::from(error);
                results.push((false, problem.in_full(visit.language)));
                let status = problem.status();
                failed.get_or_insert(status);
                if status.is_server_error() {
                    // A store is away: the others would each wait for it.
                    break;
                }
            }
        }
    }
    results.resize_with(keys.len(), || (false, t.not_tried.to_string()));
    let Some(status) = failed else {
        let code = match change {
            Change::Discard => "letters-discarded",
            _ => "letters-replayed",
        };
        let back = back_of(form);
        let separator = if back.contains('?') { '&' } else { '?' };
        return Ok(Redirect::to(&format!("{back}{separator}done={code}")).into_response());
    };
    answer(page, visit, form, status, t.some_failed, &results).await
}

fn done_in_words(t: &'static LetterTexts, change: Change) -> &'static str {
    match change {
        Change::Discard => t.was_discarded,
        Change::Replay
        | Change::Cancel
        | Change::Resend
        | Change::Retry
        | Change::Reschedule(_) => t.was_replayed,
    }
}

/// Shows the selected ones as they are now, and what became of them.
async fn answer(
    page: &Page,
    visit: &Visit,
    form: &FormFields,
    status: StatusCode,
    problem: &str,
    results: &[(bool, String)],
) -> Result<Response, PageProblem> {
    let t = LetterTexts::of(visit.language);
    let mut letters = Vec::new();
    // Once some were changed, the page says which, also if the journal does not answer any more. It is not asked again then:
    // each question would wait.
    let mut is_away = false;
    for (at, key) in keys_of(form).iter().enumerate() {
        check_topic(visit, key)?;
        let found = match is_away {
            true => None,
            false => match page.service.find(key).await {
                Err(_) if !results.is_empty() => {
                    is_away = true;
                    None
                }
                found => found?,
            },
        };
        let mut row = (found.as_ref())
            .map(|found| ListedRow::of(found, found.attempts.last(), visit.language));
        let is_dead = (found.as_ref()).is_some_and(|found| Change::Replay.is_allowed(found));
        let mut is_ready = is_dead;
        if let (Some(found), Some(row)) = (&found, &mut row) {
            let made_again = page.service.is_endpoint_made_again(found).await;
            row.is_endpoint_made_again = match made_again {
                Err(_) if !results.is_empty() => {
                    is_away = true;
                    false
                }
                made_again => made_again?,
            };
            is_ready &= !row.is_endpoint_made_again;
        }
        letters.push(SelectedLetter {
            is_ready,
            is_dead,
            value: crate::page::listed::value_of(key),
            row,
            result: results.get(at).cloned(),
        });
    }
    let (status, problem) = match letters.is_empty() && problem.is_empty() {
        true => (StatusCode::UNPROCESSABLE_ENTITY, t.none_selected),
        false => (status, problem),
    };
    let repeated = |letter: &&SelectedLetter| {
        letter.is_ready && (letter.row.as_ref()).is_some_and(|row| row.repeated.is_some())
    };
    let shown = SelectedPage {
        frame: visit.frame(t.selected),
        t,
        b: BulkTexts::of(visit.language),
        search: SearchTexts::of(visit.language),
        back: back_of(form),
        ready: letters.iter().filter(|letter| letter.is_ready).count(),
        dead: letters.iter().filter(|letter| letter.is_dead).count(),
        stuck: (letters.iter())
            .filter(|letter| letter.is_dead && !letter.is_ready)
            .count(),
        repeated: letters.iter().filter(repeated).count(),
        may_discard: visit.may(Permission::Operate),
        reason: form.text("reason"),
        problem: problem.to_string(),
        letters,
    };
    document(status, &shown)
}

/// The selected keys, each once.
fn keys_of(form: &FormFields) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for at in 0..PAGE_SIZE {
        let key = key_of_value(&form.text(&format!("pick-{at}")));
        keys.extend(key.filter(|key| !keys.contains(key)));
    }
    keys
}

fn check_topic(visit: &Visit, key: &Key) -> Result<(), PageProblem> {
    match visit.caller()?.may_use(key.topic()) {
        true => Ok(()),
        false => Err(PageProblem::Topic),
    }
}

/// The list from which they were selected.
fn back_of(form: &FormFields) -> String {
    let back = form.text("back");
    let is_list = back == "/ui/dead-letters" || back.starts_with("/ui/dead-letters?");
    match is_list && crate::page::html::is_own(&back) {
        true => back,
        false => "/ui/dead-letters".to_string(),
    }
}
