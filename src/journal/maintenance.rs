//! The calls that maintenance makes to a journal: reading the notifications with which a schedule is loaded
//! and compared, deleting old notifications, checks and audits.

use super::{
    AllSetAside, Cursor, DayReading, DaySelection, Examined, JournalCounts, JournalError, Noting,
    PageBodies, PartitionWork, Pending, PlacesPage, Prune, Pruned, Rebuild,
};
use crate::domain::key::Key;
use crate::domain::lane_settings::LaneChanges;
use async_trait::async_trait;

/// For how long an instance gets a duty at most, in milliseconds. If a duty is given for longer, the clock of the database was set
/// back since, and the duty is free.
pub const LONGEST_DUTY_MS: i64 = 60_000;

/// The part of a [`super::Journal`] that maintenance, checks and audits use.
#[async_trait]
pub trait JournalMaintenance: Send + Sync + 'static {
    /// The number of notifications that are pending and set aside, and the keys of at most `limit` of them.
    async fn all_set_aside(&self, limit: usize) -> Result<AllSetAside, JournalError>;

    /// A page of the pending notifications that are not set aside and are due by `until_ms`, soonest due first: at most
    /// `limit`, after `cursor`, whose instant is the due time. Also returns the cursor of the last row that was
    /// read. A page is shorter if the bodies that are read are large, and empty if all rows of the page are set aside.
    /// Only a page without a cursor is the last one.
    async fn pending_page(
        &self,
        cursor: Option<Cursor>,
        until_ms: i64,
        limit: usize,
        bodies: PageBodies,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError>;

    /// The places of the notifications of such a page. Only what is in a place is read, and checked: the rest of a
    /// notification may be damaged.
    async fn places_page(
        &self,
        cursor: Option<Cursor>,
        until_ms: i64,
        limit: usize,
    ) -> Result<PlacesPage, JournalError>;

    /// The keys of the notifications that were changed by hand at or after `from_ms` and before `until_ms`,
    /// oldest change first: at most `limit`, after `cursor`. A notification that was changed twice comes
    /// twice. Only a page without a cursor is the last one.
    async fn changes(
        &self,
        from_ms: i64,
        until_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Key>, Option<Cursor>), JournalError>;

    /// The lanes whose settings have changed after the change `after`, with all their settings, in the order of
    /// their last changes: at most `limit`. A lane that has changed twice comes once.
    async fn lane_changes(&self, after: i64, limit: usize) -> Result<LaneChanges, JournalError>;

    /// Of the next `limit` pending notifications by due time, after `cursor`, enters those that are due later and were
    /// written by a server that did not know of this ([`super::JournalReads::later_lanes`]). Returns their number, and the
    /// cursor of the next page; `None` at the end.
    async fn fill_in_later(
        &self,
        cursor: Cursor,
        limit: usize,
    ) -> Result<(u64, Option<Cursor>), JournalError>;

    /// Adds lines to histories. Lines for keys that the journal does not have are left out.
    async fn note(&self, notes: &[Noting]) -> Result<(), JournalError>;

    /// Records that a rebuild of the schedule has begun.
    async fn rebuilding(&self, rebuild: &Rebuild) -> Result<(), JournalError>;

    /// Deletes old data, oldest first: at most `limit` bodies and `limit` whole notifications.
    async fn prune(&self, prune: &Prune, limit: usize) -> Result<Pruned, JournalError>;

    /// Does the next step of making partitions ahead of their time, and of dropping those that are old. Does nothing
    /// in a database without partitions.
    async fn tend_partitions(&self, work: &PartitionWork) -> Result<Pruned, JournalError>;

    /// Asks for a maintenance duty, which only one instance has at a time. Returns `true` if this instance
    /// has the duty for `ttl_ms` from now, at most [`LONGEST_DUTY_MS`], `false` if another instance has it. With 0 it is given back.
    async fn duty(&self, name: &str, ttl_ms: i64) -> Result<bool, JournalError>;

    /// The value that [`Self::remember`] last stored under a name.
    async fn recall(&self, name: &str) -> Result<Option<String>, JournalError>;

    /// Stores a small value under a name, such as the position that pruning has reached.
    async fn remember(&self, name: &str, value: &str) -> Result<(), JournalError>;

    /// The numbers of notifications by state.
    async fn counts(&self) -> Result<JournalCounts, JournalError>;

    /// When the pending notification is due that is due first, in milliseconds since 1970; `None` if none is pending. Those
    /// that are set aside do not count.
    async fn oldest_due(&self) -> Result<Option<i64>, JournalError>;

    /// How many pending notifications are due by this instant, in milliseconds since 1970, those that are set aside included.
    /// Counting stops at `most`.
    async fn count_due_by(&self, due_ms: i64, most: usize) -> Result<u64, JournalError>;

    /// Reads and counts every notification, and names at most `limit` that have a fault. Takes seconds for
    /// millions of notifications.
    async fn examine(&self, limit: usize) -> Result<Examined, JournalError>;

    /// Begins to read all notifications that were registered in a span of time, as of this instant.
    async fn read_day(&self, selection: &DaySelection)
    -> Result<Box<dyn DayReading>, JournalError>;

    /// Checks that notifications can be registered and attempts recorded. Does both and rolls them back.
    async fn check(&self) -> Result<(), JournalError>;

    /// Makes sure that the lock is held that keeps servers with another schedule away from this journal, if one was taken
    /// that may be lost, and that the file of the journal is the one that was opened. To be called now and then.
    ///
    /// # Errors
    /// [`JournalError::Refused`] if such a server uses the journal by now, or may do so, or if it is another file. Then both would
    /// send everything, or what is written is lost.
    async fn keep_holding(&self) -> Result<(), JournalError> {
        Ok(())
    }

    /// Waits for the calls in flight, then closes the journal.
    async fn close(&self);
}
