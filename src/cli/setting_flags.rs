//! Makes the flags of commands from the table of settings.

use crate::config::Flags;
use crate::config::settings::{ALL, Arity, Setting};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::collections::BTreeMap;

/// The settings of a server that the commands `audit` and `rebuild` need: where its stores are.
const STORES: [&str; 11] = [
    "redis",
    "redis-url-file",
    "redis-ca",
    "redis-client-certificate",
    "redis-client-key",
    "journal",
    "journal-url-file",
    "data-dir",
    "config",
    "partitions",
    "horizon",
];

/// The settings that commands need which use the journal alone.
const JOURNAL: [&str; 4] = ["journal", "journal-url-file", "data-dir", "config"];

/// Adds the flags of the wanted settings to a command.
pub fn augment(command: Command, wanted: impl Fn(&Setting) -> bool) -> Command {
    command.args(ALL.iter().filter(|setting| wanted(setting)).map(flag))
}

/// The flags that were given. They are checked later, together with the environment variables and the file.
pub fn given(matches: &ArgMatches) -> Flags {
    let mut flags = BTreeMap::new();
    for setting in ALL {
        if let Ok(Some(values)) = matches.try_get_many::<String>(setting.name) {
            flags.insert(setting.name, values.cloned().collect());
        }
    }
    Flags(flags)
}

fn flag(setting: &'static Setting) -> Arg {
    let help = if setting.default.is_empty() {
        setting.help.to_string()
    } else {
        format!("{} [default: {}]", setting.help, setting.default)
    };
    let flag = Arg::new(setting.name)
        .long(setting.name)
        .value_name(setting.value)
        .help(help)
        .allow_hyphen_values(true);
    match setting.arity {
        Arity::One => flag.action(ArgAction::Set),
        Arity::Many => flag.action(ArgAction::Append),
        Arity::Switch => flag
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
    }
}

/// The flags of `serve` that say where the stores are.
pub struct StoreArguments {
    /// The flags that were given.
    pub flags: Flags,
}

impl FromArgMatches for StoreArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            flags: given(matches),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for StoreArguments {
    fn augment_args(command: Command) -> Command {
        augment(command, |setting| STORES.contains(&setting.name)).after_help(
            "The command uses the stores of a server: give the same flags, environment variables or file as \
             for the server.",
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The flags of `serve` that say where the journal is.
pub struct JournalArguments {
    /// The flags that were given.
    pub flags: Flags,
}

impl FromArgMatches for JournalArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            flags: given(matches),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for JournalArguments {
    fn augment_args(command: Command) -> Command {
        augment(command, |setting| JOURNAL.contains(&setting.name)).after_help(
            "The environment variables and the keys of the file are the same as for `ringback serve`.",
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
