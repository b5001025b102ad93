//! Why an attempt failed: the sentence that is recorded with it.
//!
//! Stores, the API and the commands have the sentence in English. Each one is made of a template here, so it can be read
//! back, and the page says the same in the language of its visitor. Servers of several versions share a journal, so there
//! may be sentences that none of these templates has made; they stay as they are. A template must therefore never be
//! changed for another meaning.
//!
//! Texts of the operating system and of libraries are parameters.

mod answer;
mod connection;
mod http2;
mod proxy;
mod request;
#[cfg(test)]
mod tests;
mod tls;

pub use answer::{AnswerReason, BodyFlaw};
pub use connection::{AddressKind, AwaitedStep, ConnectionReason, UnsentReason};
pub use http2::Http2Reason;
pub use proxy::{ProxyFault, ProxyReason, ProxyRefusal, SocksRefusal};
pub use request::{AskedWait, RequestReason};
pub use tls::TlsReason;

use crate::domain::sentence::UnknownSentence;
use std::fmt;
use std::str::FromStr;

/// The mark of an attempt that was made although its window had closed.
const RECOVERY: &str = "recovery attempt: the window closed before it could be made";
/// How what a receiver asks for begins, when it continues a sentence.
const REQUESTS: [&str; 4] = [
    ": the receiver asks",
    ", which counts",
    "; the receiver asks",
    "; its Retry-After",
];

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureReason {
    /// An answer came that does not acknowledge.
    Answer(AnswerReason),
    /// There was no connection, or it broke.
    Connection(ConnectionReason),
    /// TLS failed.
    Tls(TlsReason),
    /// The call failed in HTTP/2.
    Http2(Http2Reason),
    /// The proxy gave no connection.
    Proxy(ProxyReason),
    /// Nothing was sent, or the outcome was lost.
    Unsent(UnsentReason),
}

/// Makes the conversions, and how a reason is written and read.
macro_rules! kinds {
    ($($kind:ident($reason:ident)),+ $(,)?) => {
        $(impl From<$reason> for FailureReason {
            fn from(reason: $reason) -> Self {
                Self::$kind(reason)
            }
        })+

        impl fmt::Display for FailureReason {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$kind(reason) => reason.fmt(out)),+
                }
            }
        }

        impl FromStr for FailureReason {
            type Err = UnknownSentence;

            fn from_str(text: &str) -> Result<Self, UnknownSentence> {
                $(if let Ok(reason) = text.parse::<$reason>() {
                    return Ok(Self::$kind(reason));
                })+
                Err(UnknownSentence)
            }
        }
    };
}

kinds!(
    Answer(AnswerReason),
    Connection(ConnectionReason),
    Tls(TlsReason),
    Http2(Http2Reason),
    Proxy(ProxyReason),
    Unsent(UnsentReason),
);

/// The reason of an attempt: why it failed, what the receiver asked for, and whether it was a recovery attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttemptReason {
    /// Why it failed; `None` if it was acknowledged.
    pub failure: Option<FailureReason>,
    /// What the receiver asked for, and what followed.
    pub request: Option<RequestReason>,
    /// Whether the attempt was made although its window had closed.
    pub is_recovery: bool,
}

impl AttemptReason {
    /// Reads a recorded reason. `None` if it is empty, or if none of the templates has made it: a later or an earlier version
    /// has, or it was too long and was cut.
    #[must_use]
    pub fn read(recorded: &str) -> Option<Self> {
        if recorded == RECOVERY {
            return Some(Self {
                is_recovery: true,
                ..Self::default()
            });
        }
        let mark = format!(" ({RECOVERY})");
        let (rest, is_recovery) = match recorded.strip_suffix(&mark) {
            Some(rest) => (rest, true),
            None => (recorded, false),
        };
        let read = |failure: &str, request| {
            Some(Self {
                failure: Some(failure.parse().ok()?),
                request,
                is_recovery,
            })
        };
        read(rest, None).or_else(|| {
            let at = REQUESTS.iter().filter_map(|begin| rest.find(begin)).min()?;
            let (failure, request) = rest.split_at(at);
            read(failure, Some(request.parse().ok()?))
        })
    }
}

/// Marks the reason of an attempt that was made although its window had closed.
#[must_use]
pub fn marked_as_recovery(reason: &str) -> String {
    match reason {
        "" => RECOVERY.to_string(),
        reason => format!("{reason} ({RECOVERY})"),
    }
}

impl fmt::Display for AttemptReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reason = self
            .failure
            .as_ref()
            .map_or(String::new(), ToString::to_string);
        if let Some(request) = &self.request {
            reason.push_str(&request.to_string());
        }
        match self.is_recovery {
            true => out.write_str(&marked_as_recovery(&reason)),
            false => out.write_str(&reason),
        }
    }
}
