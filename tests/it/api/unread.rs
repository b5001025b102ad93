//! Answers to clients that are still sending: they arrive.

use super::Embedded;
use ringback::api::ApiSettings;
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// More than fits into the buffers of both sockets, and no more than a batch may have.
const LARGE: usize = 16 * 1024 * 1024;
const BATCH: &str = "/v1/notifications/batch";

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("connects")
}

fn head(path: &str, more: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{more}\r\n")
}

/// Writes all of it, and only then reads the answer, to the end of the connection.
async fn send_then_read(address: SocketAddr, head: &str, body: &[u8]) -> String {
    let mut stream = connect(address).await;
    stream.write_all(head.as_bytes()).await.expect("sends");
    stream.write_all(body).await.expect("sends all of it");
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer).await;
    read.expect("the connection is closed, and not reset");
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_early_answer_reaches_a_client_that_sends_everything_first() {
    let busy = Embedded::with(ApiSettings {
        most_requests: 0,
        ..ApiSettings::default()
    })
    .await;
    let locked = Embedded::with_key().await;
    let open = Embedded::start().await;
    let length = format!("Content-Length: {LARGE}\r\n");
    let packed = format!("{length}Content-Encoding: gzip\r\n");
    let chunked = "Transfer-Encoding: chunked\r\n";
    let plain = vec![b' '; LARGE];
    let mut chunks = format!("{LARGE:x}\r\n").into_bytes();
    chunks.extend_from_slice(&plain);
    chunks.extend_from_slice(b"\r\n0\r\n\r\n");
    for (server, path, more, body, status) in [
        (&busy, BATCH, length.as_str(), &plain, 503),
        (&busy, BATCH, chunked, &chunks, 503),
        (&locked, BATCH, length.as_str(), &plain, 401),
        (&locked, BATCH, chunked, &chunks, 401),
        (&open, "/v1/x", length.as_str(), &plain, 404),
        (&open, "/healthz", length.as_str(), &plain, 405),
        (&open, "/v1/notifications", length.as_str(), &plain, 413),
        (&open, "/v1/notifications", chunked, &chunks, 413),
        (&open, BATCH, packed.as_str(), &plain, 415),
    ] {
        let answer = send_then_read(server.server.address, &head(path, more), body).await;
        let told = answer.lines().next().unwrap_or_default();
        assert!(
            told.starts_with(&format!("HTTP/1.1 {status} ")),
            "{path}: {answer}"
        );
        assert!(answer.contains("connection: close\r\n"), "{path}: {answer}");
        assert!(
            answer.contains("\"type\":\"urn:ringback:problem:"),
            "{path}: {answer}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_http_is_told_so_while_it_is_sent() {
    let open = Embedded::start().await;
    let address = open.server.address;
    let answer = send_then_read(address, "NO HTTP\r\n", &vec![b' '; LARGE]).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_small_body_that_was_not_asked_for_the_connection_is_used_again() {
    let open = Embedded::start().await;
    let mut stream = BufReader::new(connect(open.server.address).await);
    let body = [b' '; 40_000];
    let request = head("/v1/x", "Content-Length: 40000\r\n");
    for _ in 0..3 {
        stream.write_all(request.as_bytes()).await.expect("sends");
        stream.write_all(&body).await.expect("sends");
        let answer = read_answer(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    }
}

/// Reads one answer from a connection that stays open.
async fn read_answer(stream: &mut BufReader<TcpStream>) -> String {
    let mut answer = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        let read = stream.read_line(&mut line).await.expect("an answer");
        assert!(read > 0, "closed after {answer:?}");
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().expect("a length");
        }
        answer.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    stream
        .read_exact(&mut vec![0; length])
        .await
        .expect("a body");
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_consent_is_answered_without_it() {
    let busy = Embedded::with(ApiSettings {
        most_requests: 0,
        ..ApiSettings::default()
    })
    .await;
    let request = head(BATCH, "Expect: 100-continue\r\nContent-Length: 100\r\n");
    let mut stream = BufReader::new(connect(busy.server.address).await);
    stream.write_all(request.as_bytes()).await.expect("sends");
    let answer = read_answer(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_never_stops_sending_is_cut_off() {
    let open = Embedded::start().await;
    let mut stream = connect(open.server.address).await;
    let request = head("/v1/x", "Transfer-Encoding: chunked\r\n");
    stream.write_all(request.as_bytes()).await.expect("sends");
    let mut chunk = b"100000\r\n".to_vec();
    chunk.extend_from_slice(&vec![b' '; 0x10_0000]);
    chunk.extend_from_slice(b"\r\n");
    let mut sent = 0;
    while stream.write_all(&chunk).await.is_ok() {
        sent += chunk.len();
        assert!(sent < 256 * 1024 * 1024, "nobody stops it");
    }
}
