//! Traces that are sent to a collector.

use super::on_stores;
use super::traces::{PARENT, flush, header, post, register};
use crate::support::collector::{Collector, attribute, hex};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::refusing_port::RefusingPort;
use crate::support::ringback::{BEGIN_MS, Server, Stores, config, registration, with_ladder};
use crate::support::{short_pause, within};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;
use ringback::clock::ManualClock;
use ringback::config::{OtlpEndpoint, OtlpHeaders, TraceConfig};
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

on_stores!(the_registration_and_each_attempt_are_spans_of_one_trace);

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("now");
    u64::try_from(now.as_nanos()).expect("not that late")
}

async fn start(traces: TraceConfig) -> Server {
    Server::start_as(Stores::Embedded, |config| config.traces = traces).await
}

fn is_server(span: &Span) -> bool {
    span.kind == SpanKind::Server as i32
}

/// The value of a metric, which may be a second old.
async fn until_metric(server: &Server, sample: &str) {
    let client = reqwest::Client::builder()
        .no_proxy()
        .build()
        .expect("a client");
    let reading = async {
        loop {
            let answer = client.get(format!("{}/metrics", server.url())).send().await;
            let text = answer.expect("an answer").text().await.expect("a text");
            if text.lines().any(|line| line == sample) {
                return;
            }
            short_pause().await;
        }
    };
    within(sample, reading).await;
}

async fn the_registration_and_each_attempt_are_spans_of_one_trace(stores: Stores) {
    let before = now();
    let mut collector = Collector::start().await;
    let mut merchant = Merchant::scripted(
        vec![Reaction::Answer(503, b"hunter2".to_vec())],
        Reaction::success(),
    )
    .await;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut config = config(dir.path(), stores);
    config.traces = collector.settings();
    config.traces.headers = OtlpHeaders::parse("authorization=Bearer%20k").ok();
    let server = Server::open(config, Some(ManualClock::at(BEGIN_MS)), Some(dir)).await;
    let mut asked = with_ladder("order-1", &merchant, &["6h"]);
    asked["url"] = merchant.url("/notify?token=hunter2").into();
    asked["body"] = "hunter2".into();
    asked["headers"] = json!({ "authorization": "hunter2" });
    let headers = [("traceparent", PARENT), ("tracestate", "a=1")];
    register(&server, &asked, &headers).await;
    let first = merchant.call().await;
    server.until_attempts("order-1", 1).await;
    if matches!(stores, Stores::Redis | Stores::Postgres) {
        flush(&server).await;
    }
    let server = server.restart().await;
    server.until_state("order-1", "scheduled").await;
    server.clock().advance(6 * 3_600_000);
    let second = merchant.call().await;
    server.until_state("order-1", "delivered").await;
    server.stop().await;

    let mut spans = Vec::new();
    while spans.len() < 3 {
        let export = collector.export().await;
        let call = &export.call;
        assert_eq!(call.request_line, "POST /otlp/v1/traces HTTP/1.1");
        assert_eq!(call.header("content-type"), "application/x-protobuf");
        assert_eq!(call.header("authorization"), "Bearer k");
        let text = String::from_utf8_lossy(&call.body);
        assert!(!text.contains("hunter2"), "{text}");
        let of = export.request.resource_spans[0]
            .resource
            .clone()
            .expect("a resource");
        assert_eq!(attribute(&of.attributes, "service.name"), "ringback");
        assert_ne!(attribute(&of.attributes, "service.instance.id"), "");
        spans.extend(export.spans());
    }
    let after = now();
    assert_eq!(collector.spans().len() + spans.len(), 3);
    for span in &spans {
        assert_eq!(hex(&span.trace_id), PARENT[3..35]);
        assert_eq!((span.trace_state.as_str(), span.flags), ("a=1", 0x301));
        assert!(before <= span.start_time_unix_nano, "{span:?}");
        assert!(
            span.start_time_unix_nano <= span.end_time_unix_nano,
            "{span:?}"
        );
        assert!(span.end_time_unix_nano <= after, "{span:?}");
        assert_eq!(attribute(&span.attributes, "ringback.topic"), "t");
        assert_eq!(attribute(&span.attributes, "ringback.id"), "order-1");
    }
    let (servers, attempts): (Vec<Span>, Vec<Span>) = spans.into_iter().partition(is_server);
    let [registered] = &servers[..] else {
        panic!("{servers:?}");
    };
    assert_eq!(registered.name, "POST /v1/notifications");
    assert_eq!(hex(&registered.parent_span_id), PARENT[36..52]);
    assert_eq!(registered.status, None);
    let shown = |name| attribute(&registered.attributes, name);
    assert_eq!(shown("http.request.method"), "POST");
    assert_eq!(shown("http.route"), "/v1/notifications");
    assert_eq!(shown("http.response.status_code"), "201");
    assert_eq!(shown("ringback.registration"), "created");

    let port = merchant.port().to_string();
    let sides = [
        (first, "503", "503", "http_status", "1", ""),
        (second, "200", "", "acknowledged", "2", "1"),
    ];
    for (span, (call, status, error, outcome, number, again)) in attempts.iter().zip(sides) {
        assert_eq!(
            (span.kind, span.name.as_str()),
            (SpanKind::Client as i32, "POST")
        );
        assert_eq!(span.parent_span_id, registered.span_id);
        let own = format!("00-{}-{}-01", &PARENT[3..35], hex(&span.span_id));
        assert_eq!(header(&call, "traceparent"), Some(own.as_str()));
        assert_eq!(header(&call, "tracestate"), Some("a=1"));
        let shown = |name| attribute(&span.attributes, name);
        assert_eq!(shown("server.address"), "127.0.0.1");
        assert_eq!(shown("server.port"), port);
        let url = merchant.url("/notify?token=REDACTED");
        assert_eq!(shown("url.full"), url);
        assert_eq!(shown("network.peer.port"), port);
        assert_eq!(shown("network.protocol.version"), "1.1");
        assert_eq!(shown("http.response.status_code"), status);
        assert_eq!(shown("error.type"), error);
        assert_eq!(shown("http.request.resend_count"), again);
        assert_eq!(shown("ringback.outcome"), outcome);
        assert_eq!(shown("ringback.attempt"), number);
        assert_eq!(shown("ringback.series"), "1");
        assert_eq!(shown("ringback.webhook_id"), call.header("webhook-id"));
        let message = span.status.as_ref().map(|status| status.message.as_str());
        assert_eq!(message, (!error.is_empty()).then_some(outcome));
    }
    assert_eq!(attempts.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_caller_decides_about_its_trace_and_the_ratio_about_others() {
    let mut collector = Collector::start().await;
    let mut merchant = Merchant::start().await;
    let unsampled = format!("{}00", &PARENT[..53]);
    for ratio in [0.0, 1.0] {
        let server = start(TraceConfig {
            sample_ratio: ratio,
            ..collector.settings()
        })
        .await;
        register(&server, &registration("own", &merchant), &[]).await;
        let own = merchant.call().await;
        let headers = [("traceparent", unsampled.as_str())];
        register(&server, &registration("not", &merchant), &headers).await;
        // It is named by nobody's span.
        assert_eq!(
            header(&merchant.call().await, "traceparent"),
            Some(unsampled.as_str())
        );
        register(
            &server,
            &registration("theirs", &merchant),
            &[("traceparent", PARENT)],
        )
        .await;
        merchant.call().await;
        for id in ["own", "not", "theirs"] {
            server.until_state(id, "delivered").await;
        }
        server.stop().await;
        let spans = collector.spans();
        let many = |id: &str| {
            let is_of = |span: &&Span| attribute(&span.attributes, "ringback.id") == id;
            spans.iter().filter(is_of).count()
        };
        assert_eq!(["not", "theirs"].map(many), [0, 2], "{spans:?}");
        match ratio > 0.0 {
            false => assert_eq!((many("own"), header(&own, "traceparent")), (0, None)),
            true => {
                assert_eq!(many("own"), 2);
                let roots: Vec<&Span> = (spans.iter())
                    .filter(|span| span.parent_span_id.is_empty())
                    .collect();
                assert_eq!((roots.len(), roots[0].flags), (1, 0x101));
                let sent = header(&own, "traceparent").expect("sent on");
                assert_eq!(sent[3..35], hex(&roots[0].trace_id));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_refused_or_registers_many_is_one_span() {
    let mut collector = Collector::start().await;
    let mut merchant = Merchant::start().await;
    let server = start(collector.settings()).await;
    let both = ["a", "b"].map(|id| registration(id, &merchant));
    let batch = json!({ "notifications": both });
    post(&server, "/v1/notifications/batch", &batch, &[]).await;
    for id in ["a", "b"] {
        merchant.call().await;
        server.until_state(id, "delivered").await;
    }
    let (status, _) = post(&server, "/v1/notifications", &json!({ "id": "c" }), &[]).await;
    assert_eq!(status, 422);
    let (status, _) = post(&server, "/v1/notifications", &both[0], &[]).await;
    assert_eq!(status, 200);
    server.stop().await;
    let (requests, attempts): (Vec<Span>, Vec<Span>) =
        collector.spans().into_iter().partition(is_server);
    let shown: Vec<[String; 4]> = (requests.iter())
        .map(|span| {
            let shown = |name| attribute(&span.attributes, name);
            let names = [
                "http.response.status_code",
                "ringback.batch_size",
                "ringback.registration",
            ];
            let [status, many, result] = names.map(shown);
            assert_eq!(span.status, None, "no failure of the server");
            [span.name.clone(), status, many, result]
        })
        .collect();
    let expected = [
        ["POST /v1/notifications/batch", "200", "2", ""],
        ["POST /v1/notifications", "422", "", ""],
        ["POST /v1/notifications", "200", "", "existing"],
    ];
    assert_eq!(shown, expected.map(|row| row.map(str::to_string)));
    assert_eq!(attempts.len(), 2);
    for attempt in attempts {
        assert_eq!(attempt.parent_span_id, requests[0].span_id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_hangs_or_is_away_delays_nothing() {
    let hanging = Collector::scripted(Vec::new(), Reaction::Hang).await;
    let nobody = RefusingPort::take();
    let away = TraceConfig {
        endpoint: OtlpEndpoint::parse(&format!("http://{}", nobody.address())).ok(),
        ..TraceConfig::default()
    };
    for traces in [hanging.settings(), away] {
        let mut merchant = Merchant::start().await;
        let server = start(traces).await;
        for id in ["a", "b"] {
            server.register(registration(id, &merchant)).await;
            merchant.call().await;
            server.until_state(id, "delivered").await;
        }
        // It ends, although it cannot send what it has.
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_collector_does_not_take_is_counted() {
    let partial = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess {
            // More than there are.
            rejected_spans: 7,
            error_message: "too old".to_string(),
        }),
    };
    let partial = Reaction::Answer(200, partial.encode_to_vec());
    let away = Reaction::Answer(503, Vec::new());
    let refused = "ringback_trace_spans_dropped_total{reason=\"refused\"}";
    let exported = "ringback_trace_spans_exported_total";
    // How the spans are divided into requests is left to the clock.
    for (next, then, expected) in [
        (
            vec![],
            Reaction::Answer(500, Vec::new()),
            [(refused, 2), (exported, 0)],
        ),
        (vec![], partial, [(refused, 2), (exported, 0)]),
        // It is asked again after a second, and then after two.
        (
            vec![away, Reaction::Close],
            Collector::takes(),
            [(refused, 0), (exported, 2)],
        ),
    ] {
        let collector = Collector::scripted(next, then).await;
        let mut merchant = Merchant::start().await;
        let server = start(collector.settings()).await;
        server.register(registration("a", &merchant)).await;
        merchant.call().await;
        server.until_state("a", "delivered").await;
        for (name, value) in expected {
            until_metric(&server, &format!("{name} {value}")).await;
        }
        server.stop().await;
    }
}
