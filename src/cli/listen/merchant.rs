//! The merchant of `ringback listen`: reads a call, verifies its signature and answers it.
//!
//! Its memory is bounded: there are limits for bodies, for calls in flight and for counted notifications.

use crate::cli::terminal::now_ms;
use crate::domain::signature::BadSignature;
use crate::domain::verifying_key::VerifyingKey;
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

/// Maximum length of a body, in bytes.
const LARGEST_BODY: usize = 1024 * 1024;
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of bodies that are read at once. Further calls wait.
const MOST_AT_ONCE: usize = 64;
/// Maximum number of notifications whose calls are counted. If there are more, the oldest is forgotten.
const MOST_COUNTED: usize = 10_000;
/// Maximum bytes of a body that are shown.
const SHOWN_BYTES: usize = 1_024;
/// Maximum characters of a header value that are shown.
const LONGEST_HEADER: usize = 200;

/// The headers of a signature, by Standard Webhooks.
const SIGNATURE_HEADERS: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];

/// The merchant and its settings.
pub struct ListenMerchant {
    /// The keys that verify signatures, as far as they are known. One of them has to match.
    pub keys: Vec<VerifyingKey>,
    /// The body of the answer.
    pub answer: String,
    /// The status of the answer.
    pub status: u16,
    /// How many calls of each notification are answered 500 `fail` first.
    pub fail_first: u32,
    /// Whether calls whose signature is not right are refused.
    pub strict: bool,
    /// How long the merchant waits before it answers.
    pub delay: Duration,
    /// The channel for the calls that are to be printed.
    pub calls: mpsc::Sender<ReceivedCall>,
}

/// One call and its answer.
#[derive(Debug)]
pub struct ReceivedCall {
    /// When the whole call had arrived, in milliseconds since 1970.
    pub at_ms: i64,
    /// The HTTP method.
    pub method: String,
    /// The path, with the query.
    pub path: String,
    /// The value of the header `Webhook-Id`.
    pub webhook_id: Option<String>,
    /// The value of the header `Ringback-Topic`.
    pub topic: Option<String>,
    /// The value of the header `Ringback-Attempt`.
    pub attempt: Option<String>,
    /// Whether the signature is right.
    pub signature: SignatureCheck,
    /// The body; `None` if it was too large or did not arrive.
    pub body: Option<ReceivedBody>,
    /// The status and the body of the answer.
    pub answered: (u16, String),
}

/// The length and the beginning of a body that has arrived.
#[derive(Debug)]
pub struct ReceivedBody {
    /// The length of the whole body.
    pub bytes: usize,
    /// The first [`SHOWN_BYTES`] of the body.
    pub beginning: Vec<u8>,
}

/// The result of verifying a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureCheck {
    /// The signature is right.
    Verified,
    /// The signature is wrong. The text says why.
    Bad(String),
    /// The signature could not be verified, because the secret or the body is not known.
    Unverified,
}

struct ListenState {
    merchant: ListenMerchant,
    counts: Mutex<CallCounts>,
    reading: Semaphore,
}

impl ListenMerchant {
    /// Answers calls until the task is aborted.
    pub async fn serve(self, listener: TcpListener) {
        let shared = Arc::new(ListenState {
            merchant: self,
            counts: Mutex::new(CallCounts::default()),
            reading: Semaphore::new(MOST_AT_ONCE),
        });
        let router = Router::new().fallback(answer).with_state(shared);
        // This does not return.
        let _ = axum::serve(listener, router).await;
    }

    /// Why a call is refused, if it is.
    fn refusal(&self, signature: &SignatureCheck) -> Option<String> {
        match signature {
            SignatureCheck::Bad(why) if self.strict => Some(format!("bad signature: {why}")),
            // `--strict` needs a key, so a complete call is never unverified.
            SignatureCheck::Bad(_) | SignatureCheck::Verified | SignatureCheck::Unverified => None,
        }
    }

    fn judge(&self, headers: &HeaderMap, body: &[u8], now_ms: i64) -> SignatureCheck {
        if self.keys.is_empty() {
            return SignatureCheck::Unverified;
        }
        let mut values = [""; 3];
        for (name, found) in SIGNATURE_HEADERS.into_iter().zip(&mut values) {
            let Some(value) = headers.get(name).and_then(|value| value.to_str().ok()) else {
                return SignatureCheck::Bad(format!("the header {name} is missing"));
            };
            *found = value;
        }
        let [id, timestamp, signatures] = values;
        let mut verdict = BadSignature::Mismatch;
        for key in &self.keys {
            match key.verify(id, timestamp, signatures, body, now_ms / 1_000) {
                Ok(()) => return SignatureCheck::Verified,
                Err(bad) => verdict = bad,
            }
        }
        SignatureCheck::Bad(verdict.to_string())
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
    let refusal = merchant.refusal(&signature);
    let (status, text) = match (&body, refusal) {
        (Err(status), _) => (*status, String::new()),
        // A call that is refused is not counted.
        (Ok(_), Some(why)) => (StatusCode::UNAUTHORIZED, why),
        (Ok(_), None) => {
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
    // The call is reported before the wait, because this task ends if the caller closes the connection.
    // Reporting fails only while the command stops.
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

/// The number of calls of each notification.
#[derive(Debug, Default)]
struct CallCounts {
    calls: HashMap<String, u32>,
    oldest_first: VecDeque<String>,
}

impl CallCounts {
    /// Counts a call, and returns the number of calls of this notification.
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
