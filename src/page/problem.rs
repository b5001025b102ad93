//! What goes wrong with a request to the page.
//!
//! A handler returns a [`PageProblem`]; [`super::problem_page`] shows it, in the language of the visitor. What the service
//! refuses is mapped and logged by [`crate::api::problem`], as for the API.

use super::language::Language;
use super::texts::frame::FrameTexts;
use super::texts::refusals;
use crate::api::problem::{Problem, ProblemKind};
use crate::service::ServiceError;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use std::sync::Arc;

/// Why a request to the page is refused, or has failed.
#[derive(Debug, Clone)]
pub enum PageProblem {
    /// There is no such page.
    Route,
    /// The page does not take this method.
    Method,
    /// The role does not permit it.
    Forbidden,
    /// The API key is bound to other topics.
    Topic,
    /// Another site made the browser send it.
    CrossSite,
    /// The server needs no key, and the request is for a domain name.
    Host,
    /// The token of the form is not that of the session.
    Token,
    /// The form cannot be read.
    Form,
    /// The API key sends too many requests.
    TooMany,
    /// Too many requests are in flight.
    Busy,
    /// The server failed. The log says why.
    Internal,
    /// There is no such notification.
    Missing,
    /// What the service, or what reads requests, has refused.
    Refused(StatusCode, ProblemKind, PageRefusal),
}

/// What is known of a refusal.
#[derive(Debug, Clone)]
pub struct PageRefusal {
    /// A sentence in English, without details of the stores.
    detail: String,
    /// The error of the service; `None` if the request could not be read.
    error: Option<Arc<ServiceError>>,
}

impl PageProblem {
    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Route | Self::Missing => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Forbidden | Self::Topic | Self::CrossSite | Self::Host | Self::Token => {
                StatusCode::FORBIDDEN
            }
            Self::Form => StatusCode::BAD_REQUEST,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Refused(status, ..) => *status,
        }
    }

    /// The problem and its detail in the language of the visitor, for a form that was not done.
    pub fn in_full(&self, language: Language) -> String {
        self.in_full_after(self.in_words(FrameTexts::of(language)), language)
    }

    /// The same, with these words instead of the general ones.
    pub fn in_full_after(&self, words: &str, language: Language) -> String {
        let (detail, _) = self.detail(language);
        let between = match language {
            Language::English => " ",
            Language::Chinese => "",
        };
        match detail.is_empty() {
            true => words.to_string(),
            false => format!("{words}{between}{detail}"),
        }
    }

    /// The problem in general, in the language of the visitor.
    pub fn in_words(&self, texts: &'static FrameTexts) -> &'static str {
        match self {
            Self::Route => texts.error_route,
            Self::Missing => texts.error_missing,
            Self::Method => texts.error_method,
            Self::Forbidden => texts.error_forbidden,
            Self::Topic => texts.error_topic,
            Self::CrossSite => texts.error_cross_site,
            Self::Host => texts.error_host,
            Self::Token => texts.error_token,
            Self::Form => texts.error_form,
            Self::TooMany => texts.error_many,
            Self::Busy => texts.error_busy,
            Self::Internal => texts.error_internal,
            Self::Refused(status, kind, _) => match (*status, kind) {
                (_, ProblemKind::NoJournal) => texts.error_no_journal,
                (StatusCode::NOT_FOUND, _) => texts.error_nothing,
                (StatusCode::SERVICE_UNAVAILABLE, _) => texts.error_unavailable,
                (StatusCode::CONFLICT | StatusCode::GONE, _) => texts.error_refused,
                (status, _) if status.is_server_error() => texts.error_internal,
                _ => texts.error_other,
            },
        }
    }

    /// What else is known, in the language of the visitor as far as that is possible, and whether it is in English.
    pub fn detail(&self, language: Language) -> (String, bool) {
        let Self::Refused(_, _, refusal) = self else {
            return (String::new(), false);
        };
        match (language, &refusal.error) {
            (Language::Chinese, Some(error)) => (refusals::in_chinese(error), false),
            (Language::English, _) | (Language::Chinese, None) => {
                (as_sentence(&refusal.detail), true)
            }
        }
    }
}

impl From<Problem> for PageProblem {
    fn from(problem: Problem) -> Self {
        match problem.kind() {
            ProblemKind::Missing => Self::Missing,
            kind => {
                let refusal = PageRefusal {
                    detail: problem.detail().to_string(),
                    error: None,
                };
                Self::Refused(problem.status(), kind, refusal)
            }
        }
    }
}

impl From<ServiceError> for PageProblem {
    fn from(error: ServiceError) -> Self {
        let kept = Arc::new(error.clone());
        let mut problem = Self::from(Problem::of_service(error));
        if let Self::Refused(_, _, refusal) = &mut problem {
            refusal.error = Some(kept);
        }
        problem
    }
}

/// The detail of a problem of the API as a sentence of its own.
fn as_sentence(detail: &str) -> String {
    let mut letters = detail.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => String::new(),
    }
}

impl IntoResponse for PageProblem {
    /// The problem itself; the page that shows it is written later ([`super::problem_page`]).
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}
