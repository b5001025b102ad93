//! Opens the stores, for a server and for the commands that run beside a server.

use crate::clock::{Clock, millis};
use crate::config::{JournalConfig, ServeConfig, StoresConfig};
use crate::health::Health;
use crate::journal::Journal;
use crate::journal::postgres::{PostgresJournal, Sharing};
use crate::journal::sqlite::SqliteJournal;
use crate::journal::watched::WatchedJournal;
use crate::maintenance::recovery::load::load;
use crate::schedule::memory::MemorySchedule;
use crate::schedule::redis::{ClaimTimes, NO_JOURNAL, Options, RedisSchedule, Time};
use crate::schedule::watched::WatchedSchedule;
use crate::schedule::window::Window;
use crate::schedule::{Limits, Schedule, ScheduleReads as _, SettingsSource};
use std::sync::Arc;
use std::time::Duration;

/// How much longer a lease lasts than the longest attempt, so that there is time to record the outcome
/// and to settle the lease.
const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// How long before it is due an entry is claimed. So the times that Redis, the network and a claim take make no attempt late
/// unless they are longer ("What an early claim brings" in `docs/performance.md`). For so long before an attempt, it cannot be
/// cancelled any more.
const EARLY_MS: i64 = 10;

/// The stores of a running server.
pub(super) struct ServerStores {
    pub(super) journal: Option<Arc<dyn Journal>>,
    pub(super) schedule: Arc<dyn Schedule>,
    /// The health of both stores. It gets the result of every call to them.
    pub(super) health: Arc<Health>,
}

impl ServerStores {
    /// Opens the schedule of a journal. Loads one in memory from the journal. `signing` is the fingerprint of the secret
    /// with which this server signs, if it is not the same for all servers of the journal.
    pub(super) async fn open(
        config: &ServeConfig,
        journal: Option<Arc<dyn Journal>>,
        signing: Option<String>,
        (clock, time): (Arc<dyn Clock>, Time),
    ) -> anyhow::Result<Self> {
        let schedule = open_schedule(config, journal.as_ref(), clock, time, signing).await?;
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

/// Opens the journal for a server, if the settings name one. `instance` is the name of this process in the
/// journal.
pub(super) async fn open_journal(
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
            // Two servers with one journal and each a schedule in memory would both send every notification.
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
    signing: Option<String>,
) -> anyhow::Result<Arc<dyn Schedule>> {
    let asked = journal.map(AsRef::as_ref);
    let config = &config.stores();
    if let Some(schedule) = open_redis(config, asked, clock.clone(), time, signing)? {
        schedule.announce_horizon();
        if journal.is_none() {
            tracing::info!(
                "there is no journal: only Redis keeps the notifications, and a crash of Redis loses those that it \
                 has not saved to disk"
            );
            if schedule.may_fail_over() && config.schedule.replicas == 0 {
                tracing::warn!(
                    "when a replica of Redis takes over, registrations and changes that it had not received yet are lost, \
                     although they were answered; set redis-wait to 1 or more, so that each counts only when so many \
                     replicas have it, or use a journal"
                );
            }
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
        "the pending notifications that are due soon were loaded from the journal into the schedule in memory"
    );
    if let Some(memory) = schedule.memory()
        && memory.taken >= memory.limit
    {
        let (taken_bytes, limit_bytes) = (memory.taken, memory.limit);
        tracing::warn!(
            taken_bytes,
            limit_bytes,
            "the pending notifications take all of the memory that schedule-memory allows, or more; \
             new registrations are refused until enough of them have ended"
        );
    }
    Ok(schedule)
}

/// Opens the journal for a command that runs beside a server. A journal in SQLite is opened only for
/// reading, because only its server may write to it.
///
/// # Errors
/// If the journal cannot be opened or does not exist yet. The error names the journal.
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

/// Whether a command that runs beside a server may write to this journal.
#[must_use]
pub fn may_write_beside(config: &JournalConfig) -> bool {
    match config {
        JournalConfig::Postgres(_) => true,
        JournalConfig::Sqlite(_) | JournalConfig::None => false,
    }
}

/// Prepares the schedule in Redis that belongs to this journal. `None` if the settings name no Redis.
/// `signing` is a fingerprint of the signing secret, if this process sends notifications.
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
        tls: config.schedule.redis_tls.clone(),
        partitions: config.schedule.partitions.into(),
        limits: limits(config, journal.is_some()),
        time,
        owner: journal
            .map_or(NO_JOURNAL, |journal| journal.id())
            .to_string(),
        signing,
        replicas: config.schedule.replicas,
        claim_times: ClaimTimes::default(),
    };
    Ok(Some(Arc::new(RedisSchedule::open(&options, clock)?)))
}

/// The limits of a schedule, from the settings.
#[must_use]
pub fn limits(config: &StoresConfig, has_journal: bool) -> Limits {
    Limits {
        lane_start: config.schedule.lane_start,
        lane_cap: config.schedule.lane_concurrency,
        lease_ms: millis(config.timeout + LEASE_MARGIN),
        remember_ms: (!has_journal).then(|| millis(config.schedule.keep_ended)),
        settings_source: match has_journal {
            true => SettingsSource::Journal,
            false => SettingsSource::Schedule,
        },
        window: match config.schedule.horizon {
            Some(horizon) if has_journal => Window::of(horizon),
            Some(_) | None => Window::WHOLE,
        },
        early_ms: EARLY_MS,
    }
}
