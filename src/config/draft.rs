//! The settings while they are being read, and the rules between two of them.

use super::error::ConfigError;
use super::master_key::MASTER_KEY_FILE;
use super::secret::SECRET_FILE;
use super::secret_files::{SecretFiles, one_of};
use super::values::{self, ApiKey};
use super::{
    DRAIN_MARGIN, JOURNAL_FILE, JournalConfig, MasterKeyConfig, OtlpHeaders, ServeConfig,
    SettingsReview, StoresConfig,
};
use super::{master_key, secret};
use crate::domain::master_key::MasterKey;
use crate::domain::proxy_url::ProxyUrl;
use crate::domain::redis_url::RedisUrl;
use crate::domain::signature::{SecretOrigin, SigningSecret};
use crate::redis_tls::{BadTlsFile, RedisClientFiles, RedisTls};
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
    pub(super) redis_ca: Option<PathBuf>,
    pub(super) redis_client_certificate: Option<PathBuf>,
    pub(super) files: SecretFiles,
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
            redis_ca: None,
            redis_client_certificate: None,
            files: SecretFiles::default(),
        }
    }

    /// The journal that these settings name.
    pub(super) fn journal(mut self) -> Result<JournalConfig, ConfigError> {
        self.read_journal()?;
        Ok(self.journal_or_default())
    }

    /// The journal, after [`Draft::read_journal`].
    fn journal_or_default(self) -> JournalConfig {
        let Self {
            config, journal, ..
        } = self;
        journal.unwrap_or_else(|| JournalConfig::Sqlite(config.data_dir.join(JOURNAL_FILE)))
    }

    /// Reads the URL of the journal from its file, if a setting names one.
    fn read_journal(&mut self) -> Result<(), ConfigError> {
        let names = ("journal", "journal-url-file");
        let file = self.files.journal.as_deref();
        self.journal = one_of(names, self.journal.take(), file, values::journal)?;
        Ok(())
    }

    /// Reads the URLs of both stores from their files, if settings name some.
    fn read_stores(&mut self) -> Result<(), ConfigError> {
        self.read_journal()?;
        let redis = &mut self.config.schedule.redis;
        let (names, file) = (("redis", "redis-url-file"), self.files.redis.as_deref());
        *redis = one_of(names, redis.take(), file, RedisUrl::parse)?;
        self.config.schedule.redis_tls = self.redis_tls()?;
        Ok(())
    }

    /// The certificates for TLS connections to Redis, which are read once to see that they can be used.
    fn redis_tls(&self) -> Result<RedisTls, ConfigError> {
        const CA: &str = "redis-ca";
        const CERTIFICATE: &str = "redis-client-certificate";
        const KEY: &str = "redis-client-key";
        let ca = self.redis_ca.clone();
        let certificate = self.redis_client_certificate.clone();
        let client = match (certificate, self.files.redis_client_key.clone()) {
            (Some(certificate), Some(key)) => Some(RedisClientFiles { certificate, key }),
            (None, None) => None,
            (Some(_), None) => return Err(ConfigError::Together(CERTIFICATE, KEY)),
            (None, Some(_)) => return Err(ConfigError::Together(KEY, CERTIFICATE)),
        };
        let tls = RedisTls { ca, client };
        let redis = self.config.schedule.redis.as_ref();
        if tls.is_given() && !redis.is_some_and(RedisUrl::is_tls) {
            let name = if tls.ca.is_some() { CA } else { CERTIFICATE };
            return Err(ConfigError::NeedsTls(name));
        }
        match tls.load() {
            Ok(_) => Ok(tls),
            Err(BadTlsFile { path, problem }) => Err(ConfigError::File { path, problem }),
        }
    }

    /// Reads all secrets from their files, if settings name some.
    fn read_files(&mut self) -> Result<(), ConfigError> {
        self.read_stores()?;
        let files = &self.files;
        let names = ("signing-secret", "signing-secret-file");
        let parse = |text: &str| SigningSecret::parse(text).map_err(|error| error.to_string());
        let secret = self.signing_secret.take();
        self.signing_secret = one_of(names, secret, files.signing_secret.as_deref(), parse)?;
        let api = &mut self.config.api;
        let (names, file) = (("api-key", "api-key-file"), files.api_key.as_deref());
        api.key = one_of(names, api.key.take(), file, ApiKey::parse)?;
        let names = ("metrics-key", "metrics-key-file");
        let file = files.metrics_key.as_deref();
        api.metrics_key = one_of(names, api.metrics_key.take(), file, ApiKey::parse)?;
        let proxy = &mut self.config.delivery.proxy;
        let (names, file) = (("proxy", "proxy-url-file"), files.proxy.as_deref());
        *proxy = one_of(names, proxy.take(), file, ProxyUrl::parse)?;
        let headers = &mut self.config.traces.headers;
        let names = ("otlp-headers", "otlp-headers-file");
        let file = files.otlp_headers.as_deref();
        *headers = one_of(names, headers.take(), file, OtlpHeaders::parse)?;
        Ok(())
    }

    /// The settings of the command that changes the master key. Creates no files.
    pub(super) fn master_key(mut self) -> Result<MasterKeyConfig, ConfigError> {
        let given = given_master_key(self.master_key.take(), self.master_key_file.take())?;
        Ok(MasterKeyConfig {
            master_key: given,
            data_dir: self.config.data_dir.clone(),
            journal: self.journal()?,
        })
    }

    /// The settings that are needed to open both stores. Creates no files.
    pub(super) fn stores(mut self) -> Result<StoresConfig, ConfigError> {
        self.read_stores()?;
        let nowhere = self.journal == Some(JournalConfig::None);
        if nowhere && self.config.schedule.redis.is_none() {
            return Err(ConfigError::NothingKeeps);
        }
        let stores = self.config.stores();
        Ok(StoresConfig {
            journal: self.journal_or_default(),
            ..stores
        })
    }

    /// Determines the values that depend on several settings. Creates the data directory and the signing
    /// secret, if they are needed and missing.
    pub(super) fn finish(self) -> Result<ServeConfig, ConfigError> {
        let journal_is_given = self.journal.is_some() || self.files.journal.is_some();
        let SettingsReview {
            mut config,
            signing_secret,
        } = self.review()?;
        if !journal_is_given {
            secret::make_dir(&config.data_dir)?;
        }
        (
            config.delivery.signing_secret,
            config.delivery.secret_origin,
        ) = match (signing_secret, config.delivery.secret_origin) {
            (Some(secret), SecretOrigin::Given) => (secret, SecretOrigin::Given),
            (Some(_) | None, _) => (secret::read_or_make(&config.data_dir)?, SecretOrigin::Kept),
        };
        Ok(config)
    }

    /// As [`Draft::finish`], but creates nothing: there is no signing secret if none is given and none is kept yet.
    pub(super) fn review(mut self) -> Result<SettingsReview, ConfigError> {
        self.read_files()?;
        let Self {
            mut config,
            signing_secret,
            master_key,
            master_key_file,
            other_master_key_file,
            journal,
            drain_timeout,
            redis_ca: _,
            redis_client_certificate: _,
            files,
        } = self;
        if journal == Some(JournalConfig::None) && config.schedule.redis.is_none() {
            return Err(ConfigError::NothingKeeps);
        }
        config.delivery.drain_timeout =
            drain_timeout.unwrap_or(config.delivery.timeout + DRAIN_MARGIN);
        config.journal =
            journal.unwrap_or_else(|| JournalConfig::Sqlite(config.data_dir.join(JOURNAL_FILE)));
        config.secret_files = [SECRET_FILE, MASTER_KEY_FILE]
            .map(|name| config.data_dir.join(name))
            .to_vec();
        config.secret_files.extend(master_key_file.clone());
        config.secret_files.extend(other_master_key_file.clone());
        config.secret_files.extend(files.paths());
        config.master_key = given_master_key(master_key, master_key_file)?;
        let other = other_master_key_file.map(|path| master_key::read_named(&path));
        config.other_master_key = other.transpose()?;
        let (signing_secret, origin) = match signing_secret {
            Some(secret) => (Some(secret), SecretOrigin::Given),
            // What is in the place of the directory is reported when the directory is made.
            None if !config.data_dir.is_dir() => (None, SecretOrigin::Kept),
            None => (secret::read_secret(&config.data_dir)?, SecretOrigin::Kept),
        };
        config.delivery.secret_origin = origin;
        if let Some(secret) = &signing_secret {
            config.delivery.signing_secret = secret.clone();
        }
        Ok(SettingsReview {
            config,
            signing_secret,
        })
    }
}

/// The master key that one of the two settings gives.
fn given_master_key(
    key: Option<MasterKey>,
    file: Option<PathBuf>,
) -> Result<Option<MasterKey>, ConfigError> {
    match (key, file) {
        (Some(_), Some(_)) => Err(ConfigError::Both("master-key", "master-key-file")),
        (None, Some(path)) => Ok(Some(master_key::read_named(&path)?)),
        (given, None) => Ok(given),
    }
}
