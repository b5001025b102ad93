//! Changing a notification without a journal: the schedule is the record, and the settlement of the lease is
//! the change.

use super::{ChangeRequest, ChangeStep, repeated};
use crate::domain::change::Changed;
use crate::domain::snapshot::Snapshot;
use crate::schedule::{FoundEntry, Lease, Settled, Settlement};
use crate::service::held::HeldLease;
use crate::service::timeouts::with_timeout;
use crate::service::{Service, ServiceError, snapshot_of};

impl Service {
    /// Changes an entry by settling the lease on it.
    pub(super) async fn change_in_schedule(
        &self,
        asked: &ChangeRequest,
        held: HeldLease,
    ) -> ChangeStep {
        match held {
            HeldLease::Entry(lease) => {
                ChangeStep::answered(self.settle_with_change(asked, *lease).await)
            }
            // A key without an entry is leased only if a journal knows it.
            HeldLease::Key(_) => {
                self.release(held).await;
                ChangeStep::answered(Err(ServiceError::Missing))
            }
        }
    }

    async fn settle_with_change(
        &self,
        asked: &ChangeRequest,
        lease: Lease,
    ) -> Result<Snapshot, ServiceError> {
        let now_ms = self.clock.now_ms();
        let entry = lease.entry.clone();
        let before = snapshot_of(FoundEntry {
            entry,
            in_flight: false,
        });
        let Some(changed) = asked.change.apply(&before, now_ms) else {
            self.release(HeldLease::Entry(Box::new(lease))).await;
            return repeated(asked.change, before);
        };
        let Changed {
            state,
            cause,
            progress,
            ended_ms,
        } = changed;
        let settlement = Settlement::to(state, cause, progress, ended_ms.unwrap_or(now_ms));
        match with_timeout(self.schedule.settle(lease, settlement)).await? {
            Settled::Done => Ok(Snapshot {
                state,
                cause,
                progress,
                ended_ms,
                ..before
            }),
            // Either the change took too long and its lease was lost, or it was made and the reply was lost.
            Settled::Lost => Err(ServiceError::Unsettled),
        }
    }
}
