//! The settings of `serve`, parsed once and grouped by subject.
//!
//! The value of a setting comes from a flag, an environment variable or a key of the TOML file; the first
//! of these that is given counts. [`settings`] has the table of all settings. Every value is checked
//! here, so no other code gets a wrong value. Every error names the source of the value. Secrets are
//! shown neither in errors nor in `Debug`.

mod alert_settings;
mod delivery_settings;
mod draft;
mod error;
mod log_filter;
mod master_key;
mod otlp;
mod secret;
mod secret_files;
mod setting;
pub mod settings;
mod sources;
mod trace_settings;
mod values;

pub use crate::domain::redis_url::RedisUrl;
pub use crate::redis_tls::RedisTls;
pub use error::{ConfigError, SettingOrigin};
pub use log_filter::LogFilter;
pub use master_key::{
    MASTER_KEY_FILE, NEW_MASTER_KEY_FILE, adopt_new_master_key, read_master_key,
    read_new_master_key, read_or_make_master_key, read_or_make_master_key_at,
};
pub use otlp::{OtlpEndpoint, OtlpHeaders, TraceConfig};
pub use secret::{SECRET_FILE, is_exposed, read_secret};
pub use secret_files::read_secret_text;
pub use sources::{Flags, unknown_variables};
pub use values::{ApiKey, PostgresUrl, parse_duration};

use crate::domain::endpoint::EndpointName;
use crate::domain::master_key::MasterKey;
use crate::domain::notification::LARGEST_BODY_BYTES;
use crate::domain::proxy_url::ProxyUrl;
use crate::domain::signature::{SecretOrigin, SigningSecret};
use ipnet::IpNet;
use std::ffi::OsString;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The default name of the journal's file in the data directory.
const JOURNAL_FILE: &str = "journal.db";
/// Default of [`ApiConfig::requests_per_key`].
const REQUESTS_PER_KEY: u32 = 10_000;
/// Default of [`ScheduleConfig::horizon`].
const HORIZON: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
/// By default a stop waits at most this much longer than the longest attempt, so that the last outcomes are
/// recorded.
const DRAIN_MARGIN: Duration = Duration::from_secs(5);

/// All settings of `serve`.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// The HTTP API for services and support staff.
    pub api: ApiConfig,
    /// The schedule.
    pub schedule: ScheduleConfig,
    /// The journal.
    pub journal: JournalConfig,
    /// Whether the start updates the schema of a journal in PostgreSQL.
    pub migrate: bool,
    /// How long ended notifications are kept.
    pub retention: RetentionConfig,
    /// The delivery attempts.
    pub delivery: DeliveryConfig,
    /// The alerts.
    pub alerts: AlertConfig,
    /// The master key that was given. `None`: one is kept in the data directory, if the journal is in SQLite.
    pub master_key: Option<MasterKey>,
    /// Another master key that opens what is encrypted, while the master key is being changed.
    pub other_master_key: Option<MasterKey>,
    /// The files that may hold secrets of this server. Some of them need not exist.
    pub secret_files: Vec<PathBuf>,
    /// The log.
    pub log: LogConfig,
    /// The traces.
    pub traces: TraceConfig,
    /// The directory for the files of this server.
    pub data_dir: PathBuf,
}

/// The settings of the HTTP API.
#[derive(Debug, Clone)]
pub struct ApiConfig {
    /// The address and port of the API.
    pub listen: SocketAddr,
    /// The key of an operator. `None`: there are only the keys that the journal has.
    pub key: Option<ApiKey>,
    /// Maximum number of requests per second of one API key.
    pub requests_per_key: u32,
    /// The address and port of a listener that serves the metrics alone. `None`: the API's listener serves them.
    pub metrics_listen: Option<SocketAddr>,
    /// The key that a reader of the metrics must send. `None`: none is needed.
    pub metrics_key: Option<ApiKey>,
    /// Largest body of a notification, in bytes.
    pub largest_body_bytes: usize,
}

/// The settings of the schedule.
#[derive(Debug, Clone)]
pub struct ScheduleConfig {
    /// The Redis server, sentinels or cluster for the schedule. `None`: the schedule is in memory.
    pub redis: Option<RedisUrl>,
    /// The certificates for TLS connections to it.
    pub redis_tls: RedisTls,
    /// How many replicas of Redis must have a change before it counts.
    pub replicas: u16,
    /// Maximum memory for a schedule in memory, in bytes.
    pub memory_bytes: usize,
    /// The number of parts of the schedule in Redis.
    pub partitions: u16,
    /// Number of attempts in flight at the same time in a lane whose destination has not answered yet. This is
    /// no setting of the command line; tests change it.
    pub lane_start: usize,
    /// Maximum number of attempts in flight at the same time in one lane.
    pub lane_concurrency: usize,
    /// How long an ended notification is remembered if there is no journal.
    pub keep_ended: Duration,
    /// With a journal: what is due within this time is in the schedule, the rest in the journal alone. `None`: everything
    /// is in the schedule.
    pub horizon: Option<Duration>,
}

/// The database of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalConfig {
    /// This SQLite file.
    Sqlite(PathBuf),
    /// This PostgreSQL database.
    Postgres(PostgresUrl),
    /// There is no journal: only Redis keeps the notifications.
    None,
}

/// The URL of the journal, without secrets.
impl fmt::Display for JournalConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(out, "sqlite://{}", path.display()),
            Self::Postgres(url) => write!(out, "{url}"),
            Self::None => out.write_str("none"),
        }
    }
}

/// How long the journal keeps ended notifications. `None` means for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionConfig {
    /// The bodies and headers of delivered and cancelled notifications.
    pub payloads: Option<Duration>,
    /// Delivered and cancelled notifications, with their history.
    pub records: Option<Duration>,
    /// Dead letters, with their history.
    pub dead: Option<Duration>,
}

/// The settings that are needed to open both stores.
#[derive(Debug, Clone)]
pub struct StoresConfig {
    /// The schedule.
    pub schedule: ScheduleConfig,
    /// The journal.
    pub journal: JournalConfig,
    /// The time limit of one attempt. A lease lasts longer than this.
    pub timeout: Duration,
}

/// The default `User-Agent` header of calls to receivers.
const USER_AGENT: &str = concat!("Ringback/", env!("CARGO_PKG_VERSION"));

/// The settings of the delivery attempts.
#[derive(Debug, Clone)]
pub struct DeliveryConfig {
    /// The secret that signs the requests, unless the journal has other default keys.
    pub signing_secret: SigningSecret,
    /// Where that secret comes from.
    pub secret_origin: SecretOrigin,
    /// Maximum number of attempts in flight at the same time, over all lanes.
    pub concurrency: usize,
    /// The time limit of one attempt, from connecting to the end of the answer.
    pub timeout: Duration,
    /// How long a stop waits for the attempts in flight.
    pub drain_timeout: Duration,
    /// Internal addresses that may be called, also by plain http.
    pub allow_destinations: Vec<IpNet>,
    /// Whether public addresses may be called by plain http.
    pub allow_http: bool,
    /// The `User-Agent` header of calls to receivers.
    pub user_agent: String,
    /// The proxy through which all calls to receivers go.
    pub proxy: Option<ProxyUrl>,
}

/// The settings of the alerts. What is `None` makes no alerts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertConfig {
    /// The endpoints that get all alerts. Without any there are no alerts.
    pub endpoints: Vec<EndpointName>,
    /// For how long a destination has failed when it is told.
    pub failing_after: Option<Duration>,
    /// How many dead letters within an hour are told.
    pub dead_letters: Option<u64>,
    /// How late an attempt begins that counts as late.
    pub late_after: Option<Duration>,
    /// For how long a store could not be used when it is told.
    pub store_after: Option<Duration>,
    /// The time between two checks. This is no setting of the command line; tests change it.
    pub check_every: Duration,
}

/// The settings of the log, which goes to standard error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// The format of a log line.
    pub format: LogFormat,
    /// Which lines are logged.
    pub filter: LogFilter,
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

impl ServeConfig {
    /// The default settings, with this data directory and this signing secret.
    #[must_use]
    pub fn new(data_dir: &Path, signing_secret: SigningSecret) -> Self {
        let timeout = Duration::from_secs(10);
        Self {
            api: ApiConfig {
                listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8400)),
                key: None,
                requests_per_key: REQUESTS_PER_KEY,
                metrics_listen: None,
                metrics_key: None,
                largest_body_bytes: LARGEST_BODY_BYTES,
            },
            schedule: ScheduleConfig {
                redis: None,
                redis_tls: RedisTls::default(),
                replicas: 0,
                memory_bytes: 512 * 1024 * 1024,
                partitions: 1,
                lane_start: 1,
                lane_concurrency: 16,
                keep_ended: Duration::from_secs(600),
                horizon: Some(HORIZON),
            },
            journal: JournalConfig::Sqlite(data_dir.join(JOURNAL_FILE)),
            migrate: true,
            retention: RetentionConfig {
                payloads: Some(30 * DAY),
                records: Some(400 * DAY),
                dead: None,
            },
            delivery: DeliveryConfig {
                signing_secret,
                secret_origin: SecretOrigin::Given,
                concurrency: 4_096,
                timeout,
                drain_timeout: timeout + DRAIN_MARGIN,
                allow_destinations: Vec::new(),
                allow_http: false,
                user_agent: USER_AGENT.to_string(),
                proxy: None,
            },
            alerts: AlertConfig {
                endpoints: Vec::new(),
                failing_after: Some(Duration::from_secs(600)),
                dead_letters: Some(100),
                late_after: Some(Duration::from_secs(30)),
                store_after: Some(Duration::from_secs(60)),
                check_every: Duration::from_secs(5),
            },
            master_key: None,
            other_master_key: None,
            secret_files: [SECRET_FILE, MASTER_KEY_FILE]
                .map(|name| data_dir.join(name))
                .to_vec(),
            log: LogConfig {
                format: LogFormat::Text,
                filter: LogFilter::default(),
            },
            traces: TraceConfig::default(),
            data_dir: data_dir.to_path_buf(),
        }
    }

    /// Reads the settings from the flags, the environment variables (`variable` looks one up) and the
    /// settings file that a flag or a variable names. Creates the data directory and a signing secret in
    /// it, if they are needed and missing.
    ///
    /// # Errors
    /// [`ConfigError`] names the setting, the source of its value and the problem.
    pub fn load(
        flags: &Flags,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, ConfigError> {
        sources::gather(flags, &variable)?.finish()
    }

    /// Reads the same settings as [`ServeConfig::load`], but creates nothing.
    ///
    /// # Errors
    /// All wrong values, in the order of the settings; what is wrong between two settings only if there are none.
    pub fn review(
        flags: &Flags,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<SettingsReview, Vec<ConfigError>> {
        let (draft, errors) = sources::gather_all(flags, &variable);
        match errors.is_empty() {
            true => draft.review().map_err(|error| vec![error]),
            false => Err(errors),
        }
    }

    /// The settings that are needed to open both stores.
    #[must_use]
    pub fn stores(&self) -> StoresConfig {
        StoresConfig {
            schedule: self.schedule.clone(),
            journal: self.journal.clone(),
            timeout: self.delivery.timeout,
        }
    }
}

/// The settings of a server that was not started.
#[derive(Debug, Clone)]
pub struct SettingsReview {
    /// The settings. The signing secret in them is that which is given or kept, if there is one.
    pub config: ServeConfig,
    /// The signing secret that is given or kept. `None`: the first start makes one.
    pub signing_secret: Option<SigningSecret>,
}

impl StoresConfig {
    /// Reads the same settings as [`ServeConfig::load`], for a command that runs beside a server. Creates
    /// no files.
    ///
    /// # Errors
    /// As [`ServeConfig::load`].
    pub fn load(
        flags: &Flags,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, ConfigError> {
        sources::gather(flags, &variable)?.stores()
    }
}

/// The settings of the command that changes the master key.
#[derive(Debug, Clone)]
pub struct MasterKeyConfig {
    /// The journal.
    pub journal: JournalConfig,
    /// The directory for the files of the server.
    pub data_dir: PathBuf,
    /// The master key that was given.
    pub master_key: Option<MasterKey>,
}

impl MasterKeyConfig {
    /// Reads the same settings as [`ServeConfig::load`]. Creates no files.
    ///
    /// # Errors
    /// As [`ServeConfig::load`].
    pub fn load(
        flags: &Flags,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, ConfigError> {
        sources::gather(flags, &variable)?.master_key()
    }
}

/// The journal that `serve` would use with these settings. Creates no files.
///
/// # Errors
/// As [`ServeConfig::load`].
pub fn load_journal(
    flags: &Flags,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<JournalConfig, ConfigError> {
    sources::gather(flags, &variable)?.journal()
}

#[cfg(test)]
mod tests;
