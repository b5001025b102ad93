//! A schedule that outlives the process: it may lose its data, and several instances notice.
//!
//! Each instance counts the changes it made there and had answered, and every call says how many
//! those were. Where fewer were counted, the data was flushed, replaced or set back to an older copy:
//! the call is refused with [`ScheduleError::Rebuilding`], and nothing can be done until one
//! instance has emptied the schedule and begun to fill it from the journal. From then on everybody
//! works with it, while that instance puts in what is missing, soonest due first.

use super::ScheduleError;
use async_trait::async_trait;

/// What was found on looking at a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It holds everything.
    Whole,
    /// It had lost something, and without a journal that is lost for good. What is there is kept.
    Bereft,
    /// Another instance is filling it; calls are carried out meanwhile.
    Filling,
    /// Another instance has found it wanting and is emptying it; to be asked again in a moment.
    Clearing,
    /// It has been emptied, and it falls to this instance to fill it: to put in everything that is
    /// pending, with [`Shared::proceed`] at least every few seconds, then [`Shared::finish`].
    ToFill(Reason),
}

/// What was found on looking at a schedule without touching it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peeked {
    /// There is none of this journal.
    New,
    /// It is in use. What it may have lost, only looking tells.
    Whole,
    /// It is being filled from the journal.
    Filling,
}

/// Why a schedule is to be filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is new to this journal.
    New,
    /// It has lost what it held: all of it, or what came after some instant.
    Lost,
    /// Another instance began to fill it and did not come to an end.
    Unfinished,
    /// It was asked for.
    Asked,
}

/// See the module's documentation.
#[async_trait]
pub trait Shared: Send + Sync {
    /// Looks whether it holds everything. `asked` finds it wanting whatever it holds.
    ///
    /// # Errors
    /// [`ScheduleError::Foreign`] if it belongs to another journal; [`ScheduleError::Unavailable`].
    async fn look(&self, asked: bool) -> Result<Found, ScheduleError>;

    /// Looks without touching it: nothing is found wanting, nobody is to do anything.
    ///
    /// # Errors
    /// As [`Shared::look`].
    async fn peek(&self) -> Result<Peeked, ScheduleError>;

    /// Says that filling goes on. `false` if another instance has taken over, having heard nothing
    /// for too long: then there is nothing more to do here.
    async fn proceed(&self) -> Result<bool, ScheduleError>;

    /// Says that everything is in. `false` as for [`Shared::proceed`].
    async fn finish(&self) -> Result<bool, ScheduleError>;

    /// Completes once a call was refused because something is lost, and nobody has looked since.
    async fn lost(&self);

    /// Completes once calls are carried out again.
    async fn regained(&self);

    /// When something was last found to be lost, if that is known, in milliseconds since 1970 by the
    /// schedule's clock. Leases were lost with it: an attempt that was due by then may be under way
    /// for as long as a lease lasts, and nothing here says so.
    fn lost_ms(&self) -> Option<i64>;

    /// How many changes of this instance were answered, as a text to be remembered outside.
    fn mark(&self) -> String;

    /// Takes in what [`Shared::mark`] gave to an earlier instance, before the first look.
    /// A text that is none is disregarded.
    fn recall(&self, mark: &str);
}
