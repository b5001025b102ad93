//! The answers in `fixtures/answers`, given by a real merchant, judged by every kind of ack rule.

use super::on_journaled_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Server, Stores};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;

on_journaled_stores!(
    every_answer_is_judged_as_written_down,
    an_accepted_status_counts_although_the_body_never_ends,
    a_text_may_name_the_notification,
);

/// The rules that each file judges by.
const RULES: [&str; 6] = [
    r#""success""#,
    r#""exact""#,
    r#"{"text":"SUCCESS","ignore_case":true}"#,
    r#""standard-webhooks""#,
    r#""wechat-v2""#,
    r#""douyin""#,
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GoldenAnswer {
    what: String,
    answer: String,
    then: Then,
    acknowledged_by: Vec<String>,
    otherwise: Otherwise,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Then {
    Keep,
    Close,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Otherwise {
    outcome: String,
    status: u16,
}

impl GoldenAnswer {
    fn reaction(&self) -> Reaction {
        let byte = |character| u8::try_from(u32::from(character)).expect("a byte");
        let bytes = self.answer.chars().map(byte).collect();
        match self.then {
            Then::Keep => Reaction::Raw(bytes),
            Then::Close => Reaction::RawThenClose(bytes),
        }
    }

    fn check(&self, name: &str, rule: &str, attempt: &Value) {
        let what = &self.what;
        let is_acknowledged = self
            .acknowledged_by
            .iter()
            .any(|by| *by == rule.trim_matches('"'));
        let outcome = if is_acknowledged {
            "acknowledged"
        } else {
            &self.otherwise.outcome
        };
        assert_eq!(
            attempt["outcome"], outcome,
            "{name} ({what}) by {rule}: {attempt}"
        );
        assert_eq!(
            attempt["status"], self.otherwise.status,
            "{name} by {rule}: {attempt}"
        );
        let reason = attempt["reason"].as_str().unwrap_or_default();
        assert_eq!(
            reason.is_empty(),
            is_acknowledged,
            "{name} by {rule}: {reason}"
        );
        if rule == RULES[0] {
            assert!(reason.contains(&self.reason), "{name}: {reason}");
        }
    }
}

fn golden_answers() -> Vec<(String, GoldenAnswer)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/answers");
    let files = std::fs::read_dir(&dir).expect("the answers");
    let answers = files.map(|file| {
        let path = file.expect("a file").path();
        let text = std::fs::read_to_string(&path).expect("readable");
        let answer = serde_json::from_str(&text);
        let name = path.file_stem().and_then(|stem| stem.to_str());
        let name = name.expect("a name").to_string();
        (
            name,
            answer.unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        )
    });
    answers.collect()
}

fn rule(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

async fn every_answer_is_judged_as_written_down(stores: Stores) {
    let server = Server::start(stores).await;
    let answers = golden_answers();
    assert!(answers.len() >= 30, "the files are there");
    for (name, answer) in &answers {
        let merchant = Merchant::scripted(vec![], answer.reaction()).await;
        for (index, text) in RULES.iter().enumerate() {
            server
                .register(json!({
                    "topic": "t", "id": format!("{name}-{index}"), "url": merchant.url("/notify"),
                    "body": "x", "ladder": { "intervals": [] }, "ack": rule(text),
                }))
                .await;
        }
        for (index, text) in RULES.iter().enumerate() {
            let ended = |view: &Value| view["ended_at"] != Value::Null;
            let view = server.until(&format!("{name}-{index}"), ended).await;
            answer.check(name, text, &view["attempts"][0]);
        }
    }
    server.stop().await;
}

async fn an_accepted_status_counts_although_the_body_never_ends(stores: Stores) {
    let limit = std::time::Duration::from_millis(300);
    let server = Server::start_as(stores, |config| config.delivery.timeout = limit).await;
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_vec();
    for (id, ack, state) in [
        ("status", json!({ "status": [200] }), "delivered"),
        ("text", json!({ "text": "half" }), "dead"),
    ] {
        let merchant = Merchant::scripted(vec![], Reaction::Raw(head.clone())).await;
        server
            .register(json!({
                "topic": "t", "id": id, "url": merchant.url("/notify"), "body": "x",
                "ladder": { "intervals": [] }, "ack": ack,
            }))
            .await;
        server.until_state(id, state).await;
    }
    server.stop().await;
}

async fn a_text_may_name_the_notification(stores: Stores) {
    let server = Server::start(stores).await;
    for (id, state) in [("order-1", "delivered"), ("order-2", "dead")] {
        let merchant = Merchant::scripted(
            vec![],
            Reaction::Answer(200, b"RECV_ORD_ID_order-1\n".to_vec()),
        )
        .await;
        server
            .register(json!({
                "topic": "t", "id": id, "url": merchant.url("/notify"), "body": "x",
                "ladder": { "intervals": [] }, "ack": { "text": "RECV_ORD_ID_{id}" },
            }))
            .await;
        server.until_state(id, state).await;
    }
    server.stop().await;
}
