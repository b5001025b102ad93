//! `ringback serve`: runs the dispatcher. The table of settings defines its flags.

use super::{CommandFailure, block_on, setting_flags};
use crate::config::{Flags, ServeConfig, unknown_variables};
use crate::{app, telemetry};
use clap::{ArgMatches, Args, Command, FromArgMatches};

/// The flags of `serve`. They are checked later, together with the environment variables and the file.
pub struct ServeArguments {
    /// The flags that were given.
    pub flags: Flags,
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
            "Every setting is a flag, an environment variable (RINGBACK_LISTEN, \
             RINGBACK_ALLOW_DESTINATION=a,b) and a key of the\nfile. A flag overrides a variable, a \
             variable overrides the file, and the file overrides the default.",
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// A variable with a misspelt name has no effect. It may belong to another program, so the server starts.
fn warn_of_unknown_variables() {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    for (variable, meant) in unknown_variables(&names.collect::<Vec<_>>()) {
        tracing::warn!(
            variable,
            meant,
            "no setting has this environment variable, so it has no effect"
        );
    }
}

/// Runs the dispatcher until a signal stops it.
pub fn run(arguments: &ServeArguments) -> Result<(), CommandFailure> {
    let config = ServeConfig::load(&arguments.flags, |name| std::env::var_os(name))?;
    telemetry::init(&config.log)?;
    warn_of_unknown_variables();
    block_on(async { app::serve(config).await.map_err(CommandFailure::of_app) })
}
