//! `ringback migrate`: brings the schema of a journal up to date. It is for operators who do not want a server
//! to do this when it starts.

use super::setting_flags::JournalArguments;
use super::{CommandFailure, block_on};
use crate::config::{JournalConfig, load_journal};
use crate::journal::postgres::PostgresJournal;
use crate::journal::sqlite::SqliteJournal;
use clap::Args;
use serde_json::json;
use std::io::Write as _;

/// The flags of `migrate`.
#[derive(Args)]
pub struct MigrateArguments {
    #[command(flatten)]
    journal: JournalArguments,
    /// Print the applied migrations as one JSON object
    #[arg(long)]
    json: bool,
}

/// Applies the missing migrations and prints their names.
pub fn run(arguments: &MigrateArguments) -> Result<(), CommandFailure> {
    let journal = load_journal(&arguments.journal.flags, |name| std::env::var_os(name))?;
    let applied = block_on(async {
        let applied = match &journal {
            JournalConfig::Sqlite(path) => SqliteJournal::migrate(path).await,
            JournalConfig::Postgres(url) => PostgresJournal::migrate(url.expose()).await,
            JournalConfig::None => {
                let problem = "--journal none: there is no journal to bring up to date";
                return Err(CommandFailure::Usage(problem.to_string()));
            }
        };
        Ok(applied.map_err(anyhow::Error::from)?)
    })?;
    let mut out = std::io::stdout();
    if arguments.json {
        writeln!(out, "{:#}", json!({ "applied": applied }))?;
        return Ok(());
    }
    for name in &applied {
        writeln!(out, "applied {name}")?;
    }
    if applied.is_empty() {
        writeln!(out, "the journal is up to date")?;
    }
    Ok(())
}
