//! The command line: which commands there are, and what becomes of their errors.
//!
//! Exit status 0: done. 1: it was tried and failed. 2: the command line or a setting is wrong, said
//! in one line. A reader of standard output that goes away (`ringback ladder | head -1`) is no
//! error: the command just ends.

mod arguments;
mod audit;
mod client;
mod demo;
mod ladder;
mod listen;
mod migrate;
mod rebuild;
mod requests;
mod serve;
mod setting_flags;
mod show;
mod terminal;
mod timeline;
mod view;

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
    /// The dispatcher and its API
    Serve(serve::ServeArguments),
    /// An embedded dispatcher and a pretend merchant: every attempt shown live
    Demo,
    /// Bring the schema of a journal up to date, and say what that took
    Migrate(migrate::MigrateArguments),
    /// A merchant on this machine: verifies signatures, prints what arrives, answers as its flags say
    Listen(listen::ListenArguments),
    /// Counts what was registered against how it ended, and the journal against the schedule
    Audit(audit::AuditArguments),
    /// Puts back into Redis what it lacks, from the journal
    Rebuild(rebuild::RebuildArguments),
    /// The named ladders, or one ladder's attempt times and its window
    Ladder(ladder::LadderArguments),
    #[command(flatten)]
    Request(Box<requests::Request>),
}

/// Why a command ends with another status than 0.
#[derive(Debug, Error)]
enum CommandFailure {
    /// The command line or a setting is wrong.
    #[error("{0}")]
    Usage(String),
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server refused; what it says, line by line.
    #[error("the server refused")]
    Refused(Vec<String>),
    /// It was tried and failed.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
    /// Standard output cannot be written to.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
    /// Stopped from the keyboard.
    #[error("interrupted")]
    Interrupted,
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
        CommandFailure::Refused(lines) => {
            terminal::complain_at_length(lines);
            return ExitCode::FAILURE;
        }
        CommandFailure::Failed(_) | CommandFailure::Output(_) => 1,
        CommandFailure::Interrupted => return ExitCode::from(130),
    };
    terminal::complain(&failure.to_string());
    ExitCode::from(status)
}

/// Runs a command that waits for something, on a runtime of its own.
fn block_on<Done>(
    command: impl Future<Output = Result<Done, CommandFailure>>,
) -> Result<Done, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| anyhow::anyhow!("the runtime does not start: {error}"))?;
    let result = runtime.block_on(command);
    // What is left, such as a name being looked up, is not waited for.
    runtime.shutdown_background();
    result
}
