//! The settings while they are being read, and the rules between two of them.

use super::error::ConfigError;
use super::master_key::MASTER_KEY_FILE;
use super::secret::SECRET_FILE;
use super::{
    DRAIN_MARGIN, JOURNAL_FILE, JournalConfig, MasterKeyConfig, ServeConfig, StoresConfig,
};
use super::{master_key, secret};
use crate::domain::master_key::MasterKey;
use crate::domain::signature::{SecretOrigin, SigningSecret};
use std::path::PathBuf;
use std::time::Duration;

/// The values that were given so far. What is `None` was not given.
pub(super) struct Draft {
    pub(super) config: ServeConfig,
    pub(super) signing_secret: Option<SigningSecret>,
    pub(super) master_key: Option<MasterKey>,
    pub(super) master_key_file: Option<PathBuf>,
    pub(super) other_master_key_file: Option<PathBuf>,
    pub(super) journal: Option<JournalConfig>,
    pub(super) drain_timeout: Option<Duration>,
}

impl Draft {
    pub(super) fn new() -> Self {
        // `finish` replaces this placeholder by the real secret.
        let placeholder = SigningSecret::from_random(&[0; 32]);
        let data_dir = PathBuf::from("./ringback-data");
        Self {
            config: ServeConfig::new(&data_dir, placeholder),
            signing_secret: None,
            master_key: None,
            master_key_file: None,
            other_master_key_file: None,
            journal: None,
            drain_timeout: None,
        }
    }

    /// The journal that these settings name.
    pub(super) fn journal(self) -> JournalConfig {
        let Self {
            config, journal, ..
        } = self;
        journal.unwrap_or_else(|| JournalConfig::Sqlite(config.data_dir.join(JOURNAL_FILE)))
    }

    /// The settings of the command that changes the master key. Creates no files.
    pub(super) fn master_key(mut self) -> Result<MasterKeyConfig, ConfigError> {
        let given = given_master_key(self.master_key.take(), self.master_key_file.take())?;
        Ok(MasterKeyConfig {
            master_key: given,
            data_dir: self.config.data_dir.clone(),
            journal: self.journal(),
        })
    }

    /// The settings that are needed to open both stores. Creates no files.
    pub(super) fn stores(self) -> Result<StoresConfig, ConfigError> {
        let nowhere = self.journal == Some(JournalConfig::None);
        if nowhere && self.config.schedule.redis.is_none() {
            return Err(ConfigError::NothingKeeps);
        }
        let stores = self.config.stores();
        Ok(StoresConfig {
            journal: self.journal(),
            ..stores
        })
    }

    /// Determines the values that depend on several settings. Creates the data directory and the signing
    /// secret, if they are needed and missing.
    pub(super) fn finish(self) -> Result<ServeConfig, ConfigError> {
        let Self {
            mut config,
            signing_secret,
            master_key,
            master_key_file,
            other_master_key_file,
            journal,
            drain_timeout,
        } = self;
        if journal == Some(JournalConfig::None) && config.schedule.redis.is_none() {
            return Err(ConfigError::NothingKeeps);
        }
        config.delivery.drain_timeout =
            drain_timeout.unwrap_or(config.delivery.timeout + DRAIN_MARGIN);
        config.journal = match journal {
            Some(journal) => journal,
            None => {
                secret::make_dir(&config.data_dir)?;
                JournalConfig::Sqlite(config.data_dir.join(JOURNAL_FILE))
            }
        };
        config.secret_files = [SECRET_FILE, MASTER_KEY_FILE]
            .map(|name| config.data_dir.join(name))
            .to_vec();
        config.secret_files.extend(master_key_file.clone());
        config.secret_files.extend(other_master_key_file.clone());
        config.master_key = given_master_key(master_key, master_key_file)?;
        let other = other_master_key_file.map(|path| master_key::read_named(&path));
        config.other_master_key = other.transpose()?;
        (
            config.delivery.signing_secret,
            config.delivery.secret_origin,
        ) = match signing_secret {
            Some(secret) => (secret, SecretOrigin::Given),
            None => (secret::read_or_make(&config.data_dir)?, SecretOrigin::Kept),
        };
        Ok(config)
    }
}

/// The master key that one of the two settings gives.
fn given_master_key(
    key: Option<MasterKey>,
    file: Option<PathBuf>,
) -> Result<Option<MasterKey>, ConfigError> {
    match (key, file) {
        (Some(_), Some(_)) => Err(ConfigError::TwoMasterKeys),
        (None, Some(path)) => Ok(Some(master_key::read_named(&path)?)),
        (given, None) => Ok(given),
    }
}
