//! Why a proxy gave no connection.

use crate::domain::attempt_reason::{ProxyFault, ProxyReason, ProxyRefusal};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Why the proxy gave no connection.
#[derive(Debug, Error)]
pub enum ProxyError {
    /// The proxy itself failed. Nothing is known about the receiver.
    Failed(ProxyFault),
    /// The proxy did not connect to the receiver.
    Refused(ProxyRefusal),
    /// The proxy closed the connection instead of an answer to `CONNECT`.
    Closed,
    /// Bytes came through the tunnel to this address before the request was sent.
    TooEarly(SocketAddr),
}

impl ProxyError {
    /// The reason of an attempt that ends so.
    pub fn reason(&self) -> ProxyReason {
        match self {
            Self::Failed(fault) => ProxyReason::Failed {
                fault: fault.clone(),
            },
            Self::Refused(why) => ProxyReason::Refused { why: why.clone() },
            Self::Closed => ProxyReason::Failed {
                fault: ProxyFault::Closed,
            },
            Self::TooEarly(address) => ProxyReason::TooEarly {
                address: address.to_string(),
            },
        }
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(out)
    }
}

/// The proxy did not speak its protocol, or broke off.
pub(super) fn broke(error: &io::Error) -> ProxyError {
    ProxyError::Failed(match is_closed(error) {
        true => ProxyFault::Closed,
        false => ProxyFault::BrokeOff {
            error: error.to_string(),
        },
    })
}

/// The proxy broke off when it was asked for a receiver.
pub(super) fn broke_when_asked(error: &io::Error) -> ProxyError {
    match is_closed(error) {
        true => ProxyError::Closed,
        false => broke(error),
    }
}

/// Whether the other end closed the connection.
pub(super) fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}
