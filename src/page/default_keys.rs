//! The default keys: what signs the calls to URLs, and to endpoints without keys of their own.

use super::Page;
use super::form::FormFields;
use super::frame::PageFrame;
use super::html::document;
use super::problem::PageProblem;
use super::signing_keys::{RotateForm, SigningKeyRow, key_to_add, made, refused};
use super::texts::signing_keys::SigningKeyTexts;
use super::times::TimeTag;
use super::visit::Visit;
use crate::domain::role::Permission;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::StatusCode;
use std::sync::Arc;

const PATH: &str = "/ui/default-keys";

#[derive(Template)]
#[template(path = "default_keys.html")]
struct DefaultKeysPage {
    frame: PageFrame,
    k: &'static SigningKeyTexts,
    may_operate: bool,
    keys: Vec<SigningKeyRow>,
    keys_path: &'static str,
    keys_problem: String,
    default_until: Option<TimeTag>,
    rotate: RotateForm,
}

/// What a request shows beside the keys: the form as it was typed, or why a key was not removed.
#[derive(Default)]
struct BesideKeys {
    rotate: Option<RotateForm>,
    keys_problem: String,
}

/// `GET /ui/default-keys`: the keys, without their secrets.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    answer(&page, &visit, StatusCode::OK, BesideKeys::default()).await
}

async fn answer(
    page: &Page,
    visit: &Visit,
    status: StatusCode,
    beside: BesideKeys,
) -> Result<Response, PageProblem> {
    let k = SigningKeyTexts::of(visit.language);
    let found = page.service.default_keys().await?;
    let now_ms = page.service.clock().now_ms();
    let unreadable = found.unreadable().iter().filter(|key| !key.is_former);
    let unreadable = unreadable.map(|key| SigningKeyRow::of_unreadable(key, PATH, visit, now_ms));
    let known = found.kept();
    let known = known.map(|known| SigningKeyRow::of(&known.key, PATH, visit, now_ms));
    let shown = DefaultKeysPage {
        frame: visit.frame(k.default_title),
        k,
        may_operate: visit.may(Permission::Operate),
        keys: unreadable.chain(known).collect(),
        keys_path: PATH,
        keys_problem: beside.keys_problem,
        default_until: None,
        rotate: (beside.rotate).unwrap_or_else(|| RotateForm::empty(visit)),
    };
    document(status, &shown)
}

/// `POST /ui/default-keys`: adds a key. One that is made is shown this once.
pub(super) async fn add(
    State(page): State<Arc<Page>>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    let failed = |problem: &str| BesideKeys {
        rotate: Some(RotateForm::typed(&visit, &form, problem)),
        ..BesideKeys::default()
    };
    let asked = match key_to_add(&form, &visit) {
        Ok(asked) => asked,
        Err(problem) => {
            let wrong = StatusCode::UNPROCESSABLE_ENTITY;
            return answer(&page, &visit, wrong, failed(&problem)).await;
        }
    };
    let overlap_ms = asked.overlap_ms;
    match page.service.add_default_key(asked, &visit.actor()?).await {
        Ok(added) => {
            let code = match added.is_new {
                true => "signing-key-added",
                false => "signing-key-known",
            };
            match made(added, overlap_ms, &visit, PATH.to_string()) {
                Some(shown) => shown.into_answer(),
                None => Ok(Redirect::to(&format!("{PATH}?done={code}")).into_response()),
            }
        }
        Err(error) => {
            let (status, problem) = refused(error, &visit)?;
            answer(&page, &visit, status, failed(&problem)).await
        }
    }
}

/// `POST /ui/default-keys/{id}/remove`: removes a key at once.
pub(super) async fn remove(
    State(page): State<Arc<Page>>,
    Path(id): Path<String>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    let failed = |problem: &str| BesideKeys {
        keys_problem: problem.to_string(),
        ..BesideKeys::default()
    };
    if form.text("confirm").is_empty() {
        let wrong = StatusCode::UNPROCESSABLE_ENTITY;
        let words = SigningKeyTexts::of(visit.language).not_confirmed;
        return answer(&page, &visit, wrong, failed(words)).await;
    }
    match page.service.remove_default_key(&id, &visit.actor()?).await {
        Ok(()) => {
            let done = format!("{PATH}?done=signing-key-removed");
            Ok(Redirect::to(&done).into_response())
        }
        Err(error) => {
            let (status, problem) = refused(error, &visit)?;
            answer(&page, &visit, status, failed(&problem)).await
        }
    }
}
