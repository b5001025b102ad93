//! The problem for each error of the service.

use super::subject::Subject;
use super::{Problem, ProblemKind};
use crate::api::field_errors::{FieldErrors, FieldLocation};
use crate::domain::default_keys::BadDefaultKeyChange;
use crate::domain::endpoint_keys::BadKeyChange;
use crate::journal::JournalError;
use crate::schedule::ScheduleError;
use crate::service::{BadApiKeyChange, ServiceError};

impl Problem {
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
            ServiceError::EndpointUnsettled
            | ServiceError::TooManyTestCalls
            | ServiceError::TooManyLists => Self::new(ProblemKind::Busy, detail),
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
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        Self::of_service(error)
    }
}
