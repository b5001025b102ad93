//! `ringback serve`: its flags follow from the table of settings.

use super::{CommandFailure, block_on, setting_flags};
use crate::config::{Flags, ServeConfig};
use crate::{app, telemetry};
use clap::{ArgMatches, Args, Command, FromArgMatches};

/// The flags of `serve`, unchecked: their values may also come from elsewhere.
pub struct ServeArguments {
    flags: Flags,
}

impl FromArgMatches for ServeArguments {
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

impl Args for ServeArguments {
    fn augment_args(command: Command) -> Command {
        setting_flags::augment(command, |_| true).after_help(
            "Every flag is also an environment variable (RINGBACK_LISTEN, \
             RINGBACK_ALLOW_DESTINATION=a,b) and a key of\nthe file. Flag over variable over file \
             over default.",
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Serves until it is stopped by a signal.
pub fn run(arguments: &ServeArguments) -> Result<(), CommandFailure> {
    let config = ServeConfig::load(&arguments.flags, |name| std::env::var_os(name))?;
    telemetry::init(&config.log)?;
    block_on(async { Ok(app::serve(config).await?) })
}
