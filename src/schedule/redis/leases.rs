//! Registering, claiming, settling, and leases for changes by hand. A claim asks the partitions in which there may be
//! something to claim ([`super::claiming`]); every other call goes to the partition of its lane.

use super::RedisSchedule;
use super::partition::Partition;
use super::passed_turn::PassedTurn;
use super::writes::Settling;
use crate::clock::Clock;
use crate::domain::lease::{Expiry, LeaseToken};
use crate::schedule::skipped::SkippedLanes;
use crate::schedule::wake::Wake;
use crate::schedule::{
    ClaimQuota, Claimed, Entry, Lease, LeaseRequest, LeasedOne, Limits, Registered, Reservation,
    ScheduleError, ScheduleLeases, Settled, Settlement,
};
use async_trait::async_trait;
use std::sync::Arc;

/// Ends a lease, then passes the turn of its order key. If this instance dies between the two, the next entry of the order key
/// asks the journal again within [`crate::schedule::BEHIND_MS`]. If the lease is lost, it may have been settled by the same
/// call before, whose reply was lost, so the turn is passed as well: a turn that is not over is not changed by that.
async fn settle_and_pass(
    partition: &Partition,
    settling: Settling,
    passing: Option<PassedTurn>,
) -> Result<Settled, ScheduleError> {
    let settled = partition.settle(settling).await?;
    if let Some(passing) = passing {
        // Few settlements do this, and its future is 6 KB.
        Box::pin(partition.pass_turn(&passing)).await;
    }
    Ok(settled)
}

#[async_trait]
impl ScheduleLeases for RedisSchedule {
    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    fn wake(&self) -> &Wake {
        self.wakes.wake()
    }

    fn skipped_lanes(&self) -> &SkippedLanes {
        &self.skipped
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    async fn register(&self, entry: Entry) -> Result<Registered, ScheduleError> {
        let number = self.number_of(&entry.notification.lane);
        if let Some(directory) = &self.directory {
            let key = &entry.notification.key;
            if let Some(found) = directory.enter(&self.partitions, key, number).await? {
                return Ok(Registered::Existing(Box::new(found)));
            }
        }
        self.partitions[number].register(entry).await
    }

    async fn claim(&self, quota: ClaimQuota) -> Result<Claimed, ScheduleError> {
        self.claim_from_all(quota).await
    }

    async fn settle(&self, lease: Lease, settlement: Settlement) -> Result<Settled, ScheduleError> {
        let partition = self.partition(&lease.entry.notification.lane);
        let passing = PassedTurn::of(&lease, &settlement);
        let settlement = settlement.within(self.limits.window, self.clock.now_ms());
        let settling = Settling::Lease(lease, settlement);
        settle_and_pass(partition, settling, passing).await
    }

    async fn renew(&self, lease: &Lease) -> Result<Option<Expiry>, ScheduleError> {
        self.partition(&lease.entry.notification.lane)
            .renew(lease)
            .await
    }

    async fn lease_one(&self, request: &LeaseRequest) -> Result<LeasedOne, ScheduleError> {
        if !request.is_for_repair() {
            self.confirm_server()?;
        }
        self.partition(&request.entry.lane).lease_one(request).await
    }

    async fn end_reservation(
        &self,
        lease: LeaseToken,
        reservation: Reservation,
    ) -> Result<Settled, ScheduleError> {
        let partition = self.partition(&lease.entry().lane);
        let passing = PassedTurn::of_ended_key(&lease, &reservation);
        let reservation = reservation.within(self.limits.window, self.clock.now_ms());
        let settling = Settling::Reservation(lease, reservation);
        settle_and_pass(partition, settling, passing).await
    }
}
