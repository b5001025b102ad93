//! Giving the schedule the state in the journal.
//!
//! Every repair can be repeated, and none relies on what was read when the difference was found:
//!
//! * An entry that is missing or has other progress is read in the journal again and put in with the flag
//!   `verify`: the server that claims it asks the journal before it sends it. If it ends in between, it is
//!   claimed and settled without an attempt.
//! * An entry that has ended in the journal, or is set aside there, is leased first, so that no server sends
//!   it meanwhile. Then the journal is read again, and the lease is settled to that state. If the process
//!   dies in between, the lease expires, and the journal is asked before the entry is sent.
//! * A notification that the journal does not know is registered there, from the schedule's entry. It was
//!   accepted once, or it would not be in the schedule; the journal was set back to an older copy. If it
//!   were removed, it would be lost. If it were left alone, callers would not find it before its next attempt,
//!   and a loss of the schedule would lose it.

use super::difference::{Difference, DifferenceKind};
use super::error::MaintenanceError;
use crate::domain::history_note::HistoryNote;
use crate::domain::key::Key;
use crate::domain::lane::KeyInLane;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::journal::{
    Actor, Journal, JournalError, JournalReads, Noting, RegisterResult, Registering,
};
use crate::schedule::{
    Entry, Lease, LeaseRequest, LeasedOne, Reservation, Schedule, ScheduleError, Settled,
    Settlement,
};
use std::ops::AddAssign;

/// What was repaired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Entries that were put back into the schedule.
    pub restored: u64,
    /// Entries that got the progress in the journal.
    pub moved: u64,
    /// Entries that were removed from the schedule because they have ended, are set aside or are in a wrong
    /// lane.
    pub removed: u64,
    /// Notifications that were registered in the journal because it did not know them.
    pub registered_again: u64,
}

impl Repaired {
    /// Logs what was repaired.
    pub(super) fn report(self) {
        let Self {
            restored,
            moved,
            removed,
            registered_again,
        } = self;
        if restored + moved + removed > 0 {
            tracing::warn!(
                restored,
                moved,
                removed,
                "the schedule differed from the journal and was repaired"
            );
        }
        if registered_again > 0 {
            tracing::error!(
                registered_again,
                "the journal had lost notifications that the schedule holds; they were registered in the journal again"
            );
        }
    }
}

/// Whether repairs are written into the histories of the notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairNotes {
    /// Notes are written.
    Kept,
    /// No notes: the journal is open for reading only. So notifications that it does not know cannot be
    /// registered in it either.
    LeftOut,
}

impl AddAssign for Repaired {
    fn add_assign(&mut self, other: Self) {
        self.restored += other.restored;
        self.moved += other.moved;
        self.removed += other.removed;
        self.registered_again += other.registered_again;
    }
}

/// Repairs differences. Notes in its history that a notification was put back into the schedule, got the
/// progress in the journal, or was registered in the journal again.
///
/// # Errors
/// If a store fails; what was repaired by then stays repaired.
pub async fn repair(
    journal: &dyn Journal,
    schedule: &dyn Schedule,
    differences: &[Difference],
    record: RepairNotes,
) -> Result<Repaired, MaintenanceError> {
    let mut repaired = Repaired::default();
    let mut notes = Vec::new();
    let mut failed = None;
    for difference in differences {
        let entry = &difference.entry;
        let key = &entry.key;
        let done = match difference.kind {
            DifferenceKind::Unknown if record == RepairNotes::LeftOut => Ok(Done::default()),
            DifferenceKind::Missing | DifferenceKind::Elsewhere => {
                restore(journal, schedule, key).await
            }
            DifferenceKind::Ended | DifferenceKind::SetAside | DifferenceKind::OtherLane => {
                remove(journal, schedule, entry).await
            }
            DifferenceKind::Unknown => register_in_journal(journal, schedule, entry).await,
        };
        match done {
            Ok((done, why)) => {
                repaired += done;
                notes.extend(why.map(|detail| Noting {
                    key: key.clone(),
                    kind: "restored",
                    actor: Actor::maintenance(),
                    detail: detail.to_string(),
                    at_ms: schedule.clock().now_ms(),
                }));
            }
            // A notification that cannot be read must not prevent the repair of the others.
            Err(MaintenanceError::Journal(error @ JournalError::Corrupt(_))) => {
                tracing::error!(
                    notification = %key,
                    %error,
                    "the journal and the schedule differ about a notification, and the journal cannot read or store it, so \
                     the difference is not repaired; repair its rows in the journal"
                );
            }
            // Nor must an entry: it was deferred, and is asked for again when it is due.
            Err(MaintenanceError::Schedule(error @ ScheduleError::Corrupt(_))) => {
                tracing::error!(
                    notification = %key,
                    %error,
                    "the journal and the schedule differ about a notification, and its entry in the schedule cannot be \
                     read, so the difference is not repaired"
                );
            }
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    if record == RepairNotes::Kept && !notes.is_empty() {
        journal.note(&notes).await?;
    }
    failed.map_or(Ok(repaired), Err)
}

/// What one repair did, and what to write into the history.
type Done = (Repaired, Option<HistoryNote>);

async fn restore(
    journal: &dyn JournalReads,
    schedule: &dyn Schedule,
    key: &Key,
) -> Result<Done, MaintenanceError> {
    let Some(pending) = journal.pending(key).await? else {
        return Ok(Done::default());
    };
    let entry = Entry {
        verify: true,
        ..Entry::scheduled(pending.notification, pending.progress)
    };
    let restored = schedule.restore(&[entry]).await?;
    let repaired = Repaired {
        restored: restored.missing,
        moved: restored.moved,
        ..Repaired::default()
    };
    let why = match (restored.missing, restored.moved) {
        (0, 0) => None,
        (0, _) => Some(HistoryNote::OtherStep),
        _ => Some(HistoryNote::NotInSchedule),
    };
    Ok((repaired, why))
}

async fn remove(
    journal: &dyn JournalReads,
    schedule: &dyn Schedule,
    entry: &KeyInLane,
) -> Result<Done, MaintenanceError> {
    let leased = schedule
        .lease_one(&LeaseRequest::for_repair(entry.clone()))
        .await?;
    let read = async || {
        let recorded = journal.snapshots(std::slice::from_ref(&entry.key)).await;
        recorded.map(|mut found| found.pop().flatten())
    };
    let removed = match leased {
        LeasedOne::Leased(lease) => {
            let recorded = read().await;
            let settlement = match &recorded {
                Ok(Some(snapshot)) => settlement_for(&lease, snapshot),
                Ok(None) | Err(_) => Settlement::Recheck,
            };
            let ends = matches!(settlement, Settlement::End { .. });
            let settled = schedule.settle(*lease, settlement).await?;
            recorded?;
            ends && settled == Settled::Done
        }
        // A bare entry.
        LeasedOne::Reserved(lease) => {
            let recorded = read().await;
            let reservation = match &recorded {
                Ok(Some(snapshot)) if !snapshot.is_to_be_sent() || snapshot.lane != entry.lane => {
                    Reservation::Forget
                }
                Ok(_) | Err(_) => Reservation::Recheck,
            };
            let ends = matches!(reservation, Reservation::Forget);
            let settled = schedule.end_reservation(lease, reservation).await?;
            recorded?;
            ends && settled == Settled::Done
        }
        LeasedOne::InFlight
        | LeasedOne::Changing
        | LeasedOne::MayBeInFlight
        | LeasedOne::Expected
        | LeasedOne::Missing => false,
    };
    let removed = u64::from(removed);
    Ok((
        Repaired {
            removed,
            ..Repaired::default()
        },
        None,
    ))
}

fn settlement_for(lease: &Lease, snapshot: &Snapshot) -> Settlement {
    let now_ms = lease.expires_ms();
    let is_pending = snapshot.is_to_be_sent();
    if is_pending && lease.entry.notification.lane != snapshot.lane {
        return Settlement::forget(snapshot.progress, now_ms);
    }
    // The notification has a new series by now. If an earlier lease expired, a worker still has to ask the
    // journal and raise the fence.
    if is_pending && (lease.entry.raise_fence || lease.entry.interrupted_ms.is_some()) {
        return Settlement::Recheck;
    }
    // Of a notification that a higher number has ended, nobody else records the attempt whose lease has expired. A worker does,
    // and ends the entry then.
    if lease.entry.interrupted_ms.is_some() && snapshot.takes_late_delivery() {
        return Settlement::Recheck;
    }
    Settlement::to_journal(snapshot, now_ms)
}

async fn register_in_journal(
    journal: &dyn Journal,
    schedule: &dyn Schedule,
    entry: &KeyInLane,
) -> Result<Done, MaintenanceError> {
    let key = &entry.key;
    // Leased, so that no server delivers it meanwhile: there is no record for the outcome yet.
    let Some(lease) = lease(schedule, entry).await? else {
        return Ok(Done::default());
    };
    let is_pending = lease.entry.state == State::Scheduled;
    if is_pending && lease.entry.notification.body.here().is_none() {
        // Its body was only in the journal, which has lost it. Each attempt asks the journal for it, and
        // logs that as well.
        tracing::error!(
            notification = %key,
            "the journal has lost a notification and its body, and the schedule has no copy of the body, so the \
             notification cannot be registered in the journal again; register it again unless its merchant has \
             accepted it"
        );
        schedule.settle(lease, Settlement::Recheck).await?;
        return Ok(Done::default());
    }
    let registering = Registering {
        notification: lease.entry.notification.clone(),
        progress: lease.entry.progress,
        actor: Actor::maintenance(),
    };
    let replies = match is_pending {
        true => journal.register(&[registering]).await,
        false => Ok(Vec::new()),
    };
    let settlement = match &replies {
        Ok(_) => Settlement::Release,
        Err(_) => Settlement::Recheck,
    };
    schedule.settle(lease, settlement).await?;
    let is_registered = match replies?.first() {
        Some(
            RegisterResult::Created
            | RegisterResult::CreatedOver(_)
            | RegisterResult::Superseded(_),
        ) => true,
        Some(RegisterResult::Existing(_) | RegisterResult::OutOfOrder { .. }) | None => false,
    };
    if !is_registered {
        return Ok(Done::default());
    }
    tracing::info!(
        notification = %key,
        "the journal had lost a notification that the schedule holds; it was registered in the journal again"
    );
    let repaired = Repaired {
        registered_again: 1,
        ..Repaired::default()
    };
    Ok((repaired, Some(HistoryNote::NotInJournal)))
}

/// Leases an entry of the schedule of which the journal knows nothing; `None` if it is missing, bare, or leased already.
async fn lease(
    schedule: &dyn Schedule,
    entry: &KeyInLane,
) -> Result<Option<Lease>, MaintenanceError> {
    match schedule
        .lease_one(&LeaseRequest::for_repair(entry.clone()))
        .await?
    {
        LeasedOne::Leased(lease) => Ok(Some(*lease)),
        // A bare entry: there is nothing to register. Each attempt asks the journal for it, and logs that as well.
        LeasedOne::Reserved(lease) => {
            tracing::error!(
                notification = %entry.key,
                "the journal has lost a notification, and the schedule has no copy of it; register it again unless its \
                 merchant has accepted it"
            );
            schedule
                .end_reservation(lease, Reservation::Recheck)
                .await?;
            Ok(None)
        }
        LeasedOne::InFlight
        | LeasedOne::Changing
        | LeasedOne::MayBeInFlight
        | LeasedOne::Expected
        | LeasedOne::Missing => Ok(None),
    }
}
