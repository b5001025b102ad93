//! The collector of OpenTelemetry: the requests to it, with the headers of the settings.

use super::otlp::{request_body, resource};
use crate::config::TraceConfig;
use crate::tls_roots;
use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};
use std::time::Duration;

/// The time limit of one request, as OpenTelemetry has it.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// A collector to which spans can be sent.
pub struct Collector {
    client: Client,
    url: Url,
    headers: HeaderMap,
}

impl Collector {
    /// The collector that the settings name; `None` if they name none.
    ///
    /// # Errors
    /// If the HTTP client cannot be made.
    pub fn of(config: &TraceConfig) -> anyhow::Result<Option<Self>> {
        let Some(endpoint) = &config.endpoint else {
            return Ok(None);
        };
        let mut headers = HeaderMap::new();
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        headers.insert(CONTENT_TYPE, protobuf);
        let own = config.headers.as_ref();
        for (name, value) in own.map_or(&[][..], |headers| headers.expose()) {
            let mut value = HeaderValue::from_str(value)?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_bytes(name.as_bytes())?, value);
        }
        let client = tls_roots::build(|| {
            Client::builder()
                .timeout(REQUEST_TIME)
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .user_agent(concat!("Ringback/", env!("CARGO_PKG_VERSION")))
                .no_proxy()
        })?;
        Ok(Some(Self {
            client,
            url: endpoint.traces_url().clone(),
            headers,
        }))
    }

    /// Where requests go.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Sends one request.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(super) async fn post(&self, body: Bytes) -> Result<Response, String> {
        let request = self.client.post(self.url.clone());
        let request = request.headers(self.headers.clone()).body(body);
        request.send().await.map_err(|error| innermost(&error))
    }

    /// Sends a request without a span, so that nothing is recorded. Returns the status of the answer.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn probe(&self, instance: &str) -> Result<u16, String> {
        let body = request_body(&resource(instance), Vec::new());
        let answer = self.post(body.into()).await?;
        Ok(answer.status().as_u16())
    }
}

/// The text of the innermost error, because the outer ones only repeat the URL.
fn innermost(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "it did not answer in time".to_string();
    }
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
