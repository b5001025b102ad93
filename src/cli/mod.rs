//! The command line: the list of commands, and how their errors are reported.
//!
//! The exit statuses are listed in `exit_status.rs`. If the reader of standard output ends early (`ringback ladder |
//! head -1`), the command ends with status 0. `ringback export` does not: its status 0 means that all of the day was written.
//!
//! An error is printed in one line or a few on standard error. With `--json`, it is printed as a JSON object on standard
//! output instead. A wrong command line is always printed on standard error, because it is not known what it asks for.

mod arguments;
mod audit;
mod client;
mod completions;
mod demo;
mod doctor;
mod exit_status;
mod export;
mod job_notifications;
mod jobs;
mod ladder;
mod lanes;
mod listen;
mod man;
mod master_key;
mod migrate;
mod rebuild;
mod refusal;
mod requests;
mod serve;
mod setting_flags;
mod show;
mod table;
mod terminal;
mod time_argument;
mod timeline;
mod view;

use crate::api::openapi;
use crate::app::default_keys::WrongSetting;
use crate::config::ConfigError;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use exit_status::ExitStatus;
use refusal::Refusal;
use serde_json::{Map, Value, json};
use std::future::Future;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::OnceLock;
use thiserror::Error;
use tokio::runtime::{Builder, Runtime};

/// A payment-callback dispatcher: delivers signed notifications until the merchant answers
/// `success`.
#[derive(Parser)]
#[command(
    name = "ringback",
    bin_name = "ringback",
    version,
    disable_help_subcommand = true,
    after_help = ExitStatus::help()
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
    /// Examine settings, stores, keys and this machine, and say what to mend; changes nothing
    Doctor(doctor::DoctorArguments),
    /// Bring the schema of a journal up to date, and print the applied migrations
    Migrate(migrate::MigrateArguments),
    /// Run a merchant on this machine that verifies, prints and answers every call
    Listen(listen::ListenArguments),
    /// Check that no notification was lost, and compare the journal with the schedule
    Audit(audit::AuditArguments),
    /// Write every notification of a day with its end, as CSV or JSON lines, with totals that add up
    Export(export::ExportArguments),
    /// Put notifications that Redis has lost back into Redis, from the journal
    Rebuild(rebuild::RebuildArguments),
    /// Change the master key: encrypt everything that a journal has encrypted again
    #[command(subcommand)]
    MasterKey(master_key::MasterKeyCommand),
    /// Print the named ladders (retry schedules), or the attempt times of one ladder
    Ladder(ladder::LadderArguments),
    /// Print the completions for a shell
    Completions(completions::CompletionsArguments),
    /// Print the manual page, or write the pages of all commands into a directory
    Man(man::ManArguments),
    /// Print the description of the HTTP API in OpenAPI 3.1, as a server answers it at /openapi.json
    Openapi,
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
    /// The server has not done what it was asked for, or has nothing there.
    #[error("the server refused")]
    Refused(Box<Refusal>),
    /// No server can be reached, or it gave no complete answer.
    #[error("{0}")]
    Unreachable(String),
    /// A registration failed, and may have been done nevertheless. The command has made this id for it.
    #[error("{failure}")]
    Uncertain {
        failure: Box<CommandFailure>,
        id: String,
    },
    /// The command has printed on standard output what is not as it should be.
    #[error("{0}")]
    Printed(&'static str),
    /// The command has printed on standard output which settings are wrong.
    #[error("{0}")]
    PrintedUsage(&'static str),
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
    fn status(&self) -> ExitStatus {
        match self {
            Self::Usage(_) | Self::Config(_) | Self::PrintedUsage(_) => ExitStatus::Usage,
            Self::Refused(refusal) => ExitStatus::of_http(refusal.http_status.as_u16()),
            Self::Unreachable(_) => ExitStatus::Unreachable,
            Self::Uncertain { failure, .. } => failure.status(),
            Self::Printed(_) | Self::Failed(_) | Self::Output(_) => ExitStatus::Failed,
            Self::Interrupted => ExitStatus::Interrupted,
        }
    }

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
    let (arguments, json) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => return arguments::explain(&error).into(),
    };
    let result = match arguments.command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Demo => demo::run(),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, Arguments::command()),
        Command::Man(arguments) => man::run(&arguments, Arguments::command()),
        Command::Migrate(arguments) => migrate::run(&arguments),
        Command::Listen(arguments) => listen::run(arguments),
        Command::Audit(arguments) => audit::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Rebuild(arguments) => rebuild::run(&arguments),
        Command::MasterKey(command) => master_key::run(command),
        Command::Ladder(arguments) => ladder::run(&arguments),
        Command::Openapi => print(openapi::text()),
        Command::Request(request) => requests::run(*request),
    };
    match result {
        Ok(()) => ExitStatus::Done.into(),
        Err(failure) => report(&failure, json).into(),
    }
}

/// Prints a text that is known without a server.
fn print(text: &str) -> Result<(), CommandFailure> {
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// Reads the command line of this process, and whether it asks for JSON.
fn parse() -> Result<(Arguments, bool), clap::Error> {
    let mut command = Arguments::command();
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    let arguments = Arguments::from_arg_matches(&matches);
    let arguments = arguments.map_err(|error| error.format(&mut command))?;
    Ok((arguments, asks_for_json(&matches)))
}

/// Whether the command, which may be below others, was given `--json`.
fn asks_for_json(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, below)) => asks_for_json(below),
        None => matches!(matches.try_get_one("json"), Ok(Some(true))),
    }
}

/// Prints a failure: with `json` as JSON on standard output, else in words on standard error.
fn report(failure: &CommandFailure, json: bool) -> ExitStatus {
    let status = failure.status();
    match failure {
        CommandFailure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            return ExitStatus::Done;
        }
        CommandFailure::Interrupted => {}
        CommandFailure::Printed(_) | CommandFailure::PrintedUsage(_) if json => {}
        CommandFailure::Output(_)
        | CommandFailure::Printed(_)
        | CommandFailure::PrintedUsage(_) => {
            terminal::complain(&failure.to_string());
        }
        CommandFailure::Uncertain { .. }
        | CommandFailure::Refused(_)
        | CommandFailure::Usage(_)
        | CommandFailure::Config(_)
        | CommandFailure::Unreachable(_)
        | CommandFailure::Failed(_) => match json {
            // If standard output cannot be written to, the status still says what failed.
            true => drop(writeln!(
                io::stdout(),
                "{}",
                Value::Object(document(failure))
            )),
            false => explain(failure),
        },
    }
    status
}

/// Prints a failure in words.
fn explain(failure: &CommandFailure) {
    match failure {
        CommandFailure::Refused(refusal) => terminal::complain_at_length(&refusal.lines),
        CommandFailure::Uncertain { failure, id } => {
            terminal::complain(&format!(
                "to send the same notification again, give its id: --id {id}"
            ));
            explain(failure);
        }
        failure => terminal::complain(&failure.to_string()),
    }
}

/// A failure as JSON: the document that the server sent, or one with a title and the detail.
fn document(failure: &CommandFailure) -> Map<String, Value> {
    match failure {
        CommandFailure::Refused(refusal) => refusal.document.clone(),
        CommandFailure::Uncertain { failure, id } => {
            let mut members = document(failure);
            members.insert("id".to_string(), json!(id));
            members
        }
        failure => Map::from_iter([
            ("title".to_string(), json!(failure.status().title())),
            ("detail".to_string(), json!(failure.to_string())),
        ]),
    }
}

/// Runs an asynchronous part of a command.
///
/// All parts run on one runtime, since a [`client::Client`] keeps a connection for the next part, and what reads from
/// it ends with the runtime it began on. The runtime is not shut down: tasks that are still running at the end of the
/// command, for example the look-up of a host name, are not waited for.
fn block_on<Done>(
    part: impl Future<Output = Result<Done, CommandFailure>>,
) -> Result<Done, CommandFailure> {
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Builder::new_multi_thread().enable_all().build());
    let runtime = runtime
        .as_ref()
        .map_err(|error| anyhow::anyhow!("the asynchronous runtime cannot start: {error}"))?;
    runtime.block_on(part)
}

#[cfg(test)]
mod tests {
    use super::block_on;
    use tokio::sync::mpsc;

    /// Answers each question, as the task of a connection does for each request.
    #[test]
    fn what_one_part_of_a_command_began_serves_the_next_one() {
        let (ask, mut questions) = mpsc::channel::<&str>(1);
        let (answer, mut answers) = mpsc::channel(1);
        let began = block_on(async {
            tokio::spawn(async move {
                while let Some(question) = questions.recv().await {
                    let _ = answer.send(question).await;
                }
            });
            Ok(())
        });
        assert!(began.is_ok());
        for question in ["first", "second"] {
            let answered = block_on(async {
                let _ = ask.send(question).await;
                Ok(answers.recv().await)
            });
            assert_eq!(answered.ok(), Some(Some(question)));
        }
    }
}
