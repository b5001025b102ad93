//! The pretend merchant: answers by its script, and reports what arrived.

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

/// Calls that wait to be shown.
const QUEUE: usize = 64;

/// One call that arrived.
#[derive(Debug, Clone)]
pub struct ArrivedCall {
    /// The index of its story.
    pub story: usize,
    /// Its `Webhook-Id`.
    pub webhook_id: String,
    /// Its `Ringback-Attempt`.
    pub attempt: String,
    /// Whether its signature is right.
    pub verified: bool,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// What was answered.
    pub answered: &'static str,
}

/// The merchant; it closes when dropped.
pub struct DemoMerchant {
    address: SocketAddr,
    calls: mpsc::Receiver<ArrivedCall>,
    serving: AbortHandle,
}

struct MerchantScript {
    secret: SigningSecret,
    calls: mpsc::Sender<ArrivedCall>,
    /// How many calls each story has had.
    made: Vec<AtomicUsize>,
}

impl DemoMerchant {
    /// Opens a merchant on a free port that knows the secret.
    pub async fn open(secret: SigningSecret) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("the pretend merchant")?;
        let address = listener.local_addr().context("the pretend merchant")?;
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

    /// Where the notification of a story goes.
    pub fn url(&self, story: usize) -> String {
        format!("http://{}/{story}", self.address)
    }

    /// The next call. Waits for ever if none comes.
    pub async fn called(&mut self) -> ArrivedCall {
        match self.calls.recv().await {
            Some(call) => call,
            None => std::future::pending().await,
        }
    }

    /// A call that has come already.
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
    // Fails only when the demonstration is over.
    let _ = script.calls.send(arrived).await;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    (status, answered)
}
