//! `ringback audit`: checks that no registered notification was lost.
//!
//! The command only reads the stores, so it can run beside running servers. It ends with status 0 if the
//! counts are right and both stores agree. It ends with status 1 if a notification is missing, differs, is
//! set aside or cannot be read, or if a store cannot be read.

mod report;

use super::setting_flags::StoreArguments;
use super::terminal::{Colours, ProgressDisplay};
use super::{CommandFailure, block_on};
use crate::app::stores::{open_journal_beside, open_redis};
use crate::clock::SystemClock;
use crate::config::StoresConfig;
use crate::journal::Journal;
use crate::maintenance::audit::{Compared, Comparison, JournalTotals, MOMENT, read_pending};
use crate::schedule::recoverable::{Recoverable as _, ScheduleStatus};
use crate::schedule::redis::{RedisSchedule, Time};
use crate::schedule::{Schedule, ScheduleCounts, ScheduleReads as _};
use anyhow::Context as _;
use clap::Args;
use report::AuditReport;
pub use report::{counts_as_json, counts_in_words};
use std::io::{self, Write as _};
use std::sync::Arc;

/// The instance name for the journal. It is never written, because the audit only reads.
const INSTANCE: &str = "audit";

#[derive(Args)]
pub struct AuditArguments {
    #[command(flatten)]
    stores: StoreArguments,
    /// Read every notification, not only the pending ones; without Redis this is always done
    #[arg(long)]
    deep: bool,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

/// The counts and the status of the schedule in Redis.
struct ScheduleTotals {
    counts: ScheduleCounts,
    peeked: ScheduleStatus,
}

/// Counts the notifications, compares the stores and prints a report.
pub fn run(arguments: &AuditArguments) -> Result<(), CommandFailure> {
    let config = StoresConfig::load(&arguments.stores.flags, |name| std::env::var_os(name))?;
    let report = block_on(audit(&config, arguments.deep))?;
    let text = if arguments.json {
        report.as_json()
    } else {
        report.as_text(Colours::of_stdout())
    };
    io::stdout().write_all(text.as_bytes())?;
    if report.is_sound() {
        Ok(())
    } else {
        Err(CommandFailure::Printed("not everything is accounted for"))
    }
}

async fn audit(config: &StoresConfig, deep: bool) -> Result<AuditReport, CommandFailure> {
    let journal = open_journal_beside(&config.journal, INSTANCE).await?;
    let schedule = open_redis(
        config,
        journal.as_deref(),
        Arc::new(SystemClock),
        Time::Server,
        None,
    )?;
    let deep = deep || schedule.is_none();
    let mut report = AuditReport::new(config);
    if let Some(schedule) = &schedule {
        let held = look(schedule.as_ref()).await;
        report.held = Some(held.with_context(|| report.schedule.clone().unwrap_or_default())?);
    }
    if let Some(journal) = &journal {
        let totals = JournalTotals::read(journal.as_ref(), deep).await;
        report.totals = Some(totals.with_context(|| report.journal.clone())?);
        if let Some(schedule) = &schedule {
            let compared = compare(journal.as_ref(), schedule.as_ref(), &report).await?;
            report.compared = Some(compared);
        } else {
            let read = read_pending(journal.as_ref()).await;
            report.compared = Some(read.with_context(|| report.journal.clone())?);
        }
        journal.close().await;
    }
    Ok(report)
}

async fn look(schedule: &RedisSchedule) -> anyhow::Result<ScheduleTotals> {
    Ok(ScheduleTotals {
        peeked: schedule.status().await?,
        counts: schedule.counts().await?,
    })
}

async fn compare(
    journal: &dyn Journal,
    schedule: &dyn Schedule,
    report: &AuditReport,
) -> Result<Compared, CommandFailure> {
    let mut comparison = Comparison::new(journal, schedule, MOMENT);
    let progress = ProgressDisplay::of("notifications compared", report.to_compare());
    while comparison.step().await.context("comparing the stores")? {
        let compared = comparison.compared();
        progress.at(compared.journal + compared.later + compared.schedule);
    }
    drop(progress);
    Ok(comparison.compared().clone())
}
