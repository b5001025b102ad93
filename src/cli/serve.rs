//! `ringback serve`: its flags follow from the table of settings.

use super::{Failure, block_on};
use crate::config::settings::{ALL, Arity, Setting};
use crate::config::{Flags, ServeConfig};
use crate::{app, telemetry};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// The flags of `serve`, unchecked: their values may also come from elsewhere.
pub struct ServeArguments {
    flags: Flags,
}

impl FromArgMatches for ServeArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            flags: flags(matches, ALL.iter()),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ServeArguments {
    fn augment_args(command: Command) -> Command {
        command.args(ALL.iter().map(flag)).after_help(
            "Every flag is also an environment variable (RINGBACK_LISTEN, \
             RINGBACK_ALLOW_DESTINATION=a,b) and a key of\nthe file. Flag over variable over file \
             over default.",
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The flags given, of these settings.
pub(super) fn flags(
    matches: &ArgMatches,
    settings: impl Iterator<Item = &'static Setting>,
) -> Flags {
    let given = |setting: &'static Setting| {
        let values = matches.get_many::<String>(setting.name)?;
        Some((setting.name, values.cloned().collect()))
    };
    Flags(settings.filter_map(given).collect())
}

/// The flag of a setting.
pub(super) fn flag(setting: &'static Setting) -> Arg {
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

/// Serves until it is told to stop.
pub fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    let config = ServeConfig::load(&arguments.flags, |name| std::env::var_os(name))?;
    telemetry::init(&config.log)?;
    block_on(async { Ok(app::serve(config).await?) })
}
