//! The errors of the settings. Each names the source of the refused value.

use std::fmt;
use std::path::PathBuf;
use thiserror::Error;

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    /// A flag, without the dashes.
    Flag(&'static str),
    /// An environment variable.
    Variable(String),
    /// The path of the settings file, and a key in it.
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

/// Why the settings are refused. The text is one line, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A value is wrong.
    #[error("{origin}: {problem}")]
    Value {
        /// The source of the value.
        origin: SettingOrigin,
        /// What is wrong with the value.
        problem: String,
    },
    /// A file cannot be used.
    #[error("{}: {problem}", .path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// Why the file cannot be used.
        problem: String,
    },
    /// There is no journal and no Redis, so a restart would lose all notifications.
    #[error("--journal none needs --redis: without both, a restart would lose all notifications")]
    NothingKeeps,
    /// A value is given, and a file with that value too.
    #[error("{0} and {1} are both given; give one of them")]
    Both(&'static str, &'static str),
    /// The first is given without the second.
    #[error("{0} is given without {1}; they belong together")]
    Together(&'static str, &'static str),
    /// Certificates for Redis are given, but its URL does not use TLS.
    #[error(
        "{0} needs a URL of Redis that begins with rediss://, rediss+sentinel:// or rediss+cluster://"
    )]
    NeedsTls(&'static str),
}
