//! `ringback migrate`: brings the schema of a journal up to date. It is for operators who do not want a server
//! to do this when it starts.

use super::{CommandFailure, block_on, setting_flags};
use crate::config::{Flags, JournalConfig, load_journal};
use crate::journal::postgres::PostgresJournal;
use crate::journal::sqlite::SqliteJournal;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde_json::json;
use std::io::Write as _;

/// The settings of `serve` that say where the journal is.
const SETTINGS: [&str; 4] = ["journal", "journal-url-file", "data-dir", "config"];

/// The flags of `migrate`.
#[derive(Args)]
pub struct MigrateArguments {
    #[command(flatten)]
    journal: JournalArguments,
    /// Print the applied migrations as one JSON object
    #[arg(long)]
    json: bool,
}

/// The flags of `serve` that say where the journal is.
pub struct JournalArguments {
    flags: Flags,
}

impl FromArgMatches for JournalArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            flags: setting_flags::given(matches),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for JournalArguments {
    fn augment_args(command: Command) -> Command {
        setting_flags::augment(command, |setting| SETTINGS.contains(&setting.name))
            .after_help(
                "The environment variables and the keys of the file are the same as for `ringback serve`.",
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
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
