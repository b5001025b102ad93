//! What the doctor says of the collector that gets the traces.

use super::doctor;
use crate::cli::requests::StandIn;
use crate::support::refusing_port::RefusingPort;
use axum::http::{Method, StatusCode};
use std::path::Path;
use tokio::task::block_in_place;

const HEADERS: [&str; 2] = ["--otlp-headers", "authorization=hunter2"];

fn flags(collector: &str) -> Vec<&str> {
    let flags = ["--listen", "127.0.0.1:0", "--otlp-endpoint", collector];
    [&flags[..], &HEADERS].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_is_sent_a_request_without_a_span() {
    let dir = tempfile::tempdir().expect("a directory");
    let check = async |dir: &Path, status: StatusCode, level: &str, text: &str, mend: &str| {
        let answer = (
            status,
            [("content-type", "application/x-protobuf")],
            String::new(),
        );
        let mut server = StandIn::open(answer).await;
        let collector = format!("http://{}/otlp", server.address);
        let found = block_in_place(|| doctor(dir, &flags(&collector), &[]));
        found.is_sound();
        found.has(("traces", level), text, mend);
        let asked = server.asked();
        assert_eq!(
            (asked.method, asked.uri.path()),
            (Method::POST, "/otlp/v1/traces")
        );
        assert_eq!(asked.headers["authorization"], "hunter2");
        assert_eq!(asked.headers["content-type"], "application/x-protobuf");
    };
    check(dir.path(), StatusCode::OK, "ok", "takes traces", "").await;
    let text = "answered 401, so traces may be lost";
    check(
        dir.path(),
        StatusCode::UNAUTHORIZED,
        "warning",
        text,
        "--otlp-headers-file",
    )
    .await;
}

#[test]
fn a_collector_that_cannot_be_reached_is_a_warning_and_none_is_no_finding() {
    let dir = tempfile::tempdir().expect("a directory");
    let port = RefusingPort::take();
    let collector = format!("http://{}", port.address());
    let found = doctor(dir.path(), &flags(&collector), &[]);
    found.is_sound();
    found.has(
        ("traces", "warning"),
        "cannot be reached at",
        "--otlp-endpoint",
    );
    let found = doctor(dir.path(), &["--listen", "127.0.0.1:0"], &[]);
    let about = found
        .findings
        .iter()
        .filter(|one| one["subject"] == "traces");
    assert_eq!(about.count(), 0);
}
