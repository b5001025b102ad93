//! Registering, claiming, settling, and leases for changes by hand. A claim asks all partitions; every other
//! call goes to the partition of its lane.

use super::RedisSchedule;
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
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// For how long a claim goes on asking partitions while leases that it has are waiting.
const LONGEST_CLAIM: Duration = Duration::from_millis(500);

#[async_trait]
impl ScheduleLeases for RedisSchedule {
    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    fn wake(&self) -> &Wake {
        &self.wake
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

    /// Asks every partition for an equal part first, so that a backlog in one does not delay the others; then
    /// asks the partitions that have more due entries for the rest. Stops if a partition fails or the calls
    /// take long while leases are waiting: the leases claimed so far must be used. The next claim begins
    /// with another partition.
    async fn claim(&self, mut quota: ClaimQuota) -> Result<Claimed, ScheduleError> {
        let many = self.partitions.len();
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        let skipped = self.skipped.current();
        let mut leases = Vec::new();
        let mut next_due_ms = vec![None; many];
        let (mut all_asked, mut is_limited) = (true, false);
        let rounds = if many == 1 { 1 } else { 2 };
        for call in 0..rounds * many {
            let (round, number) = (call / many, (first + call) % many);
            let wanted = match round {
                0 => quota.part(many - call),
                _ => quota,
            };
            let is_due = |at_ms: i64| at_ms <= self.clock.now_ms();
            if round > 0 && (quota.total == 0 || !next_due_ms[number].is_some_and(is_due)) {
                continue;
            }
            if !leases.is_empty() && started.elapsed() > LONGEST_CLAIM {
                all_asked = false;
                break;
            }
            let skipped = skipped.iter().filter(|lane| self.number_of(lane) == number);
            match self.partitions[number].claim(wanted, skipped).await {
                Ok(claimed) => {
                    for lease in &claimed.leases {
                        quota.take(lease.class, 1);
                    }
                    is_limited |= claimed.is_limited;
                    leases.extend(claimed.leases);
                    next_due_ms[number] = claimed.next_due_ms;
                }
                Err(error) if leases.is_empty() => return Err(error),
                // The next claim meets the error again.
                Err(error) => {
                    tracing::debug!(
                        %error,
                        "claiming from a partition of the schedule failed; the next claim tries again"
                    );
                    all_asked = false;
                    break;
                }
            }
        }
        let next_due_ms = match all_asked {
            true => next_due_ms.into_iter().flatten().min(),
            false => Some(self.clock.now_ms()),
        };
        Ok(Claimed {
            leases,
            next_due_ms,
            is_limited,
        })
    }

    async fn settle(&self, lease: Lease, settlement: Settlement) -> Result<Settled, ScheduleError> {
        let partition = self.partition(&lease.entry.notification.lane);
        let passing = PassedTurn::of(&lease, &settlement);
        let settlement = settlement.within(self.limits.window, self.clock.now_ms());
        let settled = partition.settle(Settling::Lease(lease, settlement)).await?;
        if let (Settled::Done, Some(passing)) = (settled, passing) {
            // Few settlements do this, and its future is 6 KB.
            Box::pin(partition.pass_turn(&passing)).await;
        }
        Ok(settled)
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
        let reservation = reservation.within(self.limits.window, self.clock.now_ms());
        self.partition(&lease.entry().lane)
            .settle(Settling::Reservation(lease, reservation))
            .await
    }
}
