//! Opening the stores, for a server and for the commands beside one.

use crate::clock::Clock;
use crate::config::{JournalConfig, ServeConfig, StoresConfig};
use crate::journal::Journal;
use crate::journal::postgres::{PostgresJournal, Sharing};
use crate::journal::sqlite::SqliteJournal;
use crate::schedule::Limits;
use crate::schedule::redis::{NO_JOURNAL, Options, RedisSchedule, Time};
use std::sync::Arc;
use std::time::Duration;

/// What a lease lasts beyond the longest attempt: recording the outcome and settling.
const LEASE_MARGIN: Duration = Duration::from_secs(5);

/// Opens the journal for a server, if there is to be one. `instance` is the name under which this
/// process signs what it writes.
///
/// # Errors
/// Names the journal and says why.
pub async fn open_journal(
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
            // A schedule in memory is nobody else's, so it would deliver what others deliver too.
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

/// Opens the journal for a command that works beside servers. One in SQLite is a server's own, so it
/// can be read alone.
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
/// If the URL is none.
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
        lane_cap: config.schedule.lane_concurrency,
        lease_ms: millis(config.timeout + LEASE_MARGIN),
        remember_ms: (!has_journal).then(|| millis(config.schedule.keep_ended)),
    }
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
