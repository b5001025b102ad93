//! What a notification sends: masked until a person asks for it, which the audit log keeps.

use super::{Beside, answer, curl, key_of};
use crate::api::reason::check_reason;
use crate::domain::attempt::escape;
use crate::domain::snapshot::Snapshot;
use crate::page::Page;
use crate::page::form::FormFields;
use crate::page::problem::PageProblem;
use crate::page::texts::notification::NotificationTexts;
use crate::page::visit::Visit;
use crate::service::SentPayload;
use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use std::sync::Arc;

/// A payload as the page shows it.
pub struct ShownPayload {
    pub headers: Vec<(String, String)>,
    /// The body, with what is not visible as escapes.
    pub body: String,
    pub body_bytes: usize,
    /// The call as a command, without its signature. `None` if the URL is not known.
    pub curl: Option<String>,
}

impl ShownPayload {
    /// Shows a payload.
    pub fn of(snapshot: &Snapshot, payload: SentPayload) -> Self {
        let curl = curl::command(snapshot, &payload);
        let mut headers = vec![("content-type".to_string(), payload.content_type)];
        headers.extend(payload.headers.pairs().iter().cloned());
        Self {
            headers,
            body: lines(&payload.body),
            body_bytes: payload.body.len(),
            curl,
        }
    }
}

/// The bytes as text that keeps its lines. What is not visible is escaped.
fn lines(bytes: &[u8]) -> String {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.map(escape).collect::<Vec<_>>().join("\n")
}

/// `POST .../payload`: the page with the headers and the body. Nothing is changed, so the answer is the page itself.
pub async fn unveil(
    State(page): State<Arc<Page>>,
    path: Path<(String, String)>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    let key = key_of(path)?;
    let failed = |problem: String| Beside {
        payload_problem: problem,
        ..Beside::default()
    };
    let Ok(reason) = check_reason(&form.text("reason")) else {
        let problem = NotificationTexts::of(visit.language).bad_reason.to_string();
        let wrong = StatusCode::UNPROCESSABLE_ENTITY;
        return answer(&page, &visit, &key, wrong, failed(problem)).await;
    };
    let actor = visit.actor()?;
    match page.service.payload(&key, &actor, &reason).await {
        Ok(payload) => {
            tracing::info!(
                notification = %key,
                actor = actor.name(),
                "the headers and the body of a notification were read on the page"
            );
            let beside = Beside {
                payload: Some(payload),
                ..Beside::default()
            };
            answer(&page, &visit, &key, StatusCode::OK, beside).await
        }
        Err(error) => {
            let problem = PageProblem::from(error);
            if matches!(problem, PageProblem::Missing) {
                return Err(problem);
            }
            let words = problem.in_full(visit.language);
            answer(&page, &visit, &key, problem.status(), failed(words)).await
        }
    }
}
