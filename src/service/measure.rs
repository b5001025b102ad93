//! Reading the metrics: the counters of this process, and what the stores hold now.

use super::Service;
use crate::domain::job::{JobState, MOST_OPEN_JOBS};
use crate::health::StoreState;
use crate::telemetry::process::ProcessReading;
use crate::telemetry::store_readings::{
    HealthReading, JobsReading, JournalReading, LanesReading, MemoryReading, ScheduleReading,
    StoreReadings, WindowReading,
};
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for a store; a slower one is left out of the reading.
const LONGEST_READ: Duration = Duration::from_millis(1_500);
/// At which number of notifications that must be in the schedule counting stops: so many are counted in a few milliseconds.
const MOST_EXPECTED: usize = 100_000;
/// For how long one reading is used for all requests.
const FRESH: Duration = Duration::from_secs(1);

/// The last reading as text.
#[derive(Debug, Default)]
pub struct LastReading(tokio::sync::Mutex<Option<(Instant, Arc<str>)>>);

impl Service {
    /// All metrics as text. Takes a bounded time, whatever the stores do, and asks them at most once a
    /// second, however many requests there are.
    pub async fn measure(&self) -> Arc<str> {
        let mut last = self.last_reading.0.lock().await;
        if let Some((at, text)) = last.as_ref()
            && at.elapsed() < FRESH
        {
            return text.clone();
        }
        let journal = async {
            let counts = within_read_limit(self.journal()?.counts()).await?;
            let set_aside = within_read_limit(self.journal()?.all_set_aside(0)).await?;
            let oldest = within_read_limit(self.journal()?.oldest_due()).await;
            let now_ms = self.clock.now_ms();
            let since = |due_ms: i64| u64::try_from(now_ms.saturating_sub(due_ms)).unwrap_or(0);
            Some(JournalReading {
                registered: counts.registered,
                pending: counts.scheduled,
                delivered: counts.delivered,
                dead: counts.dead,
                cancelled: counts.cancelled,
                set_aside: set_aside.total,
                oldest_due_ms: oldest.map(|due_ms| due_ms.map_or(0, since)),
            })
        };
        let schedule = async {
            let counts = within_read_limit(self.schedule.counts()).await?;
            let lanes = within_read_limit(self.schedule.lane_counts()).await;
            let window = async {
                let horizon_ms = self.schedule.limits().window.horizon_ms()?;
                let loaded_until_ms =
                    within_read_limit(self.schedule.loaded_until(&BTreeSet::new())).await??;
                let expected = async {
                    let counting = self.journal()?.count_due_by(loaded_until_ms, MOST_EXPECTED);
                    within_read_limit(counting).await
                };
                Some(WindowReading {
                    expected: expected.await,
                    horizon_ms,
                    loaded_ahead_ms: loaded_until_ms.saturating_sub(self.clock.now_ms()),
                })
            };
            Some(ScheduleReading {
                window: window.await,
                pending: counts.pending,
                in_flight: counts.in_flight,
                lanes: lanes.map(|lanes| LanesReading {
                    open: lanes.open,
                    probing: lanes.probing,
                    held: lanes.held,
                }),
            })
        };
        let jobs = async {
            let journal = self.journal()?;
            let many = async |state| {
                let found =
                    within_read_limit(journal.jobs(Some(state), None, MOST_OPEN_JOBS)).await?;
                u64::try_from(found.len()).ok()
            };
            Some(JobsReading {
                running: many(JobState::Running).await?,
                paused: many(JobState::Paused).await?,
            })
        };
        let process = tokio::task::spawn_blocking(ProcessReading::read);
        let (journal, jobs, schedule, process) = tokio::join!(journal, jobs, schedule, process);
        let report = self.health.report();
        let up = report.stores.iter().map(|(store, report)| {
            let up = report.state == StoreState::Up;
            HealthReading {
                store: store.as_str(),
                up,
                failed_calls: self.health.failed_calls(*store),
                durations: self.health.call_durations(*store),
            }
        });
        let memory = self.schedule.memory().map(|memory| MemoryReading {
            taken: memory.taken,
            bodies: memory.bodies,
            limit: memory.limit,
        });
        let reading = StoreReadings {
            journal,
            jobs,
            schedule,
            memory,
            health: up.collect(),
            unusable_endpoints: self.unusable_endpoints().len(),
            partitions_away: self.schedule.out_of_reach().len(),
        };
        let text: Arc<str> = self.metrics.text(reading, process.ok().flatten()).into();
        *last = Some((Instant::now(), text.clone()));
        text
    }
}

async fn within_read_limit<T, E>(call: impl Future<Output = Result<T, E>>) -> Option<T> {
    tokio::time::timeout(LONGEST_READ, call).await.ok()?.ok()
}
