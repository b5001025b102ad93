//! What goes wrong with a request to the page.
//!
//! A handler returns a [`PageProblem`]; [`super::problem_page`] shows it, in the language of the visitor. What the service
//! refuses is mapped and logged by [`crate::api::problem`], as for the API.

use super::texts::frame::FrameTexts;
use crate::api::problem::{Problem, ProblemKind};
use crate::service::ServiceError;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

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
    /// What the service, or what reads requests, has refused: the status and a sentence.
    Refused(StatusCode, ProblemKind, String),
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

    /// The problem in the language of the visitor.
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

    /// What the service has said, in English.
    pub fn detail(&self) -> &str {
        match self {
            Self::Refused(_, _, detail) => detail,
            _ => "",
        }
    }
}

impl From<Problem> for PageProblem {
    fn from(problem: Problem) -> Self {
        match problem.kind() {
            ProblemKind::Missing => Self::Missing,
            kind => Self::Refused(problem.status(), kind, problem.detail().to_string()),
        }
    }
}

impl From<ServiceError> for PageProblem {
    fn from(error: ServiceError) -> Self {
        Self::from(Problem::of_service(error))
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
