//! How many notifications there are, and what reading every one of them has found.

use crate::domain::key::Key;

/// How many notifications are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalCounts {
    /// All that were ever registered and not pruned.
    pub registered: u64,
    /// Pending.
    pub scheduled: u64,
    /// Acknowledged.
    pub delivered: u64,
    /// Parked.
    pub dead: u64,
    /// Called off or discarded.
    pub cancelled: u64,
}

/// What was found by reading every notification, all as of one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examined {
    /// How many notifications there are by the counters.
    pub counters: JournalCounts,
    /// How many there are by the rows.
    pub rows: JournalCounts,
    /// The first of the notifications that have a fault.
    pub faults: Vec<(Key, Fault)>,
    /// How many faults there are.
    pub faulty: u64,
}

/// What may be wrong with a notification in the journal itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is pending, and its body is gone.
    NoBody,
    /// It is delivered, and no attempt of it was acknowledged.
    NoAcknowledgement,
}
