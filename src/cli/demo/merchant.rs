//! The simulated merchant of the demonstration: gives the answers of each story, and reports the calls.

use super::stories::STORIES;
use crate::cli::terminal::now_ms;
use crate::domain::signature::SigningSecret;
use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// Maximum number of calls that wait to be shown.
const QUEUE: usize = 64;

/// One call that arrived at the merchant.
#[derive(Debug, Clone)]
pub struct ArrivedCall {
    /// The index of the story.
    pub story: usize,
    /// The value of the header `Webhook-Id`.
    pub webhook_id: String,
    /// The value of the header `Ringback-Attempt`.
    pub attempt: String,
    /// Whether the signature is right.
    pub verified: bool,
    /// When the call arrived, in milliseconds since 1970.
    pub at_ms: i64,
    /// The body of the merchant's answer.
    pub answered: &'static str,
}

/// The simulated merchant. It stops when this value is dropped.
pub struct DemoMerchant {
    address: SocketAddr,
    calls: mpsc::Receiver<ArrivedCall>,
    serving: AbortHandle,
}

struct MerchantScript {
    secret: SigningSecret,
    calls: mpsc::Sender<ArrivedCall>,
    /// The number of calls of each story.
    made: Vec<AtomicUsize>,
}

impl DemoMerchant {
    /// Starts a merchant on a free port. It verifies signatures with this secret.
    pub async fn open(secret: SigningSecret) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("cannot start the simulated merchant")?;
        let address = listener
            .local_addr()
            .context("cannot start the simulated merchant")?;
        let (sender, calls) = mpsc::channel(QUEUE);
        let script = Arc::new(MerchantScript {
            secret,
            calls: sender,
            made: STORIES.iter().map(|_| AtomicUsize::new(0)).collect(),
        });
        let router = Router::new()
            .route("/{story}", post(answer))
            .with_state(script);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self {
            address,
            calls,
            serving: serving.abort_handle(),
        })
    }

    /// The URL to which the notification of a story is delivered.
    pub fn url(&self, story: usize) -> String {
        format!("http://{}/{story}", self.address)
    }

    /// Waits for the next call, if necessary for ever.
    pub async fn called(&mut self) -> ArrivedCall {
        match self.calls.recv().await {
            Some(call) => call,
            None => std::future::pending().await,
        }
    }

    /// The next call, if one has already arrived.
    pub fn called_meanwhile(&mut self) -> Option<ArrivedCall> {
        self.calls.try_recv().ok()
    }
}

impl Drop for DemoMerchant {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(
    State(script): State<Arc<MerchantScript>>,
    Path(story): Path<usize>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, &'static str) {
    let (Some(played), Some(made)) = (STORIES.get(story), script.made.get(story)) else {
        return (StatusCode::NOT_FOUND, "");
    };
    let header = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or("").to_string()
    };
    let at_ms = now_ms();
    let verified = script
        .secret
        .verify(
            &header("webhook-id"),
            &header("webhook-timestamp"),
            &header("webhook-signature"),
            &body,
            at_ms / 1_000,
        )
        .is_ok();
    let call = made.fetch_add(1, Ordering::Relaxed);
    let (status, answered) = played.replies[call.min(played.replies.len() - 1)];
    let arrived = ArrivedCall {
        story,
        webhook_id: header("webhook-id"),
        attempt: header("ringback-attempt"),
        verified,
        at_ms,
        answered,
    };
    // This fails only after the demonstration has ended.
    let _ = script.calls.send(arrived).await;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    (status, answered)
}
