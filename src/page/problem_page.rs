//! The page that shows what went wrong with a request.

use super::frame::PageFrame;
use super::html;
use super::problem::PageProblem;
use super::texts::frame::FrameTexts;
use super::visit::Visit;
use askama::Template;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

/// The page of a problem.
#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    frame: PageFrame,
    words: &'static str,
    detail: String,
    /// Whether the detail is in English although the page may not be.
    is_english: bool,
}

/// Writes the page of the problem that a response stands for, if it stands for one.
pub fn written(response: Response, visit: &Visit) -> Response {
    let Some(problem) = response.extensions().get::<PageProblem>() else {
        return response;
    };
    let texts = FrameTexts::of(visit.language);
    let (detail, is_english) = problem.detail(visit.language);
    let page = ProblemPage {
        frame: visit.frame(texts.error_title),
        words: problem.in_words(texts),
        detail,
        is_english,
    };
    let mut document = match html::document(problem.status(), &page) {
        Ok(document) => document,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    let status = problem.status();
    if matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    ) {
        let headers = document.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if let Some(allowed) = response.headers().get(header::ALLOW) {
        document
            .headers_mut()
            .insert(header::ALLOW, allowed.clone());
    }
    document
}

/// Answers a request whose path is that of no page.
pub async fn unknown_page() -> PageProblem {
    PageProblem::Route
}

/// Answers a request whose page does not take its method.
pub async fn unknown_method() -> PageProblem {
    PageProblem::Method
}
