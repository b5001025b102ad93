//! What an examination finds: one sentence each, and what to do about it.

/// How good a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingLevel {
    /// It is as it should be.
    Ok,
    /// It cannot be seen from here, for example because a managed service hides it.
    Unknown,
    /// A server works with it, but something may be lost, late or readable by others.
    Warning,
    /// A server does not start with it, or cannot do its work.
    Problem,
}

/// One finding. It contains no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is about, in a word or two.
    pub subject: &'static str,
    /// How good it is.
    pub level: FindingLevel,
    /// What was found, as a sentence without a full stop.
    pub text: String,
    /// What to do: a command, a setting, or a sentence.
    pub mend: Option<String>,
}

impl FindingLevel {
    /// The name of the level.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

impl Finding {
    /// All is well.
    pub fn ok(subject: &'static str, text: impl Into<String>) -> Self {
        Self::at(FindingLevel::Ok, subject, text.into(), None)
    }

    /// It cannot be seen.
    pub fn unknown(subject: &'static str, text: impl Into<String>, mend: &str) -> Self {
        Self::at(FindingLevel::Unknown, subject, text.into(), Some(mend))
    }

    /// A warning.
    pub fn warning(subject: &'static str, text: impl Into<String>, mend: &str) -> Self {
        Self::at(FindingLevel::Warning, subject, text.into(), Some(mend))
    }

    /// A problem.
    pub fn problem(subject: &'static str, text: impl Into<String>, mend: &str) -> Self {
        Self::at(FindingLevel::Problem, subject, text.into(), Some(mend))
    }

    fn at(level: FindingLevel, subject: &'static str, text: String, mend: Option<&str>) -> Self {
        Self {
            subject,
            level,
            text,
            mend: mend.map(str::to_string),
        }
    }
}
