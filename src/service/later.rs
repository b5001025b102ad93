//! What is pending for a destination and waits in the journal alone ([`crate::schedule::window`]).
//!
//! The schedule counts what is due by an instant up to which it has everything, and the journal counts what is due later,
//! by an index of that alone. Both counts are exact, except that the journal stops at a limit: a destination may have
//! millions. The two stores are read one after the other, so a number may miss what changed in between.

use crate::domain::lane_settings::LaneSettings;
use crate::domain::later::LaneAfter;
use crate::journal::{JournalError, JournalReads};
use crate::schedule::lane_status::LaneStatus;

/// At which number counting stops, for one destination.
pub(super) const MOST_COUNTED: usize = 10_000;
/// The same for each of a page of destinations.
pub const MOST_COUNTED_OF_MANY: usize = 1_000;
/// The same where it matters only whether there is any.
const ANY: usize = 1;

/// Counts what waits in the journal for these destinations.
///
/// # Errors
/// If the journal fails; then [`LaneStatus::pending`] is without it, and says so.
pub async fn count_later<J: JournalReads + ?Sized>(
    journal: &J,
    lanes: &mut [LaneStatus],
    most: usize,
) -> Result<(), JournalError> {
    let all = |_: &LaneStatus| true;
    count_of(journal, lanes, all, most).await
}

/// Finds out for which of these destinations anything waits in the journal, of those for which nothing is in the schedule.
///
/// # Errors
/// If the journal fails.
pub async fn find_later<J: JournalReads + ?Sized>(
    journal: &J,
    lanes: &mut [LaneStatus],
) -> Result<(), JournalError> {
    let is_empty = |lane: &LaneStatus| lane.waiting + lane.in_flight == 0;
    count_of(journal, lanes, is_empty, ANY).await
}

async fn count_of<J: JournalReads + ?Sized>(
    journal: &J,
    lanes: &mut [LaneStatus],
    is_wanted: impl Fn(&LaneStatus) -> bool,
    most: usize,
) -> Result<(), JournalError> {
    // Where everything is in the schedule, the journal need not be asked.
    let wanted = lanes
        .iter_mut()
        .filter(|lane| lane.held_until_ms != i64::MAX && is_wanted(lane));
    let wanted: Vec<&mut LaneStatus> = wanted.collect();
    let asked: Vec<LaneAfter> = wanted
        .iter()
        .map(|lane| LaneAfter {
            lane: lane.lane.clone(),
            after_ms: lane.held_until_ms,
        })
        .collect();
    if asked.is_empty() {
        return Ok(());
    }
    let counts = journal.count_later(&asked, most).await?;
    for (lane, count) in wanted.into_iter().zip(counts) {
        lane.later_in_journal = Some(count);
    }
    Ok(())
}

/// Whether the journal has to be asked what waits there for one of these destinations.
pub(super) fn may_wait_in_journal(lanes: &[LaneStatus]) -> bool {
    lanes.iter().any(|lane| lane.held_until_ms != i64::MAX)
}

/// Whether the schedule lists this lane, because it has entries or settings there.
pub(super) fn is_in_schedule(lane: &LaneStatus) -> bool {
    lane.waiting + lane.in_flight > 0 || lane.settings != LaneSettings::default()
}
