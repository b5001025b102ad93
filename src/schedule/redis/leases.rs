//! Registering, claiming and settling: each call goes to the partition of its lane.

use super::RedisSchedule;
use super::writes::Settling;
use crate::clock::Clock;
use crate::domain::lease::{Expiry, LeaseToken};
use crate::schedule::wake::Wake;
use crate::schedule::{
    Claimed, Entry, Lease, LeaseRequest, LeasedOne, Limits, Registered, Reservation, ScheduleError,
    ScheduleLeases, Settled, Settlement,
};
use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[async_trait]
impl ScheduleLeases for RedisSchedule {
    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    fn wake(&self) -> &Wake {
        &self.wake
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

    /// Asks every partition for an equal part first, so that a backlog in one does not delay the others; then
    /// asks the partitions that have more due entries for the rest.
    async fn claim(&self, most: usize) -> Result<Claimed, ScheduleError> {
        let many = self.partitions.len();
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut leases = Vec::new();
        let mut next_due_ms = vec![None; many];
        for offset in 0..many {
            let number = (first + offset) % many;
            let part = (most - leases.len()).div_ceil(many - offset);
            next_due_ms[number] = self.claim_from(number, part, &mut leases).await?;
        }
        for offset in 0..many {
            let number = (first + offset) % many;
            let has_more = next_due_ms[number].is_some_and(|at_ms| at_ms <= self.clock.now_ms());
            if many > 1 && has_more && leases.len() < most {
                let rest = most - leases.len();
                next_due_ms[number] = self.claim_from(number, rest, &mut leases).await?;
            }
        }
        Ok(Claimed {
            leases,
            next_due_ms: next_due_ms.into_iter().flatten().min(),
        })
    }

    async fn settle(&self, lease: Lease, settlement: Settlement) -> Result<Settled, ScheduleError> {
        self.partition(&lease.entry.notification.lane)
            .settle(Settling::Lease(lease, settlement))
            .await
    }

    async fn renew(&self, lease: &Lease) -> Result<Option<Expiry>, ScheduleError> {
        self.partition(&lease.entry.notification.lane)
            .renew(lease)
            .await
    }

    async fn lease_one(&self, request: &LeaseRequest) -> Result<LeasedOne, ScheduleError> {
        self.partition(&request.entry.lane).lease_one(request).await
    }

    async fn end_reservation(
        &self,
        lease: LeaseToken,
        reservation: Reservation,
    ) -> Result<Settled, ScheduleError> {
        self.partition(&lease.entry().lane)
            .settle(Settling::Reservation(lease, reservation))
            .await
    }
}

impl RedisSchedule {
    /// Adds the leases that one partition gives, and returns when there is next something to claim in it.
    async fn claim_from(
        &self,
        number: usize,
        most: usize,
        leases: &mut Vec<Lease>,
    ) -> Result<Option<i64>, ScheduleError> {
        match self.partitions[number].claim(most).await {
            Ok(claimed) => {
                leases.extend(claimed.leases);
                Ok(claimed.next_due_ms)
            }
            Err(error) if leases.is_empty() => Err(error),
            // The leases claimed so far must be used; the next claim gets the error again.
            Err(error) => {
                tracing::debug!(%error, "a partition cannot be claimed from");
                Ok(Some(self.clock.now_ms()))
            }
        }
    }
}
