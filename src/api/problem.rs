//! The error answers of the API: `application/problem+json` (RFC 9457).
//!
//! Only this module maps errors to HTTP statuses. It also logs the errors of the stores, so code that answers
//! with a [`Problem`] does not log them again. Details of a store (addresses, file names) are written to the
//! log and are not sent to the caller.

mod kind;
mod subject;

pub use kind::ProblemKind;
pub use kind::ProblemType;

use crate::api::field_errors::{FieldError, FieldErrors, FieldLocation};
use crate::api::fields::UnreadableJson;
use crate::api::registration::InvalidRequest;
use crate::api::schema::StateName;
use crate::domain::default_keys::BadDefaultKeyChange;
use crate::domain::endpoint_keys::BadKeyChange;
use crate::domain::key::Key;
use crate::domain::redaction::redacted;
use crate::journal::JournalError;
use crate::schedule::ScheduleError;
use crate::service::{BadApiKeyChange, ServiceError};
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

    /// The problem for an error of the service. Errors that a person should know of are logged.
    #[must_use]
    pub fn of_service(error: ServiceError) -> Self {
        let detail = error.to_string();
        match error {
            ServiceError::Missing => Self::new(ProblemKind::Missing, detail),
            ServiceError::UnknownEndpoint(_) => Self::fields(FieldErrors::one(
                FieldLocation::Pointer("/endpoint".to_string()),
                detail,
            )),
            ServiceError::Tls(bad) => Self::fields(FieldErrors::one(
                FieldLocation::Pointer(format!("/{}", bad.field)),
                detail,
            )),
            ServiceError::MissingEndpoint => Self::new(ProblemKind::MissingEndpoint, detail),
            ServiceError::TooManyEndpoints => Self::new(ProblemKind::TooManyEndpoints, detail),
            ServiceError::EndpointUnsettled | ServiceError::TooManyTestCalls => {
                Self::new(ProblemKind::Busy, detail)
            }
            ServiceError::EndpointInUse => Self::new(ProblemKind::EndpointInUse, detail),
            ServiceError::Mismatch {
                snapshot,
                differing,
            } => {
                let mut errors = FieldErrors::default();
                for field in differing {
                    errors.add_member("", field, "differs from what was registered before");
                }
                Self {
                    errors: errors.into_list(),
                    ..Self::conflict(ProblemKind::Mismatch, detail, Subject::of(&snapshot))
                }
            }
            ServiceError::Cancelled(snapshot) => {
                Self::conflict(ProblemKind::Cancelled, detail, Subject::of(&snapshot))
            }
            ServiceError::OutOfOrder { other, .. } => Self {
                other,
                ..Self::new(ProblemKind::OutOfOrder, detail)
            },
            ServiceError::Superseded(snapshot) => {
                Self::conflict(ProblemKind::OutOfOrder, detail, Subject::of(&snapshot))
            }
            ServiceError::EndpointMadeAgain(snapshot) => {
                let subject = Subject::of(&snapshot);
                Self::conflict(ProblemKind::EndpointMadeAgain, detail, subject)
            }
            ServiceError::PayloadDeleted(snapshot) => {
                Self::conflict(ProblemKind::PayloadDeleted, detail, Subject::of(&snapshot))
            }
            ServiceError::PayloadGone => Self::new(ProblemKind::PayloadGone, detail),
            ServiceError::Refused { change, snapshot } => {
                let subject = Subject::of_refused(change, &snapshot);
                Self::conflict(ProblemKind::State, detail, subject)
            }
            ServiceError::KeyChange(BadKeyChange::Unknown)
            | ServiceError::DefaultKeyChange(BadDefaultKeyChange::Unknown) => {
                Self::new(ProblemKind::MissingKey, detail)
            }
            ServiceError::KeyChange(BadKeyChange::TooMany | BadKeyChange::Last)
            | ServiceError::DefaultKeyChange(
                BadDefaultKeyChange::TooMany
                | BadDefaultKeyChange::Last
                | BadDefaultKeyChange::Ending(_)
                | BadDefaultKeyChange::NotBegun,
            )
            | ServiceError::EndingKey(_)
            | ServiceError::UnreadableEndpoint
            | ServiceError::NoMasterKey
            | ServiceError::OtherMasterKey => Self::new(ProblemKind::SigningKey, detail),
            ServiceError::Sealing(failure) => {
                tracing::error!(
                    %failure,
                    "a signing key was not added, because it cannot be encrypted; the answer is an error 500"
                );
                Self::internal()
            }
            ServiceError::Full(_) => Self::new(
                ProblemKind::Full,
                format!("{detail}; nothing was done, so send the request again later"),
            ),
            ServiceError::Unsettled | ServiceError::Schedule(ScheduleError::BeingRegistered) => {
                Self::new(ProblemKind::Unavailable, detail)
            }
            ServiceError::ApiKeyChange(bad) => {
                let kind = match bad {
                    BadApiKeyChange::Missing => ProblemKind::MissingApiKey,
                    BadApiKeyChange::NameTaken
                    | BadApiKeyChange::Full
                    | BadApiKeyChange::NoOperator
                    | BadApiKeyChange::LastOperator => ProblemKind::ApiKey,
                    BadApiKeyChange::NoRandomness(_) => ProblemKind::Internal,
                };
                Self::new(kind, detail)
            }
            ServiceError::MissingLane(_) => Self::new(ProblemKind::MissingLane, detail),
            ServiceError::MissingJob => Self::new(ProblemKind::MissingJob, detail),
            ServiceError::JobEnded(_) => Self::new(ProblemKind::JobEnded, detail),
            ServiceError::JobRuns(_) => Self::new(ProblemKind::JobRuns, detail),
            ServiceError::TooManyJobs(_) => Self::new(ProblemKind::TooManyJobs, detail),
            ServiceError::NoJournal(_) => Self::new(ProblemKind::NoJournal, detail),
            ServiceError::BadCursor | ServiceError::Schedule(ScheduleError::BadCursor) => {
                Self::parameters(FieldErrors::one(
                    FieldLocation::Parameter("cursor".to_string()),
                    detail,
                ))
            }
            ServiceError::TooManyTopics => Self::parameters(FieldErrors::one(
                FieldLocation::Parameter("topic".to_string()),
                detail,
            )),
            ServiceError::Journal(JournalError::Unavailable(reason)) => {
                Self::unavailable("journal", &reason)
            }
            ServiceError::Journal(JournalError::Refused(reason)) => {
                Self::unusable("journal", &reason)
            }
            ServiceError::Journal(JournalError::Corrupt(reason)) => {
                Self::corrupt("journal", &reason)
            }
            ServiceError::Schedule(ScheduleError::Unavailable(reason)) => {
                Self::unavailable("schedule", &reason)
            }
            ServiceError::Schedule(ScheduleError::Foreign(reason)) => {
                Self::unusable("schedule", &reason)
            }
            ServiceError::Schedule(ScheduleError::Rebuilding) => Self::new(
                ProblemKind::Unavailable,
                format!("{detail}; send the same request again"),
            ),
            ServiceError::Schedule(ScheduleError::Corrupt(reason)) => {
                Self::corrupt("schedule", &reason)
            }
        }
    }

    fn conflict(kind: ProblemKind, detail: String, subject: Subject) -> Self {
        Self {
            subject: Some(Box::new(subject)),
            ..Self::new(kind, detail)
        }
    }

    /// The problem if a store is out of reach. The request may have been executed or not. `health` logs once
    /// that the store is away, so it is not logged here for every request.
    fn unavailable(store: &'static str, reason: &str) -> Self {
        tracing::debug!(
            store,
            reason,
            "a request or an item of a batch failed, because the {store} is unavailable; its answer is an error 503"
        );
        Self::out_of_reach(store)
    }

    /// The problem if the server must not use a store, for example because it belongs to another journal.
    fn unusable(store: &'static str, reason: &str) -> Self {
        tracing::error!(
            store,
            reason,
            "a request or an item of a batch failed, because the {store} refuses it or must not be used by this \
             server; its answer is an error 503"
        );
        Self::out_of_reach(store)
    }

    fn out_of_reach(store: &'static str) -> Self {
        Self::new(
            ProblemKind::Unavailable,
            format!(
                "the {store} is out of reach; the request may not have been executed, so send the same request again"
            ),
        )
    }

    fn corrupt(store: &'static str, reason: &str) -> Self {
        tracing::error!(
            store,
            reason,
            "a request or an item of a batch failed, because its data cannot be read from the {store} or stored in it; \
             its answer is an error 500"
        );
        Self::internal()
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

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        Self::of_service(error)
    }
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
