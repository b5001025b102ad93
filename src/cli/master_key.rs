//! `ringback master-key change`: encrypts everything that a journal has encrypted again, under another master key.

use super::setting_flags;
use super::terminal::complain;
use super::{CommandFailure, block_on};
use crate::app::master_key_change::{self, MasterKeyChanged};
use crate::config::{Flags, MasterKeyConfig};
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;

/// The settings of `serve` that say where the journal and the present master key are.
const SETTINGS: [&str; 6] = [
    "journal",
    "journal-url-file",
    "data-dir",
    "config",
    "master-key",
    "master-key-file",
];

#[derive(Subcommand)]
pub enum MasterKeyCommand {
    /// Encrypt everything again under a new master key. It can be interrupted at any time, and run again
    Change(ChangeArguments),
}

#[derive(Args)]
pub struct ChangeArguments {
    #[command(flatten)]
    present: PresentArguments,
    /// The file of the new master key; it is made if it is missing. If not given, that of the data directory is replaced
    #[arg(long, value_name = "FILE")]
    new_master_key_file: Option<PathBuf>,
    /// Print what was done as one JSON object
    #[arg(long)]
    json: bool,
}

/// The flags of `serve` that say where the journal and the present master key are.
pub struct PresentArguments {
    flags: Flags,
}

impl FromArgMatches for PresentArguments {
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

impl Args for PresentArguments {
    fn augment_args(command: Command) -> Command {
        setting_flags::augment(command, |setting| SETTINGS.contains(&setting.name)).after_help(
            "The command uses the journal and the present master key of a server: give the same flags, environment \
             variables or file as for the server. A journal in SQLite must not be in use by a server.",
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Changes the master key and prints what was done.
pub fn run(command: MasterKeyCommand) -> Result<(), CommandFailure> {
    let MasterKeyCommand::Change(ChangeArguments {
        present,
        new_master_key_file,
        json,
    }) = command;
    let config = MasterKeyConfig::load(&present.flags, |name| std::env::var_os(name))?;
    let changed = block_on(async {
        let changing = master_key_change::change(&config, new_master_key_file);
        changing.await.map_err(CommandFailure::of_app)
    })?;
    if json {
        writeln!(std::io::stdout(), "{:#}", json_of(&changed))?;
        return Ok(());
    }
    std::io::stdout().write_all(text_of(&changed).as_bytes())?;
    if changed.counts.unopened > 0 {
        complain(&unopened_text(&changed));
    }
    Ok(())
}

fn text_of(changed: &MasterKeyChanged) -> String {
    let counts = &changed.counts;
    let file = changed.file.display();
    let next = match &changed.old_file {
        Some(old) => format!(
            "it is in {file}; the old one is kept in {} for backups of the journal: remove it when you need it no more\n",
            old.display()
        ),
        None => format!(
            "start every server with --master-key-file {file}; one with the old master key alone sends nothing that an \
             encrypted key would sign, and its log says so\n"
        ),
    };
    format!(
        "encrypted again: {} default keys, {} signing keys of endpoints, {} keys of client certificates\n\
         encrypted with the new master key before: {}\n\
         the master key of the journal has the fingerprint {} now\n{next}",
        counts.default_keys,
        counts.endpoint_keys,
        counts.client_keys,
        counts.already,
        changed.fingerprint
    )
}

fn json_of(changed: &MasterKeyChanged) -> Value {
    let counts = &changed.counts;
    json!({
        "fingerprint": changed.fingerprint,
        "file": changed.file.display().to_string(),
        "old_file": changed.old_file.as_ref().map(|file| file.display().to_string()),
        "default_keys": counts.default_keys,
        "endpoint_keys": counts.endpoint_keys,
        "client_keys": counts.client_keys,
        "already": counts.already,
        "unopened": { "total": counts.unopened, "named": counts.unopened_names },
    })
}

fn unopened_text(changed: &MasterKeyChanged) -> String {
    let counts = &changed.counts;
    format!(
        "{} keys cannot be opened, neither with the old nor with the new master key, and stay as they are ({}); set them again",
        counts.unopened,
        counts.unopened_names.join(", ")
    )
}
