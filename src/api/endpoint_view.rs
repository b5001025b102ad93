//! How the API shows an endpoint.

use crate::api::key_document::KeyView;
use crate::api::schema::{AckText, GonePolicyName, LadderText};
use crate::domain::call_rate::CallRate;
use crate::domain::certificates::Certificates;
use crate::domain::duration;
use crate::domain::endpoint::{Endpoint, EndpointSettings, SignatureHeaders};
use crate::domain::endpoint_tls::EndpointTls;
use crate::domain::http_version::HttpVersion;
use crate::domain::receiver_requests::GonePolicy;
use crate::domain::timestamp::display_ms;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::num::NonZeroU32;
use utoipa::ToSchema;

const NO_KEYS: &str = "the endpoint has no signing key of its own, so its calls are signed with the default keys; all receivers \
                       without keys share these, so each of them can forge calls to the others";

/// An endpoint in an answer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Endpoint)]
pub struct EndpointView<'a> {
    name: &'a str,
    /// The number of its last change.
    version: u32,
    #[serde(flatten)]
    settings: SettingsView<'a>,
    /// The newest first, without their secrets.
    keys: Vec<KeyView<'a>>,
    /// When the first certificate of `client_certificate` expires.
    #[schema(required, format = DateTime)]
    client_certificate_expires_at: Option<String>,
    /// When the last of `ca` expires.
    #[schema(required, format = DateTime)]
    ca_expires_at: Option<String>,
    /// Until when the default secret of the server signs along with the keys.
    #[schema(required, format = DateTime)]
    default_secret_until: Option<String>,
    /// What it means that the endpoint has no keys of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'static str>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    changed_at: String,
}

/// The settings of an endpoint, with the names that a request has for them. What is not set is `null`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EndpointSettings)]
pub struct SettingsView<'a> {
    url: &'a str,
    #[schema(required, value_type = Option<LadderText>)]
    ladder: Option<Box<RawValue>>,
    #[schema(required, value_type = Option<AckText>)]
    ack: Option<Box<RawValue>>,
    #[schema(required)]
    timeout: Option<String>,
    #[schema(required, value_type = Option<u32>)]
    concurrency: Option<NonZeroU32>,
    #[schema(required)]
    rate: Option<f64>,
    #[schema(required)]
    retry_after: Option<bool>,
    #[schema(required, value_type = Option<GonePolicyName>)]
    gone: Option<&'static str>,
    #[schema(required)]
    after_outage_rate: Option<f64>,
    #[schema(value_type = HashMap<String, String>)]
    headers: Map<String, Value>,
    #[schema(required)]
    user_agent: Option<&'a str>,
    /// The names of the headers that carry the id, the time and the signature.
    #[schema(value_type = HashMap<String, String>)]
    signature_headers: &'a SignatureHeaders,
    #[schema(required)]
    http: Option<&'static str>,
    #[schema(required)]
    ca: Option<&'a str>,
    #[schema(required)]
    client_certificate: Option<&'a str>,
    /// The caller's own object, as it was given.
    #[schema(required, value_type = Option<HashMap<String, Value>>)]
    metadata: Option<Box<RawValue>>,
}

impl<'a> EndpointView<'a> {
    /// The view of an endpoint in a list: the warning would stand there many times.
    #[must_use]
    pub fn in_list(endpoint: &'a Endpoint) -> Self {
        Self {
            warning: None,
            ..Self::of(endpoint)
        }
    }

    /// The view of an endpoint.
    #[must_use]
    pub fn of(endpoint: &'a Endpoint) -> Self {
        let tls = endpoint.settings.tls.as_ref();
        let ca = tls.and_then(EndpointTls::ca);
        let identity = tls.and_then(EndpointTls::identity);
        let certificate = identity.map(|identity| &identity.certificate);
        Self {
            name: endpoint.name.as_str(),
            version: endpoint.version,
            settings: SettingsView::of(&endpoint.settings),
            keys: endpoint.keys.list().iter().map(KeyView::of).collect(),
            client_certificate_expires_at: certificate
                .and_then(Certificates::first_expires_ms)
                .map(display_ms),
            ca_expires_at: ca.and_then(Certificates::last_expires_ms).map(display_ms),
            default_secret_until: endpoint.keys.default_until_ms().map(display_ms),
            warning: endpoint.keys.list().is_empty().then_some(NO_KEYS),
            created_at: display_ms(endpoint.created_ms),
            changed_at: display_ms(endpoint.changed_ms),
        }
    }
}

impl<'a> SettingsView<'a> {
    /// The view of settings.
    #[must_use]
    pub fn of(settings: &'a EndpointSettings) -> Self {
        let headers = settings.headers.pairs().iter();
        let tls = settings.tls.as_ref();
        let identity = tls.and_then(EndpointTls::identity);
        Self {
            url: settings.url.as_str(),
            ladder: (settings.ladder.as_ref()).map(|ladder| name_or_object(&ladder.to_text())),
            ack: settings
                .ack
                .as_ref()
                .map(|ack| name_or_object(&ack.to_text())),
            timeout: settings.timeout_ms.map(duration::display_ms),
            concurrency: settings.limits.concurrency,
            rate: settings.limits.rate.map(CallRate::calls_per_second),
            retry_after: settings.retry_after,
            gone: settings.gone.map(GonePolicy::as_str),
            after_outage_rate: settings.after_outage_rate.map(CallRate::calls_per_second),
            headers: headers
                .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
                .collect(),
            user_agent: settings.user_agent.as_deref(),
            signature_headers: &settings.signature_headers,
            http: settings.http.map(HttpVersion::as_str),
            ca: tls.and_then(EndpointTls::ca).map(Certificates::as_str),
            client_certificate: identity.map(|identity| identity.certificate.as_str()),
            metadata: settings
                .metadata
                .clone()
                .and_then(|text| RawValue::from_string(text).ok()),
        }
    }
}

/// The JSON of a ladder or a rule. Its stored form is a name, or JSON.
#[must_use]
pub fn name_or_object(text: &str) -> Box<RawValue> {
    let json = if text.starts_with('{') {
        text.to_string()
    } else {
        Value::from(text).to_string()
    };
    RawValue::from_string(json).expect("invariant: a quoted name and a stored object are JSON")
}
