//! Sets up the log. The metrics are in [`metrics`], [`store_readings`] and [`process`], the traces in [`traces`].
//! Sets up the log. The metrics are in [`metrics`], [`store_readings`] and [`process`], the counters for plots over time in
//! [`activity`].
//!
//! Log lines go to standard error, so that standard output has only the output of a command. The message
//! of a line can be understood without its fields; the fields are for queries. Secrets, signatures and
//! bodies are never logged.
//!
//! The same thing has the same field name in all modules: `notification` (as `topic/id`), `webhook_id`,
//! `lane`, `series`, `attempt` (its number), `outcome`, `duration_ms`, `trace_id`, `error`.

pub mod activity;
pub mod lateness;
pub mod metrics;
pub mod process;
pub mod span_counters;
pub mod store_readings;
pub mod traces;

use crate::config::{LogConfig, LogFormat};
use anyhow::Context as _;
use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// Sets up the log. May be called once per process.
///
/// # Errors
/// If the filter is not valid, or the log was set up before.
pub fn init(config: &LogConfig) -> anyhow::Result<()> {
    let filter = EnvFilter::builder()
        .parse(config.filter.as_str())
        .context("the log filter is not valid")?;
    let colours = std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // If standard error cannot be written to, for example because the terminal was closed, the library
        // would report that on standard error, and panic. The server continues without a log instead.
        .log_internal_errors(false)
        .with_ansi(colours);
    match config.format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    }
    .map_err(|error| anyhow::anyhow!("the log cannot be set up: {error}"))
}
