//! What can be done with an endpoint: a test call, adding and removing its keys, removing it.

use super::{BesideEndpoint, answer, name_of};
use crate::page::Page;
use crate::page::form::FormFields;
use crate::page::paths::endpoint_path;
use crate::page::problem::PageProblem;
use crate::page::signing_keys::{RotateForm, key_to_add, made, refused};
use crate::page::texts::endpoints::EndpointTexts;
use crate::page::texts::signing_keys::SigningKeyTexts;
use crate::page::visit::Visit;
use crate::service::ServiceError;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::StatusCode;
use std::sync::Arc;

/// `POST .../test`: makes one signed call, and shows how it went. Nothing of it is kept.
pub async fn test(
    State(page): State<Arc<Page>>,
    Path(name): Path<String>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    let name = name_of(&name)?;
    let t = EndpointTexts::of(visit.language);
    match page.service.test_endpoint(&name, &visit.actor()?).await {
        Ok(attempt) => {
            let beside = BesideEndpoint {
                tested: Some(attempt),
                ..BesideEndpoint::default()
            };
            answer(&page, &visit, &name, StatusCode::OK, beside).await
        }
        Err(ServiceError::TooManyTestCalls) => {
            let beside = BesideEndpoint {
                test_problem: t.test_busy.to_string(),
                ..BesideEndpoint::default()
            };
            answer(
                &page,
                &visit,
                &name,
                StatusCode::SERVICE_UNAVAILABLE,
                beside,
            )
            .await
        }
        Err(error) => Err(error.into()),
    }
}

/// `POST .../remove`: removes the endpoint, if nothing that is pending names it.
pub async fn remove(
    State(page): State<Arc<Page>>,
    Path(name): Path<String>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    let name = name_of(&name)?;
    let t = EndpointTexts::of(visit.language);
    let failed = |problem: &str| BesideEndpoint {
        remove_problem: problem.to_string(),
        ..BesideEndpoint::default()
    };
    if form.text("confirm").is_empty() {
        let wrong = StatusCode::UNPROCESSABLE_ENTITY;
        return answer(&page, &visit, &name, wrong, failed(t.not_confirmed)).await;
    }
    match page.service.remove_endpoint(&name, visit.actor()?).await {
        Ok(()) => Ok(Redirect::to("/ui/endpoints?done=endpoint-removed").into_response()),
        Err(error @ ServiceError::EndpointInUse) => {
            let status = PageProblem::from(error).status();
            answer(&page, &visit, &name, status, failed(t.in_use)).await
        }
        Err(error) => Err(error.into()),
    }
}

/// `POST .../keys`: adds a key. One that is made is shown this once.
pub async fn add_key(
    State(page): State<Arc<Page>>,
    Path(name): Path<String>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    let name = name_of(&name)?;
    let failed = |problem: &str| BesideEndpoint {
        rotate: Some(RotateForm::typed(&visit, &form, problem)),
        ..BesideEndpoint::default()
    };
    let asked = match key_to_add(&form, &visit) {
        Ok(asked) => asked,
        Err(problem) => {
            let wrong = StatusCode::UNPROCESSABLE_ENTITY;
            return answer(&page, &visit, &name, wrong, failed(&problem)).await;
        }
    };
    let overlap_ms = asked.overlap_ms;
    let actor = visit.actor()?;
    match page.service.add_signing_key(&name, asked, &actor).await {
        Ok(added) => {
            let path = endpoint_path(&name);
            let code = match added.is_new {
                true => "signing-key-added",
                false => "signing-key-known",
            };
            match made(added, overlap_ms, &visit, path.clone()) {
                Some(shown) => shown.into_answer(),
                None => Ok(Redirect::to(&format!("{path}?done={code}")).into_response()),
            }
        }
        Err(error) => {
            let (status, problem) = refused(error, &visit)?;
            answer(&page, &visit, &name, status, failed(&problem)).await
        }
    }
}

/// `POST .../keys/{id}/remove`: removes a key at once.
pub async fn remove_key(
    State(page): State<Arc<Page>>,
    Path((name, id)): Path<(String, String)>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    let name = name_of(&name)?;
    let failed = |problem: &str| BesideEndpoint {
        keys_problem: problem.to_string(),
        ..BesideEndpoint::default()
    };
    if form.text("confirm").is_empty() {
        let wrong = StatusCode::UNPROCESSABLE_ENTITY;
        let words = SigningKeyTexts::of(visit.language).not_confirmed;
        return answer(&page, &visit, &name, wrong, failed(words)).await;
    }
    let actor = visit.actor()?;
    match page.service.remove_signing_key(&name, &id, &actor).await {
        Ok(()) => {
            let done = format!("{}?done=signing-key-removed", endpoint_path(&name));
            Ok(Redirect::to(&done).into_response())
        }
        Err(error) => {
            let (status, problem) = refused(error, &visit)?;
            answer(&page, &visit, &name, status, failed(&problem)).await
        }
    }
}
