//! The table of settings: one entry each, from which the flags, the environment variables, the keys
//! of the file and the help text all follow.
//!
//! clap's derive and `env` would cover the flags and the variables alone. A value of the file has to be
//! checked by the same rule, and every error has to name the flag, the variable or the key that it came
//! from. So clap gets its flags from this table (`cli/setting_flags.rs`), and values are checked here.

use super::error::ConfigError;
use super::secret;
use super::values::{self, ApiKey, RedisUrl};
use super::{DRAIN_MARGIN, JournalConfig, LogFilter, LogFormat, ServeConfig, StoresConfig};
use crate::domain::signature::SigningSecret;
use std::path::PathBuf;
use std::time::Duration;

/// How often a setting takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// Once.
    One,
    /// Any number of times; in one text, separated by commas.
    Many,
    /// It is on or off; as a flag it needs no value.
    Switch,
}

/// One setting.
pub struct Setting {
    /// Its flag. The variable and the key of the file follow from it.
    pub name: &'static str,
    /// The name of the value in the help text.
    pub value: &'static str,
    /// The default as one would write it; empty if there is none.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    /// How often it takes a value.
    pub arity: Arity,
    /// Checks one value and takes it over, or says what would be right.
    pub(super) set: fn(&mut Draft, &str) -> Result<(), String>,
}

/// The settings as far as they were read.
pub(super) struct Draft {
    config: ServeConfig,
    signing_secret: Option<SigningSecret>,
    journal: Option<JournalConfig>,
    drain_timeout: Option<Duration>,
}

/// The file of settings: a flag and a variable, but no key.
pub(super) const CONFIG: &str = "config";

const LONGEST_TIMEOUT: Duration = Duration::from_secs(300);
const SHORTEST_KEPT_PAYLOAD: Duration = Duration::from_secs(60);
/// Long after the schedule has forgotten it too, whatever was between the two: what the journal has
/// forgotten and the schedule still holds counts as accepted and is delivered.
const SHORTEST_KEPT_RECORD: Duration = Duration::from_secs(86_400);
const LONGEST_KEPT: Duration = Duration::from_secs(36_500 * 86_400);
const SMALLEST_MEMORY: usize = 1024 * 1024;
const LARGEST_MEMORY: usize = 1024 * 1024 * 1024 * 1024;
const MOST_ATTEMPTS_AT_ONCE: usize = 10_000;

/// Every setting of `serve`.
pub static ALL: &[Setting] = &[
    Setting {
        name: "listen",
        value: "ADDR",
        default: "127.0.0.1:8400",
        help: "Where the API listens; port 0 takes any free one",
        arity: Arity::One,
        set: |draft, text| put(&mut draft.config.api.listen, values::address(text)),
    },
    Setting {
        name: "redis",
        value: "URL",
        default: "",
        help: "The Redis server that holds the schedule, redis:// or rediss://; none given: in memory",
        arity: Arity::One,
        set: |draft, text| {
            put(
                &mut draft.config.schedule.redis,
                RedisUrl::parse(text).map(Some),
            )
        },
    },
    Setting {
        name: "journal",
        value: "URL",
        default: "sqlite://DATA_DIR/journal.db",
        help: "What keeps the record of every notification: sqlite://FILE, postgres://..., or none",
        arity: Arity::One,
        set: |draft, text| put(&mut draft.journal, values::journal(text).map(Some)),
    },
    Setting {
        name: "migrate",
        value: "BOOL",
        default: "true",
        help: "Bring the schema of a journal in PostgreSQL up to date at the start",
        arity: Arity::Switch,
        set: |draft, text| put(&mut draft.config.migrate, values::switch(text)),
    },
    Setting {
        name: "data-dir",
        value: "DIR",
        default: "./ringback-data",
        help: "Where this server keeps its files",
        arity: Arity::One,
        set: |draft, text| put(&mut draft.config.data_dir, values::path(text)),
    },
    Setting {
        name: CONFIG,
        value: "FILE",
        default: "",
        help: "A TOML file of these settings, such as `allow-destination = [\"10.0.0.0/8\"]`",
        arity: Arity::One,
        set: |_, _| Ok(()),
    },
    Setting {
        name: "signing-secret",
        value: "SECRET",
        default: "",
        help: "What deliveries are signed with, whsec_...; none given: made once, kept in the data directory",
        arity: Arity::One,
        set: |draft, text| {
            let secret = SigningSecret::parse(text).map_err(|error| error.to_string());
            put(&mut draft.signing_secret, secret.map(Some))
        },
    },
    Setting {
        name: "api-key",
        value: "KEY",
        default: "",
        help: "What callers of the API must send as a bearer token; none given: nothing",
        arity: Arity::One,
        set: |draft, text| put(&mut draft.config.api.key, ApiKey::parse(text).map(Some)),
    },
    Setting {
        name: "allow-destination",
        value: "CIDR",
        default: "",
        help: "Internal addresses that may be called, on any port and by plain http",
        arity: Arity::Many,
        set: |draft, text| {
            let network = values::network(text)?;
            draft.config.delivery.allow_destinations.push(network);
            Ok(())
        },
    },
    Setting {
        name: "allow-http",
        value: "BOOL",
        default: "false",
        help: "Call public addresses by plain http too",
        arity: Arity::Switch,
        set: |draft, text| put(&mut draft.config.delivery.allow_http, values::switch(text)),
    },
    Setting {
        name: "concurrency",
        value: "N",
        default: "512",
        help: "Maximum number of attempts in flight at once",
        arity: Arity::One,
        set: |draft, text| {
            let most = values::number(text, 1..=MOST_ATTEMPTS_AT_ONCE);
            put(&mut draft.config.delivery.concurrency, most)
        },
    },
    Setting {
        name: "lane-concurrency",
        value: "N",
        default: "16",
        help: "Maximum number of attempts in flight at once to one destination",
        arity: Arity::One,
        set: |draft, text| {
            let most = values::number(text, 1..=MOST_ATTEMPTS_AT_ONCE);
            put(&mut draft.config.schedule.lane_concurrency, most)
        },
    },
    Setting {
        name: "timeout",
        value: "DURATION",
        default: "10s",
        help: "The longest that one attempt may take, connecting and reading the answer included",
        arity: Arity::One,
        set: |draft, text| {
            let timeout = values::duration(text, Duration::from_millis(100)..=LONGEST_TIMEOUT);
            put(&mut draft.config.delivery.timeout, timeout)
        },
    },
    Setting {
        name: "user-agent",
        value: "TEXT",
        default: concat!("Ringback/", env!("CARGO_PKG_VERSION")),
        help: "What merchants find in the User-Agent of a call",
        arity: Arity::One,
        set: |draft, text| {
            put(
                &mut draft.config.delivery.user_agent,
                values::user_agent(text),
            )
        },
    },
    Setting {
        name: "drain-timeout",
        value: "DURATION",
        default: "the timeout and 5s",
        help: "How long stopping waits for the attempts in flight",
        arity: Arity::One,
        set: |draft, text| {
            let wait = values::duration(text, Duration::ZERO..=LONGEST_TIMEOUT * 2);
            put(&mut draft.drain_timeout, wait.map(Some))
        },
    },
    Setting {
        name: "partitions",
        value: "N",
        default: "1",
        help: "Into how many parts the schedule is divided in Redis; the same for every server on it",
        arity: Arity::One,
        set: |draft, text| {
            put(
                &mut draft.config.schedule.partitions,
                values::number(text, 1..=64),
            )
        },
    },
    Setting {
        name: "schedule-memory",
        value: "BYTES",
        default: "512MiB",
        help: "What the schedule in memory may take; when that is used up, registrations are refused",
        arity: Arity::One,
        set: |draft, text| {
            let most = values::bytes(text, SMALLEST_MEMORY..=LARGEST_MEMORY);
            put(&mut draft.config.schedule.memory_bytes, most)
        },
    },
    Setting {
        name: "keep-ended",
        value: "DURATION",
        default: "10m",
        help: "How long an ended notification is remembered where no journal does it",
        arity: Arity::One,
        set: |draft, text| {
            let longest = Duration::from_secs(30 * 86_400);
            let keep = values::duration(text, Duration::from_secs(1)..=longest);
            put(&mut draft.config.schedule.keep_ended, keep)
        },
    },
    Setting {
        name: "keep-payloads",
        value: "DURATION",
        default: "30d",
        help: "How long the body and headers of what was delivered or cancelled are kept, or forever",
        arity: Arity::One,
        set: |draft, text| {
            let keep = values::keep(text, SHORTEST_KEPT_PAYLOAD..=LONGEST_KEPT);
            put(&mut draft.config.retention.payloads, keep)
        },
    },
    Setting {
        name: "keep-records",
        value: "DURATION",
        default: "400d",
        help: "How long what was delivered or cancelled is kept, with its history, or forever",
        arity: Arity::One,
        set: |draft, text| {
            let keep = values::keep(text, SHORTEST_KEPT_RECORD..=LONGEST_KEPT);
            put(&mut draft.config.retention.records, keep)
        },
    },
    Setting {
        name: "keep-dead",
        value: "DURATION",
        default: "forever",
        help: "How long dead letters are kept, with their history, or forever",
        arity: Arity::One,
        set: |draft, text| {
            let keep = values::keep(text, SHORTEST_KEPT_RECORD..=LONGEST_KEPT);
            put(&mut draft.config.retention.dead, keep)
        },
    },
    Setting {
        name: "largest-body",
        value: "BYTES",
        default: "262144",
        help: "Largest body of a notification, such as 262144 or 256KiB",
        arity: Arity::One,
        set: |draft, text| {
            let most = values::bytes(text, 1..=8 * 1024 * 1024);
            put(&mut draft.config.api.largest_body_bytes, most)
        },
    },
    Setting {
        name: "log",
        value: "FILTER",
        default: "info",
        help: "What is logged: off, error, warn, info, debug, trace, or by module as in ringback=debug,warn",
        arity: Arity::One,
        set: |draft, text| put(&mut draft.config.log.filter, LogFilter::parse(text)),
    },
    Setting {
        name: "log-format",
        value: "FORMAT",
        default: "text",
        help: "How a line of the log looks: text or json",
        arity: Arity::One,
        set: |draft, text| {
            let format = match text {
                "text" => Ok(LogFormat::Text),
                "json" => Ok(LogFormat::Json),
                _ => Err(format!("{} is neither text nor json", values::quoted(text))),
            };
            put(&mut draft.config.log.format, format)
        },
    },
];

/// Takes a checked value over.
fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

impl Setting {
    /// The environment variable: `RINGBACK_DATA_DIR`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!(
            "RINGBACK_{}",
            self.name.replace('-', "_").to_ascii_uppercase()
        )
    }
}

impl Draft {
    pub(super) fn new() -> Self {
        // A placeholder for the real secret until `finish`.
        let placeholder = SigningSecret::from_random(&[0; 32]);
        let data_dir = PathBuf::from("./ringback-data");
        Self {
            config: ServeConfig::new(&data_dir, placeholder),
            signing_secret: None,
            journal: None,
            drain_timeout: None,
        }
    }

    /// The journal that these settings ask for.
    pub(super) fn journal(self) -> JournalConfig {
        let Self {
            config, journal, ..
        } = self;
        journal.unwrap_or_else(|| JournalConfig::Sqlite(config.data_dir.join(super::JOURNAL_FILE)))
    }

    /// What is needed to open both stores, without making anything.
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

    /// Settles what depends on several settings, and makes the files that are needed.
    pub(super) fn finish(self) -> Result<ServeConfig, ConfigError> {
        let Self {
            mut config,
            signing_secret,
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
                JournalConfig::Sqlite(config.data_dir.join(super::JOURNAL_FILE))
            }
        };
        config.delivery.signing_secret = match signing_secret {
            Some(secret) => secret,
            None => secret::read_or_make(&config.data_dir)?,
        };
        Ok(config)
    }
}
