//! What the log and the histories say about a recovery.

use super::resync::Recovered;
use crate::domain::history_note::HistoryNote;
use crate::schedule::recoverable::LoadReason;
use std::fmt::Display;
use std::time::Duration;

/// The error with which something failed last. The same error again is not logged again.
#[derive(Debug, Default)]
pub(super) struct LastError(Option<String>);

impl LastError {
    /// Keeps the error. Whether it is another one than before.
    pub(super) fn is_new(&mut self, error: &impl Display) -> bool {
        let text = Some(error.to_string());
        let is_new = self.0 != text;
        self.0 = text;
        is_new
    }

    /// Whether nothing has failed since the last success.
    pub(super) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// It has succeeded.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }
}

/// The reason of a rebuild for the histories; `None` if it is not written there.
#[must_use]
pub fn why(reason: LoadReason) -> Option<HistoryNote> {
    match reason {
        LoadReason::New | LoadReason::Resized => None,
        LoadReason::Lost => Some(HistoryNote::LostData),
        LoadReason::Restarted => None,
        LoadReason::Damaged => Some(HistoryNote::SomethingMissing),
        LoadReason::Unfinished => Some(HistoryNote::UnfinishedRebuild),
        LoadReason::Asked => Some(HistoryNote::RebuildAsked),
    }
}

/// Logs that a recovery begins.
pub(super) fn announce(reason: LoadReason, has_journal: bool) {
    match reason {
        LoadReason::New => tracing::info!("the schedule is new; loading it from the journal"),
        LoadReason::Resized => tracing::info!(
            "the schedule had another number of partitions (--partitions), so it was emptied; loading it from the journal"
        ),
        LoadReason::Lost | LoadReason::Damaged if !has_journal => tracing::error!(
            "the schedule has lost data, and there is no journal to load it from; notifications may be lost, so \
             callers should register their pending notifications again"
        ),
        LoadReason::Lost => {
            tracing::warn!("the schedule has lost data; loading it from the journal");
        }
        LoadReason::Damaged => tracing::warn!(
            "the schedule has lost some entries, lanes or leases; comparing it with the journal"
        ),
        LoadReason::Restarted if !has_journal => tracing::info!(
            "Redis may have been restarted or replaced, and may have lost its last changes; checking the entries \
             of the schedule"
        ),
        LoadReason::Restarted => tracing::info!(
            "Redis may have been restarted or replaced, and may have lost its last changes; comparing the schedule \
             with the journal"
        ),
        LoadReason::Unfinished if !has_journal => tracing::info!(
            "a recovery of the schedule was begun and not finished; checking the entries of the schedule"
        ),
        LoadReason::Unfinished => tracing::info!(
            "loading the schedule was begun and not finished; loading it from the journal"
        ),
        LoadReason::Asked => tracing::info!(
            "emptying the schedule for `ringback rebuild --clear` was begun and not finished; this server has \
             emptied it and loads it from the journal"
        ),
    }
}

/// Logs that a recovery has ended.
pub(super) fn announce_end(recovered: Recovered, took: Duration) {
    let Recovered {
        read: pending,
        put_in,
        removed,
    } = recovered;
    let seconds = took.as_secs_f64();
    tracing::info!(
        pending,
        put_in,
        removed,
        seconds,
        "the recovery of the schedule has finished"
    );
}
