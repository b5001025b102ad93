//! Sending alerts: as notifications like all others, or by a call of this server if the stores are away.

use crate::domain::alert::PreparedAlert;
use crate::domain::attempt::{Attempt, Outcome};
use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::domain::webhook_id::WebhookId;
use crate::endpoints::Endpoints;
use crate::service::{Service, ServiceError};
use crate::telemetry::metrics::Metrics;
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The waits before each call that this server makes itself. After the last one, the alert is only in the log.
const WAITS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(300),
];

/// Makes calls that are kept nowhere.
#[async_trait]
pub trait AlertCaller: Send + Sync {
    /// Makes one signed call to an endpoint that tells it of an alert.
    async fn call(
        &self,
        endpoint: Arc<Endpoint>,
        alert: &PreparedAlert,
        webhook_id: WebhookId,
    ) -> Attempt;
}

/// Sends alerts to each of some endpoints.
pub(super) struct AlertSender {
    pub(super) names: Vec<EndpointName>,
    pub(super) service: Arc<Service>,
    pub(super) endpoints: Arc<Endpoints>,
    pub(super) caller: Arc<dyn AlertCaller>,
    pub(super) metrics: Arc<Metrics>,
}

impl AlertSender {
    /// Registers these alerts. Returns those that could not be registered and should be tried again.
    pub(super) async fn register_all(&self, alerts: Vec<PreparedAlert>) -> Vec<PreparedAlert> {
        let mut left = Vec::new();
        for alert in alerts {
            // If one fails, a store is away or slow, and each of the others would take as long.
            if !left.is_empty() || !self.register(&alert).await {
                left.push(alert);
            }
        }
        left
    }

    /// Registers an alert for each endpoint. Returns whether nothing is left to do. It can be repeated.
    async fn register(&self, alert: &PreparedAlert) -> bool {
        let mut is_done = true;
        for name in &self.names {
            match self.service.register_alert(alert, name).await {
                Ok(is_new) => {
                    if is_new {
                        self.metrics.alert(alert.kind);
                        log(alert, name, "an alert was registered");
                    }
                }
                Err(ServiceError::UnknownEndpoint(_)) => warn_of_missing(alert, name),
                Err(error) if error.may_pass() || matches!(error, ServiceError::Full(_)) => {
                    is_done = false;
                    tracing::debug!(
                        %error, endpoint = %name, id = alert.id,
                        "an alert could not be registered; trying again with the next check"
                    );
                }
                Err(error) => tracing::error!(
                    %error, endpoint = %name, kind = alert.kind.as_str(), text = alert.text,
                    "an alert could not be registered, so it is not sent"
                ),
            }
        }
        is_done
    }

    /// Sends an alert without the stores: the server makes the calls itself, a few times until one is acknowledged. The
    /// calls of a server that ends meanwhile are not made by another one. No further call begins once it is `over`.
    pub(super) fn send_directly(
        &self,
        alert: &PreparedAlert,
        calls: &mut JoinSet<()>,
        over: &CancellationToken,
    ) {
        for name in &self.names {
            let Some(endpoint) = self.endpoints.known(name) else {
                warn_of_missing(alert, name);
                continue;
            };
            log(alert, name, "an alert is sent without the stores");
            let (caller, metrics) = (self.caller.clone(), self.metrics.clone());
            calls.spawn(call_until_acknowledged(
                caller,
                metrics,
                endpoint,
                alert.clone(),
                over.clone(),
            ));
        }
    }
}

async fn call_until_acknowledged(
    caller: Arc<dyn AlertCaller>,
    metrics: Arc<Metrics>,
    endpoint: Arc<Endpoint>,
    alert: PreparedAlert,
    over: CancellationToken,
) {
    // The same in all calls, so the receiver can tell a repetition.
    let webhook_id = WebhookId::new(Uuid::now_v7());
    let mut reason = String::new();
    for wait in WAITS {
        let waiting = over.run_until_cancelled(tokio::time::sleep(wait));
        if waiting.await.is_none() {
            tracing::warn!(
                endpoint = %endpoint.name, kind = alert.kind.as_str(), text = alert.text, reason,
                "an alert was not sent: no call was acknowledged before it was over; the reason is that of the last one"
            );
            return;
        }
        let answer = caller
            .call(endpoint.clone(), &alert, webhook_id)
            .await
            .answer;
        if answer.outcome == Outcome::Acknowledged {
            metrics.alert(alert.kind);
            return;
        }
        reason = answer.reason;
    }
    tracing::error!(
        endpoint = %endpoint.name, kind = alert.kind.as_str(), text = alert.text, calls = WAITS.len(), reason,
        "an alert could not be sent: no call was acknowledged; the reason is that of the last one"
    );
}

fn log(alert: &PreparedAlert, endpoint: &EndpointName, done: &str) {
    let PreparedAlert { kind, id, text, .. } = alert;
    match kind.is_recovery() {
        true => tracing::info!(kind = kind.as_str(), %endpoint, id, "{done}: {text}"),
        false => tracing::warn!(kind = kind.as_str(), %endpoint, id, "{done}: {text}"),
    }
}

fn warn_of_missing(alert: &PreparedAlert, endpoint: &EndpointName) {
    tracing::warn!(
        kind = alert.kind.as_str(), %endpoint,
        "an alert is not sent, because there is no endpoint of the name that --alert-endpoint gives; make it by `ringback \
         endpoint set`: {}",
        alert.text
    );
}
