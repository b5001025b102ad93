//! Secrets, and URLs with a password, that a setting gives as the name of a file, as container platforms mount them.
//!
//! A file is read when its value is needed: a command that needs only the journal does not need to be able to read the
//! file of the API key.

use super::error::ConfigError;
use super::secret::unusable;
use crate::domain::redaction::redacted;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Maximum bytes of such a file.
const LONGEST: u64 = 16 * 1024;

/// The files that settings name.
#[derive(Debug, Clone, Default)]
pub(super) struct SecretFiles {
    pub(super) signing_secret: Option<PathBuf>,
    pub(super) api_key: Option<PathBuf>,
    pub(super) metrics_key: Option<PathBuf>,
    pub(super) redis: Option<PathBuf>,
    pub(super) redis_client_key: Option<PathBuf>,
    pub(super) journal: Option<PathBuf>,
    pub(super) proxy: Option<PathBuf>,
    pub(super) otlp_headers: Option<PathBuf>,
}

impl SecretFiles {
    /// All of them.
    pub(super) fn paths(self) -> impl Iterator<Item = PathBuf> {
        let Self {
            signing_secret,
            api_key,
            metrics_key,
            redis,
            redis_client_key,
            journal,
            proxy,
            otlp_headers,
        } = self;
        let keys = [
            signing_secret,
            api_key,
            metrics_key,
            otlp_headers,
            redis_client_key,
        ];
        let urls = [redis, journal, proxy];
        keys.into_iter().chain(urls).flatten()
    }
}

/// The value of a setting, which is given itself or in a file. `names`: of the two settings.
pub(super) fn one_of<Value>(
    names: (&'static str, &'static str),
    given: Option<Value>,
    file: Option<&Path>,
    parse: impl Fn(&str) -> Result<Value, String>,
) -> Result<Option<Value>, ConfigError> {
    let Some(path) = file else {
        return Ok(given);
    };
    if given.is_some() {
        return Err(ConfigError::Both(names.0, names.1));
    }
    let text = read_secret_text(path)?;
    let parsed = parse(&text).map_err(|problem| unusable(path, &redacted(&problem)));
    parsed.map(Some)
}

/// The text of a file with one secret, without white space at its ends.
///
/// # Errors
/// If the file cannot be read, is empty, or is longer than 16 KiB.
pub fn read_secret_text(path: &Path) -> Result<Zeroizing<String>, ConfigError> {
    // Room for everything, so that the buffer does not move and leave a copy behind.
    let mut text = Zeroizing::new(String::with_capacity(LONGEST as usize + 1));
    let read = File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text));
    read.map_err(|error| unusable(path, &error.to_string()))?;
    if text.len() as u64 > LONGEST {
        return Err(unusable(path, "the file is longer than 16 KiB"));
    }
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(unusable(path, "the file is empty"));
    }
    Ok(Zeroizing::new(trimmed.to_string()))
}
