//! Why settings are refused, and which source a refused value came from.

use std::fmt;
use std::path::PathBuf;
use thiserror::Error;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    /// A flag.
    Flag(&'static str),
    /// An environment variable.
    Variable(String),
    /// A key of the file.
    Key(PathBuf, String),
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(out, "--{name}"),
            Self::Variable(name) => out.write_str(name),
            Self::Key(path, key) => write!(out, "{}: key {key}", path.display()),
        }
    }
}

/// Why the settings are refused. One line, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A value is wrong.
    #[error("{origin}: {problem}")]
    Value {
        /// Where it came from.
        origin: SettingOrigin,
        /// What would be right.
        problem: String,
    },
    /// A file cannot be used.
    #[error("{}: {problem}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why it cannot be used.
        problem: String,
    },
    /// Neither store would survive a restart.
    #[error("--journal none needs --redis: without either nothing would keep a notification")]
    NothingKeeps,
}
