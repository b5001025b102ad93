//! The partitions of a cluster whose server does not answer. The other partitions go on without them.
//!
//! A claim that fails marks its partition, and those that were at the same server. Claims then leave them out, so that they do
//! not wait for them, until a task for each has had an answer. An inspection that cannot reach a partition marks it too; when
//! the partition answers again, all are inspected.

use super::partition::Partition;
use super::partition_wakes::PartitionWakes;
use super::recovery::write_counters::Loss;
use crate::schedule::ScheduleError;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// First and longest wait before a partition is asked again.
const WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// For how long partitions must not answer before the log says so.
const LOG_AFTER: Duration = Duration::from_secs(2);

/// The partitions that do not answer.
pub struct AwayPartitions {
    partitions: Weak<[Partition]>,
    marks: Vec<AwayMark>,
    many: AtomicUsize,
    logged: AtomicBool,
    loss: Arc<Loss>,
    wakes: Arc<PartitionWakes>,
}

#[derive(Default)]
struct AwayMark {
    is_away: AtomicBool,
    /// Whether it could not be inspected.
    to_inspect: AtomicBool,
    /// Whether it is not used before the first one is inspected.
    waits_for_first: AtomicBool,
}

impl AwayPartitions {
    /// All partitions answer, as far as is known.
    pub fn of(
        partitions: &Arc<[Partition]>,
        loss: Arc<Loss>,
        wakes: Arc<PartitionWakes>,
    ) -> Arc<Self> {
        Arc::new(Self {
            partitions: Arc::downgrade(partitions),
            marks: partitions.iter().map(|_| AwayMark::default()).collect(),
            many: AtomicUsize::new(0),
            logged: AtomicBool::new(false),
            loss,
            wakes,
        })
    }

    /// Whether a partition does not answer.
    pub fn has(&self, number: usize) -> bool {
        self.marks[number].is_away.load(Ordering::Acquire)
    }

    /// The partitions that do not answer.
    pub fn all(&self) -> BTreeSet<usize> {
        let numbers = 0..self.marks.len();
        numbers.filter(|number| self.has(*number)).collect()
    }

    /// How many partitions do not answer.
    pub fn many(&self) -> usize {
        self.many.load(Ordering::Acquire)
    }

    /// Whether a partition could not be inspected, and has not answered since.
    pub fn is_to_inspect(&self, number: usize) -> bool {
        self.marks[number].to_inspect.load(Ordering::Acquire)
    }

    /// Marks a partition that could not be inspected.
    pub fn add_to_inspect(self: &Arc<Self>, number: usize) {
        self.marks[number].to_inspect.store(true, Ordering::Release);
        self.add(number);
    }

    /// Notes that a partition is not used before the first one, which is away, is inspected.
    pub fn wait_for_first(&self, number: usize) {
        let waits = &self.marks[number].waits_for_first;
        waits.store(true, Ordering::Release);
    }

    /// Marks a partition that does not answer.
    pub fn add(self: &Arc<Self>, number: usize) {
        if self.marks[number].is_away.swap(true, Ordering::AcqRel) {
            return;
        }
        self.many.fetch_add(1, Ordering::AcqRel);
        let away = self.clone();
        tokio::spawn(async move { away.ask(number).await });
    }

    /// Asks a partition until it answers. Ends with the schedule.
    async fn ask(&self, number: usize) {
        let mut wait = WAIT;
        let mut waited = Duration::ZERO;
        loop {
            tokio::time::sleep(wait).await;
            waited += wait;
            wait = (wait * 2).min(LONGEST_WAIT);
            let Some(partitions) = self.partitions.upgrade() else {
                return;
            };
            let answered = partitions[number].answers().await;
            let is_silent = matches!(answered, Err(ScheduleError::Unavailable(_)));
            let waits = &self.marks[number].waits_for_first;
            let has_entered_first = partitions[0].context.writes.count().knows();
            let waits_for_first =
                waits.load(Ordering::Acquire) && self.has(0) && !has_entered_first;
            if !is_silent && !waits_for_first {
                waits.store(false, Ordering::Release);
                break;
            }
            if waited >= LOG_AFTER && !self.logged.swap(true, Ordering::AcqRel) {
                tracing::warn!(
                    partition = number,
                    partitions = partitions.len(),
                    "a part of the schedule in the Redis cluster cannot be reached: its notifications wait and its \
                     registrations are refused; the other parts go on"
                );
            }
        }
        let mark = &self.marks[number];
        mark.is_away.store(false, Ordering::Release);
        // One that was marked between these two lines is inspected without need.
        if mark.to_inspect.swap(false, Ordering::AcqRel) {
            self.loss.set(true);
        }
        if self.many.fetch_sub(1, Ordering::AcqRel) == 1
            && self.logged.swap(false, Ordering::AcqRel)
        {
            tracing::info!("all parts of the schedule in the Redis cluster can be reached again");
        }
        // At once: something may be due there.
        self.wakes.bring_forward(number, 0);
    }
}
