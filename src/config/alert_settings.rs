//! The settings of the alerts: a part of the table of settings.

use super::setting::{Arity, Setting, put};
use super::values;
use crate::domain::endpoint::EndpointName;
use std::time::Duration;

/// Maximum number of endpoints that get alerts.
const MOST_ALERT_ENDPOINTS: usize = 4;
/// Highest value of `alert-dead-letters`: so many are read with each check.
const MOST_DEAD_LETTERS: u64 = 1_000;
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);
const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// Who gets the alerts.
pub(super) const ENDPOINT: Setting = Setting {
    name: "alert-endpoint",
    value: "NAME",
    default: "",
    help: "An endpoint that is told when destinations fail, dead letters pile up, attempts are late or a store is away",
    arity: Arity::Many,
    set: |draft, text| {
        let endpoints = &mut draft.config.alerts.endpoints;
        let name = EndpointName::parse(text).map_err(|error| error.to_string())?;
        if endpoints.contains(&name) {
            return Ok(());
        }
        if endpoints.len() >= MOST_ALERT_ENDPOINTS {
            return Err(format!("there may be {MOST_ALERT_ENDPOINTS} at most"));
        }
        endpoints.push(name);
        Ok(())
    },
};

/// When a failing destination is told.
pub(super) const FAILING_AFTER: Setting = Setting {
    name: "alert-failing-after",
    value: "DURATION",
    default: "10m",
    help: "For how long a destination has acknowledged no call when there is an alert, or never",
    arity: Arity::One,
    set: |draft, text| {
        let after = unless_never(text, |text| values::duration(text, SECOND..=WEEK));
        put(&mut draft.config.alerts.failing_after, after)
    },
};

/// When dead letters are told.
pub(super) const DEAD_LETTERS: Setting = Setting {
    name: "alert-dead-letters",
    value: "N",
    default: "100",
    help: "How many notifications become dead letters within an hour when there is an alert, or never",
    arity: Arity::One,
    set: |draft, text| {
        let many = unless_never(text, |text| values::number(text, 1..=MOST_DEAD_LETTERS));
        put(&mut draft.config.alerts.dead_letters, many)
    },
};

/// When lateness is told.
pub(super) const LATE_AFTER: Setting = Setting {
    name: "alert-late-after",
    value: "DURATION",
    default: "30s",
    help: "How late attempts begin when there is an alert, if it is more than a tenth of them, or never",
    arity: Arity::One,
    set: |draft, text| {
        let after = unless_never(text, |text| values::duration(text, SECOND..=DAY));
        put(&mut draft.config.alerts.late_after, after)
    },
};

/// When a store that cannot be used is told.
pub(super) const STORE_AFTER: Setting = Setting {
    name: "alert-store-after",
    value: "DURATION",
    default: "1m",
    help: "For how long the journal or the schedule cannot be used when there is an alert, or never",
    arity: Arity::One,
    set: |draft, text| {
        let after = unless_never(text, |text| values::duration(text, SECOND..=DAY));
        put(&mut draft.config.alerts.store_after, after)
    },
};

/// A value, or `never`.
fn unless_never<T>(
    text: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    match text {
        "never" => Ok(None),
        text => read(text).map(Some),
    }
}
