//! A collector of OpenTelemetry that does what the test tells it. What it is sent is decoded with the messages of the
//! project OpenTelemetry.

use super::merchant::{Call, Merchant, Reaction};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use ringback::config::{OtlpEndpoint, TraceConfig};

/// A collector on a free port of the loopback.
pub struct Collector(Merchant);

/// A request to the collector.
pub struct Export {
    /// As it arrived.
    pub call: Call,
    /// What it says.
    pub request: ExportTraceServiceRequest,
}

impl Collector {
    /// Starts one that takes everything.
    pub async fn start() -> Self {
        Self::scripted(Vec::new(), Self::takes()).await
    }

    /// Starts one that does these things in turn, and then always the last.
    pub async fn scripted(next: Vec<Reaction>, then: Reaction) -> Self {
        Self(Merchant::scripted(next, then).await)
    }

    /// It takes spans. The answer that says so is an empty message.
    pub fn takes() -> Reaction {
        Reaction::Answer(200, Vec::new())
    }

    /// The settings of a server that sends its traces here.
    pub fn settings(&self) -> TraceConfig {
        let endpoint = OtlpEndpoint::parse(&self.0.url("/otlp"));
        TraceConfig {
            endpoint: Some(endpoint.expect("a URL")),
            ..TraceConfig::default()
        }
    }

    /// The next request that arrives, or has arrived.
    pub async fn export(&mut self) -> Export {
        Export::of(self.0.call().await)
    }

    /// The spans of all requests that have arrived and were not looked at.
    pub fn spans(&mut self) -> Vec<Span> {
        let exports = std::iter::from_fn(|| self.0.arrived()).map(Export::of);
        exports.flat_map(Export::spans).collect()
    }
}

impl Export {
    fn of(call: Call) -> Self {
        let request = ExportTraceServiceRequest::decode(&call.body[..]).expect("the message");
        Self { call, request }
    }

    /// Its spans.
    pub fn spans(self) -> Vec<Span> {
        let resources = self.request.resource_spans.into_iter();
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }
}

/// An attribute as a text. Empty if there is none.
pub fn attribute(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|found| found.value.clone()?.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(other) => panic!("{name}: {other:?}"),
        None => String::new(),
    }
}

/// An id as it is written in a `traceparent`.
pub fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
