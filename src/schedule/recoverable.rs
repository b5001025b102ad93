//! A schedule that outlives the process: several instances work with it, and it may lose data.
//!
//! Three things tell that something is or may be missing.
//!
//! * Each instance counts the changes it made there and had answered, and every call says how many
//!   those were. Where fewer were counted, the data was flushed, replaced or set back to an older copy:
//!   the call is refused with [`ScheduleError::Rebuilding`] until this instance has inspected it.
//! * The store was restarted since the data was last compared with the journal: it may have come back
//!   without its last changes, and whoever made them may be gone.
//! * A call comes upon something that is missing: an entry, a lane, a lease.
//!
//! In each case one instance compares everything with the journal, and puts in what is missing, soonest
//! due first. The others work with the schedule meanwhile. The journal is asked before anything is sent
//! that was accepted before, until it is done and calls whose lease was lost have ended.
//!
//! What the duty in `maintenance/recovery` calls, in the order of an instance's life:
//!
//! | call | when |
//! |---|---|
//! | [`Recoverable::restore_write_counts`] | at start, with what an earlier instance had written down |
//! | [`Recoverable::inspect`] | at start, and whenever something may be missing |
//! | [`Recoverable::take_ownership`] | once, if nothing in the store says whose the data is and the journal knows it |
//! | [`Recoverable::report_loading`], [`Recoverable::reindex`], [`Recoverable::finish_loading`] | while this instance loads it |
//! | [`Recoverable::wait_for_loss`], [`Recoverable::wait_until_usable`] | while it works |
//! | [`Recoverable::heartbeat`], [`Recoverable::write_counts`] | every few seconds |
//! | [`Recoverable::deregister`] | at its stop |
//!
//! [`Recoverable::status`] is for commands that only read.

use super::ScheduleError;
use async_trait::async_trait;

/// What an inspection found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspection {
    /// It holds everything.
    Whole,
    /// Another instance is loading it; calls are executed meanwhile.
    Loading,
    /// Another instance is emptying it; to be asked again in a moment.
    Clearing,
    /// It falls to this instance to put in everything that is pending and remove what has ended, with
    /// [`Recoverable::report_loading`] at least every few seconds, then [`Recoverable::finish_loading`].
    ToLoad(LoadReason),
    /// It holds something, and nothing there says whose it is. To be compared with the journal; if that
    /// knows of it, [`Recoverable::take_ownership`] and inspect it again.
    Unowned,
}

/// What a schedule says of itself, read without touching it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleStatus {
    /// There is none of this journal.
    New,
    /// It is in use. What it may have lost, only looking tells.
    Whole,
    /// It is being loaded from the journal, or no instance has begun to load it yet.
    Loading,
}

/// Why a schedule is to be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadReason {
    /// It is new to this journal.
    New,
    /// It has lost what it held: all of it, or what came after some instant.
    Lost,
    /// The store was restarted, and may have lost its last changes.
    Restarted,
    /// A call found something missing.
    Damaged,
    /// Another instance began to load it and did not come to an end.
    Unfinished,
    /// It was asked for, and everything was removed first.
    Asked,
}

/// A stretch of all entries that was reindexed, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reindexed {
    /// Entries that were put back to where they belong.
    pub reindexed: u64,
    /// Pass this to go on; `None` at the end.
    pub next: Option<String>,
}

/// See the module's documentation.
#[async_trait]
pub trait Recoverable: Send + Sync {
    /// Finds out whether it holds everything, and registers this instance. `clear` has it emptied first,
    /// whatever it holds.
    ///
    /// # Errors
    /// [`ScheduleError::Foreign`] if it belongs to another journal, or if its servers sign with another
    /// secret; [`ScheduleError::Unavailable`].
    async fn inspect(&self, clear: bool) -> Result<Inspection, ScheduleError>;

    /// Reads its status. Unlike [`Recoverable::inspect`] it changes nothing, and gives no instance a task.
    ///
    /// # Errors
    /// As [`Recoverable::inspect`].
    async fn status(&self) -> Result<ScheduleStatus, ScheduleError>;

    /// Takes the data for this journal's, from the next inspection on.
    fn take_ownership(&self);

    /// Puts those entries of a stretch back into their lanes that are in no lane and not leased: what a lost
    /// lane or lease left. `cursor` as for [`super::Schedule::scan`].
    ///
    /// # Errors
    /// As any call; also [`ScheduleError::BadCursor`].
    async fn reindex(&self, cursor: Option<&str>, limit: usize)
    -> Result<Reindexed, ScheduleError>;

    /// Says that loading goes on. `false` if it has to be inspected again: another instance has
    /// taken over, since it heard nothing for too long, or more was lost.
    async fn report_loading(&self) -> Result<bool, ScheduleError>;

    /// Says that everything is in. `false` as for [`Recoverable::report_loading`].
    async fn finish_loading(&self) -> Result<bool, ScheduleError>;

    /// Completes once something was found to be missing that no inspection has seen yet.
    async fn wait_for_loss(&self);

    /// Completes once calls are executed again.
    async fn wait_until_usable(&self);

    /// How many changes of this instance were answered, as a text to be remembered outside.
    fn write_counts(&self) -> String;

    /// Takes in what [`Recoverable::write_counts`] gave to an earlier instance, before the first inspection.
    /// A text that is none is ignored.
    fn restore_write_counts(&self, write_counts: &str);

    /// Says that this instance is at work. To be called every few seconds: one that claims nothing, because
    /// all its attempts are in flight, would be taken for dead.
    ///
    /// # Errors
    /// [`ScheduleError::Unavailable`].
    async fn heartbeat(&self) -> Result<(), ScheduleError>;

    /// Says that this instance has stopped.
    async fn deregister(&self);
}
