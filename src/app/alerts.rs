//! Starts the checks for alerts, if an endpoint gets them.

use super::tasks::Tasks;
use crate::alerts::{AlertParts, AlertSettings, Alerts};
use crate::config::{AlertConfig, ServeConfig};

/// Runs the checks of this server.
pub(super) fn run(config: &ServeConfig, server: String, parts: AlertParts, tasks: &mut Tasks) {
    let AlertConfig {
        endpoints,
        failing_after,
        dead_letters,
        late_after,
        store_after,
        check_every,
    } = config.alerts.clone();
    if endpoints.is_empty() {
        return;
    }
    for name in endpoints
        .iter()
        .filter(|name| parts.endpoints.known(name).is_none())
    {
        tracing::warn!(
            endpoint = %name,
            "there is no endpoint of the name that --alert-endpoint gives, so it gets no alerts; make it by `ringback \
             endpoint set`"
        );
    }
    let settings = AlertSettings {
        endpoints,
        failing_after,
        dead_letters,
        late_after,
        store_after,
        check_every,
        server,
    };
    let checking = Alerts::new(settings, parts).run(tasks.stop_token());
    tasks.run("alerts", checking);
}
