//! Claiming from all partitions in which there may be something to claim.

use super::RedisSchedule;
use super::partition_wakes::ClaimPlan;
use crate::clock::Clock as _;
use crate::domain::lane::Lane;
use crate::domain::redis_url::RedisHost;
use crate::schedule::wake::NEVER_MS;
use crate::schedule::{BareLease, ClaimQuota, Claimed, Lease, ScheduleError};
use std::time::{Duration, Instant};

/// How long a claim of several partitions may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimTimes {
    /// In a cluster, how long a claim from one partition may take; then its shard counts as away.
    pub one_partition: Duration,
    /// For how long a claim goes on asking partitions while leases that it has are waiting. All can be asked in this time
    /// unless Redis is slow; then the next claim asks the others.
    pub gathering: Duration,
}

impl Default for ClaimTimes {
    fn default() -> Self {
        Self {
            one_partition: Duration::from_millis(500),
            gathering: Duration::from_millis(100),
        }
    }
}

/// With more partitions to ask than that, a part of the quota is at least [`SMALLEST_PART`].
const MOST_EQUAL_PARTS: usize = 16;
/// Fewer leases than that are not worth a claim from one of many partitions.
const SMALLEST_PART: usize = 4;
/// After how long a partition of a cluster that has lost its data is claimed from again, in milliseconds: this instance
/// inspects it meanwhile.
const INSPECTED_MS: i64 = 50;

fn none_answers() -> ScheduleError {
    ScheduleError::Unavailable("no server of the Redis cluster answers".to_string())
}

/// What a claim has so far.
struct Gathered {
    leases: Vec<Lease>,
    bare: Vec<BareLease>,
    quota: ClaimQuota,
    started: Instant,
    /// When something is due next in each partition.
    due_ms: Vec<i64>,
    /// How many partitions did not answer, or have lost their data.
    failed: usize,
    failure: Option<ScheduleError>,
}

impl Gathered {
    fn has_leases(&self) -> bool {
        !(self.leases.is_empty() && self.bare.is_empty())
    }
}

/// Whether a claim goes on with the next partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gathering {
    /// It does.
    Continues,
    /// The leases that it has must be used.
    Ends,
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
        if self.away.is_none() {
            return partition.claim(quota, skipped).await;
        }
        let claiming = Box::pin(partition.claim(quota, skipped));
        let claimed = tokio::time::timeout(self.claim_times.one_partition, claiming).await;
        claimed.unwrap_or_else(|_| {
            let late = "Redis did not answer a claim in time".to_string();
            Err(ScheduleError::Unavailable(late))
        })
    }

    /// Notes that a partition of a cluster did not answer, and those that are at the same server, `host`.
    pub(super) fn note_away(&self, number: usize, host: Option<&RedisHost>) {
        let Some(away) = &self.away else {
            return;
        };
        for (other, partition) in self.partitions.iter().enumerate() {
            if other == number || (host.is_some() && partition.host().as_ref() == host) {
                away.add(other);
            }
        }
    }

    /// Whether a partition of a cluster does not answer.
    pub(super) fn is_away(&self, number: usize) -> bool {
        self.away.as_ref().is_some_and(|away| away.has(number))
    }

    /// Asks every partition in which something may be due for an equal part first, so that a backlog in one does not delay
    /// the others; then asks the partitions that have more due entries for the rest. Stops if a partition fails or the calls
    /// take long while leases are waiting: the leases claimed so far must be used. The next claim goes on with the next
    /// partition. In a cluster, the other partitions are asked after a failure too, and those that do not answer are left
    /// out.
    pub(super) async fn claim_from_all(&self, quota: ClaimQuota) -> Result<Claimed, ScheduleError> {
        let skipped = self.skipped.current();
        let answers = |number: usize| !self.is_away(number);
        let ClaimPlan {
            mut to_claim,
            to_poll,
            mut due_ms,
        } = self.wakes.plan(self.clock.now_ms(), &skipped, answers);
        if !to_poll.is_empty() {
            to_claim.extend(self.found_due(&to_poll, &mut due_ms).await?);
        }
        let mut gathered = Gathered {
            leases: Vec::new(),
            bare: Vec::new(),
            quota,
            started: Instant::now(),
            due_ms,
            failed: 0,
            failure: None,
        };
        let rounds = if to_claim.len() == 1 { 1 } else { 2 };
        'rounds: for round in 0..rounds {
            for (place, number) in to_claim.iter().copied().enumerate() {
                if self.is_away(number) {
                    continue;
                }
                let is_spent = gathered.quota.total == 0 && gathered.has_leases();
                if is_spent && to_claim.len() > MOST_EQUAL_PARTS {
                    self.begin_with(number, &gathered);
                    break 'rounds;
                }
                let part = match round {
                    0 => gathered
                        .quota
                        .part(parts(to_claim.len() - place, gathered.quota)),
                    _ if gathered.quota.total == 0 || !self.is_due(number, &gathered) => continue,
                    _ => gathered.quota,
                };
                let lanes = skipped.iter().filter(|lane| self.number_of(lane) == number);
                if self.gather(&mut gathered, number, part, lanes).await? == Gathering::Ends {
                    self.begin_with(number, &gathered);
                    break 'rounds;
                }
            }
        }
        self.claimed(gathered)
    }

    /// The next claim begins with this partition, which this one did not ask.
    fn begin_with(&self, number: usize, gathered: &Gathered) {
        self.wakes.begin_with(number, self.is_due(number, gathered));
    }

    /// Looks into these partitions. Returns those from which this claim must claim.
    async fn found_due(
        &self,
        to_poll: &[usize],
        due_ms: &mut [i64],
    ) -> Result<Vec<usize>, ScheduleError> {
        let polled = self.poll(to_poll).await;
        let polled = polled.inspect_err(|_| self.wakes.poll_failed())?;
        let now_ms = self.clock.now_ms();
        let due = polled.into_iter().filter_map(|polled| {
            let is_due = self.wakes.polled(polled.number, polled.next_ms, now_ms);
            if let Some(next_ms) = polled.next_ms {
                due_ms[polled.number] = next_ms.min(due_ms[polled.number]);
            }
            is_due.then_some(polled.number)
        });
        Ok(due.collect())
    }

    /// Whether something is due in a partition, as far as this claim knows.
    fn is_due(&self, number: usize, gathered: &Gathered) -> bool {
        gathered.due_ms[number] <= self.clock.now_ms()
    }

    /// Claims from one partition into what this claim has so far.
    async fn gather(
        &self,
        gathered: &mut Gathered,
        number: usize,
        part: ClaimQuota,
        skipped: impl Iterator<Item = &Lane> + Send,
    ) -> Result<Gathering, ScheduleError> {
        if gathered.has_leases() && gathered.started.elapsed() > self.claim_times.gathering {
            return Ok(Gathering::Ends);
        }
        // A failure closes the connection.
        let host = self
            .away
            .as_ref()
            .and_then(|_| self.partitions[number].host());
        self.wakes.begin_claim(number);
        let error = match self.claim_from(number, part, skipped).await {
            Ok(claimed) => {
                let bare = claimed.bare.iter().map(|lease| lease.class);
                for class in claimed.leases.iter().map(|lease| lease.class).chain(bare) {
                    gathered.quota.take(class, 1);
                }
                gathered.leases.extend(claimed.leases);
                gathered.bare.extend(claimed.bare);
                gathered.due_ms[number] = claimed.next_due_ms.unwrap_or(NEVER_MS);
                self.wakes
                    .claimed(number, claimed.next_due_ms, claimed.is_limited);
                return Ok(Gathering::Continues);
            }
            Err(error) => error,
        };
        // At once: the claim may have given leases although its reply was lost, and the next one there gets them.
        let now_ms = self.clock.now_ms();
        let again_ms = match (&error, &self.away) {
            (ScheduleError::Rebuilding, Some(_)) => now_ms.saturating_add(INSPECTED_MS),
            _ => now_ms,
        };
        self.wakes.failed(number, again_ms);
        gathered.due_ms[number] = again_ms;
        if self.away.is_some() {
            if matches!(error, ScheduleError::Unavailable(_)) {
                self.note_away(number, host.as_ref());
            }
            if matches!(
                error,
                ScheduleError::Unavailable(_) | ScheduleError::Rebuilding
            ) {
                gathered.failed += 1;
                gathered.failure = Some(error);
                return Ok(Gathering::Continues);
            }
        }
        if !gathered.has_leases() {
            self.wakes.poll_failed();
            return Err(error);
        }
        // The next claim meets the error again.
        tracing::debug!(
            %error,
            "claiming from a partition of the schedule failed; the next claim tries again"
        );
        Ok(Gathering::Ends)
    }

    /// The result of a claim. What is due in partitions that were not asked is known as before.
    fn claimed(&self, gathered: Gathered) -> Result<Claimed, ScheduleError> {
        if self.away.is_some() {
            let many = self.partitions.len();
            let away = (0..many).filter(|number| self.is_away(*number)).count();
            let fails = away == many || gathered.failed == many;
            if fails && !gathered.has_leases() {
                return Err(gathered.failure.unwrap_or_else(none_answers));
            }
        }
        let now_ms = self.clock.now_ms();
        self.instances.claimed(now_ms);
        let counts = |number: usize| !self.is_away(number);
        Ok(Claimed {
            leases: gathered.leases,
            bare: gathered.bare,
            next_due_ms: self.wakes.next_due_ms(now_ms, counts, &gathered.due_ms),
            is_limited: self.wakes.is_limited(now_ms, counts),
        })
    }
}

/// Into how many parts the quota is divided for so many partitions that are left to ask.
fn parts(left: usize, quota: ClaimQuota) -> usize {
    left.min(MOST_EQUAL_PARTS.max(quota.total / SMALLEST_PART))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_partitions_get_equal_parts_and_many_get_some_leases_each() {
        let check = |left, total, expected| {
            assert_eq!(
                parts(left, ClaimQuota::of(total)),
                expected,
                "{left} {total}"
            );
        };
        check(1, 256, 1);
        check(16, 3, 16);
        check(16, 0, 16);
        check(17, 64, 16);
        check(64, 256, 64);
        check(256, 256, 64);
    }
}
