//! What a job has done with one notification, and why if it did not change it.

use crate::domain::snapshot::Snapshot;
use crate::domain::state::{Cause, State, named};

/// Maximum number of notifications that are listed for each job and each of [`JobResult::Skipped`] and
/// [`JobResult::Failed`], those that had their turn first. All others are counted by their reasons.
pub const MOST_LISTED: u64 = 100_000;
/// Maximum length of what is kept beside a reason, in characters.
pub const LONGEST_DETAIL: usize = 500;

/// What became of the turn of a notification in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobResult {
    /// It was changed.
    Done,
    /// It needed nothing, or must not be changed any more.
    Skipped,
    /// It could not be changed.
    Failed,
}

named!(JobResult {
    Done = "done",
    Skipped = "skipped",
    Failed = "failed",
});

/// Why a job has not changed a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobReason {
    /// The receiver has acknowledged it meanwhile.
    Delivered,
    /// It has become a dead letter meanwhile.
    Dead,
    /// Its owner has cancelled it meanwhile, or somebody has discarded the dead letter.
    Cancelled,
    /// A higher number of its order was registered, and only the latest counts.
    Superseded,
    /// Somebody has sent it again since the job was made.
    SentAgain,
    /// It was deleted, and another one was registered under its topic and id since the job was made.
    RegisteredAgain,
    /// It is due already, so it is sent without the job.
    Due,
    /// An attempt of it is in flight already.
    InFlight,
    /// It is set aside, and only a person may release it.
    SetAside,
    /// It is not kept any more.
    Missing,
    /// It needed nothing any more before its turn came. Such ones are counted and not listed: a job that ends has not met
    /// them.
    EndedBefore,
    /// Its headers and its body are not kept any more, so it cannot be sent again.
    PayloadDeleted,
    /// Its endpoint was removed and made again, and may belong to somebody else.
    EndpointMadeAgain,
    /// Another server has leased it, and has not given it back in time.
    Leased,
    /// Whenever the job came to it, an attempt was in flight, or another request of the same server was changing it.
    StillInFlight,
    /// What a store has of it cannot be read.
    Unreadable,
    /// The journal cannot write its change.
    NotWritten,
    /// The server failed while it prepared the change. Its log says why.
    Internal,
}

named!(JobReason {
    Delivered = "delivered",
    Dead = "dead",
    Cancelled = "cancelled",
    Superseded = "superseded",
    SentAgain = "sent_again",
    RegisteredAgain = "registered_again",
    Due = "due",
    InFlight = "in_flight",
    SetAside = "set_aside",
    Missing = "missing",
    EndedBefore = "ended_before",
    PayloadDeleted = "payload_deleted",
    EndpointMadeAgain = "endpoint_made_again",
    Leased = "leased",
    StillInFlight = "still_in_flight",
    Unreadable = "unreadable",
    NotWritten = "not_written",
    Internal = "internal",
});

impl JobReason {
    /// As what a notification counts that was not changed for this reason.
    #[must_use]
    pub fn result(self) -> JobResult {
        match self {
            Self::Delivered
            | Self::Dead
            | Self::Cancelled
            | Self::Superseded
            | Self::SentAgain
            | Self::RegisteredAgain
            | Self::Due
            | Self::InFlight
            | Self::SetAside
            | Self::Missing
            | Self::EndedBefore => JobResult::Skipped,
            Self::PayloadDeleted
            | Self::EndpointMadeAgain
            | Self::Leased
            | Self::StillInFlight
            | Self::Unreadable
            | Self::NotWritten
            | Self::Internal => JobResult::Failed,
        }
    }

    /// Why a notification is skipped whose state does not allow the change any more.
    #[must_use]
    pub fn of_state(found: &Snapshot) -> Self {
        match found.state {
            State::Delivered => Self::Delivered,
            State::Dead => Self::Dead,
            State::Cancelled if found.cause == Some(Cause::Superseded) => Self::Superseded,
            State::Cancelled => Self::Cancelled,
            // It was dead when the job was made.
            State::Scheduled => Self::SentAgain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_name_of_its_own_and_belongs_to_one_list() {
        for reason in JobReason::ALL {
            assert_eq!(JobReason::from_name(reason.as_str()), Some(*reason));
            assert_ne!(reason.result(), JobResult::Done, "{reason}");
        }
    }
}
