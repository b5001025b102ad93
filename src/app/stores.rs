//! Opening the stores, for a server and for the commands beside one.

use crate::clock::{Clock, millis};
use crate::config::{JournalConfig, ServeConfig, StoresConfig};
use crate::health::Health;
use crate::journal::Journal;
use crate::journal::postgres::{PostgresJournal, Sharing};
use crate::journal::sqlite::SqliteJournal;
use crate::journal::watched::WatchedJournal;
use crate::maintenance::recovery::load::load;
use crate::schedule::memory::MemorySchedule;
use crate::schedule::redis::{NO_JOURNAL, Options, RedisSchedule, Time};
use crate::schedule::watched::WatchedSchedule;
use crate::schedule::{Limits, Schedule, ScheduleReads as _};
use std::sync::Arc;
use std::time::Duration;

/// What a lease lasts beyond the longest attempt: recording the outcome and settling.
const LEASE_MARGIN: Duration = Duration::from_secs(5);

/// How many calls a lane may have in flight before its destination has answered.
const LANE_START: usize = 2;

/// The stores of a running server.
pub(super) struct ServerStores {
    pub(super) journal: Option<Arc<dyn Journal>>,
    pub(super) schedule: Arc<dyn Schedule>,
    /// Learns from every call to either of them.
    pub(super) health: Arc<Health>,
}

impl ServerStores {
    /// Opens both. A schedule in memory is loaded from the journal.
    pub(super) async fn open(
        config: &ServeConfig,
        instance: &str,
        clock: Arc<dyn Clock>,
        time: Time,
    ) -> anyhow::Result<Self> {
        let journal = open_journal(config, instance).await?;
        let schedule = open_schedule(config, journal.as_ref(), clock, time).await?;
        let health = Health::new(journal.is_some());
        let journal = journal.map(|journal| -> Arc<dyn Journal> {
            Arc::new(WatchedJournal::new(journal, health.clone()))
        });
        let schedule = Arc::new(WatchedSchedule::new(schedule, health.clone()));
        Ok(Self {
            journal,
            schedule,
            health,
        })
    }
}

/// Opens the journal for a server, if there is to be one. `instance` is the name of this process in
/// what it writes.
async fn open_journal(
    config: &ServeConfig,
    instance: &str,
) -> anyhow::Result<Option<Arc<dyn Journal>>> {
    match &config.journal {
        JournalConfig::Sqlite(path) => {
            let journal = SqliteJournal::open(path, instance).await?;
            Ok(Some(Arc::new(journal)))
        }
        JournalConfig::Postgres(url) => {
            let journal = PostgresJournal::open(url.expose(), instance, config.migrate).await?;
            // A schedule in memory is not shared, so this server would deliver what others deliver too.
            let sharing = match config.schedule.redis {
                Some(_) => Sharing::WithOthers,
                None => Sharing::WithNobody,
            };
            journal.hold(sharing).await?;
            Ok(Some(Arc::new(journal)))
        }
        JournalConfig::None => Ok(None),
    }
}

async fn open_schedule(
    config: &ServeConfig,
    journal: Option<&Arc<dyn Journal>>,
    clock: Arc<dyn Clock>,
    time: Time,
) -> anyhow::Result<Arc<dyn Schedule>> {
    let asked = journal.map(AsRef::as_ref);
    let signing = Some(config.delivery.signing_secret.fingerprint());
    let config = &config.stores();
    if let Some(schedule) = open_redis(config, asked, clock.clone(), time, signing)? {
        if journal.is_none() {
            tracing::info!(
                "no journal: notifications are kept in Redis only, as far as it persists them"
            );
            for warning in schedule.durability_warnings().await {
                tracing::warn!("{warning}");
            }
        }
        return Ok(schedule);
    }
    let schedule = open_memory(config, journal, clock).await?;
    Ok(Arc::new(schedule))
}

/// Opens a schedule in memory, loaded from the journal if there is one.
async fn open_memory(
    config: &StoresConfig,
    journal: Option<&Arc<dyn Journal>>,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<MemorySchedule> {
    let limits = limits(config, journal.is_some());
    let Some(journal) = journal else {
        return Ok(MemorySchedule::new(clock, limits));
    };
    let schedule = MemorySchedule::over_journal(clock, limits, config.schedule.memory_bytes);
    let loaded = load(journal.clone(), &schedule).await?;
    let pending = loaded.read;
    tracing::info!(
        pending,
        "the schedule is in memory, loaded from the journal"
    );
    if let Some(memory) = schedule.memory()
        && memory.taken >= memory.limit
    {
        let (taken, limit) = (memory.taken, memory.limit);
        tracing::warn!(
            taken,
            limit,
            "what is pending takes more memory than schedule-memory allows; \
             new registrations are refused until enough of it is delivered"
        );
    }
    Ok(schedule)
}

/// Opens the journal for a command that works beside servers. One in SQLite is a server's own, so it
/// is opened for reading only.
///
/// # Errors
/// Names the journal and says why; also if there is none yet.
pub async fn open_journal_beside(
    config: &JournalConfig,
    instance: &str,
) -> anyhow::Result<Option<Arc<dyn Journal>>> {
    match config {
        JournalConfig::Sqlite(path) => {
            let journal = SqliteJournal::open_to_read(path).await?;
            Ok(Some(Arc::new(journal)))
        }
        JournalConfig::Postgres(url) => {
            let journal = PostgresJournal::open(url.expose(), instance, false).await?;
            Ok(Some(Arc::new(journal)))
        }
        JournalConfig::None => Ok(None),
    }
}

/// Whether a command beside servers may write to such a journal.
#[must_use]
pub fn may_write_beside(config: &JournalConfig) -> bool {
    match config {
        JournalConfig::Postgres(_) => true,
        JournalConfig::Sqlite(_) | JournalConfig::None => false,
    }
}

/// Prepares the schedule in Redis, if there is one, as the one of this journal. `signing` is a fingerprint
/// of the secret that this process signs with, if it does.
///
/// # Errors
/// If the URL is not valid.
pub fn open_redis(
    config: &StoresConfig,
    journal: Option<&dyn Journal>,
    clock: Arc<dyn Clock>,
    time: Time,
    signing: Option<String>,
) -> anyhow::Result<Option<Arc<RedisSchedule>>> {
    let Some(redis) = &config.schedule.redis else {
        return Ok(None);
    };
    let options = Options {
        url: redis.expose().to_string(),
        partitions: config.schedule.partitions.into(),
        limits: limits(config, journal.is_some()),
        time,
        owner: journal
            .map_or(NO_JOURNAL, |journal| journal.id())
            .to_string(),
        signing,
    };
    Ok(Some(Arc::new(RedisSchedule::open(&options, clock)?)))
}

/// The settings of a schedule.
#[must_use]
pub fn limits(config: &StoresConfig, has_journal: bool) -> Limits {
    Limits {
        lane_start: LANE_START,
        lane_cap: config.schedule.lane_concurrency,
        lease_ms: millis(config.timeout + LEASE_MARGIN),
        remember_ms: (!has_journal).then(|| millis(config.schedule.keep_ended)),
    }
}
