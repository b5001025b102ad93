//! The settings of the delivery attempts: a part of the table of settings.

use super::setting::{Arity, Setting, in_file, put};
use super::values;
use crate::domain::proxy_url::ProxyUrl;
use std::time::Duration;

const LONGEST_TIMEOUT: Duration = Duration::from_secs(300);
const MOST_ATTEMPTS_AT_ONCE: usize = 10_000;

/// Internal addresses that may be called.
pub(super) const ALLOW_DESTINATION: Setting = Setting {
    name: "allow-destination",
    value: "CIDR",
    default: "",
    help: "Internal addresses that may be called, on any port and also by plain http",
    arity: Arity::Many,
    set: |draft, text| {
        let network = values::network(text)?;
        draft.config.delivery.allow_destinations.push(network);
        Ok(())
    },
};

/// Whether public addresses may be called by plain http.
pub(super) const ALLOW_HTTP: Setting = Setting {
    name: "allow-http",
    value: "BOOL",
    default: "false",
    help: "Allow calls to public addresses by plain http",
    arity: Arity::Switch,
    set: |draft, text| put(&mut draft.config.delivery.allow_http, values::switch(text)),
};

/// The proxy of all calls.
pub(super) const PROXY: Setting = Setting {
    name: "proxy",
    value: "URL",
    default: "",
    help: "The proxy through which all calls to merchants go: http://[USER:PASSWORD@]HOST:PORT or socks5://...",
    arity: Arity::One,
    set: |draft, text| {
        put(
            &mut draft.config.delivery.proxy,
            ProxyUrl::parse(text).map(Some),
        )
    },
};

/// The file that contains that URL.
pub(super) const PROXY_URL_FILE: Setting = in_file(
    "proxy-url-file",
    "A file that contains the URL of the proxy, instead of `proxy`",
    |draft, text| put(&mut draft.files.proxy, values::path(text).map(Some)),
);

/// How many attempts may be in flight.
pub(super) const CONCURRENCY: Setting = Setting {
    name: "concurrency",
    value: "N",
    default: "4096",
    help: "Maximum number of attempts in flight at the same time",
    arity: Arity::One,
    set: |draft, text| {
        let most = values::number(text, 1..=MOST_ATTEMPTS_AT_ONCE);
        put(&mut draft.config.delivery.concurrency, most)
    },
};

/// How many of them may be to one destination.
pub(super) const LANE_CONCURRENCY: Setting = Setting {
    name: "lane-concurrency",
    value: "N",
    default: "16",
    help: "Maximum number of attempts in flight at the same time to one destination",
    arity: Arity::One,
    set: |draft, text| {
        let most = values::number(text, 1..=MOST_ATTEMPTS_AT_ONCE);
        put(&mut draft.config.schedule.lane_concurrency, most)
    },
};

/// The time limit of an attempt.
pub(super) const TIMEOUT: Setting = Setting {
    name: "timeout",
    value: "DURATION",
    default: "10s",
    help: "The time limit of one attempt, from connecting to the end of the answer",
    arity: Arity::One,
    set: |draft, text| {
        let timeout = values::duration(text, Duration::from_millis(100)..=LONGEST_TIMEOUT);
        put(&mut draft.config.delivery.timeout, timeout)
    },
};

/// The `User-Agent` header of calls.
pub(super) const USER_AGENT: Setting = Setting {
    name: "user-agent",
    value: "TEXT",
    default: concat!("Ringback/", env!("CARGO_PKG_VERSION")),
    help: "The User-Agent header of the calls to merchants",
    arity: Arity::One,
    set: |draft, text| {
        put(
            &mut draft.config.delivery.user_agent,
            values::user_agent(text),
        )
    },
};

/// How long a stop waits for attempts.
pub(super) const DRAIN_TIMEOUT: Setting = Setting {
    name: "drain-timeout",
    value: "DURATION",
    default: "the timeout plus 5s",
    help: "How long a stop waits for the attempts in flight",
    arity: Arity::One,
    set: |draft, text| {
        let wait = values::duration(text, Duration::ZERO..=LONGEST_TIMEOUT * 2);
        put(&mut draft.drain_timeout, wait.map(Some))
    },
};
