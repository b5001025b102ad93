//! Help texts, and the error message for a wrong command line.

use super::exit_status::ExitStatus;
use super::terminal;
use clap::error::ErrorKind;
use std::io::Write as _;

/// The command for whoever knows an id and not its topic, or has misspelt one of the two.
pub const HOW_TO_FIND: &str = "`ringback find ID` looks for an id in all topics";

/// Prints the help or the version if the user requested it. Otherwise prints the error in one line.
pub fn explain(error: &clap::Error) -> ExitStatus {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // If the reader of standard output has ended, the help is not needed.
            let _ = write!(std::io::stdout(), "{error}");
            ExitStatus::Done
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = write!(std::io::stderr(), "{error}");
            ExitStatus::Usage
        }
        _ => {
            terminal::complain(&one_line(&error.to_string()));
            ExitStatus::Usage
        }
    }
}

/// Puts the message and the tip of clap's error into one line. The usage is left out.
fn one_line(rendered: &str) -> String {
    let (message, usage) = rendered.split_once("\nUsage:").unwrap_or((rendered, ""));
    let message = message
        .split("\nFor more information")
        .next()
        .unwrap_or_default();
    let words: Vec<&str> = message
        .split_whitespace()
        .skip_while(|word| *word == "error:")
        .map(|word| match word {
            "tip:" => "-",
            // A secret at a wrong place of the command line must not be printed either.
            _ if word.contains("whsec_") => "whsec_...",
            _ => word,
        })
        .collect();
    let message = words.join(" ");
    // Who gives one word to a command that takes a topic and an id has probably given the id.
    let lacks_id = message.contains("required arguments") && message.contains("<ID>");
    match lacks_id && usage.contains("TOPIC") {
        true => format!("{message}; {HOW_TO_FIND}; see --help"),
        false => format!("{message}; see --help"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_said_in_one_line() {
        fn check(rendered: &str, expected: &str) {
            let expected = format!("{expected}; see --help");
            assert_eq!(one_line(rendered), expected);
        }
        check(
            "error: unexpected argument '--listn' found\n\n  tip: a similar argument exists: \
             '--listen'\n\nUsage: ringback serve --listen <ADDR>\n\nFor more information, try '--help'.\n",
            "unexpected argument '--listn' found - a similar argument exists: '--listen'",
        );
        check(
            "error: the following required arguments were not provided:\n  <TOPIC>\n  <URL>\n\n\
             Usage: ringback send <TOPIC> <URL> [BODY]\n",
            "the following required arguments were not provided: <TOPIC> <URL>",
        );
        check(
            "error: the following required arguments were not provided:\n  <ID>\n\n\
             Usage: ringback show <TOPIC> <ID>\n\nFor more information, try '--help'.\n",
            "the following required arguments were not provided: <ID>; \
             `ringback find ID` looks for an id in all topics",
        );
        check(
            "error: the following required arguments were not provided:\n  <ID>\n\n\
             Usage: ringback job show <ID>\n",
            "the following required arguments were not provided: <ID>",
        );
        check(
            "error: unexpected argument 'whsec_abc' found\n\nUsage: x\n",
            "unexpected argument whsec_... found",
        );
    }
}
