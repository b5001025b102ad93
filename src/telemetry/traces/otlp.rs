//! The form of OTLP: what a collector is sent, and what it answers.

use super::queue::EndedSpan;
use super::span::attribute;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use prost::Message as _;

/// What the spans are of: this program, and this process of it.
pub(super) fn resource(instance: &str) -> Resource {
    let attributes = [
        ("service.name", "ringback"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", instance),
    ];
    let attributes = attributes.map(|(name, value)| attribute((name, value.into())));
    Resource {
        attributes: attributes.into(),
        ..Resource::default()
    }
}

/// The body of a request with these spans.
pub(super) fn request_body(resource: &Resource, spans: Vec<EndedSpan>) -> Vec<u8> {
    let scope = InstrumentationScope {
        name: "ringback".to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        ..InstrumentationScope::default()
    };
    let spans = ScopeSpans {
        scope: Some(scope),
        spans,
        ..ScopeSpans::default()
    };
    let spans = ResourceSpans {
        resource: Some(resource.clone()),
        scope_spans: vec![spans],
        ..ResourceSpans::default()
    };
    ExportTraceServiceRequest {
        resource_spans: vec![spans],
    }
    .encode_to_vec()
}

/// How many spans a collector refuses that has answered 200 with this body, and why. An answer that cannot be read refuses
/// none.
pub(super) fn refused_spans(body: &[u8]) -> (usize, String) {
    let answer = ExportTraceServiceResponse::decode(body).unwrap_or_default();
    let refused = answer.partial_success.unwrap_or_default();
    let many = usize::try_from(refused.rejected_spans).unwrap_or(0);
    (many, refused.error_message)
}
