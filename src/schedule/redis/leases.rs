//! Registering, claiming, settling, and leases for changes by hand. A claim asks all partitions; every other
//! call goes to the partition of its lane.

use super::RedisSchedule;
use super::partition::Partition;
use super::passed_turn::PassedTurn;
use super::writes::Settling;
use crate::clock::Clock;
use crate::domain::lane::Lane;
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
/// After how long a partition of a cluster that has lost its data is claimed from again, in milliseconds: this instance
/// inspects it meanwhile.
const INSPECTED_MS: i64 = 50;

fn none_answers() -> ScheduleError {
    ScheduleError::Unavailable("no server of the Redis cluster answers".to_string())
}

/// Ends a lease, then passes the turn of its order key. If this instance dies between the two, or the reply to the first is
/// lost, the next entry of the order key asks the journal again within [`crate::schedule::BEHIND_MS`].
async fn settle_and_pass(
    partition: &Partition,
    settling: Settling,
    passing: Option<PassedTurn>,
) -> Result<Settled, ScheduleError> {
    let settled = partition.settle(settling).await?;
    if let (Settled::Done, Some(passing)) = (settled, passing) {
        // Few settlements do this, and its future is 6 KB.
        Box::pin(partition.pass_turn(&passing)).await;
    }
    Ok(settled)
}

impl RedisSchedule {
    /// Claims from one partition. In a cluster, a claim that takes too long is dropped: its number stays, so the next one
    /// gets its leases.
    async fn claim_from(
        &self,
        number: usize,
        quota: ClaimQuota,
        skipped: impl Iterator<Item = &Lane> + Send,
    ) -> Result<Claimed, ScheduleError> {
        let partition = &self.partitions[number];
        let Some(away) = &self.away else {
            return partition.claim(quota, skipped).await;
        };
        // A failure closes the connection.
        let host = partition.host();
        let claiming = Box::pin(partition.claim(quota, skipped));
        let claimed = tokio::time::timeout(LONGEST_CLAIM, claiming).await;
        let claimed = claimed.unwrap_or_else(|_| {
            let late = "Redis did not answer a claim in time".to_string();
            Err(ScheduleError::Unavailable(late))
        });
        if let Err(ScheduleError::Unavailable(_)) = &claimed {
            for (other, partition) in self.partitions.iter().enumerate() {
                if other == number || (host.is_some() && partition.host() == host) {
                    away.add(other);
                }
            }
        }
        claimed
    }
}

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
    /// with another partition. In a cluster, the other partitions are asked after a failure too, and those that do not
    /// answer are left out.
    async fn claim(&self, mut quota: ClaimQuota) -> Result<Claimed, ScheduleError> {
        let many = self.partitions.len();
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        let skipped = self.skipped.current();
        let mut leases = Vec::new();
        let mut next_due_ms = vec![None; many];
        let (mut all_asked, mut is_limited) = (true, false);
        let (mut has_answer, mut failure) = (false, None);
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
            if self.away.as_ref().is_some_and(|away| away.has(number)) {
                continue;
            }
            if !leases.is_empty() && started.elapsed() > LONGEST_CLAIM {
                all_asked = false;
                break;
            }
            let skipped = skipped.iter().filter(|lane| self.number_of(lane) == number);
            match self.claim_from(number, wanted, skipped).await {
                Ok(claimed) => {
                    has_answer = true;
                    for lease in &claimed.leases {
                        quota.take(lease.class, 1);
                    }
                    is_limited |= claimed.is_limited;
                    leases.extend(claimed.leases);
                    next_due_ms[number] = claimed.next_due_ms;
                }
                Err(error @ (ScheduleError::Unavailable(_) | ScheduleError::Rebuilding))
                    if self.away.is_some() =>
                {
                    failure = Some(error);
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
        if !has_answer && self.away.is_some() {
            return Err(failure.unwrap_or_else(none_answers));
        }
        let soon = || self.clock.now_ms().saturating_add(INSPECTED_MS);
        let retry_ms = matches!(failure, Some(ScheduleError::Rebuilding)).then(soon);
        let next_due_ms = match all_asked {
            true => next_due_ms.into_iter().chain([retry_ms]).flatten().min(),
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
        let settling = Settling::Lease(lease, settlement);
        settle_and_pass(partition, settling, passing).await
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
        let partition = self.partition(&lease.entry().lane);
        let passing = PassedTurn::of_ended_key(&lease, &reservation);
        let reservation = reservation.within(self.limits.window, self.clock.now_ms());
        let settling = Settling::Reservation(lease, reservation);
        settle_and_pass(partition, settling, passing).await
    }
}
