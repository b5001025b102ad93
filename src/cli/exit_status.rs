//! The statuses with which commands end. Scripts rely on the numbers.

use std::process::ExitCode;

/// The status with which a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// What was asked for is done.
    Done,
    /// The command failed for a reason that has no status of its own.
    Failed,
    /// The command line or a setting is wrong.
    Usage,
    /// No server can be reached, or it did not answer.
    Unreachable,
    /// The server has nothing there (404), or nothing was found.
    NotFound,
    /// The server does not allow it (401, 403): there is no API key, a wrong one, or one without the right.
    NotAllowed,
    /// Something that the server has is in conflict with the request (409).
    Conflict,
    /// A signal interrupted `ringback demo` or `ringback export`.
    Interrupted,
}

impl ExitStatus {
    /// All statuses, in the order of their numbers.
    const ALL: [Self; 8] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Unreachable,
        Self::NotFound,
        Self::NotAllowed,
        Self::Conflict,
        Self::Interrupted,
    ];

    /// The status for an answer of a server that has not done what it was asked for.
    pub fn of_http(status: u16) -> Self {
        match status {
            401 | 403 => Self::NotAllowed,
            404 => Self::NotFound,
            409 => Self::Conflict,
            _ => Self::Failed,
        }
    }

    /// The number that the shell sees.
    pub fn number(self) -> u8 {
        self.row().0
    }

    /// What failed, in a few words: the `title` of the JSON that `--json` prints if no server has sent one.
    pub fn title(self) -> &'static str {
        self.row().1
    }

    fn meaning(self) -> &'static str {
        self.row().2
    }

    /// The number, the title and the meaning of each status.
    #[rustfmt::skip]
    fn row(self) -> (u8, &'static str, &'static str) {
        match self {
            Self::Done => (0, "Done", "done"),
            Self::Failed => (1, "The command failed", "any other failure"),
            Self::Usage => (2, "Wrong usage or settings", "wrong usage or settings"),
            Self::Unreachable => (3, "No server answers", "no server can be reached, or it does not answer"),
            Self::NotFound => (4, "Nothing was found", "not found (404)"),
            Self::NotAllowed => (5, "Not allowed", "not allowed (401, 403): no API key, a wrong one, or one without the right"),
            Self::Conflict => (6, "A conflict", "conflict (409): it exists with other content, or its state does not allow this"),
            Self::Interrupted => (130, "Interrupted", "a signal interrupted `ringback demo` or `ringback export`"),
        }
    }

    /// The list of all statuses for the help text.
    pub fn help() -> String {
        let lines =
            Self::ALL.map(|status| format!("\n{:>5}  {}", status.number(), status.meaning()));
        format!(
            "Exit statuses:{}\n\nWith --json, a failure is printed as JSON on standard output, with `title` and `detail`.",
            lines.concat()
        )
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_a_server_have_statuses_of_their_own() {
        fn check(http: u16, expected: u8) {
            assert_eq!(ExitStatus::of_http(http).number(), expected, "{http}");
        }
        check(400, 1);
        check(401, 5);
        check(403, 5);
        check(404, 4);
        check(409, 6);
        check(410, 1);
        check(422, 1);
        check(429, 1);
        check(503, 1);
    }

    #[test]
    fn every_status_has_a_number_of_its_own() {
        let numbers = ExitStatus::ALL.map(ExitStatus::number);
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 130]);
    }
}
