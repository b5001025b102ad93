//! Why a request was not done.

use crate::domain::api_key::MOST_API_KEYS;
use crate::domain::change::Change;
use crate::domain::default_keys::BadDefaultKeyChange;
use crate::domain::endpoint::{EndpointName, MOST_ENDPOINTS};
use crate::domain::endpoint_keys::BadKeyChange;
use crate::domain::endpoint_tls::BadTls;
use crate::domain::job::BulkJob;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::order::OrderConflict;
use crate::domain::snapshot::Snapshot;
use crate::journal::{JournalError, MOST_TOPICS};
use crate::keyring::SealFailure;
use crate::schedule::ScheduleError;
use crate::schedule::memory_budget::MemoryLimitReached;
use thiserror::Error;

/// Why a request was not done.
#[derive(Debug, Clone, Error)]
pub enum ServiceError {
    /// No such notification.
    #[error("there is no notification of this topic and id")]
    Missing,
    /// The key was registered before with different content.
    #[error(
        "this topic and id were registered before with different content{}",
        named_fields(differing)
    )]
    Mismatch {
        /// The notification that was registered.
        snapshot: Box<Snapshot>,
        /// The names of the fields that differ, as far as what was registered is still kept.
        differing: Vec<&'static str>,
    },
    /// The key was registered before with the same content, and the notification was cancelled. Nothing will be
    /// sent. This is an error, so that a caller whose first answer was lost does not take it for a schedule.
    #[error(
        "this topic and id were registered before, and the notification was cancelled: nothing will be sent; to have it \
         sent, register it under another id"
    )]
    Cancelled(Box<Snapshot>),
    /// A registration cannot have the place in the order that it asks for. Nothing was kept.
    #[error("{conflict}{}", named_other(other.as_ref()))]
    OutOfOrder {
        /// Why.
        conflict: OrderConflict,
        /// The notification that is in the way, if it is known.
        other: Option<Key>,
    },
    /// The change sends a notification again, and a higher number of its order was registered. Nothing was changed.
    #[error(
        "a higher number of this notification's order was registered, and only the latest counts: it is not sent again"
    )]
    Superseded(Box<Snapshot>),
    /// The change sends a notification again whose endpoint was removed, and another one was made under its name, which
    /// may belong to somebody else. Nothing was changed.
    #[error(
        "the endpoint that this notification names was removed and made again since the notification was registered, and \
         may belong to somebody else by now: it is not sent again; to have it sent, register it under another id"
    )]
    EndpointMadeAgain(Box<Snapshot>),
    /// The notification's state does not allow the change.
    #[error("{}", change.refusal(snapshot))]
    Refused {
        /// The requested change.
        change: Change,
        /// The notification.
        snapshot: Box<Snapshot>,
    },
    /// A registration names an endpoint that does not exist.
    #[error("there is no endpoint `{0}`")]
    UnknownEndpoint(EndpointName),
    /// No such endpoint.
    #[error("there is no endpoint of this name")]
    MissingEndpoint,
    /// There are as many endpoints as there may be.
    #[error(
        "there are {MOST_ENDPOINTS} endpoints, and there may be no more; remove those that are not used"
    )]
    TooManyEndpoints,
    /// Another change of the endpoint is being made.
    #[error("another change of an endpoint is being made; ask again")]
    EndpointUnsettled,
    /// The endpoint cannot be read, and a request leaves out what would be kept. Nothing was changed.
    #[error(
        "this endpoint cannot be read, so its signing keys cannot be kept; replace it as a whole: give `keys` too, with `[]` \
         for none"
    )]
    UnreadableEndpoint,
    /// As many test calls are in flight as there may be.
    #[error("too many test calls are in flight; ask again")]
    TooManyTestCalls,
    /// As many lists are read from the journal as there may be at a time. Nothing was done.
    #[error("too many lists are being read at a time; ask again later")]
    TooManyLists,
    /// Notifications that are pending name the endpoint.
    #[error(
        "notifications that name this endpoint are pending; wait for their end or cancel them, then remove it"
    )]
    EndpointInUse,
    /// The notification cannot be sent again, because its body was deleted. Nothing was changed.
    #[error(
        "the body of this notification was deleted, so it cannot be sent again; --keep-payloads says how long bodies are \
         kept"
    )]
    PayloadDeleted(Box<Snapshot>),
    /// The headers and the body of the notification are not kept any more.
    #[error(
        "the headers and the body of this notification are not kept any more; --keep-payloads says how long they are kept, \
         and without a journal only what is pending or dead has them"
    )]
    PayloadGone,
    /// The signing keys of the endpoint cannot be changed in this way.
    #[error(transparent)]
    KeyChange(#[from] BadKeyChange),
    /// The default keys cannot be changed in this way.
    #[error(transparent)]
    DefaultKeyChange(#[from] BadDefaultKeyChange),
    /// The API keys cannot be changed in this way.
    #[error(transparent)]
    ApiKeyChange(#[from] BadApiKeyChange),
    /// The TLS settings of the endpoint cannot be used. Nothing was changed.
    #[error(transparent)]
    Tls(#[from] BadTls),
    /// The endpoint has this secret already, but only for some time.
    #[error(
        "the endpoint has this secret already, as the key {0}, which signs only for some time; remove that key first"
    )]
    EndingKey(String),
    /// This server shares its journal and was given no master key.
    #[error(
        "this server was given no master key, so other servers of its journal could not use a signing key that it \
         encrypts; start all of them with the same --master-key or --master-key-file, then add the key"
    )]
    NoMasterKey,
    /// The store has keys that another master key encrypted.
    #[error(
        "the signing keys that the servers share were encrypted with another master key than that of this server; start this \
         server with the master key of the others"
    )]
    OtherMasterKey,
    /// A key cannot be encrypted.
    #[error("a signing key cannot be encrypted: {0}")]
    Sealing(SealFailure),
    /// Another write of it is not finished, or it is not known whether this one was. A later request finds
    /// out.
    #[error("something about this notification is still being written down; ask again")]
    Unsettled,
    /// The request needs a journal, and there is none. Contains what the server cannot do.
    #[error("this server keeps no journal, so it cannot {0}")]
    NoJournal(&'static str),
    /// Too much is pending; nothing was done. A later request succeeds when something was delivered.
    #[error(transparent)]
    Full(#[from] MemoryLimitReached),
    /// Nothing is known of this lane: nothing was done.
    #[error(
        "nothing is known of the destination {0}: no notification that is kept goes there, nothing waits there, it has no \
         settings, and there is no such endpoint; check its spelling"
    )]
    MissingLane(Lane),
    /// There is no job of this id.
    #[error("there is no job of this id")]
    MissingJob,
    /// The job has ended, so it takes no orders.
    #[error("the job has ended: it is {}", .0.state)]
    JobEnded(Box<BulkJob>),
    /// Another job of the lane has not ended. Nothing was done.
    #[error(
        "the job {} of this lane is {}, and a lane has one at a time; wait for its end, or stop it", .0.id, .0.state
    )]
    JobRuns(Box<BulkJob>),
    /// As many jobs have not ended as there may be. Nothing was done.
    #[error(
        "{0} jobs have not ended, and there may be no more; wait for the end of some, or stop them"
    )]
    TooManyJobs(usize),
    /// The cursor is not one that a list returned.
    #[error("invalid cursor; use the `next_cursor` of a list")]
    BadCursor,
    /// An id is looked for in all topics, and there are too many. Nothing was looked for.
    #[error(
        "the journal has more than {MOST_TOPICS} topics, too many to look for an id in each; name the topic"
    )]
    TooManyTopics,
    /// The journal failed; the caller must not assume that anything was done.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The schedule failed; the caller must not assume that anything was done.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

fn named_fields(differing: &[&str]) -> String {
    match differing {
        [] => String::new(),
        differing => format!(": {}", differing.join(", ")),
    }
}

fn named_other(other: Option<&Key>) -> String {
    other.map_or(String::new(), |other| {
        format!("; the other is {} {}", other.topic(), other.id())
    })
}

impl ServiceError {
    /// Whether the same request may succeed later, although nobody changes it.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Journal(error) => error.may_pass(),
            Self::Schedule(error) => error.may_pass(),
            error => matches!(error, Self::Unsettled),
        }
    }
}

/// Why the API keys cannot be changed in this way. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadApiKeyChange {
    /// Another key has the name.
    #[error("there is an API key of this name; revoke it first, or choose another name")]
    NameTaken,
    /// There are as many as there may be.
    #[error(
        "there are {MOST_API_KEYS} API keys, and there may be no more; revoke those that are not used"
    )]
    Full,
    /// Nobody could make or revoke keys.
    #[error(
        "as soon as there is any API key, every request needs one; so the first one must have the role operator and no \
         end, unless the server has --api-key"
    )]
    NoOperator,
    /// Nobody could make or revoke keys any more.
    #[error(
        "this is the last API key with the role operator that does not expire, and there are others; make another one \
         first, or start the server with --api-key"
    )]
    LastOperator,
    /// There is none of this name.
    #[error("there is no API key of this name")]
    Missing,
    /// The operating system gives no random bytes.
    #[error("no key could be made, because the operating system gives no random bytes: {0}")]
    NoRandomness(String),
}
