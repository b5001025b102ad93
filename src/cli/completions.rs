//! `ringback completions`: prints the completions for a shell, made from the list of commands.

use super::CommandFailure;
use clap::{Args, Command, ValueEnum};
use clap_complete::{Shell, generate};
use std::io::{self, Write as _};

#[derive(Args)]
pub struct CompletionsArguments {
    /// The shell
    shell: ShellName,
}

/// The shells that are known.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
    Powershell,
    Elvish,
}

/// Prints the completions of `program` for the shell.
pub fn run(arguments: &CompletionsArguments, mut program: Command) -> Result<(), CommandFailure> {
    let shell = match arguments.shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
        ShellName::Powershell => Shell::PowerShell,
        ShellName::Elvish => Shell::Elvish,
    };
    // Generating into standard output would panic if it is closed.
    let mut script = Vec::new();
    generate(shell, &mut program, "ringback", &mut script);
    io::stdout().write_all(&script)?;
    Ok(())
}
