//! Why an HTTP/2 connection, or a call over one, ended without an answer: in words for support staff.

use crate::domain::attempt::{Answer, Outcome};
use h2::{Error, Reason};
use thiserror::Error;

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct ConnectionEnd {
    /// The outcome of the calls that it ended.
    pub outcome: Outcome,
    /// The reason.
    pub reason: String,
}

impl ConnectionEnd {
    /// An end with the outcome `protocol`.
    pub fn protocol(reason: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Protocol,
            reason: reason.into(),
        }
    }

    /// The receiver closed the connection during a call.
    pub fn closed() -> Self {
        Self::protocol("the connection was closed before the answer was complete")
    }

    /// The receiver ended the connection with this error.
    pub fn left_with(code: Reason) -> Self {
        Self::protocol(format!(
            "the receiver ended the HTTP/2 connection with an error ({code:?})"
        ))
    }

    /// The receiver closed a connection that it shared between calls, and sent no GOAWAY before.
    pub fn closed_between() -> Self {
        Self::protocol(
            "several calls used the connection, and the receiver closed it before an answer began, without saying which \
             calls it had read (no GOAWAY); it may have read this one",
        )
    }

    /// The first bytes of the receiver are an answer of HTTP/1.
    pub fn http1() -> Self {
        Self::protocol(
            "the receiver answered with HTTP/1.1 before a request was sent, so it does not speak HTTP/2 here; set `http` of \
             the endpoint to 1.1",
        )
    }

    /// The first bytes of the receiver are something else.
    pub fn not_http2() -> Self {
        Self::protocol(
            "before a request was sent, the receiver sent something that is not HTTP/2; perhaps another protocol is \
             spoken on this port",
        )
    }

    /// The receiver sent nothing.
    pub fn silent() -> Self {
        Self::protocol(
            "before a request was sent, the receiver closed the connection and said nothing in HTTP/2; perhaps it \
             speaks only HTTP/1.1",
        )
    }

    /// The receiver allows no calls.
    pub fn no_calls() -> Self {
        Self::protocol(
            "the receiver allows no calls on its HTTP/2 connections (SETTINGS_MAX_CONCURRENT_STREAMS is 0), so nothing \
             was sent",
        )
    }

    /// Too many frames came.
    pub fn too_many_frames() -> Self {
        Self::protocol(
            "the receiver sent too many HTTP/2 frames that belong to no answer, so the connection was closed",
        )
    }

    /// What an error of the library means. Errors of the socket and of TLS do not come this far.
    pub fn of(error: &Error) -> Self {
        let Some(code) = error.reason() else {
            return match error.get_io() {
                Some(_) => Self::closed(),
                None => Self::protocol(format!("the request cannot be sent over HTTP/2: {error}")),
            };
        };
        Self::protocol(match (error.is_remote(), error.is_reset(), code) {
            (true, true, Reason::REFUSED_STREAM) => {
                "the receiver refused the call again and again without processing it (REFUSED_STREAM); perhaps it is \
                 overloaded or restarting"
                    .to_string()
            }
            (true, true, Reason::HTTP_1_1_REQUIRED) => {
                "the receiver takes this call over HTTP/1.1 only (HTTP_1_1_REQUIRED); set `http` of the endpoint to 1.1"
                    .to_string()
            }
            (true, true, _) => {
                format!("the receiver broke off the call before the answer was complete ({code:?})")
            }
            (true, false, Reason::NO_ERROR) => return Self::closed(),
            (true, false, _) => return Self::left_with(code),
            // The library has one code for both.
            (false, true, Reason::PROTOCOL_ERROR) => {
                "the answer breaks the rules of HTTP/2, or its headers are larger than 64 KiB"
                    .to_string()
            }
            (false, _, Reason::ENHANCE_YOUR_CALM) => {
                "the receiver sent far too large headers or too many HTTP/2 frames, so the connection was closed"
                    .to_string()
            }
            (false, _, _) => format!("the receiver broke the rules of HTTP/2 ({code:?})"),
        })
    }

    /// The recorded answer of a call that ended so.
    pub fn answer(self) -> Answer {
        Answer {
            outcome: self.outcome,
            status: None,
            body: Vec::new(),
            reason: self.reason,
        }
    }
}

/// Whether the receiver says that it did not process the call (RFC 9113, section 8.7).
pub fn is_refused(error: &Error) -> bool {
    error.is_remote() && error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM)
}
