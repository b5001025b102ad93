//! The lines of the log about outages: one when an outage begins, one when it is over.

use super::event::HealthEvent;
use super::report::names;
use super::store_health::shown;
use super::{Store, StoreState, millis};

/// The target of these lines.
const TARGET: &str = "ringback::health";

/// Logs what happened to a store.
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
                    "the {store} is refusing work ({failing}): {cause}"
                ),
                StoreState::Rebuilding => tracing::warn!(
                    target: TARGET,
                    store = store_name,
                    failing,
                    cause,
                    "the {store} is being rebuilt; its work waits"
                ),
                StoreState::Up | StoreState::Away => tracing::error!(
                    target: TARGET,
                    store = store_name,
                    failing,
                    cause,
                    "the {store} is away: {cause}"
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
            "some calls to the {store} failed, too few to count as an outage"
        ),
    }
}
