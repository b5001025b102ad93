//! The numbers of notifications by state, and the result of reading every notification.

use crate::domain::key::Key;

/// The numbers of notifications by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalCounts {
    /// All notifications that were registered and not pruned since.
    pub registered: u64,
    /// Pending notifications.
    pub scheduled: u64,
    /// Notifications that the receiver has acknowledged.
    pub delivered: u64,
    /// Dead letters.
    pub dead: u64,
    /// Notifications that were cancelled, and dead letters that were discarded.
    pub cancelled: u64,
}

/// The result of reading every notification, as of one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examined {
    /// The numbers as the journal's counters give them.
    pub counters: JournalCounts,
    /// The numbers as they were found by counting all rows.
    pub rows: JournalCounts,
    /// The first notifications that have a fault, up to a limit.
    pub faults: Vec<(Key, Fault)>,
    /// Number of all faults.
    pub faulty: u64,
}

/// A fault of a notification that can be found in the journal alone, without the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The notification is pending, but the journal does not have its body.
    NoBody,
    /// The notification is delivered, but none of its attempts was acknowledged.
    NoAcknowledgement,
}
