//! `ringback rebuild`: makes Redis agree with the journal while servers run.
//!
//! Servers do this automatically. The command is for operators who do not want to wait, or who do not trust the
//! data in Redis. A server asks the journal before it sends a notification that was put back. So an unnecessary
//! rebuild does no harm.

mod report;

use super::client::who;
use super::setting_flags::StoreArguments;
use super::terminal::ProgressDisplay;
use super::{CommandFailure, block_on};
use crate::app::instance_name;
use crate::app::stores::{may_write_beside, open_journal_beside, open_redis};
use crate::clock::SystemClock;
use crate::config::StoresConfig;
use crate::domain::key::Key;
use crate::domain::state::State;
use crate::journal::{Actor, Journal, Rebuild};
use crate::maintenance::difference::{Difference, find_recorded, must_be_held_until};
use crate::maintenance::error::MaintenanceError;
use crate::maintenance::recovery::resync::Resync;
use crate::maintenance::recovery::{inspect, why};
use crate::maintenance::repair::{RepairNotes, Repaired, repair};
use crate::maintenance::scan::{Pick, ScanPosition, compare};
use crate::schedule::recoverable::{Inspection, LoadReason, Recoverable as _, ScheduleStatus};
use crate::schedule::redis::{RedisSchedule, Time};
use crate::schedule::{HAND_LEASE_WAIT_MS, ScheduleLeases as _};
use anyhow::{Context as _, anyhow};
use clap::Args;
use report::{ComparedPending, LoadedAll, OnePutBack, RebuildReport};
use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Notifications compared in one step.
const PAGE: usize = 1_000;
/// How often the command reports to Redis that it is still loading, so that no server takes over.
const HEARTBEAT: Duration = Duration::from_secs(1);

#[derive(Args)]
pub struct RebuildArguments {
    #[command(flatten)]
    stores: StoreArguments,
    /// Topic of the notification, to put back only one
    #[arg(requires = "one_id", value_name = "TOPIC")]
    one_topic: Option<String>,
    /// Id of the notification, to put back only one
    #[arg(value_name = "ID", conflicts_with_all = ["clear", "topic", "not_due"])]
    one_id: Option<String>,
    /// Empty Redis first, then load all pending notifications
    #[arg(long, conflicts_with_all = ["topic", "not_due"])]
    clear: bool,
    /// Put back only notifications of this topic
    #[arg(long)]
    topic: Option<String>,
    /// Put back only notifications that are not due yet
    #[arg(long)]
    not_due: bool,
    /// Print what was done as one JSON object
    #[arg(long)]
    json: bool,
}

/// The stores, and whether repairs are written into the histories of the notifications.
struct RebuildStores {
    journal: Arc<dyn Journal>,
    schedule: Arc<RedisSchedule>,
    record: RepairNotes,
}

/// Puts missing notifications back into Redis and prints how many they were.
pub fn run(arguments: &RebuildArguments) -> Result<(), CommandFailure> {
    let config = StoresConfig::load(&arguments.stores.flags, |name| std::env::var_os(name))?;
    let one = match (&arguments.one_topic, &arguments.one_id) {
        (Some(topic), Some(id)) => {
            Some(Key::new(topic, id).map_err(|error| CommandFailure::Usage(error.to_string()))?)
        }
        _ => None,
    };
    let report = block_on(async {
        let stores = open(&config).await?;
        let done = match &one {
            Some(key) => stores.put_back(key).await,
            None if arguments.clear => stores.load(true).await,
            None if arguments.topic.is_some() || arguments.not_due => stores.some(arguments).await,
            None => stores.load(false).await,
        };
        // Otherwise it would count as a server at work for 30 s.
        stores.schedule.deregister().await;
        stores.journal.close().await;
        let mut report = done?;
        report.is_noted = stores.record != RepairNotes::LeftOut;
        Ok(report)
    })?;
    let text = match arguments.json {
        true => report.as_json(),
        false => report.as_text(),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

async fn open(config: &StoresConfig) -> Result<RebuildStores, CommandFailure> {
    let journal = open_journal_beside(&config.journal, &instance_name()).await?;
    let journal = journal.ok_or_else(|| {
        CommandFailure::Usage("--journal none: there is nothing to rebuild Redis from".to_string())
    })?;
    let schedule = open_redis(
        config,
        Some(journal.as_ref()),
        Arc::new(SystemClock),
        Time::Server,
        None,
    )?;
    let schedule = schedule.ok_or_else(|| {
        CommandFailure::Usage(
            "--redis is not given, and a schedule in memory is loaded when its server starts"
                .to_string(),
        )
    })?;
    Ok(RebuildStores {
        journal,
        schedule,
        record: if may_write_beside(&config.journal) {
            RepairNotes::Kept
        } else {
            RepairNotes::LeftOut
        },
    })
}

impl RebuildStores {
    /// Puts one notification back.
    async fn put_back(&self, key: &Key) -> Result<RebuildReport, CommandFailure> {
        let loaded = self.enter().await?;
        let (journal, schedule) = (self.journal.as_ref(), self.schedule.as_ref());
        let keys = [key.clone()];
        let found = journal
            .snapshots(&keys)
            .await
            .map_err(anyhow::Error::from)?;
        let Some(snapshot) = found.into_iter().next().flatten() else {
            return Err(anyhow!("the journal has no notification {key}").into());
        };
        if snapshot.state != State::Scheduled {
            let result = OnePutBack::Ended(snapshot.state);
            return Ok(RebuildReport::of_one(loaded, key, result));
        }
        let repairing = async {
            let held_until_ms = must_be_held_until(schedule, &BTreeSet::new()).await?;
            let differences = find_recorded(journal, schedule, &keys, &BTreeSet::new()).await?;
            let differences = self.compare_again_if_young(differences).await?;
            let repaired = repair(journal, schedule, &differences, self.record).await?;
            Ok((repaired, held_until_ms))
        };
        let (repaired, held_until_ms) = repairing.await.map_err(failed)?;
        let result = match (repaired.restored, repaired.moved) {
            (0, 0) if snapshot.set_aside.is_some() => OnePutBack::SetAside,
            (0, 0) if snapshot.progress.next_due_ms() > held_until_ms => OnePutBack::Later,
            (0, 0) => OnePutBack::Unchanged,
            (0, _) => OnePutBack::Corrected,
            _ => OnePutBack::Restored,
        };
        Ok(RebuildReport::of_one(loaded, key, result))
    }

    /// Puts back the notifications of a topic, or those that are not due yet.
    async fn some(&self, arguments: &RebuildArguments) -> Result<RebuildReport, CommandFailure> {
        let loaded = self.enter().await?;
        let now_ms = self.schedule.clock().now_ms();
        let pick = Pick {
            topic: arguments.topic.clone(),
            due_after_ms: arguments.not_due.then_some(now_ms),
            ..Pick::default()
        };
        let compared = self.scan(&pick).await?;
        Ok(RebuildReport::of_comparing(loaded, compared))
    }

    /// Puts back all notifications. If Redis has lost data, this command loads it as a server would. If `clear`
    /// is set, Redis is emptied first.
    async fn load(&self, clear: bool) -> Result<RebuildReport, CommandFailure> {
        let journal = self.journal.as_ref();
        let schedule = self.schedule.as_ref();
        let found = inspect(Some(journal), schedule, schedule, clear).await;
        match found.map_err(MaintenanceError::from).map_err(failed)? {
            Inspection::ToLoad(reason) => {
                let loaded = self.load_missing(reason).await?;
                Ok(RebuildReport::of_loading(loaded))
            }
            Inspection::Loading
            | Inspection::Clearing
            | Inspection::Replaced
            | Inspection::Unowned => Err(being_loaded()),
            Inspection::Whole => {
                let compared = self.scan(&Pick::default()).await?;
                Ok(RebuildReport::of_comparing(None, compared))
            }
        }
    }

    /// Registers this instance in Redis, because only a registered instance may change the data there.
    ///
    /// If Redis has lost data, everything is put back and not only the requested part, because servers do not
    /// work with a part of the lost data. What was loaded is then returned.
    async fn enter(&self) -> Result<Option<LoadedAll>, CommandFailure> {
        let schedule = self.schedule.as_ref();
        let peeked = schedule.status().await.map_err(anyhow::Error::from)?;
        if peeked == ScheduleStatus::New {
            return Err(anyhow!(
                "Redis has no data of this journal; `ringback rebuild` for all notifications \
                 loads it"
            )
            .into());
        }
        let found = inspect(Some(self.journal.as_ref()), schedule, schedule, false).await;
        match found.map_err(anyhow::Error::from)? {
            Inspection::Whole => Ok(None),
            Inspection::ToLoad(reason) => Ok(Some(self.load_missing(reason).await?)),
            Inspection::Loading
            | Inspection::Clearing
            | Inspection::Replaced
            | Inspection::Unowned => Err(being_loaded()),
        }
    }

    /// Compares the pending notifications of the journal with Redis, and repairs the differences.
    async fn scan(&self, pick: &Pick) -> Result<ComparedPending, CommandFailure> {
        let (journal, schedule) = (self.journal.as_ref(), self.schedule.as_ref());
        let progress = self.progress("notifications compared").await?;
        let mut place = ScanPosition::START;
        let (mut seen, mut later) = (0, 0);
        let mut repaired = Repaired::default();
        while let ScanPosition::Pending(_) = place {
            let stepping = async {
                let page = compare(journal, schedule, &place, pick, PAGE).await?;
                let differences = self.compare_again_if_young(page.differences).await?;
                repaired += repair(journal, schedule, &differences, self.record).await?;
                Ok((page.pending + page.later, page.later, page.next))
            };
            let (seen_in_page, later_in_page, next) = stepping.await.map_err(failed)?;
            seen += seen_in_page;
            later += later_in_page;
            progress.at(seen);
            place = next;
        }
        drop(progress);
        let Repaired {
            restored, moved, ..
        } = repaired;
        Ok(ComparedPending {
            pending: seen,
            later,
            restored,
            moved,
        })
    }

    /// What still differs when every registration among these has arrived that may be on its way. One that arrives soon after it
    /// was accepted is sent without asking the journal. If it was put back before that, it could be sent and forgotten, and then
    /// be sent again.
    async fn compare_again_if_young(
        &self,
        differences: Vec<Difference>,
    ) -> Result<Vec<Difference>, MaintenanceError> {
        if differences.is_empty() {
            return Ok(differences);
        }
        let (journal, schedule) = (self.journal.as_ref(), self.schedule.as_ref());
        let keys: Vec<Key> = differences
            .iter()
            .map(|one| one.entry.key.clone())
            .collect();
        let recorded = journal.snapshots(&keys).await?;
        let registered = recorded.iter().flatten().map(|one| one.registered_ms);
        let arrived_ms = registered
            .max()
            .unwrap_or(i64::MIN)
            .saturating_add(HAND_LEASE_WAIT_MS);
        // What means an endpoint that was just made again was accepted a little later than now. If the clock was set back, it does
        // not wait for longer than that all the same.
        let wait_ms = arrived_ms
            .saturating_sub(schedule.clock().now_ms())
            .min(2 * HAND_LEASE_WAIT_MS);
        if wait_ms <= 0 {
            return Ok(differences);
        }
        tokio::time::sleep(Duration::from_millis(wait_ms.unsigned_abs())).await;
        find_recorded(journal, schedule, &keys, &BTreeSet::new()).await
    }

    /// Puts all missing notifications that are due soon into Redis, soonest due first. Servers keep working meanwhile.
    async fn load_missing(&self, reason: LoadReason) -> Result<LoadedAll, CommandFailure> {
        let (journal, schedule) = (self.journal.as_ref(), self.schedule.as_ref());
        if let (RepairNotes::Kept, Some(reason)) = (self.record, why(reason)) {
            let rebuild = Rebuild {
                at_ms: schedule.clock().now_ms(),
                actor: Actor::named(who()),
                reason: reason.to_string(),
            };
            let written = journal.rebuilding(&rebuild).await;
            written.context("the journal cannot be written to")?;
        }
        let progress = self.progress("notifications put back").await?;
        let started = Instant::now();
        let mut last_heartbeat = started;
        let journal = Some(Arc::clone(&self.journal));
        let mut resync = Resync::new(journal, schedule, schedule);
        let taken_over =
            || anyhow!("a server has taken over and is loading Redis from the journal");
        while resync.step().await.map_err(failed)? {
            progress.at(resync.done().read);
            if last_heartbeat.elapsed() >= HEARTBEAT {
                last_heartbeat = Instant::now();
                let proceeds = schedule.report_loading().await;
                if !proceeds.map_err(anyhow::Error::from)? {
                    return Err(taken_over().into());
                }
            }
        }
        if !schedule
            .finish_loading()
            .await
            .map_err(anyhow::Error::from)?
        {
            return Err(taken_over().into());
        }
        drop(progress);
        let seconds = started.elapsed().as_secs_f64();
        let counts = self.journal.counts().await.map_err(anyhow::Error::from)?;
        let held = resync.done().read;
        Ok(LoadedAll {
            // Some may have ended since they were read.
            pending: counts.scheduled.max(held),
            held,
            seconds,
        })
    }

    async fn progress(&self, what: &'static str) -> Result<ProgressDisplay, CommandFailure> {
        let counts = self.journal.counts().await.map_err(anyhow::Error::from)?;
        Ok(ProgressDisplay::of(what, counts.scheduled))
    }
}

fn being_loaded() -> CommandFailure {
    anyhow!("Redis is being loaded from the journal at this moment").into()
}

fn failed(error: MaintenanceError) -> CommandFailure {
    let context = if error.may_pass() {
        "the notifications put back so far stay in Redis; run the command again"
    } else {
        "the command cannot continue"
    };
    CommandFailure::Failed(anyhow::Error::from(error).context(context))
}
