//! What happened: the record of every notification.
//!
//! Owns the only SQL of the program. Keeps every accepted notification with its body, every attempt
//! with what came back, and every transition with its time, its actor and the instance that made
//! it. A write that was answered is on disk. Gives no leases, but takes a change by hand only with the token
//! of one. Knows nothing of HTTP. Each database has a folder with its SQL. What is no SQL is shared by both
//! and lies beside them: reading rows, choosing the index of a list, applying recordings and changes,
//! deciding what is old enough to be removed.
//!
//! The trait is in three parts, by who calls them: [`JournalWrites`] (accepting, delivering, changing by
//! hand), [`JournalReads`] (look-ups), [`JournalMaintenance`] (keeping it in step with the schedule, checks,
//! audits). [`Journal`] is all of them.
//!
//! The journal is written before the schedule, so it is never behind: whatever the schedule loses
//! can be read back here. One suite in `tests/` puts the contract to every implementation:
//!
//! * A key is registered once; a second registration shows the first and changes nothing.
//! * Ended states change only by a [`Change`](crate::domain::change::Change) by hand; a recording that
//!   comes too late changes no state, but its attempt is kept, since support staff must see what was
//!   sent.
//! * An attempt is kept once, also if it is recorded again because the first reply was lost: one of
//!   the same series, number, start and outcome is the same attempt.
//! * A batch is answered once all of it is kept. If the call fails, part of it may have been kept; to
//!   repeat it is safe, and finds that part here.
//! * A notification whose outcome the journal refuses to record is set aside: it stays pending and is
//!   not among those that a schedule is loaded with. That is kept apart from the notification, so that
//!   it can be written where the notification cannot. Any change by hand releases it in the same
//!   transaction, and writes into its history that it was set aside.

mod actor;
mod change;
mod check_sample;
pub mod decorator;
mod effect;
mod error;
mod examination;
mod history;
mod list;
mod list_plan;
mod maintenance;
mod pending;
pub mod postgres;
mod pruning;
mod reads;
pub mod recorder;
mod recording;
mod recording_batch;
mod registration;
mod rows;
mod set_aside;
mod sql_values;
pub mod sqlite;
mod transition;
pub mod watched;
mod writes;

pub use actor::Actor;
pub use change::{ChangeResult, Changing};
pub use error::JournalError;
pub use examination::{Examined, Fault, JournalCounts};
pub use list::{Cursor, Filter, Order, SnapshotPage};
pub use maintenance::JournalMaintenance;
pub use pending::Pending;
pub use pruning::{Prune, Pruned};
pub use reads::{JournalReads, MOST_ATTEMPTS_SHOWN};
pub use recording::{Recorded, Recording};
pub use registration::{RegisterResult, Registering};
pub use set_aside::{AllSetAside, SettingAside};
pub use transition::{MOST_TRANSITIONS_SHOWN, Noting, Rebuild, Transition};
pub use writes::JournalWrites;

/// A journal: everything that one can do. See the module's documentation for the contract.
///
/// Whoever needs a part of it alone takes that part.
pub trait Journal: JournalWrites + JournalReads + JournalMaintenance {}

impl<Whole: JournalWrites + JournalReads + JournalMaintenance> Journal for Whole {}
