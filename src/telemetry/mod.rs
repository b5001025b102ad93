//! The log: where it goes, and how its fields are named. The metrics: [`metrics`] and
//! [`store_readings`].
//!
//! Lines go to standard error, so that standard output stays what a command was asked for. A
//! message reads alone; the fields answer queries. Secrets, signatures and bodies are never logged.
//!
//! A thing has the same field name in every part: `notification` (written `topic/id`),
//! `webhook_id`, `lane`, `series`, `attempt` (its number), `outcome`, `duration_ms`, `error`.

pub mod metrics;
pub mod store_readings;

use crate::config::{LogConfig, LogFormat};
use anyhow::Context as _;
use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// Sets the log up, once per process.
///
/// # Errors
/// If the filter is wrong, or the log was set up before.
pub fn init(config: &LogConfig) -> anyhow::Result<()> {
    let filter = EnvFilter::builder()
        .parse(config.filter.as_str())
        .context("the log filter")?;
    let colours = std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would report on standard error that standard error cannot be written to, and panic. The
        // reader may have gone, such as a closed terminal: the work goes on without a log.
        .log_internal_errors(false)
        .with_ansi(colours);
    match config.format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    }
    .map_err(|error| anyhow::anyhow!("the log: {error}"))
}
