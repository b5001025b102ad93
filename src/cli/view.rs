//! The parts of the API's answers that the commands show.
//!
//! If a server leaves a member out, the member gets its default, so that the others can be shown.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A notification in an answer of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NotificationDetails {
    pub topic: String,
    pub id: String,
    pub webhook_id: String,
    pub lane: String,
    pub url: Option<String>,
    pub state: String,
    pub may_be_in_flight: bool,
    pub series: u32,
    pub attempts_made: u32,
    pub attempts_left: u64,
    pub registered_at: Option<String>,
    pub next_attempt_at: Option<String>,
    pub deadline_at: Option<String>,
    pub ended_at: Option<String>,
    pub cause: Option<String>,
    pub priority: String,
    pub order: Option<OrderDetails>,
    pub set_aside: Option<SetAsideDetails>,
    pub warning: Option<String>,
    pub waiting_for: Option<String>,
    pub waiting_because: Option<String>,
    pub ladder: Value,
    pub ack: Value,
    pub content_type: Option<String>,
    pub header_names: Option<Vec<String>>,
    pub trace_id: Option<String>,
    pub body_bytes: Option<u64>,
    pub attempts: Vec<AttemptDetails>,
    pub last_attempt: Option<AttemptDetails>,
    pub timeline: Vec<TimelineEntry>,
}

/// Says since when and why a notification is set aside, so that it is not sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SetAsideDetails {
    pub at: Option<String>,
    pub reason: String,
}

/// The place of a notification among others of its lane.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct OrderDetails {
    pub key: String,
    pub number: i64,
    pub mode: String,
}

/// An endpoint in an answer of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct EndpointDetails {
    pub name: String,
    pub version: u32,
    pub url: String,
    pub ladder: Value,
    pub ack: Value,
    pub timeout: Option<String>,
    pub concurrency: Option<u32>,
    pub rate: Option<f64>,
    pub retry_after: Option<bool>,
    pub gone: Option<String>,
    pub after_outage_rate: Option<f64>,
    pub headers: BTreeMap<String, Value>,
    pub user_agent: Option<String>,
    pub signature_headers: BTreeMap<String, Value>,
    pub http: Option<String>,
    pub metadata: Value,
    pub keys: Vec<KeyDetails>,
    pub default_secret_until: Option<String>,
    pub ca_expires_at: Option<String>,
    pub client_certificate_expires_at: Option<String>,
    pub created_at: String,
    pub changed_at: String,
}

/// A signing key in an answer of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct KeyDetails {
    pub id: String,
    pub kind: String,
    pub created_at: String,
    pub signs_until: Option<String>,
    pub public_key: Option<String>,
    pub unreadable: Option<String>,
    pub secret: Option<String>,
    pub warning: Option<String>,
}

/// The default keys.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct DefaultKeyPage {
    pub items: Vec<KeyDetails>,
    pub warning: Option<String>,
}

/// An API key in an answer of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiKeyDetails {
    pub name: String,
    pub role: Option<String>,
    pub topics: Option<Vec<String>>,
    pub created_at: String,
    pub created_by: String,
    pub expires_at: Option<String>,
    pub has_expired: bool,
    pub unreadable: Option<String>,
    pub key: Option<String>,
    pub warning: Option<String>,
}

/// The API keys.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiKeyPage {
    pub items: Vec<ApiKeyDetails>,
}

/// A page of endpoints.
#[derive(Debug, Default, Deserialize)]
pub struct EndpointDetailsPage {
    pub items: Vec<EndpointDetails>,
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// A page of a list.
#[derive(Debug, Default, Deserialize)]
pub struct NotificationPage {
    pub items: Vec<NotificationDetails>,
    #[serde(default)]
    pub next_cursor: Option<String>,
    #[serde(default)]
    pub total: Option<u64>,
}

/// An attempt in an answer of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct AttemptDetails {
    pub series: u32,
    pub number: u32,
    pub due_at: String,
    pub started_at: String,
    pub duration_ms: i64,
    pub deferred_ms: Option<i64>,
    pub deferred_by: Option<String>,
    pub outcome: String,
    pub status: Option<u16>,
    pub answer: Option<String>,
    pub reason: Option<String>,
    pub address: Option<String>,
    pub connection: Option<String>,
    pub tls: Option<String>,
    pub http: Option<String>,
    pub phases: Option<PhaseTimes>,
    pub endpoint_version: Option<u32>,
    pub key_ids: Option<Vec<String>>,
}

/// How long each phase of a call took, in milliseconds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PhaseTimes {
    pub dns_ms: Option<f64>,
    pub connect_ms: Option<f64>,
    pub tls_ms: Option<f64>,
    pub first_byte_ms: Option<f64>,
    pub body_ms: Option<f64>,
}

/// An entry of the timeline in an answer of the API: a change, or the index of an attempt.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct TimelineEntry {
    pub kind: String,
    pub at: String,
    pub actor: String,
    pub detail: Option<String>,
    pub index: Option<usize>,
}
