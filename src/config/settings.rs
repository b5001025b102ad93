//! The table of settings. Each entry defines the flag, the environment variable, the key of the settings
//! file and the help text of one setting.
//!
//! clap's derive and `env` would define only the flags and the variables. But a value from the file must be
//! checked by the same rule, and every error must name the flag, the variable or the key of the value. So
//! clap gets its flags from this table (`cli/setting_flags.rs`), and values are checked here.

pub use super::setting::{Arity, Setting};

use super::alert_settings;
use super::delivery_settings;
use super::setting::{in_file, put};
use super::trace_settings;
use super::values::{self, ApiKey};
use super::{LogFilter, LogFormat};
use crate::domain::master_key::MasterKey;
use crate::domain::redis_url::RedisUrl;
use crate::domain::signature::SigningSecret;
use std::time::Duration;

/// The name of the setting for the settings file. It has a flag and a variable, but no key in the file.
pub(super) const CONFIG: &str = "config";

const SHORTEST_KEPT_PAYLOAD: Duration = Duration::from_secs(60);
/// Shortest time that the journal keeps the record of an ended notification. The schedule has removed the
/// notification long before, even after an outage. If it had not, the notification would be in the
/// schedule and unknown to the journal, so it would count as accepted and would be sent.
const SHORTEST_KEPT_RECORD: Duration = Duration::from_secs(86_400);
const LONGEST_KEPT: Duration = Duration::from_secs(36_500 * 86_400);
/// More than twice as long as it takes until another instance loads what is due soon (`LONGEST_TAKEOVER` in
/// `maintenance/window.rs`).
const SHORTEST_HORIZON: Duration = Duration::from_secs(120);
const LONGEST_HORIZON: Duration = Duration::from_secs(366 * 86_400);
const SMALLEST_MEMORY: usize = 1024 * 1024;
const LARGEST_MEMORY: usize = 1024 * 1024 * 1024 * 1024;
/// Highest value of `redis-wait`.
const MOST_REPLICAS: u16 = 16;
/// Highest value of `requests-per-key`.
const MOST_REQUESTS_PER_KEY: u32 = 1_000_000;

/// Every setting of `serve`.
pub static ALL: &[Setting] = &[
    Setting {
        name: "listen",
        value: "ADDR",
        default: "127.0.0.1:8400",
        help: "The IP address and port of the API; port 0 takes any free port",
        arity: Arity::One,
        set: |draft, text| put(&mut draft.config.api.listen, values::address(text)),
    },
    Setting {
        name: "redis",
        value: "URL",
        default: "",
        help: "The Redis server for the schedule, redis:// or rediss://, or redis+sentinel:// or redis+cluster://; if not set, the schedule is in memory",
        arity: Arity::One,
        set: |draft, text| {
            put(
                &mut draft.config.schedule.redis,
                RedisUrl::parse(text).map(Some),
            )
        },
    },
    in_file(
        "redis-url-file",
        "A file that contains the URL of Redis, instead of `redis`",
        |draft, text| put(&mut draft.files.redis, values::path(text).map(Some)),
    ),
    in_file(
        "redis-ca",
        "A PEM file with the certificate authorities that are trusted for TLS connections to Redis, and no others",
        |draft, text| put(&mut draft.redis_ca, values::path(text).map(Some)),
    ),
    in_file(
        "redis-client-certificate",
        "A PEM file with the certificate that is shown to Redis, and its chain; with `redis-client-key`",
        |draft, text| {
            let path = values::path(text).map(Some);
            put(&mut draft.redis_client_certificate, path)
        },
    ),
    in_file(
        "redis-client-key",
        "A PEM file with the private key of that certificate",
        |draft, text| {
            put(
                &mut draft.files.redis_client_key,
                values::path(text).map(Some),
            )
        },
    ),
    Setting {
        name: "redis-wait",
        value: "REPLICAS",
        default: "0",
        help: "How many replicas of Redis must have a registration or a change before it is answered with success",
        arity: Arity::One,
        set: |draft, text| {
            let replicas = values::number(text, 0..=MOST_REPLICAS);
            put(&mut draft.config.schedule.replicas, replicas)
        },
    },
    Setting {
        name: "journal",
        value: "URL",
        default: "sqlite://DATA_DIR/journal.db",
        help: "The database that records every notification: sqlite://FILE, postgres://..., or none",
        arity: Arity::One,
        set: |draft, text| put(&mut draft.journal, values::journal(text).map(Some)),
    },
    in_file(
        "journal-url-file",
        "A file that contains the URL of the journal, instead of `journal`",
        |draft, text| put(&mut draft.files.journal, values::path(text).map(Some)),
    ),
    Setting {
        name: "migrate",
        value: "BOOL",
        default: "true",
        help: "Update the schema of a journal in PostgreSQL at the start",
        arity: Arity::Switch,
        set: |draft, text| put(&mut draft.config.migrate, values::switch(text)),
    },
    Setting {
        name: "data-dir",
        value: "DIR",
        default: "./ringback-data",
        help: "The directory for the files of this server",
        arity: Arity::One,
        set: |draft, text| put(&mut draft.config.data_dir, values::path(text)),
    },
    Setting {
        name: CONFIG,
        value: "FILE",
        default: "",
        help: "A TOML file with these settings, such as `allow-destination = [\"10.0.0.0/8\"]`",
        arity: Arity::One,
        set: |_, _| Ok(()),
    },
    Setting {
        name: "signing-secret",
        value: "SECRET",
        default: "",
        help: "The first default key, which signs deliveries, whsec_...; if not set, one is created in the data directory",
        arity: Arity::One,
        set: |draft, text| {
            let secret = SigningSecret::parse(text).map_err(|error| error.to_string());
            put(&mut draft.signing_secret, secret.map(Some))
        },
    },
    in_file(
        "signing-secret-file",
        "A file that contains the signing secret, instead of `signing-secret`",
        |draft, text| {
            let path = values::path(text).map(Some);
            put(&mut draft.files.signing_secret, path)
        },
    ),
    Setting {
        name: "master-key",
        value: "KEY",
        default: "",
        help: "The key that encrypts the signing keys of endpoints, rbmk_...; if not set, one is created in the data \
               directory when it is needed",
        arity: Arity::One,
        set: |draft, text| {
            let key = MasterKey::parse(text).map_err(|error| error.to_string());
            put(&mut draft.master_key, key.map(Some))
        },
    },
    Setting {
        name: "master-key-file",
        value: "FILE",
        default: "",
        help: "A file that contains the master key, instead of `master-key`",
        arity: Arity::One,
        set: |draft, text| put(&mut draft.master_key_file, values::path(text).map(Some)),
    },
    Setting {
        name: "other-master-key-file",
        value: "FILE",
        default: "",
        help: "A file that contains another master key, which opens what is encrypted too, while the master key is changed",
        arity: Arity::One,
        set: |draft, text| {
            let path = values::path(text).map(Some);
            put(&mut draft.other_master_key_file, path)
        },
    },
    Setting {
        name: "api-key",
        value: "KEY",
        default: "",
        help: "An API key with which callers of the API may do everything; others are made by `ringback key add`",
        arity: Arity::One,
        set: |draft, text| put(&mut draft.config.api.key, ApiKey::parse(text).map(Some)),
    },
    in_file(
        "api-key-file",
        "A file that contains that API key, instead of `api-key`",
        |draft, text| put(&mut draft.files.api_key, values::path(text).map(Some)),
    ),
    Setting {
        name: "requests-per-key",
        value: "N",
        default: "10000",
        help: "Maximum number of requests per second of one API key to one server; others are answered 429",
        arity: Arity::One,
        set: |draft, text| {
            let most = values::number(text, 1..=MOST_REQUESTS_PER_KEY);
            put(&mut draft.config.api.requests_per_key, most)
        },
    },
    Setting {
        name: "metrics-listen",
        value: "ADDR",
        default: "",
        help: "An IP address and port that serve the metrics alone; if not set, `listen` serves them",
        arity: Arity::One,
        set: |draft, text| {
            let address = values::address(text).map(Some);
            put(&mut draft.config.api.metrics_listen, address)
        },
    },
    Setting {
        name: "metrics-key",
        value: "KEY",
        default: "",
        help: "A key that readers of the metrics must send; if not set, they need none",
        arity: Arity::One,
        set: |draft, text| {
            let key = ApiKey::parse(text).map(Some);
            put(&mut draft.config.api.metrics_key, key)
        },
    },
    in_file(
        "metrics-key-file",
        "A file that contains that key, instead of `metrics-key`",
        |draft, text| put(&mut draft.files.metrics_key, values::path(text).map(Some)),
    ),
    delivery_settings::ALLOW_DESTINATION,
    delivery_settings::ALLOW_HTTP,
    delivery_settings::PROXY,
    delivery_settings::PROXY_URL_FILE,
    delivery_settings::CONCURRENCY,
    delivery_settings::LANE_CONCURRENCY,
    delivery_settings::TIMEOUT,
    delivery_settings::USER_AGENT,
    delivery_settings::DRAIN_TIMEOUT,
    Setting {
        name: "partitions",
        value: "N",
        default: "1",
        help: "The number of parts of the schedule in Redis; must be the same for all servers that share it",
        arity: Arity::One,
        set: |draft, text| {
            put(
                &mut draft.config.schedule.partitions,
                values::number(text, 1..=256),
            )
        },
    },
    Setting {
        name: "horizon",
        value: "DURATION",
        default: "1h",
        help: "With a journal, only what is due within this time is in the schedule, and the rest waits in the journal; or forever",
        arity: Arity::One,
        set: |draft, text| {
            let horizon = values::keep(text, SHORTEST_HORIZON..=LONGEST_HORIZON);
            put(&mut draft.config.schedule.horizon, horizon)
        },
    },
    Setting {
        name: "schedule-memory",
        value: "BYTES",
        default: "512MiB",
        help: "Maximum memory for a schedule in memory; when it is used up, registrations are refused",
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
        help: "How long an ended notification is remembered if there is no journal",
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
        help: "How long the body and headers of a delivered or cancelled notification are kept, or forever",
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
        help: "How long a delivered or cancelled notification is kept, with its history, or forever",
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
        help: "Maximum size of the body of a notification, such as 262144 or 256KiB",
        arity: Arity::One,
        set: |draft, text| {
            let most = values::bytes(text, 1..=8 * 1024 * 1024);
            put(&mut draft.config.api.largest_body_bytes, most)
        },
    },
    alert_settings::ENDPOINT,
    alert_settings::FAILING_AFTER,
    alert_settings::DEAD_LETTERS,
    alert_settings::LATE_AFTER,
    alert_settings::STORE_AFTER,
    Setting {
        name: "log",
        value: "FILTER",
        default: "info",
        help: "The level of the log: off, error, warn, info, debug, trace, or by module as in ringback=debug,warn",
        arity: Arity::One,
        set: |draft, text| put(&mut draft.config.log.filter, LogFilter::parse(text)),
    },
    Setting {
        name: "log-format",
        value: "FORMAT",
        default: "text",
        help: "The format of the log: text or json",
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
    trace_settings::ENDPOINT,
    trace_settings::HEADERS,
    trace_settings::HEADERS_FILE,
    trace_settings::SAMPLE_RATIO,
];
