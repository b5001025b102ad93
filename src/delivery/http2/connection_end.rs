//! Why an HTTP/2 connection, or a call over one, ended without an answer: in words for support staff.

use crate::domain::attempt::{Answer, Outcome};
use crate::domain::attempt_reason::{ConnectionReason, FailureReason, Http2Reason};
use h2::{Error, Reason};
use thiserror::Error;

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct ConnectionEnd {
    /// The outcome of the calls that it ended.
    pub outcome: Outcome,
    /// The reason.
    pub reason: FailureReason,
}

impl ConnectionEnd {
    /// An end with the outcome `protocol`.
    pub fn protocol(reason: impl Into<FailureReason>) -> Self {
        Self {
            outcome: Outcome::Protocol,
            reason: reason.into(),
        }
    }

    /// The receiver closed the connection during a call.
    pub fn closed() -> Self {
        Self::protocol(ConnectionReason::Closed)
    }

    /// The receiver ended the connection with this error.
    pub fn left_with(code: Reason) -> Self {
        let code = format!("{code:?}");
        Self::protocol(Http2Reason::LeftWith { code })
    }

    /// The receiver closed a connection that it shared between calls, and sent no GOAWAY before.
    pub fn closed_between() -> Self {
        Self::protocol(Http2Reason::ClosedBetween)
    }

    /// The first bytes of the receiver are an answer of HTTP/1.
    pub fn http1() -> Self {
        Self::protocol(Http2Reason::Http1)
    }

    /// The first bytes of the receiver are something else.
    pub fn not_http2() -> Self {
        Self::protocol(Http2Reason::NotHttp2)
    }

    /// The receiver sent nothing.
    pub fn silent() -> Self {
        Self::protocol(Http2Reason::Silent)
    }

    /// The receiver allows no calls.
    pub fn no_calls() -> Self {
        Self::protocol(Http2Reason::NoCalls)
    }

    /// Too many frames came.
    pub fn too_many_frames() -> Self {
        Self::protocol(Http2Reason::TooManyFrames)
    }

    /// What an error of the library means. Errors of the socket and of TLS do not come this far.
    pub fn of(error: &Error) -> Self {
        let Some(code) = error.reason() else {
            return match error.get_io() {
                Some(_) => Self::closed(),
                None => Self::protocol(Http2Reason::NotSendable {
                    error: error.to_string(),
                }),
            };
        };
        let named = || format!("{code:?}");
        Self::protocol(match (error.is_remote(), error.is_reset(), code) {
            (true, true, Reason::REFUSED_STREAM) => Http2Reason::CallRefused,
            (true, true, Reason::HTTP_1_1_REQUIRED) => Http2Reason::Http1Required,
            (true, true, _) => Http2Reason::BrokenOff { code: named() },
            (true, false, Reason::NO_ERROR) => return Self::closed(),
            (true, false, _) => return Self::left_with(code),
            // The library has one code for both.
            (false, true, Reason::PROTOCOL_ERROR) => Http2Reason::BadAnswer,
            (false, _, Reason::ENHANCE_YOUR_CALM) => Http2Reason::TooMuch,
            (false, _, _) => Http2Reason::BrokeRules { code: named() },
        })
    }

    /// The recorded answer of a call that ended so.
    pub fn answer(self) -> Answer {
        Answer {
            outcome: self.outcome,
            status: None,
            body: Vec::new(),
            reason: self.reason.to_string(),
        }
    }
}

/// Whether the receiver says that it did not process the call (RFC 9113, section 8.7).
pub fn is_refused(error: &Error) -> bool {
    error.is_remote() && error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM)
}
