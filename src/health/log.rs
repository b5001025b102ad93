//! Logs outages: one line when an outage begins, and one when it is over. Failed calls for which no outage was logged
//! get a line of their own, once in a while.

use super::event::HealthEvent;
use super::report::names;
use super::store_health::shown;
use super::{Store, StoreState, millis};

/// The log target of these lines.
const TARGET: &str = "ringback::health";

/// Logs a change of a store's health.
pub(super) fn write(store: Store, event: HealthEvent) {
    match event {
        HealthEvent::Away(report) => {
            let cause = report.cause.unwrap_or_default();
            let failing = names(&report.failing);
            let store_name = store.as_str();
            match report.state {
                StoreState::Refusing => tracing::error!(
                    target: TARGET,
                    store = store_name,
                    failing,
                    cause,
                    "the {store} does not do some kinds of work ({failing}): {cause}; trying again until it does"
                ),
                StoreState::Rebuilding => tracing::warn!(
                    target: TARGET,
                    store = store_name,
                    failing,
                    cause,
                    "the {store} has lost data or is being emptied; calls to it are refused until this server has \
                     inspected what it holds"
                ),
                StoreState::Up | StoreState::Away => tracing::error!(
                    target: TARGET,
                    store = store_name,
                    failing,
                    cause,
                    "the {store} is away: {cause}; trying again until it is back"
                ),
            }
        }
        HealthEvent::Back { away, failed_calls } => {
            let away_ms = millis(away);
            tracing::info!(
                target: TARGET,
                store = store.as_str(),
                away_ms,
                failed_calls,
                "the {store} is back after {}",
                shown(away)
            );
        }
        HealthEvent::Brief {
            failed_calls,
            cause,
        } => tracing::warn!(
            target: TARGET,
            store = store.as_str(),
            failed_calls,
            cause,
            "{failed_calls} calls to the {store} failed, and no outage was logged for them; the last cause: {cause}"
        ),
    }
}
