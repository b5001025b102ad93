//! A page that shows a secret which was made just now. No other page shows it, and no cache or server keeps this one.

use super::frame::PageFrame;
use super::html::document;
use super::problem::PageProblem;
use askama::Template;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use zeroize::Zeroizing;

/// A secret, and what belongs to it.
#[derive(Template)]
#[template(path = "shown_once.html")]
pub struct ShownOnce {
    pub frame: PageFrame,
    pub lead: &'static str,
    /// What follows from it; empty if nothing unexpected does.
    pub warning: &'static str,
    pub label: &'static str,
    pub secret: Zeroizing<String>,
    pub facts: Vec<(&'static str, String)>,
    pub back_href: String,
    pub back_text: &'static str,
}

impl ShownOnce {
    /// The answer to the request that made the secret.
    ///
    /// # Errors
    /// If the template fails, which is a bug.
    pub fn into_answer(self) -> Result<Response, PageProblem> {
        let mut response = document(StatusCode::OK, &self)?;
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }
}
