//! Jobs: a request that concerns many notifications, and is done step by step.
//!
//! ```text
//!   running <-----> paused          pause, resume
//!      |               |
//!      +---------------+---> stopped
//!      +---> done, failed
//! ```
//! Which notifications a job concerns is decided by instants that are fixed when it is made. What is registered later
//! does not join it. If the clock is set back to before these instants, a job that a person asked for ends as failed.

use crate::domain::call_rate::CallRate;
use crate::domain::job_filter::{FilteredSelection, JobFilter};
use crate::domain::lane::Lane;
use crate::domain::outage::EndedOutage;
use crate::domain::state::named;
use sha2::{Digest as _, Sha256};
use std::fmt;
use thiserror::Error;

/// The calls per second of a job whose request names no rate.
pub const DEFAULT_JOB_RATE: f64 = 100.0;
/// The highest rate of a job, in calls per second.
pub const HIGHEST_JOB_RATE: f64 = 1_000.0;
/// Maximum number of jobs that have not ended, without those after outages.
pub const MOST_JOBS: usize = 100;
/// Maximum number of jobs after outages that have not ended.
pub const MOST_JOBS_AFTER_OUTAGES: usize = 100;
/// Maximum number of all jobs that have not ended.
pub const MOST_OPEN_JOBS: usize = MOST_JOBS + MOST_JOBS_AFTER_OUTAGES;
/// Maximum number of jobs that are kept. The oldest that have ended are forgotten first.
pub const MOST_JOBS_KEPT: usize = 10_000;

/// The id of a job. Ids that are made later sort after the earlier ones, as far as the clocks of the servers agree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobId(Box<str>);

/// The error for a text that is not the id of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("there is no job of this id")]
pub struct BadJobId;

impl JobId {
    /// Reads an id: 1 to 64 characters of `0-9`, `a-f` and `-`.
    ///
    /// # Errors
    /// [`BadJobId`] if no job can have this id.
    pub fn parse(text: &str) -> Result<Self, BadJobId> {
        let is_known = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-');
        match (1..=64).contains(&text.len()) && text.bytes().all(is_known) {
            true => Ok(Self(text.into())),
            false => Err(BadJobId),
        }
    }

    /// The id of the job after an outage: the same for every server that makes it.
    #[must_use]
    pub fn after_outage(outage: &EndedOutage) -> Self {
        let digest = Sha256::digest(outage.lane.as_str().as_bytes());
        let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        // As in a UUID of version 7, the time comes first.
        let time = format!("{:012x}", outage.until_ms.clamp(0, (1 << 48) - 1));
        let (first, second) = time.split_at(8);
        let (third, fourth, fifth) = (&hash[..3], &hash[3..6], &hash[6..18]);
        Self(format!("{first}-{second}-7{third}-8{fourth}-{fifth}").into())
    }

    /// How the histories of notifications name the job. If a reason was given, it follows after a colon.
    #[must_use]
    pub fn in_history(&self) -> String {
        format!("job {self}")
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// Makes the pending notifications of a lane due now, oldest registration first.
    LaneRetry,
    /// The same with those whose last attempt failed during an outage of the destination. It is made when a call is
    /// answered again, at most once for each outage.
    AfterOutage,
    /// Released a lane that was held. It is done when it is made.
    LaneRelease,
    /// Replays the dead letters that pass a filter, the one that died first comes first.
    Replay,
    /// Cancels the pending notifications that pass a filter, oldest registration first.
    Cancel,
}

named!(JobKind {
    LaneRetry = "lane_retry",
    AfterOutage = "after_outage",
    LaneRelease = "lane_release",
    Replay = "replay",
    Cancel = "cancel",
});

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobState {
    /// A server works on it, or will soon.
    Running,
    /// Nobody works on it until it is resumed.
    Paused,
    /// Everything that matched was done or skipped, or has failed.
    Done,
    /// A person stopped it. What was done until then stays.
    Stopped,
    /// It cannot go on. What was done until then stays.
    Failed,
}

named!(JobState {
    Running = "running",
    Paused = "paused",
    Done = "done",
    Stopped = "stopped",
    Failed = "failed",
});

impl JobKind {
    /// How many jobs may not have ended of those that share a limit with this kind: people's jobs have another one than
    /// those that servers make.
    #[must_use]
    pub fn most_open(self) -> usize {
        match self {
            Self::LaneRetry | Self::LaneRelease | Self::Replay | Self::Cancel => MOST_JOBS,
            Self::AfterOutage => MOST_JOBS_AFTER_OUTAGES,
        }
    }
}

impl JobState {
    /// Whether it never changes again.
    #[must_use]
    pub fn has_ended(self) -> bool {
        match self {
            Self::Running | Self::Paused => false,
            Self::Done | Self::Stopped | Self::Failed => true,
        }
    }
}

/// What a person asks of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobOrder {
    /// Do nothing until it is resumed.
    Pause,
    /// Go on.
    Resume,
    /// End now.
    Stop,
}

named!(JobOrder {
    Pause = "pause",
    Resume = "resume",
    Stop = "stop",
});

impl JobOrder {
    /// The state of a job after this order; `None` if it has ended. A job that is paused already stays paused, and one
    /// that runs already goes on.
    #[must_use]
    pub fn apply(self, before: JobState) -> Option<JobState> {
        (!before.has_ended()).then_some(match self {
            Self::Pause => JobState::Paused,
            Self::Resume => JobState::Running,
            Self::Stop => JobState::Stopped,
        })
    }
}

/// How far a job is, in notifications.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// How many it concerned when it was made, as far as they were counted then: at least that, and never less than it
    /// has seen.
    pub matched: u64,
    /// For how many it did what it does.
    pub done: u64,
    /// How many needed nothing when their turn came: they had ended, were due already, or an attempt was in flight.
    pub skipped: u64,
    /// For how many it could not do it.
    pub failed: u64,
}

impl JobCounts {
    /// How many have had their turn.
    #[must_use]
    pub fn seen(self) -> u64 {
        self.done + self.skipped + self.failed
    }

    /// The counts of a job that has seen everything. What matched and was not seen has ended before its turn came,
    /// so it was skipped.
    #[must_use]
    pub fn complete(self) -> Self {
        let seen = self.seen();
        let matched = self.matched.max(seen);
        Self {
            matched,
            skipped: self.skipped + (matched - seen),
            ..self
        }
    }
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkJob {
    /// Its id.
    pub id: JobId,
    /// What it does.
    pub kind: JobKind,
    /// Its state.
    pub state: JobState,
    /// The lane that it is about; `None` if it is about several.
    pub lane: Option<Lane>,
    /// Which notifications it is about, if it was made for a filter.
    pub filter: Option<JobFilter>,
    /// Only notifications whose last attempt began at or after this instant and got no answer at the transport.
    /// `None` for all.
    pub failed_since_ms: Option<i64>,
    /// How far it is.
    pub counts: JobCounts,
    /// How many notifications per second.
    pub rate: CallRate,
    /// The name of the user who asked for it, or of the part of the server.
    pub actor: Box<str>,
    /// The reason that the user gave; may be empty.
    pub reason: Box<str>,
    /// Why it has failed, if it has.
    pub problem: Option<Box<str>>,
    /// When it was made, in milliseconds since 1970. Which notifications it concerns is decided by this instant.
    pub created_ms: i64,
    /// When it ended, in milliseconds since 1970; `None` if it has not.
    pub ended_ms: Option<i64>,
}

/// Which notifications a job concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobSelection {
    /// Pending ones of a lane.
    OfLane(PendingOfLane),
    /// Dead letters.
    Dead(FilteredSelection),
    /// Pending ones.
    Pending(FilteredSelection),
}

/// The pending notifications of a lane that a job concerns: those that are not set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingOfLane {
    /// Of this lane.
    pub lane: Lane,
    /// Registered at or before this instant.
    pub registered_until_ms: i64,
    /// Due after this instant.
    pub due_after_ms: i64,
    /// See [`BulkJob::failed_since_ms`].
    pub failed_since_ms: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_takes_no_order() {
        use JobState::{Done, Failed, Paused, Running, Stopped};
        for order in JobOrder::ALL {
            for ended in [Done, Failed, Stopped] {
                assert_eq!(order.apply(ended), None, "{order}");
            }
        }
        for open in [Running, Paused] {
            assert_eq!(JobOrder::Pause.apply(open), Some(Paused));
            assert_eq!(JobOrder::Resume.apply(open), Some(Running));
            assert_eq!(JobOrder::Stop.apply(open), Some(Stopped));
        }
    }

    #[test]
    fn an_id_is_a_short_text_of_few_characters() {
        fn check(text: &str, is_id: bool) {
            assert_eq!(JobId::parse(text).is_ok(), is_id, "{text}");
        }
        check("019aa3f2-7c1e-7000-8000-0123456789ab", true);
        check(&"a".repeat(64), true);
        check(&"a".repeat(65), false);
        check("", false);
        check("A", false);
        check("../x", false);
        check("a\0", false);
    }

    #[test]
    fn every_server_gives_the_job_after_an_outage_the_same_id() {
        let outage = |lane: &str, until_ms| EndedOutage {
            lane: Lane::from_name(lane),
            from_ms: 1,
            until_ms,
        };
        let id = |lane, until_ms| JobId::after_outage(&outage(lane, until_ms));
        let one = id("endpoint:a", 1_795_163_400_000);
        assert_eq!(one.as_str().len(), 36);
        assert_eq!(&one.as_str()[..14], "01a1f813-a740-");
        assert_eq!(JobId::parse(one.as_str()).as_ref(), Ok(&one));
        assert_eq!(one, id("endpoint:a", 1_795_163_400_000));
        assert_ne!(one, id("endpoint:b", 1_795_163_400_000));
        assert_ne!(one, id("endpoint:a", 1_795_163_400_001));
    }

    #[test]
    fn at_the_end_everything_is_accounted_for() {
        fn check([matched, done, skipped, failed]: [u64; 4], expected: [u64; 4]) {
            let counts = JobCounts {
                matched,
                done,
                skipped,
                failed,
            }
            .complete();
            let counts = [counts.matched, counts.done, counts.skipped, counts.failed];
            assert_eq!(counts, expected);
        }
        check([10, 4, 1, 1], [10, 4, 5, 1]);
        check([10, 10, 0, 0], [10, 10, 0, 0]);
        check([10, 10, 2, 1], [13, 10, 2, 1]);
        check([0, 0, 0, 0], [0, 0, 0, 0]);
    }
}
