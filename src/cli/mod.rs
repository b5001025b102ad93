//! The command line: the list of commands, and how their errors are reported.
//!
//! Exit status 0 means success. 1 means that the command failed. 2 means that the command line or a setting is
//! wrong; the error is printed in one line. 130 means that a signal interrupted `ringback demo`. If the reader
//! of standard output ends early (`ringback ladder | head -1`), the command ends with status 0.

mod arguments;
mod audit;
mod client;
mod demo;
mod jobs;
mod ladder;
mod lanes;
mod listen;
mod master_key;
mod migrate;
mod rebuild;
mod requests;
mod serve;
mod setting_flags;
mod show;
mod terminal;
mod timeline;
mod view;

use crate::app::default_keys::WrongSetting;
use crate::config::ConfigError;
use clap::{Parser, Subcommand};
use std::future::Future;
use std::io;
use std::process::ExitCode;
use thiserror::Error;

/// A payment-callback dispatcher: delivers signed notifications until the merchant answers
/// `success`.
#[derive(Parser)]
#[command(
    name = "ringback",
    bin_name = "ringback",
    version,
    disable_help_subcommand = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the dispatcher and its API
    Serve(serve::ServeArguments),
    /// Run a dispatcher and a simulated merchant, and show every attempt live
    Demo,
    /// Bring the schema of a journal up to date, and print the applied migrations
    Migrate(migrate::MigrateArguments),
    /// Run a merchant on this machine that verifies, prints and answers every call
    Listen(listen::ListenArguments),
    /// Check that no notification was lost, and compare the journal with the schedule
    Audit(audit::AuditArguments),
    /// Put notifications that Redis has lost back into Redis, from the journal
    Rebuild(rebuild::RebuildArguments),
    /// Change the master key: encrypt everything that a journal has encrypted again
    #[command(subcommand)]
    MasterKey(master_key::MasterKeyCommand),
    /// Print the named ladders (retry schedules), or the attempt times of one ladder
    Ladder(ladder::LadderArguments),
    #[command(flatten)]
    Request(Box<requests::Request>),
}

/// The reason why a command ends with a status other than 0.
#[derive(Debug, Error)]
enum CommandFailure {
    /// The command line or a setting is wrong.
    #[error("{0}")]
    Usage(String),
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server refused the request. The lines are its explanation.
    #[error("the server refused")]
    Refused(Vec<String>),
    /// The server has nothing there. The lines are its explanation.
    #[error("the server refused")]
    NotFound(Vec<String>),
    /// The command failed.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
    /// Standard output cannot be written to.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
    /// A signal stopped the command.
    #[error("interrupted")]
    Interrupted,
}

impl CommandFailure {
    /// An error of [`crate::app`].
    fn of_app(error: anyhow::Error) -> Self {
        match error.downcast::<WrongSetting>() {
            Ok(wrong) => Self::Usage(wrong.to_string()),
            Err(error) => Self::Failed(error),
        }
    }
}

/// Runs the command line of this process.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return arguments::explain(&error),
    };
    let result = match arguments.command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Demo => demo::run(),
        Command::Migrate(arguments) => migrate::run(&arguments),
        Command::Listen(arguments) => listen::run(arguments),
        Command::Audit(arguments) => audit::run(&arguments),
        Command::Rebuild(arguments) => rebuild::run(&arguments),
        Command::MasterKey(command) => master_key::run(command),
        Command::Ladder(arguments) => ladder::run(&arguments),
        Command::Request(request) => requests::run(*request),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

fn report(failure: &CommandFailure) -> ExitCode {
    let status = match failure {
        CommandFailure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        CommandFailure::Usage(_) | CommandFailure::Config(_) => 2,
        CommandFailure::Refused(lines) | CommandFailure::NotFound(lines) => {
            terminal::complain_at_length(lines);
            return ExitCode::FAILURE;
        }
        CommandFailure::Failed(_) | CommandFailure::Output(_) => 1,
        CommandFailure::Interrupted => return ExitCode::from(130),
    };
    terminal::complain(&failure.to_string());
    ExitCode::from(status)
}

/// Runs an asynchronous command on a new runtime.
fn block_on<Done>(
    command: impl Future<Output = Result<Done, CommandFailure>>,
) -> Result<Done, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| anyhow::anyhow!("the asynchronous runtime cannot start: {error}"))?;
    let result = runtime.block_on(command);
    // Tasks that are still running, for example the look-up of a host name, are not waited for.
    runtime.shutdown_background();
    result
}
