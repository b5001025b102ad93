//! `ringback man`: the manual pages, made from the list of commands.

use super::CommandFailure;
use anyhow::Context as _;
use clap::{Args, Command};
use clap_mangen::Man;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct ManArguments {
    /// Write a page for each command into this directory, which is made if it is missing; without it, the page of the program
    /// is printed
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints the page of `program`, or writes all pages.
pub fn run(arguments: &ManArguments, mut program: Command) -> Result<(), CommandFailure> {
    // Names the commands below others as they are typed.
    program.build();
    let Some(dir) = &arguments.dir else {
        io::stdout().write_all(&page(&program, "ringback")?)?;
        return Ok(());
    };
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let written = write_pages(&program, "ringback", dir)?;
    writeln!(io::stdout(), "{written} pages in {}", dir.display())?;
    Ok(())
}

/// Writes the page of a command and those of the commands below it. Returns how many there are.
fn write_pages(command: &Command, name: &str, dir: &Path) -> anyhow::Result<usize> {
    let path = dir.join(format!("{name}.1"));
    fs::write(&path, page(command, name)?).with_context(|| path.display().to_string())?;
    let mut written = 1;
    for below in command.get_subcommands() {
        let name = format!("{name}-{}", below.get_name());
        written += write_pages(below, &name, dir)?;
    }
    Ok(written)
}

/// The page of a command, in roff.
fn page(command: &Command, name: &str) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    let title = name.to_string();
    let man = Man::new(command.clone().disable_help_flag(false))
        .title(title.to_uppercase())
        .manual("Ringback");
    man.render(&mut page).context("the page cannot be made")?;
    Ok(page)
}
