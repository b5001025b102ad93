//! A schedule that outlives the process: several instances work with it, and it may lose data.
//!
//! A loss is detected in three ways:
//!
//! * Each instance knows how many of its changes were answered, and sends that number with every change. If
//!   the store has counted fewer, its data was flushed, replaced or set back to an older copy: the change is
//!   refused with [`ScheduleError::Rebuilding`] until this instance has inspected the data.
//! * The store was restarted after the data was last compared with the journal. It may have lost its last
//!   changes, and the instance that made them may have ended.
//! * A call finds something missing: an entry, a lane, a lease.
//!
//! In each case one instance compares everything with the journal, and puts in what is missing, soonest
//! due first. The others continue to use the schedule. Before a notification is sent that was accepted
//! before the loss, the journal is asked, until the comparison is done and attempts whose lease was lost
//! have ended.
//!
//! The calls that the duty in `maintenance/recovery` makes:
//!
//! | call | when |
//! |---|---|
//! | [`Recoverable::restore_write_counts`] | at start, with the counts that an earlier instance stored |
//! | [`Recoverable::inspect`] | at start, and whenever something may be missing |
//! | [`Recoverable::take_ownership`] | once, if the data has no owner and the journal knows its notifications |
//! | [`Recoverable::report_loading`], [`Recoverable::reindex`], [`Recoverable::finish_loading`] | while this instance loads it |
//! | [`Recoverable::wait_for_loss`], [`Recoverable::wait_until_usable`] | while the schedule is in use |
//! | [`Recoverable::heartbeat`], [`Recoverable::write_counts`] | every few seconds; the former also after [`Recoverable::wait_for_instances`] |
//! | [`Recoverable::deregister`] | when the instance stops |
//!
//! [`Recoverable::status`] is for commands that only read.

use super::window::LoadedWindow;
use super::{Scanned, ScheduleError};
use crate::domain::lane::Lane;
use async_trait::async_trait;

/// What an inspection found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspection {
    /// It holds everything.
    Whole,
    /// Another instance is loading it; calls are executed meanwhile.
    Loading,
    /// Another instance is emptying it; inspect it again soon.
    Clearing,
    /// This instance has to put in everything that is pending and remove what has ended. Meanwhile it
    /// calls [`Recoverable::report_loading`] at least every few seconds, then [`Recoverable::finish_loading`].
    ToLoad(LoadReason),
    /// It was replaced by one with another number of partitions, with which other instances work. This instance must end.
    Replaced,
    /// It holds data without an owner. The caller compares it with the journal. If the journal knows the
    /// data, the caller calls [`Recoverable::take_ownership`] and inspects it again.
    Unowned,
}

/// The status of a schedule, read without changing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleStatus {
    /// There is no schedule of this journal.
    New,
    /// It is in use. Whether it has lost data, only [`Recoverable::inspect`] says.
    Whole,
    /// It is being loaded from the journal, or no instance has begun to load it yet.
    Loading,
}

/// Why a schedule is to be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadReason {
    /// It is new to this journal.
    New,
    /// It has lost data: all of it, or the changes after some instant.
    Lost,
    /// The store was restarted and may have lost its last changes.
    Restarted,
    /// A call found something missing.
    Damaged,
    /// Another instance began to load it and did not finish.
    Unfinished,
    /// A user asked for it, and everything was removed first.
    Asked,
    /// It had another number of partitions, and everything was removed first.
    Resized,
}

/// The result of reindexing a part of all entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reindexed {
    /// Number of entries that were put back into their sets.
    pub reindexed: u64,
    /// The cursor of the next part; `None` at the end.
    pub next: Option<String>,
}

/// See the module's documentation.
#[async_trait]
pub trait Recoverable: Send + Sync {
    /// Checks whether it holds everything, and registers this instance. With `clear` it is emptied first,
    /// whatever it holds.
    ///
    /// # Errors
    /// [`ScheduleError::Foreign`] if it belongs to another journal, or if its servers sign with another
    /// secret; [`ScheduleError::Unavailable`].
    async fn inspect(&self, clear: bool) -> Result<Inspection, ScheduleError>;

    /// Reads its status. Unlike [`Recoverable::inspect`] this changes nothing and gives this instance no task.
    ///
    /// # Errors
    /// As [`Recoverable::inspect`].
    async fn status(&self) -> Result<ScheduleStatus, ScheduleError>;

    /// From the next inspection on, data without an owner is taken over for this journal.
    fn take_ownership(&self);

    /// Whether this instance has to load the part of the schedule that has this lane. Other parts may be whole, loaded by
    /// other instances, or out of reach.
    fn is_loading(&self, lane: &Lane) -> bool;

    /// Whether a part that this instance has to load does not answer while other parts of the schedule do.
    fn is_some_out_of_reach(&self) -> bool;

    /// Notes up to which due time the parts that this instance loads were loaded, as
    /// [`super::ScheduleMaintenance::set_loaded_until`].
    ///
    /// # Errors
    /// As any call.
    async fn set_loaded_until_of_loading(&self, loaded: LoadedWindow) -> Result<(), ScheduleError>;

    /// Reads a part of the entries in the parts that this instance loads, as [`super::ScheduleMaintenance::scan`].
    ///
    /// # Errors
    /// As any call; also [`ScheduleError::BadCursor`].
    async fn scan_loading(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Scanned, ScheduleError>;

    /// Reads a part of the entries in the parts that this instance loads, and puts those back into their lanes that are in
    /// no lane and not leased: their lane or lease was lost. If it loads none, all parts are read. `cursor` is as for [`super::ScheduleMaintenance::scan`].
    ///
    /// # Errors
    /// As any call; also [`ScheduleError::BadCursor`].
    async fn reindex(&self, cursor: Option<&str>, limit: usize)
    -> Result<Reindexed, ScheduleError>;

    /// Reports that loading continues. `false` if the schedule must be inspected again: another instance
    /// has taken over because the reports were too late, or more was lost.
    async fn report_loading(&self) -> Result<bool, ScheduleError>;

    /// Reports that loading is complete. `false` as for [`Recoverable::report_loading`].
    async fn finish_loading(&self) -> Result<bool, ScheduleError>;

    /// Completes when a loss is detected after the last inspection.
    async fn wait_for_loss(&self);

    /// Completes when calls are executed again.
    async fn wait_until_usable(&self);

    /// How many changes of this instance were answered, as a text for the journal to keep.
    fn write_counts(&self) -> String;

    /// Sets the text that [`Recoverable::write_counts`] gave to an earlier instance, before the first
    /// inspection. Any other text is ignored.
    fn restore_write_counts(&self, write_counts: &str);

    /// Reports that this instance is alive, and learns which others claim, with which it shares out the work. To be called
    /// every few seconds: without it, an instance that claims nothing, because it has as many attempts in flight as it may
    /// have, would count as dead.
    ///
    /// # Errors
    /// [`ScheduleError::Unavailable`].
    async fn heartbeat(&self) -> Result<(), ScheduleError>;

    /// Completes when an instance has begun or stopped to claim since the last call: [`Recoverable::heartbeat`] is to be called
    /// soon. For one waiter.
    async fn wait_for_instances(&self);

    /// Reports that this instance has stopped.
    async fn deregister(&self);
}
