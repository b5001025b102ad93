//! A server that comes back while the others sign with another default secret.

use crate::support::merchant::Merchant;
use crate::support::postgres::connect;
use crate::support::ringback::{Server, Stores, registration, secret};
use crate::support::within;
use reqwest::Method;
use ringback::config::JournalConfig;
use ringback::domain::signature::SigningSecret;
use serde_json::Value;

const KEPT: &str = "kept:default-secret";

/// What the journal remembers.
async fn remembered(database: &str) -> String {
    let query = sqlx::query_scalar("SELECT value FROM meta WHERE name = $1").bind(KEPT);
    let mut connection = connect(database).await;
    query.fetch_one(&mut connection).await.expect("remembered")
}

/// Writes what a server with this secret would have written at its start.
async fn remember(database: &str, secret: &SigningSecret) {
    let query = sqlx::query("UPDATE meta SET value = $2 WHERE name = $1");
    let mut connection = connect(database).await;
    let query = query.bind(KEPT).bind(secret.fingerprint());
    query.execute(&mut connection).await.expect("written");
}

/// Waits until `/readyz` warns of the secret, or does so no more.
async fn until_warned(server: &Server, expected: bool) {
    let warned = async {
        loop {
            let (status, ready): (u16, Value) = server.call(Method::GET, "/readyz", None).await;
            assert_eq!(status, 200, "{ready}");
            if ready["warnings"]
                .to_string()
                .contains("another default secret")
                == expected
            {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    within("the warning", warned).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_another_default_secret_than_the_others_sends_nothing() {
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::Postgres).await;
    let JournalConfig::Postgres(url) = &server.config().journal else {
        panic!("a journal in PostgreSQL");
    };
    let database = url.expose().to_string();
    assert_eq!(remembered(&database).await, secret().fingerprint());
    remember(&database, &SigningSecret::from_random(&[9; 32])).await;
    until_warned(&server, true).await;
    server.register(registration("a", &merchant)).await;
    let is_asked_for = server.call(Method::POST, "/v1/notifications/t/a/retry", None);
    is_asked_for.await;
    assert!(merchant.arrived().is_none(), "nothing is sent");
    remember(&database, &secret()).await;
    until_warned(&server, false).await;
    merchant.call().await;
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts_made"], 1, "no attempt was spent: {view}");
    let server = server
        .restart_as(|config| config.delivery.signing_secret = SigningSecret::from_random(&[9; 32]))
        .await;
    let expected = SigningSecret::from_random(&[9; 32]).fingerprint();
    assert_eq!(remembered(&database).await, expected, "the others are told");
    server.stop().await;
}
