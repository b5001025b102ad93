//! Signatures, judged by a library that is not ours: the Standard Webhooks project's own.

use crate::support::merchant::{Call, Merchant, Reaction};
use crate::support::ringback::{Server, Stores, registration, secret, with_ladder};
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::json;
use standardwebhooks::Webhook;

fn judge(call: &Call) -> Result<(), standardwebhooks::WebhookError> {
    let mut headers = HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        headers.insert(
            name,
            HeaderValue::from_str(call.header(name)).expect("a value"),
        );
    }
    Webhook::new(secret().expose())
        .expect("a secret")
        .verify(&call.body, &headers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_attempt_verifies_with_the_reference_library() {
    let mut merchant = Merchant::scripted(vec![Reaction::fail()], Reaction::success()).await;
    let server = Server::start(Stores::Embedded).await;
    server
        .register(with_ladder("a", &merchant, &["20ms"]))
        .await;
    let first = merchant.call().await;
    let second = merchant.call().await;
    judge(&first).expect("the first verifies");
    judge(&second).expect("the second verifies");
    assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
    let mut forged = second;
    forged.body.push(b' ');
    judge(&forged).expect_err("a body that was touched does not");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_are_signed_byte_for_byte() {
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::Embedded).await;
    let bodies = [
        (
            json!({ "id": 1, "amount": "8.88" }),
            r#"{"amount":"8.88","id":1}"#.to_string(),
        ),
        (json!(""), String::new()),
        (json!("付款成功\r\n\u{0}"), "付款成功\r\n\u{0}".to_string()),
        (json!("x".repeat(256 * 1024)), "x".repeat(256 * 1024)),
    ];
    for (number, (body, sent)) in bodies.into_iter().enumerate() {
        let mut asked = registration(&format!("n{number}"), &merchant);
        asked["body"] = body;
        server.register(asked).await;
        let call = merchant.call().await;
        assert_eq!(call.body, sent.as_bytes());
        // Some receivers answer 411 to a POST that does not say that its body is empty.
        assert_eq!(call.header("content-length"), sent.len().to_string());
        judge(&call).expect("it verifies");
    }
    server.stop().await;
}
