//! Calls to endpoints of which nothing is kept: test calls, and alerts while the stores are away.

use crate::alerts::AlertCaller;
use crate::clock::{Clock, millis};
use crate::delivery::call_recorder::CallRecorder;
use crate::delivery::call_target::CallTarget;
use crate::delivery::http_client::{HttpClient, SendResult};
use crate::delivery::tls_profiles::TlsProfile;
use crate::domain::alert::PreparedAlert;
use crate::domain::attempt::{Answer, Attempt, Outcome};
use crate::domain::attempt_reason::{FailureReason, UnsentReason};
use crate::domain::endpoint::Endpoint;
use crate::domain::headers::Headers;
use crate::domain::key::Key;
use crate::domain::notification::{Notification, Registration, Start, Target};
use crate::domain::priority::Priority;
use crate::domain::signers::Signers;
use crate::domain::webhook_id::WebhookId;
use crate::endpoints::Endpoints;
use crate::keyring::UnusableKey;
use crate::service::TestCaller;
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The topic of a test call.
const TOPIC: &str = "ringback.test";

/// Makes calls with the HTTP client of the attempts.
pub(super) struct DirectCalls {
    client: Arc<HttpClient>,
    endpoints: Arc<Endpoints>,
    clock: Arc<dyn Clock>,
}

impl DirectCalls {
    pub(super) fn new(
        client: Arc<HttpClient>,
        endpoints: Arc<Endpoints>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            client,
            endpoints,
            clock,
        }
    }
}

#[async_trait]
impl TestCaller for DirectCalls {
    async fn call(&self, endpoint: Arc<Endpoint>) -> Attempt {
        let id = Uuid::now_v7();
        let body = json!({ "type": TOPIC, "endpoint": endpoint.name.as_str() }).to_string();
        let registration = Registration {
            key: Key::new(TOPIC, &id.to_string()).expect("invariant: both are short"),
            target: Target::Endpoint(endpoint.name.clone(), None),
            body: Bytes::from(body),
            content_type: "application/json".to_string(),
            headers: Headers::default(),
            start: Start::After(0),
            ladder: None,
            ack: None,
            priority: Priority::Normal,
            order: None,
        };
        self.call_once(endpoint, registration, WebhookId::new(id))
            .await
    }
}

#[async_trait]
impl AlertCaller for DirectCalls {
    async fn call(
        &self,
        endpoint: Arc<Endpoint>,
        alert: &PreparedAlert,
        webhook_id: WebhookId,
    ) -> Attempt {
        let registration = alert.registration(&endpoint);
        self.call_once(endpoint, registration, webhook_id).await
    }
}

impl DirectCalls {
    /// Makes one signed call.
    async fn call_once(
        &self,
        endpoint: Arc<Endpoint>,
        registration: Registration,
        webhook_id: WebhookId,
    ) -> Attempt {
        let (measured, started_ms) = (Instant::now(), self.clock.now_ms());
        let settings = Some(&endpoint.settings);
        let (notification, _) = registration.accept(webhook_id, started_ms, settings);
        let recorder = CallRecorder::default();
        let signers = self.endpoints.signers(Some(&endpoint), started_ms);
        let profile = self.client.profiles().of(&endpoint, &self.endpoints).await;
        let answer = match (&signers, &profile) {
            (Ok(signers), Ok(profile)) => {
                let with = (signers, profile.as_deref());
                let call = self.send(&notification, (&endpoint, with), &recorder);
                match call.await {
                    SendResult::Answered(answer) => answer,
                    SendResult::NoProxy(why) => not_sent(Outcome::Connect, why),
                    SendResult::NotLookedUp => {
                        not_sent(Outcome::Timeout, UnsentReason::LookUpsBusy)
                    }
                    SendResult::TooLate => not_sent(Outcome::Timeout, UnsentReason::TooLate),
                }
            }
            (Err(UnusableKey { key_id, why }), _) => {
                let (key, error) = (key_id.clone(), why.clone());
                not_sent(Outcome::Blocked, UnsentReason::UnusableKey { key, error })
            }
            (_, Err(unusable)) => not_sent(Outcome::Blocked, unusable.reason()),
        };
        let mut trace = recorder.into_trace();
        trace.endpoint_version = Some(endpoint.version);
        trace.key_ids = signers.map_or_else(|_| Box::default(), |signers| signers.ids());
        Attempt {
            series: 1,
            number: 1,
            due_ms: started_ms,
            started_ms,
            duration_ms: millis(measured.elapsed()),
            answer,
            trace,
        }
    }

    /// Makes the call.
    async fn send(
        &self,
        notification: &Notification,
        (endpoint, with): (&Arc<Endpoint>, (&Signers, Option<&TlsProfile>)),
        recorder: &CallRecorder,
    ) -> SendResult {
        let target = CallTarget::of(notification, Some(endpoint), with);
        let (Some(target), Some(body)) = (target, notification.body.here()) else {
            return SendResult::TooLate;
        };
        let until = Instant::now() + self.client.timeout();
        // The server waits for requests of the API when it stops.
        let within = (until, &CancellationToken::new());
        let signed = (1, &*self.clock);
        let client = &self.client;
        client
            .deliver(notification, target, body, signed, within, recorder)
            .await
    }
}

fn not_sent(outcome: Outcome, reason: impl Into<FailureReason>) -> Answer {
    Answer {
        outcome,
        status: None,
        body: Vec::new(),
        reason: reason.into().to_string(),
    }
}
