//! Alerts: who is told what, once, and what is not told.

mod destinations;
mod server;
mod turns;
mod window;

use crate::support::merchant::{Call, Merchant, Reaction};
use crate::support::ringback::{Api, BEGIN_MS, Server, Stores, config, secret};
use reqwest::Method;
use ringback::clock::ManualClock;
use ringback::config::ServeConfig;
use ringback::domain::endpoint::EndpointName;
use ringback::domain::timestamp;
use serde_json::{Value, json};
use std::time::Duration;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;
/// How often the servers of these tests check.
const OFTEN: Duration = Duration::from_millis(10);

/// An instant so many milliseconds after the beginning.
fn at(offset_ms: i64) -> Value {
    json!(timestamp::display_ms(BEGIN_MS + offset_ms))
}

fn with_alerts(config: &mut ServeConfig) {
    config.alerts.endpoints = vec![EndpointName::parse("pager").expect("a name")];
    config.alerts.check_every = OFTEN;
}

/// A server with a clock that the test turns.
async fn start_by_hand(stores: Stores, change: impl FnOnce(&mut ServeConfig)) -> Server {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut config = config(dir.path(), stores);
    with_alerts(&mut config);
    change(&mut config);
    Server::open(config, Some(ManualClock::at(BEGIN_MS)), Some(dir)).await
}

/// Whoever gets the alerts.
struct Pager(Merchant);

impl Pager {
    /// Starts one that answers as chat systems do, and tells the server of it.
    async fn start(api: &Api) -> Self {
        let merchant = Merchant::scripted(vec![], Reaction::Answer(200, b"ok".to_vec())).await;
        let pager = Self(merchant);
        pager.introduce(api, json!({})).await;
        pager
    }

    async fn introduce(&self, api: &Api, mut settings: Value) {
        settings["url"] = json!(self.0.url("/hook"));
        let put = api.call(Method::PUT, "/v1/endpoints/pager", Some(settings));
        let (status, view) = put.await;
        assert_eq!(status, 201, "{view}");
    }

    /// The next alert.
    async fn told(&mut self) -> Value {
        alert_of(&self.0.call().await)
    }

    /// The next alert, when it has been delivered: a clock that is turned while its call is in flight would end the lease.
    async fn alert(&mut self, api: &Api) -> Value {
        let alert = self.told().await;
        let id = alert["id"].as_str().expect("an id");
        let path = format!("/v1/notifications/ringback.alert/{id}:pager");
        crate::support::within("the alert to be delivered", async {
            while api.call(Method::GET, &path, None).await.1["state"] != "delivered" {
                crate::support::short_pause().await;
            }
        })
        .await;
        alert
    }

    /// The next alert, while time goes on by so much after each short wait.
    async fn alert_later(&mut self, clock: &ManualClock, step_ms: i64) -> Value {
        let later = async {
            loop {
                let waiting = tokio::time::timeout(Duration::from_millis(300), self.0.call());
                if let Ok(call) = waiting.await {
                    return alert_of(&call);
                }
                clock.advance(step_ms);
            }
        };
        crate::support::within("an alert", later).await
    }
}

/// The alert in a call.
fn alert_of(call: &Call) -> Value {
    assert_eq!(call.header("Ringback-Topic"), "ringback.alert");
    assert_eq!(call.header("Content-Type"), "application/json");
    assert!(call.is_signed_by(&secret()), "{call:?}");
    serde_json::from_slice(&call.body).expect("JSON")
}

/// A merchant that refuses everything.
async fn refusing() -> Merchant {
    Merchant::scripted(vec![], Reaction::Answer(500, vec![])).await
}

/// The lane of a merchant.
fn lane_of(merchant: &Merchant) -> String {
    merchant.url("").trim_end_matches('/').to_string()
}
