//! Determines why a call got no answer, by the types of the errors and never by their text.

use super::address_filter::Blocked;
use super::http2::connection_end::ConnectionEnd;
use super::proxy::ProxyError;
use super::resolver::ResolveError;
use super::socket::TooManyBytes;
use super::tls_failure::{self, HandshakeError};
use crate::domain::attempt::{Answer, Outcome};
use crate::domain::attempt_reason::{ConnectionReason, FailureReason};
use std::error::Error;
use std::io;

/// Maximum number of characters of a recorded reason.
const LONGEST_REASON: usize = 1_000;

/// The recorded answer of a call for which no connection could be opened.
pub fn not_connected(error: &(dyn Error + 'static)) -> Answer {
    let (outcome, reason) = causes(error)
        .find_map(|cause| recognise(cause, true))
        .unwrap_or_else(|| {
            let error = deepest(error);
            (
                Outcome::Connect,
                ConnectionReason::NotOpened { error }.into(),
            )
        });
    without_answer(outcome, reason)
}

/// The recorded answer of a call whose connection broke, or whose answer was not HTTP.
pub fn not_answered(error: &hyper::Error) -> Answer {
    let (outcome, reason) = causes(error)
        .find_map(|cause| recognise(cause, false))
        .unwrap_or_else(|| {
            let error = deepest(error);
            let reason = ConnectionReason::BodyNotHttp { error };
            (Outcome::Protocol, reason.into())
        });
    without_answer(outcome, reason)
}

/// The recorded answer of a call whose request was not sent, because its connection had ended. `broke` is the error
/// of the connection, if it reported one.
pub fn not_sent(canceled: &hyper::Error, broke: Option<&hyper::Error>) -> Answer {
    let (outcome, reason) = [broke, Some(canceled)]
        .into_iter()
        .flatten()
        .find_map(|error| causes(error).find_map(|cause| recognise(cause, false)))
        .unwrap_or_else(|| {
            // The library has no type for an answer that comes before the request.
            let reason = ConnectionReason::EndedBeforeRequest;
            (Outcome::Protocol, reason.into())
        });
    without_answer(outcome, reason)
}

/// Outcome and reason of an open connection that broke.
pub fn broken_connection(error: &(dyn Error + 'static)) -> (Outcome, FailureReason) {
    causes(error)
        .find_map(|cause| recognise(cause, false))
        .unwrap_or_else(|| {
            let error = deepest(error);
            (Outcome::Protocol, ConnectionReason::Broke { error }.into())
        })
}

/// The recorded answer of a call over a kept connection that was closed before an answer began.
pub fn closed_after_keeping() -> Answer {
    without_answer(Outcome::Protocol, ConnectionReason::ClosedAfterKeeping)
}

/// Whether the error means that the connection was closed or broke before the answer was complete.
pub fn is_broken_off(error: &hyper::Error) -> bool {
    causes(error).any(|cause| {
        let incomplete = cause
            .downcast_ref::<hyper::Error>()
            .is_some_and(hyper::Error::is_incomplete_message);
        let broken = cause
            .downcast_ref::<io::Error>()
            .is_some_and(is_closed_by_receiver);
        incomplete || broken
    })
}

/// Whether the error of a socket means that the receiver has closed or reset the connection.
pub fn is_closed_by_receiver(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
    )
}

/// The recorded answer of a call that got no answer. Of a long reason, the first [`LONGEST_REASON`] characters are kept:
/// receivers decide about parts of it, such as the purposes of a certificate.
pub fn without_answer(outcome: Outcome, reason: impl Into<FailureReason>) -> Answer {
    let mut reason = reason.into().to_string();
    if let Some((end, _)) = reason.char_indices().nth(LONGEST_REASON) {
        reason.truncate(end);
        reason.push_str("...");
    }
    Answer {
        outcome,
        status: None,
        body: Vec::new(),
        reason,
    }
}

/// The recorded answer of a call that the address filter blocked.
pub fn blocked(blocked: &Blocked) -> Answer {
    without_answer(Outcome::Blocked, blocked.reason())
}

/// An error, its cause, the cause of that, and so on.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&cause| {
        let wrapped = cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        match wrapped {
            // The `source` of an `io::Error` skips the error that it wraps.
            Some(inner) => Some(inner),
            None => cause.source(),
        }
    })
}

fn recognise(cause: &(dyn Error + 'static), connecting: bool) -> Option<(Outcome, FailureReason)> {
    if let Some(error) = cause.downcast_ref::<ResolveError>() {
        let outcome = match error {
            ResolveError::Blocked(_) => Outcome::Blocked,
            ResolveError::Unknown(_) | ResolveError::Empty => Outcome::Dns,
        };
        return Some((outcome, error.reason().into()));
    }
    if let Some(end) = cause.downcast_ref::<ConnectionEnd>() {
        return Some((end.outcome, end.reason.clone()));
    }
    if let Some(error) = cause.downcast_ref::<ProxyError>() {
        let outcome = match error {
            ProxyError::TooEarly(_) => Outcome::Protocol,
            ProxyError::Failed(_) | ProxyError::Refused(_) | ProxyError::Closed => Outcome::Connect,
        };
        return Some((outcome, error.reason().into()));
    }
    if let Some(error) = cause.downcast_ref::<HandshakeError>() {
        let tls = |cause: &(dyn Error + 'static)| {
            let known = cause.downcast_ref::<rustls::Error>();
            known.map(|known| (Outcome::Tls, error.tls_reason(known).into()))
        };
        let mut inner = causes(error).skip(1);
        let known = inner.find_map(|cause| tls(cause).or_else(|| recognise_tls(cause)));
        return known.or_else(|| Some((Outcome::Tls, error.reason().into())));
    }
    if let Some(known) = recognise_tls(cause) {
        return Some(known);
    }
    if let Some(error) = cause.downcast_ref::<hyper::Error>() {
        if error.is_incomplete_message() {
            return Some(broken_off());
        }
        if error.is_parse_too_large() {
            let reason = ConnectionReason::HeadTooLarge;
            return Some((Outcome::Protocol, reason.into()));
        }
        if error.is_parse() {
            let error = error.to_string();
            let reason = ConnectionReason::NotHttp { error };
            return Some((Outcome::Protocol, reason.into()));
        }
    }
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        if error.kind() == io::ErrorKind::UnexpectedEof && !connecting {
            return Some(broken_off());
        }
        if error.get_ref().is_some() {
            return None;
        }
        return Some(if connecting {
            (Outcome::Connect, unreachable(error).into())
        } else {
            (Outcome::Protocol, broken(error).into())
        });
    }
    None
}

fn recognise_tls(cause: &(dyn Error + 'static)) -> Option<(Outcome, FailureReason)> {
    if let Some(error) = cause.downcast_ref::<rustls::Error>() {
        return Some((Outcome::Tls, tls_failure::reason(error).into()));
    }
    cause.downcast_ref::<TooManyBytes>()?;
    let reason = ConnectionReason::TooManyBytes;
    Some((Outcome::Protocol, reason.into()))
}

/// Why no connection could be opened.
fn unreachable(error: &io::Error) -> ConnectionReason {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ConnectionReason::Refused,
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
            ConnectionReason::ResetAtOpening
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            ConnectionReason::Unreachable
        }
        io::ErrorKind::TimedOut => ConnectionReason::AddressSilent,
        _ => ConnectionReason::NotOpened {
            error: error.to_string(),
        },
    }
}

/// How a connection broke.
fn broken(error: &io::Error) -> ConnectionReason {
    match error.kind() {
        io::ErrorKind::ConnectionReset => ConnectionReason::Reset,
        io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => ConnectionReason::Closed,
        io::ErrorKind::TimedOut => ConnectionReason::Unconfirmed,
        _ => ConnectionReason::Broke {
            error: error.to_string(),
        },
    }
}

fn broken_off() -> (Outcome, FailureReason) {
    (Outcome::Protocol, ConnectionReason::Closed.into())
}

fn deepest(error: &(dyn Error + 'static)) -> String {
    causes(error)
        .last()
        .map_or_else(String::new, ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::CertificateError;
    use rustls::ExtendedKeyPurpose;

    #[test]
    fn a_receiver_does_not_make_a_reason_long() {
        let purposes = (0..20_000).map(|last| ExtendedKeyPurpose::Other(vec![1, 2, 840, last]));
        let unfit = CertificateError::InvalidPurposeContext {
            required: ExtendedKeyPurpose::ServerAuth,
            presented: purposes.collect(),
        };
        let error = HandshakeError {
            error: io::Error::other(rustls::Error::InvalidCertificate(unfit)),
            has_own_ca: false,
        };
        let answer = not_connected(&error);
        assert_eq!(answer.outcome, Outcome::Tls);
        assert!(
            answer
                .reason
                .starts_with("the certificate cannot be used for a server (")
        );
        assert_eq!(answer.reason.chars().count(), LONGEST_REASON + 3);
    }
}
