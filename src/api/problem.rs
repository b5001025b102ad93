//! The error answers of the API: `application/problem+json` (RFC 9457).
//!
//! Only this module maps errors to HTTP statuses. It also logs the errors of the stores, so code that answers
//! with a [`Problem`] does not log them again. Details of a store (addresses, file names) are written to the
//! log and are not sent to the caller.

mod kind;
mod of_service;
mod subject;

pub use kind::ProblemKind;
pub use kind::ProblemType;

use crate::api::field_errors::{FieldError, FieldErrors, FieldLocation};
use crate::api::fields::UnreadableJson;
use crate::api::registration::InvalidRequest;
use crate::api::schema::StateName;
use crate::domain::key::Key;
use crate::domain::redaction::redacted;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use subject::{Subject, WrittenNotification};
use utoipa::ToSchema;

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    kind: ProblemKind,
    detail: Cow<'static, str>,
    errors: Vec<FieldError>,
    subject: Option<Box<Subject>>,
    /// Another notification that is in the way.
    other: Option<Key>,
}

impl Problem {
    /// A problem whose `detail` is this sentence. What looks like a secret is not repeated.
    #[must_use]
    pub fn new(kind: ProblemKind, detail: impl Into<Cow<'static, str>>) -> Self {
        let detail = detail.into();
        let shown = match redacted(&detail) {
            Cow::Owned(shown) => Some(shown),
            Cow::Borrowed(_) => None,
        };
        Self {
            kind,
            detail: shown.map_or(detail, Cow::Owned),
            errors: Vec::new(),
            subject: None,
            other: None,
        }
    }

    /// The same problem. If it is a conflict with a notification, its document contains all of that.
    #[must_use]
    pub fn with_notification(mut self, notification: Box<RawValue>) -> Self {
        if let Some(subject) = &mut self.subject {
            subject.notification = Some(WrittenNotification(notification));
        }
        self
    }

    /// The problem for wrong fields of the body or wrong headers.
    #[must_use]
    pub fn fields(errors: FieldErrors) -> Self {
        let kind = if errors.too_large() {
            ProblemKind::TooLarge
        } else {
            ProblemKind::Fields
        };
        Self::with_errors(kind, errors)
    }

    /// The problem for wrong query parameters.
    #[must_use]
    pub fn parameters(errors: FieldErrors) -> Self {
        Self::with_errors(ProblemKind::Parameters, errors)
    }

    /// The problem for a body that is not a JSON object.
    #[must_use]
    pub fn unreadable(unreadable: UnreadableJson) -> Self {
        match unreadable {
            UnreadableJson::Syntax(error) => Self::new(
                ProblemKind::Malformed,
                format!("the body is not JSON: {error}"),
            ),
            UnreadableJson::Kind(kind) => Self::fields(FieldErrors::one(
                FieldLocation::Pointer(String::new()),
                kind,
            )),
        }
    }

    /// The problem for a body that is not a valid request.
    #[must_use]
    pub fn invalid(invalid: InvalidRequest) -> Self {
        match invalid {
            InvalidRequest::Unreadable(unreadable) => Self::unreadable(unreadable),
            InvalidRequest::Fields(errors) => Self::fields(errors),
        }
    }

    fn with_errors(kind: ProblemKind, errors: FieldErrors) -> Self {
        let detail = errors.summary();
        Self {
            errors: errors.into_list(),
            ..Self::new(kind, detail)
        }
    }

    /// The problem for an error inside the server. The caller has logged the error.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(
            ProblemKind::Internal,
            "the request was not executed, or only in part; the server's log says why",
        )
    }

    /// The problem if too many requests are in flight.
    #[must_use]
    pub fn busy() -> Self {
        Self::new(
            ProblemKind::Busy,
            "this server has too many requests in flight; nothing was done, so send the request again",
        )
    }

    /// The kind of the problem.
    #[must_use]
    pub fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.kind.status()
    }

    /// What happened, in a sentence.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The members of the problem, to be written into a JSON document.
    #[must_use]
    pub fn view(&self) -> ProblemView<'_> {
        let subject = self.subject.as_ref();
        ProblemView {
            kind: self.kind.urn(),
            title: self.kind.title(),
            status: self.status().as_u16(),
            detail: &self.detail,
            errors: &self.errors,
            topic: subject.map(|subject| subject.topic.as_str()),
            id: subject.map(|subject| subject.id.as_str()),
            state: subject.map(|subject| subject.state),
            notification: subject
                .and_then(|subject| subject.notification.as_ref())
                .map(|written| &*written.0),
            other: self.other.as_ref().map(|other| OtherView {
                topic: other.topic(),
                id: other.id(),
            }),
        }
    }

    /// Whether the same request may succeed in about a second.
    fn soon(&self) -> bool {
        match self.kind {
            ProblemKind::TooManyRequests
            | ProblemKind::Busy
            | ProblemKind::Full
            | ProblemKind::Unavailable => true,
            // An attempt is in flight. It ends soon, and then the change may be possible.
            ProblemKind::State => self
                .subject
                .as_ref()
                .is_some_and(|subject| subject.may_pass),
            ProblemKind::Malformed
            | ProblemKind::Parameters
            | ProblemKind::Unauthorized
            | ProblemKind::Forbidden
            | ProblemKind::CrossSite
            | ProblemKind::Route
            | ProblemKind::Missing
            | ProblemKind::MissingEndpoint
            | ProblemKind::EndpointInUse
            | ProblemKind::EndpointMadeAgain
            | ProblemKind::TooManyEndpoints
            | ProblemKind::MissingKey
            | ProblemKind::SigningKey
            | ProblemKind::MissingApiKey
            | ProblemKind::ApiKey
            | ProblemKind::MissingLane
            | ProblemKind::MissingJob
            | ProblemKind::JobEnded
            | ProblemKind::JobRuns
            | ProblemKind::TooManyJobs
            | ProblemKind::Method
            | ProblemKind::Timeout
            | ProblemKind::Mismatch
            | ProblemKind::Cancelled
            | ProblemKind::PayloadDeleted
            | ProblemKind::PayloadGone
            | ProblemKind::OutOfOrder
            | ProblemKind::TooLarge
            | ProblemKind::MediaType
            | ProblemKind::Fields
            | ProblemKind::Internal
            | ProblemKind::NoJournal => false,
        }
    }
}

/// An error (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemView<'a> {
    #[schema(value_type = ProblemType)]
    #[serde(rename = "type")]
    kind: &'static str,
    /// The kind in a few words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What happened, in a sentence.
    detail: &'a str,
    /// The wrong fields, parameters and headers, up to 100.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
    /// Of a conflict: the topic of the notification that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    /// Its state.
    #[schema(value_type = Option<StateName>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
    /// Of `cancelled`: all of that notification, as in an answer to its registration.
    #[schema(value_type = Option<HashMap<String, Value>>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    notification: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<OtherView<'a>>,
}

/// Another notification, which is in the way of a registration.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OtherNotification)]
struct OtherView<'a> {
    topic: &'a str,
    id: &'a str,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.respond(&self.view())
    }
}

impl Problem {
    /// Makes the answer with this document, which has the members of this problem and may have others.
    #[must_use]
    pub fn respond(&self, document: &impl Serialize) -> Response {
        let text = serde_json::to_vec(document).expect("invariant: strings and numbers serialise");
        let mut response = (self.status(), text).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if self.soon() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.kind == ProblemKind::Unauthorized {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"ringback\""),
            );
        }
        response
    }
}

#[cfg(test)]
mod tests;
