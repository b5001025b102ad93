//! The kinds of problem: a table of their HTTP statuses, types and titles.

use crate::api::schema::{named_schema, names};
use http::StatusCode;

/// A kind of problem. Callers rely on the `type` of each kind, so it never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// The body is not JSON, or it is not complete.
    Malformed,
    /// The query or the path cannot be read.
    Parameters,
    /// The API key is missing or wrong.
    Unauthorized,
    /// The role or the topics of the API key do not permit the request.
    Forbidden,
    /// The API key sends too many requests.
    TooManyRequests,
    /// A web page of another site made a browser send the request.
    CrossSite,
    /// No route has this path.
    Route,
    /// There is no notification with this key.
    Missing,
    /// There is no endpoint of this name.
    MissingEndpoint,
    /// There are as many endpoints as there may be.
    TooManyEndpoints,
    /// Pending notifications name the endpoint.
    EndpointInUse,
    /// The endpoint that the notification names was removed and made again.
    EndpointMadeAgain,
    /// The endpoint has no signing key of this id, or there is no default key of this id.
    MissingKey,
    /// The signing keys, or the master key of the server, do not allow the change.
    SigningKey,
    /// There is no API key of this name.
    MissingApiKey,
    /// The API keys that there are do not allow the change.
    ApiKey,
    /// Nothing is known of this lane.
    MissingLane,
    /// There is no job of this id.
    MissingJob,
    /// The job has ended.
    JobEnded,
    /// Another job of the lane has not ended.
    JobRuns,
    /// As many jobs have not ended as there may be.
    TooManyJobs,
    /// The path does not accept this method.
    Method,
    /// The body arrived too slowly.
    Timeout,
    /// The key was registered before with other content.
    Mismatch,
    /// The key was registered before with the same content, and the notification was cancelled.
    Cancelled,
    /// The order of notifications does not allow it.
    OutOfOrder,
    /// The notification's state does not allow the change.
    State,
    /// The notification's body was deleted, so it cannot be sent again.
    PayloadDeleted,
    /// The headers and the body of the notification are not kept any more, so they cannot be read.
    PayloadGone,
    /// The request or a field is larger than this server accepts.
    TooLarge,
    /// The body is not declared as JSON in UTF-8.
    MediaType,
    /// Some fields are wrong.
    Fields,
    /// An error inside the server.
    Internal,
    /// The request needs a journal, and the server has none.
    NoJournal,
    /// Too many requests are in flight, or they hold too much memory.
    Busy,
    /// Too many notifications are pending.
    Full,
    /// A store is out of reach.
    Unavailable,
}

impl ProblemKind {
    /// All kinds.
    pub const ALL: &[Self] = &[
        Self::Malformed,
        Self::Parameters,
        Self::Unauthorized,
        Self::Forbidden,
        Self::TooManyRequests,
        Self::CrossSite,
        Self::Route,
        Self::Missing,
        Self::MissingEndpoint,
        Self::TooManyEndpoints,
        Self::EndpointInUse,
        Self::EndpointMadeAgain,
        Self::MissingKey,
        Self::SigningKey,
        Self::MissingApiKey,
        Self::ApiKey,
        Self::MissingLane,
        Self::MissingJob,
        Self::JobEnded,
        Self::JobRuns,
        Self::TooManyJobs,
        Self::Method,
        Self::Timeout,
        Self::Mismatch,
        Self::Cancelled,
        Self::OutOfOrder,
        Self::State,
        Self::PayloadDeleted,
        Self::PayloadGone,
        Self::TooLarge,
        Self::MediaType,
        Self::Fields,
        Self::Internal,
        Self::NoJournal,
        Self::Busy,
        Self::Full,
        Self::Unavailable,
    ];

    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> StatusCode {
        self.row().0
    }

    /// The `type` of the problem. It is a name, not an address that can be opened.
    #[must_use]
    pub fn urn(self) -> &'static str {
        self.row().1
    }

    /// The `title` of the problem: the kind in a few words.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.row().2
    }

    /// The name of the kind: the last part of its `type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.urn().rsplit(':').next().unwrap_or_default()
    }

    /// The status, the `type` and the title of each kind.
    #[rustfmt::skip]
    fn row(self) -> (StatusCode, &'static str, &'static str) {
        use StatusCode as Status;
        match self {
            Self::Malformed => (Status::BAD_REQUEST, "urn:ringback:problem:malformed", "The request cannot be read"),
            Self::Parameters => (Status::BAD_REQUEST, "urn:ringback:problem:parameters", "The query or the path is wrong"),
            Self::Unauthorized => (Status::UNAUTHORIZED, "urn:ringback:problem:unauthorized", "No valid API key"),
            Self::Forbidden => (Status::FORBIDDEN, "urn:ringback:problem:forbidden", "The API key does not permit this"),
            Self::TooManyRequests => (Status::TOO_MANY_REQUESTS, "urn:ringback:problem:too-many-requests", "Too many requests for this key"),
            Self::CrossSite => (Status::FORBIDDEN, "urn:ringback:problem:cross-site", "Pages of other sites may not ask"),
            Self::Route => (Status::NOT_FOUND, "urn:ringback:problem:route", "There is nothing at this path"),
            Self::Missing => (Status::NOT_FOUND, "urn:ringback:problem:missing", "No such notification"),
            Self::MissingEndpoint => (Status::NOT_FOUND, "urn:ringback:problem:missing-endpoint", "No such endpoint"),
            Self::TooManyEndpoints => (Status::CONFLICT, "urn:ringback:problem:too-many-endpoints", "Too many endpoints"),
            Self::EndpointInUse => (Status::CONFLICT, "urn:ringback:problem:endpoint-in-use", "The endpoint is in use"),
            Self::EndpointMadeAgain => (Status::CONFLICT, "urn:ringback:problem:endpoint-made-again", "Its endpoint is another one by now"),
            Self::MissingKey => (Status::NOT_FOUND, "urn:ringback:problem:missing-key", "No such signing key"),
            Self::SigningKey => (Status::CONFLICT, "urn:ringback:problem:signing-key", "The signing keys do not allow this"),
            Self::MissingApiKey => (Status::NOT_FOUND, "urn:ringback:problem:missing-api-key", "No such API key"),
            Self::ApiKey => (Status::CONFLICT, "urn:ringback:problem:api-key", "The API keys do not allow this"),
            Self::MissingLane => (Status::NOT_FOUND, "urn:ringback:problem:missing-lane", "No such destination"),
            Self::MissingJob => (Status::NOT_FOUND, "urn:ringback:problem:missing-job", "No such job"),
            Self::JobEnded => (Status::CONFLICT, "urn:ringback:problem:job-ended", "The job has ended"),
            Self::JobRuns => (Status::CONFLICT, "urn:ringback:problem:job-runs", "Another job of the lane runs"),
            Self::TooManyJobs => (Status::CONFLICT, "urn:ringback:problem:too-many-jobs", "Too many jobs"),
            Self::Method => (Status::METHOD_NOT_ALLOWED, "urn:ringback:problem:method", "Not with this method"),
            Self::Timeout => (Status::REQUEST_TIMEOUT, "urn:ringback:problem:timeout", "The request came too slowly"),
            Self::Mismatch => (Status::CONFLICT, "urn:ringback:problem:mismatch", "The id is taken by other content"),
            Self::Cancelled => (Status::CONFLICT, "urn:ringback:problem:cancelled", "It was cancelled and is not sent"),
            Self::PayloadDeleted => (Status::CONFLICT, "urn:ringback:problem:payload-deleted", "Its body is no longer kept"),
            Self::PayloadGone => (Status::GONE, "urn:ringback:problem:payload-gone", "Its headers and body are no longer kept"),
            Self::OutOfOrder => (Status::CONFLICT, "urn:ringback:problem:out-of-order", "The order does not allow this"),
            Self::State => (Status::CONFLICT, "urn:ringback:problem:state", "The notification's state does not allow this"),
            Self::TooLarge => (Status::PAYLOAD_TOO_LARGE, "urn:ringback:problem:too-large", "Too large"),
            Self::MediaType => (Status::UNSUPPORTED_MEDIA_TYPE, "urn:ringback:problem:media-type", "Not JSON in UTF-8"),
            Self::Fields => (Status::UNPROCESSABLE_ENTITY, "urn:ringback:problem:fields", "Some fields are wrong"),
            Self::Internal => (Status::INTERNAL_SERVER_ERROR, "urn:ringback:problem:internal", "The server made a mistake"),
            Self::NoJournal => (Status::NOT_IMPLEMENTED, "urn:ringback:problem:no-journal", "This needs a journal"),
            Self::Busy => (Status::SERVICE_UNAVAILABLE, "urn:ringback:problem:busy", "Too many requests are in flight"),
            Self::Full => (Status::SERVICE_UNAVAILABLE, "urn:ringback:problem:full", "Too much is pending"),
            Self::Unavailable => (Status::SERVICE_UNAVAILABLE, "urn:ringback:problem:unavailable", "A store is out of reach"),
        }
    }
}

/// The `type` of a problem.
pub struct ProblemType;
named_schema!(
    ProblemType,
    "ProblemType",
    names(
        &ProblemKind::ALL
            .iter()
            .map(|kind| kind.urn())
            .collect::<Vec<_>>()
    )
    .description(Some(
        "What kind of error it is. It never changes; go by it, and not by the texts."
    ))
);
