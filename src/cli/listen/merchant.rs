//! The merchant behind `listen`: reads a call, judges its signature, decides on the answer.
//!
//! Everything it holds is bounded: bodies, calls in flight, and the notifications it counts.

use crate::cli::terminal::now_ms;
use crate::domain::signature::SigningSecret;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};

/// Largest body that is read, in bytes.
const LARGEST_BODY: usize = 1024 * 1024;
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Bodies read at once; further calls wait.
const MOST_AT_ONCE: usize = 64;
/// Notifications whose calls are counted; beyond that the oldest is forgotten.
const MOST_COUNTED: usize = 10_000;
/// Bytes of a body that are kept to be shown.
const SHOWN_BYTES: usize = 1_024;
/// Longest header value that is kept, in characters.
const LONGEST_HEADER: usize = 200;

/// What the merchant knows and how it answers.
pub struct ListenMerchant {
    /// What calls must be signed with, if it is known.
    pub secret: Option<SigningSecret>,
    /// The body of the answer.
    pub answer: String,
    /// Its status.
    pub status: u16,
    /// How many calls of each notification are answered `fail` first.
    pub fail_first: u32,
    /// How long an answer takes.
    pub delay: Duration,
    /// Where calls are reported.
    pub calls: mpsc::Sender<ReceivedCall>,
}

/// One call, as it arrived and was answered.
#[derive(Debug)]
pub struct ReceivedCall {
    /// When it had arrived whole, in milliseconds since 1970.
    pub at_ms: i64,
    /// The HTTP method.
    pub method: String,
    /// The path, with the query.
    pub path: String,
    /// The `Webhook-Id`.
    pub webhook_id: Option<String>,
    /// The `Ringback-Topic`.
    pub topic: Option<String>,
    /// The `Ringback-Attempt`.
    pub attempt: Option<String>,
    /// Whether the signature is right.
    pub signature: SignatureCheck,
    /// The body; `None` if it was too large or did not arrive.
    pub body: Option<ReceivedBody>,
    /// The status and the body of the answer.
    pub answered: (u16, String),
}

/// A body that has arrived, as far as it is shown.
#[derive(Debug)]
pub struct ReceivedBody {
    /// Its size.
    pub bytes: usize,
    /// Its beginning.
    pub beginning: Vec<u8>,
}

/// The result of verifying a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureCheck {
    /// It matches.
    Verified,
    /// It does not, and why.
    Bad(String),
    /// The secret is not known, or the body.
    Unverified,
}

struct ListenState {
    merchant: ListenMerchant,
    counts: Mutex<CallCounts>,
    reading: Semaphore,
}

impl ListenMerchant {
    /// Answers calls until the task is dropped.
    pub async fn serve(self, listener: TcpListener) {
        let shared = Arc::new(ListenState {
            merchant: self,
            counts: Mutex::new(CallCounts::default()),
            reading: Semaphore::new(MOST_AT_ONCE),
        });
        let router = Router::new().fallback(answer).with_state(shared);
        // Serving on a bound listener does not return.
        let _ = axum::serve(listener, router).await;
    }

    fn judge(&self, headers: &HeaderMap, body: &[u8], now_ms: i64) -> SignatureCheck {
        let Some(secret) = &self.secret else {
            return SignatureCheck::Unverified;
        };
        let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let (Some(id), Some(timestamp), Some(signatures)) = (
            value("webhook-id"),
            value("webhook-timestamp"),
            value("webhook-signature"),
        ) else {
            return SignatureCheck::Bad("a header is missing".to_string());
        };
        match secret.verify(id, timestamp, signatures, body, now_ms / 1_000) {
            Ok(()) => SignatureCheck::Verified,
            Err(error) => SignatureCheck::Bad(error.to_string()),
        }
    }
}

async fn answer(State(shared): State<Arc<ListenState>>, request: Request) -> Response {
    let merchant = &shared.merchant;
    let (parts, body) = request.into_parts();
    let header = |name: &str| {
        let value = parts.headers.get(name)?.to_str().ok()?;
        Some(value.chars().take(LONGEST_HEADER).collect::<String>())
    };
    let body = read(&shared.reading, body).await;
    let now_ms = now_ms();
    let webhook_id = header("webhook-id");
    let signature = match &body {
        Ok(body) => merchant.judge(&parts.headers, body, now_ms),
        Err(_) => SignatureCheck::Unverified,
    };
    let (status, text) = match &body {
        Err(status) => (*status, String::new()),
        Ok(_) => {
            let mut counts = shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
            if counts.call(webhook_id.as_deref().unwrap_or("")) <= merchant.fail_first {
                (StatusCode::INTERNAL_SERVER_ERROR, "fail".to_string())
            } else {
                let status = StatusCode::from_u16(merchant.status).unwrap_or(StatusCode::OK);
                (status, merchant.answer.clone())
            }
        }
    };
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let call = ReceivedCall {
        at_ms: now_ms,
        method: parts.method.to_string(),
        path: path.chars().take(LONGEST_HEADER).collect(),
        webhook_id,
        topic: header("ringback-topic"),
        attempt: header("ringback-attempt"),
        signature,
        body: body.ok().map(|body| ReceivedBody {
            bytes: body.len(),
            beginning: body[..body.len().min(SHOWN_BYTES)].to_vec(),
        }),
        answered: (status.as_u16(), text.clone()),
    };
    // Reported before the wait: a caller that gives up takes this task with it. Fails only when
    // we are stopping.
    let _ = merchant.calls.send(call).await;
    tokio::time::sleep(merchant.delay).await;
    (status, text).into_response()
}

async fn read(reading: &Semaphore, body: Body) -> Result<Vec<u8>, StatusCode> {
    let Ok(_permit) = reading.acquire().await else {
        return Err(StatusCode::SERVICE_UNAVAILABLE);
    };
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, LARGEST_BODY)).await {
        Ok(Ok(body)) => Ok(body.to_vec()),
        Ok(Err(_)) => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
    }
}

/// How often each notification was called.
#[derive(Debug, Default)]
struct CallCounts {
    calls: HashMap<String, u32>,
    oldest_first: VecDeque<String>,
}

impl CallCounts {
    /// Counts a call; 1 for the first.
    fn call(&mut self, webhook_id: &str) -> u32 {
        if let Some(calls) = self.calls.get_mut(webhook_id) {
            *calls = calls.saturating_add(1);
            return *calls;
        }
        if self.oldest_first.len() == MOST_COUNTED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.calls.remove(&oldest);
        }
        self.oldest_first.push_back(webhook_id.to_string());
        self.calls.insert(webhook_id.to_string(), 1);
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_notification_and_the_table_is_bounded() {
        let mut counts = CallCounts::default();
        assert_eq!((counts.call("a"), counts.call("a")), (1, 2));
        assert_eq!(counts.call("b"), 1);
        for number in 0..MOST_COUNTED {
            counts.call(&number.to_string());
        }
        assert_eq!(counts.calls.len(), MOST_COUNTED);
        assert_eq!(counts.oldest_first.len(), MOST_COUNTED);
        assert_eq!(counts.call("a"), 1);
    }
}
