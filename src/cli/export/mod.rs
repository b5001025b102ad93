//! `ringback export`: writes every notification of a day with its end, for those who settle accounts by it.
//!
//! The journal is read directly and not through a server, in one transaction. So the file is as of one instant, no server is
//! disturbed, and nothing between limits how long it takes. What is written is counted, and compared with what the database
//! counts in the same transaction. Status 0 means that the file has the whole day and its totals add up; a file given by
//! `--output` appears only then.

mod csv;
mod line;
mod output;
mod span;
mod totals;

use super::setting_flags::JournalArguments;
use super::terminal::{ProgressDisplay, complain, now_ms};
use super::{CommandFailure, block_on};
use crate::app::stores::open_journal_beside;
use crate::config::{JournalConfig, load_journal};
use crate::domain::endpoint::EndpointName;
use crate::domain::key::check_topic;
use crate::domain::lane::Lane;
use crate::journal::{DayPage, DayReading, DaySelection, Filter, Journal, JournalError, Order};
use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use line::{COLUMNS, ExportLine};
use output::{OutputWriter, PartFile};
use span::{DaySpan, UtcOffset};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use tokio::signal::unix::{SignalKind, signal};
use totals::{ExportSubject, ExportTotals};

/// The instance name for the journal. It is never written, because an export only reads.
const INSTANCE: &str = "export";
/// Notifications read at once.
const PAGE: usize = 1_000;
/// How long after the end of a day its last registrations may still be on their way into the journal, and how far the clocks
/// of the servers may differ.
const SETTLING_MS: i64 = 60_000;
/// Maximum number of notifications that are named because they cannot be read.
const MOST_NAMED: u64 = 20;

/// The flags of `export`.
#[derive(Args)]
pub struct ExportArguments {
    #[command(flatten)]
    journal: JournalArguments,
    /// Day on which the notifications were registered: 2026-11-20, or `yesterday`
    #[arg(long, value_name = "DAY")]
    day: String,
    /// Offset from UTC by which the day begins and ends, and by which times are written
    #[arg(
        long,
        value_name = "+HH:MM",
        default_value = "+00:00",
        allow_hyphen_values = true
    )]
    utc_offset: String,
    /// Only notifications of this topic
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Only notifications of this endpoint
    #[arg(long, value_name = "NAME")]
    endpoint: Option<String>,
    /// Format of the lines
    #[arg(long, value_enum, default_value_t = ExportFormat::Csv)]
    format: ExportFormat,
    /// Write into this file, which appears only when it is whole; without it, to standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write the totals into this file, as one JSON object
    #[arg(long, value_name = "FILE")]
    totals: Option<PathBuf>,
    /// Also write a day that is not over, or of which old notifications were deleted
    #[arg(long)]
    allow_incomplete: bool,
}

/// The formats of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    Csv,
    JsonLines,
}

/// An export whose arguments were read.
struct DayExport<'a> {
    arguments: &'a ExportArguments,
    journal: JournalConfig,
    span: DaySpan,
    endpoint: Option<EndpointName>,
}

/// A day of which all lines are on their way to the output, which is not finished.
struct WrittenDay {
    subject: ExportSubject,
    totals: ExportTotals,
    output: OutputWriter,
}

/// Writes the notifications of a day and prints the totals.
pub fn run(arguments: &ExportArguments) -> Result<(), CommandFailure> {
    let export = DayExport::of(arguments)?;
    block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
        tokio::select! {
            done = export.write() => done,
            // What was written of a file is removed.
            _ = terminate.recv() => Err(CommandFailure::Interrupted),
            _ = interrupt.recv() => Err(CommandFailure::Interrupted),
        }
    })
}

impl<'a> DayExport<'a> {
    fn of(arguments: &'a ExportArguments) -> Result<Self, CommandFailure> {
        let wrong = |flag: &str, problem: &dyn std::fmt::Display| {
            CommandFailure::Usage(format!("--{flag}: {problem}"))
        };
        let offset = UtcOffset::parse(&arguments.utc_offset);
        let offset = offset.map_err(|problem| wrong("utc-offset", &problem))?;
        let span = DaySpan::parse(&arguments.day, offset, now_ms());
        let span = span.map_err(|problem| wrong("day", &problem))?;
        if let Some(topic) = &arguments.topic {
            check_topic(topic).map_err(|bad| wrong("topic", &bad))?;
        }
        let endpoint = arguments.endpoint.as_deref().map(EndpointName::parse);
        let endpoint = endpoint
            .transpose()
            .map_err(|bad| wrong("endpoint", &bad))?;
        if let (Some(output), Some(totals)) = (&arguments.output, &arguments.totals)
            && are_one_file(output, totals)
        {
            return Err(wrong("totals", &"this is the file of --output"));
        }
        let journal = load_journal(&arguments.journal.flags, |name| std::env::var_os(name))?;
        Ok(Self {
            arguments,
            journal,
            span,
            endpoint,
        })
    }

    /// Writes everything, and finishes the file if its totals add up.
    async fn write(&self) -> Result<(), CommandFailure> {
        let journal = open_journal_beside(&self.journal, INSTANCE).await?;
        let journal = journal.ok_or_else(|| {
            let problem = "--journal none: there is no journal that has the notifications of a day";
            CommandFailure::Usage(problem.to_string())
        })?;
        let written = self.write_from(journal.as_ref()).await;
        journal.close().await;
        let WrittenDay {
            subject,
            totals,
            mut output,
        } = written?;
        if self.arguments.format == ExportFormat::JsonLines {
            let line = format!("{}\n", totals.as_json(&subject));
            output.write(line.into_bytes()).await?;
        }
        if !totals.add_up() {
            if self.arguments.output.is_none() {
                output.finish().await?;
            }
            return Err(anyhow!(totals.difference()).into());
        }
        // Written before the file gets its name, and named after it: an old file never stands beside new totals.
        let part = match &self.arguments.totals {
            Some(path) => {
                let document = format!("{:#}\n", totals.as_json(&subject));
                Some(write_part(path, document.as_bytes())?)
            }
            None => None,
        };
        output.finish().await?;
        if let Some(part) = part {
            part.keep()?;
        }
        self.tell(&totals.as_text(&subject))
    }

    async fn write_from(&self, journal: &dyn Journal) -> Result<WrittenDay, CommandFailure> {
        self.check_endpoint(journal).await?;
        self.check_topic(journal).await?;
        // What was kept by now is read.
        let as_of_ms = now_ms();
        let reading = journal.read_day(&self.selection()).await;
        let mut reading = reading.map_err(unread)?;
        let as_of_ms = as_of_ms.min(reading.standby_until_ms().unwrap_or(i64::MAX));
        let written = self.write_read(reading.as_mut(), as_of_ms).await;
        reading.end().await;
        written
    }

    async fn write_read(
        &self,
        reading: &mut dyn DayReading,
        as_of_ms: i64,
    ) -> Result<WrittenDay, CommandFailure> {
        let subject = self.subject(as_of_ms, reading)?;
        let mut output = OutputWriter::open(self.arguments.output.as_deref())?;
        let totals = self.write_lines(reading, &mut output).await?;
        Ok(WrittenDay {
            subject,
            totals,
            output,
        })
    }

    /// An endpoint that was never made is probably a mistake, and its file would be empty.
    async fn check_endpoint(&self, journal: &dyn Journal) -> Result<(), CommandFailure> {
        let Some(name) = &self.endpoint else {
            return Ok(());
        };
        let known = journal.endpoint(name).await.map_err(unread)?;
        match known {
            Some(_) => Ok(()),
            None => Err(CommandFailure::Usage(format!(
                "--endpoint: the journal has no endpoint {name}"
            ))),
        }
    }

    /// Likewise a topic of which nothing was ever registered.
    async fn check_topic(&self, journal: &dyn Journal) -> Result<(), CommandFailure> {
        let Some(topic) = &self.arguments.topic else {
            return Ok(());
        };
        let filter = Filter {
            topic: Some(topic.clone()),
            ..Filter::default()
        };
        let newest = journal.list(&filter, Order::Registered, None, 1).await;
        match newest.map_err(unread)?.items.is_empty() {
            false => Ok(()),
            true => Err(CommandFailure::Usage(format!(
                "--topic: the journal has no notification of the topic {topic}"
            ))),
        }
    }

    fn selection(&self) -> DaySelection {
        DaySelection {
            from_ms: self.span.from_ms,
            until_ms: self.span.until_ms,
            topic: self.arguments.topic.clone(),
            lane: self.endpoint.as_ref().map(Lane::of_endpoint),
        }
    }

    /// What the file is about. If it cannot be whole, that is an error, unless it is allowed.
    fn subject(
        &self,
        as_of_ms: i64,
        reading: &dyn DayReading,
    ) -> Result<ExportSubject, CommandFailure> {
        let lacks = self.lacks(as_of_ms, reading);
        if let (Some(lacks), false) = (&lacks, self.arguments.allow_incomplete) {
            return Err(anyhow!(
                "the journal does not have all of {} (UTC{}): {lacks}; --allow-incomplete writes what there is",
                self.span,
                self.span.offset()
            )
            .into());
        }
        Ok(ExportSubject {
            span: self.span,
            topic: self.arguments.topic.clone(),
            endpoint: self.arguments.endpoint.clone(),
            as_of_ms,
            lacks,
        })
    }

    /// What may be missing of the day, as a sentence.
    fn lacks(&self, as_of_ms: i64, reading: &dyn DayReading) -> Option<String> {
        let at = |at_ms: i64| self.span.offset().display(at_ms);
        let DaySpan {
            from_ms, until_ms, ..
        } = self.span;
        if as_of_ms < until_ms.saturating_add(SETTLING_MS) {
            let has = match reading.standby_until_ms() {
                Some(0) => {
                    "the database is a standby that has taken over no change since its start; "
                        .to_string()
                }
                Some(until_ms) => format!(
                    "the database is a standby whose last change is of {}; ",
                    at(until_ms)
                ),
                None => String::new(),
            };
            return Some(format!(
                "{has}it ends at {}, and its last registrations may arrive until a minute later",
                at(until_ms)
            ));
        }
        let pruned = reading.pruned().after(from_ms.saturating_sub(SETTLING_MS));
        pruned.map(|pruned_ms| {
            format!(
                "what ended by {} may have been deleted (--keep-records, --keep-dead)",
                at(pruned_ms)
            )
        })
    }

    /// Writes a line for each notification.
    async fn write_lines(
        &self,
        reading: &mut dyn DayReading,
        output: &mut OutputWriter,
    ) -> Result<ExportTotals, CommandFailure> {
        let counted = reading.counts().await.map_err(unread)?;
        let mut totals = ExportTotals::new(counted);
        let progress = ProgressDisplay::of("notifications written", counted.registered);
        if self.arguments.format == ExportFormat::Csv {
            let mut heading = Vec::new();
            csv::write_row(&mut heading, COLUMNS);
            output.write(heading).await?;
        }
        while let Some(page) = reading.page(PAGE).await.map_err(unread)? {
            let part = self.lines(&page, &mut totals)?;
            if !part.is_empty() {
                output.write(part).await?;
            }
            progress.at(totals.written());
        }
        Ok(totals)
    }

    /// The lines of a page, counted. What cannot be read is named on standard error.
    fn lines(&self, page: &DayPage, totals: &mut ExportTotals) -> Result<Vec<u8>, CommandFailure> {
        let mut part = Vec::new();
        for item in &page.items {
            totals.count(item);
            let line = ExportLine::of(item, self.span.offset());
            match self.arguments.format {
                ExportFormat::Csv => line.write_csv(&mut part),
                ExportFormat::JsonLines => {
                    serde_json::to_writer(&mut part, &line).context("a line")?;
                    part.push(b'\n');
                }
            }
        }
        for unreadable in &page.unreadable {
            let many = totals.count_unreadable();
            if many <= MOST_NAMED {
                let (name, problem) = (&unreadable.name, &unreadable.problem);
                complain(&format!("{name} cannot be read: {problem}"));
            }
        }
        Ok(part)
    }

    /// Prints the totals where the lines are not.
    fn tell(&self, text: &str) -> Result<(), CommandFailure> {
        if self.arguments.output.is_some() {
            return Ok(io::stdout().write_all(text.as_bytes())?);
        }
        // The file is whole; if nobody can read standard error, the status still says so.
        let _ = io::stderr().write_all(text.as_bytes());
        Ok(())
    }
}

/// Whether two paths name one file, which need not exist yet: it then has one name in one directory.
fn are_one_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        path.canonicalize().ok().or_else(|| {
            let dir = match path.parent()? {
                dir if dir.as_os_str().is_empty() => Path::new("."),
                dir => dir,
            };
            Some(dir.canonicalize().ok()?.join(path.file_name()?))
        })
    };
    one == other || place(one).is_some_and(|place_of_one| Some(place_of_one) == place(other))
}

fn unread(error: JournalError) -> CommandFailure {
    CommandFailure::Failed(anyhow::Error::from(error).context("reading the day"))
}

/// Writes a file that has its name only when it is kept.
fn write_part(path: &Path, content: &[u8]) -> Result<PartFile, CommandFailure> {
    let (part, mut file) = PartFile::create(path)?;
    file.write_all(content)
        .with_context(|| path.display().to_string())?;
    Ok(part)
}
