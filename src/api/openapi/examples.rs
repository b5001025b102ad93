//! The examples in the description. A test compares them with the schemas, and the tester of the API sends those of requests.

use serde_json::{Value, json};

const AT: &str = "2026-11-20T08:30:00.000Z";
const URL: &str = "https://shop.example/notify";

pub(super) fn nothing() -> Value {
    json!({})
}

pub(super) fn reason() -> Value {
    json!({ "reason": "the shop has repaired its server" })
}

pub(super) fn registration() -> Value {
    json!({
        "topic": "payment.succeeded", "id": "order-1001", "url": URL,
        "body": { "order": 1001, "amount": "8.88" }, "headers": { "x-request-id": "42" },
        "delay": "30m", "ladder": "alipay", "ack": "success",
    })
}

pub(super) fn batch() -> Value {
    json!({
        "notifications": [
            registration(),
            { "topic": "payment.succeeded", "id": "order-1002", "url": URL, "body": "out_trade_no=1002",
              "content_type": "application/x-www-form-urlencoded",
              "ladder": { "intervals": ["10s", "1m"], "window": "1h", "repeat_last": true },
              "ack": { "text": "OK", "ignore_case": true } },
        ],
    })
}

pub(super) fn moved() -> Value {
    json!({ "delay": "30m" })
}

pub(super) fn notification() -> Value {
    json!({
        "topic": "payment.succeeded", "id": "order-1001", "webhook_id": "msg_01a2044ff818758f83dfa9b233b867a6",
        "lane": "https://shop.example", "url": URL, "state": "scheduled", "series": 1,
        "attempts_made": 0, "attempts_left": 8, "registered_at": AT, "next_attempt_at": "2026-11-20T09:00:00.000Z",
        "deadline_at": "2026-11-21T09:22:00.000Z", "ended_at": null, "cause": null, "priority": "normal", "order": null,
        "attempts": [],
    })
}

pub(super) fn list() -> Value {
    let mut item = notification();
    item["last_attempt"] = Value::Null;
    json!({ "items": [item], "next_cursor": null })
}

pub(super) fn payload() -> Value {
    json!({
        "topic": "payment.succeeded", "id": "order-1001", "content_type": "text/plain; charset=utf-8",
        "headers": { "x-request-id": "42" }, "body": "abc", "body_bytes": 3,
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    })
}

pub(super) fn attempt() -> Value {
    json!({
        "series": 1, "number": 1, "due_at": AT, "started_at": AT, "duration_ms": 24, "deferred_ms": null, "deferred_by": null,
        "outcome": "wrong_answer", "status": 200, "answer": "<html>", "reason": "answered 200, but the body is `<html>`",
        "address": "192.0.2.7:443", "connection": "new", "tls": "1.3", "http": "1.1",
        "phases": { "dns_ms": 1.2, "connect_ms": 3.4, "tls_ms": 7.1, "first_byte_ms": 12.0, "body_ms": 0.1 },
        "endpoint_version": 1, "key_ids": ["default_929fce38"], "retry_after": null,
    })
}

pub(super) fn lane() -> Value {
    json!({
        "lane": "https://shop.example", "endpoint": null, "state": "held", "pending": 12,
        "pending_is_at_least": false, "due": 3, "in_flight": 0,
        "concurrency": 16, "concurrency_now": 2, "rate": null, "oldest_due_at": AT, "failing_since": null,
        "last_outcome": "wrong_answer", "last_status": 200, "last_outcome_since": AT, "held_at": AT, "held_by": "anna",
        "held_reason": "they move",
    })
}

pub(super) fn job_request() -> Value {
    json!({ "reason": "they are back", "rate": 100, "dry_run": false })
}

pub(super) fn bulk_replay() -> Value {
    json!({ "filter": { "topic": "payment.succeeded", "cause": "refused" }, "reason": "they are back", "dry_run": true })
}

pub(super) fn bulk_cancel() -> Value {
    json!({ "filter": { "id_contains": "promo-" }, "reason": "wrong price" })
}

pub(super) fn job() -> Value {
    json!({
        "id": "019aa3f2-7c1e-7000-8000-0123456789ab", "kind": "lane_retry", "state": "running",
        "lane": "https://shop.example", "filter": null, "matched": 12_000, "done": 3_400, "skipped": 2, "failed": 0, "rate": 200.0,
        "actor": "anna", "reason": "they are back", "problem": null, "created_at": AT, "ended_at": null,
    })
}

pub(super) fn job_notifications() -> Value {
    json!({
        "items": [{
            "topic": "payment.succeeded", "id": "order-1001", "result": "skipped", "reason": "delivered", "detail": null,
            "at": AT, "notification": null,
        }],
        "next_cursor": null, "reasons": [{ "result": "skipped", "reason": "delivered", "count": 1 }], "unlisted": 0,
        "replayed": null,
    })
}

pub(super) fn endpoint_document() -> Value {
    json!({ "url": URL, "ladder": "alipay", "timeout": "5s", "concurrency": 4, "rate": 20 })
}

pub(super) fn endpoint_patch() -> Value {
    json!({ "concurrency": 8, "rate": null })
}

pub(super) fn endpoint() -> Value {
    json!({
        "name": "shop-1", "version": 1, "url": URL, "ladder": "alipay", "ack": null, "timeout": "5s", "concurrency": 4,
        "rate": 20.0, "retry_after": null, "gone": null, "after_outage_rate": null, "headers": {}, "user_agent": null,
        "signature_headers": { "id": "webhook-id", "timestamp": "webhook-timestamp", "signature": "webhook-signature" },
        "http": null, "ca": null, "client_certificate": null, "metadata": null, "keys": [],
        "client_certificate_expires_at": null, "ca_expires_at": null, "default_secret_until": null,
        "created_at": AT, "changed_at": AT,
    })
}

pub(super) fn key_to_add() -> Value {
    json!({ "kind": "symmetric", "overlap": "24h" })
}

pub(super) fn added_key() -> Value {
    json!({
        "id": "key_1f2e3d4c", "kind": "symmetric", "created_at": AT, "signs_until": null, "public_key": null,
        "secret": "whsec_...",
    })
}

pub(super) fn api_key_to_make() -> Value {
    json!({ "name": "orders", "role": "producer", "topics": ["payment.succeeded"] })
}

pub(super) fn made_api_key() -> Value {
    json!({
        "name": "orders", "role": "producer", "topics": ["payment.succeeded"], "created_at": AT, "created_by": "anna",
        "expires_at": null, "has_expired": false, "key": "rbk_...",
    })
}

pub(super) fn audit_log() -> Value {
    json!({
        "items": [{
            "id": "7", "at": AT, "actor": "desk/anna", "act": "lane.hold",
            "subject": { "kind": "lane", "name": "https://shop.example" }, "reason": "they move", "detail": null,
            "instance": "ringback-1",
        }],
        "next_cursor": null,
    })
}
