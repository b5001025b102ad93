//! Determines why a call got no answer, by the types of the errors and never by their text.

use super::address_filter::Blocked;
use super::http2::connection_end::ConnectionEnd;
use super::proxy::ProxyError;
use super::resolver::ResolveError;
use super::socket::TooManyBytes;
use super::tls_failure::{self, HandshakeError};
use crate::domain::attempt::{Answer, Outcome};
use std::error::Error;
use std::io;

/// Maximum number of characters of a recorded reason.
const LONGEST_REASON: usize = 1_000;

/// The recorded answer of a call for which no connection could be opened.
pub fn not_connected(error: &(dyn Error + 'static)) -> Answer {
    let (outcome, reason) = causes(error)
        .find_map(|cause| recognise(cause, true))
        .unwrap_or_else(|| {
            let reason = format!("no connection: {}", deepest(error));
            (Outcome::Connect, reason)
        });
    without_answer(outcome, reason)
}

/// The recorded answer of a call whose connection broke, or whose answer was not HTTP.
pub fn not_answered(error: &hyper::Error) -> Answer {
    let (outcome, reason) = causes(error)
        .find_map(|cause| recognise(cause, false))
        .unwrap_or_else(|| {
            let reason = format!("the body of the answer was not HTTP: {}", deepest(error));
            (Outcome::Protocol, reason)
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
            let reason = "before the request was sent, the receiver closed the connection, or sent an answer \
                although it was asked nothing";
            (Outcome::Protocol, reason.to_string())
        });
    without_answer(outcome, reason)
}

/// Outcome and reason of an open connection that broke.
pub fn broken_connection(error: &(dyn Error + 'static)) -> (Outcome, String) {
    causes(error)
        .find_map(|cause| recognise(cause, false))
        .unwrap_or_else(|| {
            let reason = format!("the connection broke: {}", deepest(error));
            (Outcome::Protocol, reason)
        })
}

/// The recorded answer of a call over a kept connection that was closed before an answer began.
pub fn closed_after_keeping() -> Answer {
    let reason = "the connection was kept from an earlier call, and the receiver closed it before \
        an answer began; it may have read the request";
    without_answer(Outcome::Protocol, reason.to_string())
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
pub fn without_answer(outcome: Outcome, mut reason: String) -> Answer {
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
    without_answer(Outcome::Blocked, blocked.to_string())
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

fn recognise(cause: &(dyn Error + 'static), connecting: bool) -> Option<(Outcome, String)> {
    if let Some(error) = cause.downcast_ref::<ResolveError>() {
        return Some(match error {
            ResolveError::Blocked(blocked) => (Outcome::Blocked, blocked.to_string()),
            ResolveError::Unknown(_) | ResolveError::Empty => (Outcome::Dns, error.to_string()),
        });
    }
    if let Some(end) = cause.downcast_ref::<ConnectionEnd>() {
        return Some((end.outcome, end.reason.clone()));
    }
    if let Some(error) = cause.downcast_ref::<ProxyError>() {
        let outcome = match error {
            ProxyError::TooEarly(_) => Outcome::Protocol,
            ProxyError::Failed(_) | ProxyError::Refused(_) | ProxyError::Closed => Outcome::Connect,
        };
        return Some((outcome, error.to_string()));
    }
    if let Some(error) = cause.downcast_ref::<HandshakeError>() {
        let tls = |cause: &(dyn Error + 'static)| {
            let known = cause.downcast_ref::<rustls::Error>();
            known.map(|known| (Outcome::Tls, error.tls_in_words(known)))
        };
        let mut inner = causes(error).skip(1);
        let known = inner.find_map(|cause| tls(cause).or_else(|| recognise_tls(cause)));
        return known.or_else(|| Some((Outcome::Tls, error.in_words())));
    }
    if let Some(known) = recognise_tls(cause) {
        return Some(known);
    }
    if let Some(error) = cause.downcast_ref::<hyper::Error>() {
        if error.is_incomplete_message() {
            return Some(broken_off());
        }
        if error.is_parse_too_large() {
            let reason =
                "the head of the answer is longer than 64 KiB or has more than 100 headers";
            return Some((Outcome::Protocol, reason.to_string()));
        }
        if error.is_parse() {
            return Some((
                Outcome::Protocol,
                format!("the answer was not HTTP: {error}"),
            ));
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
            (Outcome::Connect, unreachable(error))
        } else {
            (Outcome::Protocol, broken(error))
        });
    }
    None
}

fn recognise_tls(cause: &(dyn Error + 'static)) -> Option<(Outcome, String)> {
    if let Some(error) = cause.downcast_ref::<rustls::Error>() {
        return Some((Outcome::Tls, tls_failure::in_words(error)));
    }
    let error = cause.downcast_ref::<TooManyBytes>()?;
    Some((Outcome::Protocol, error.to_string()))
}

/// Why no connection could be opened.
fn unreachable(error: &io::Error) -> String {
    let reason = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "no connection: it was refused; no server listens on this port, or a firewall refuses calls"
        }
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
            "no connection: it was reset while it was opened"
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "no connection: the address cannot be reached from this network"
        }
        io::ErrorKind::TimedOut => "no connection: the address did not answer",
        _ => return format!("no connection: {error}"),
    };
    reason.to_string()
}

/// How a connection broke.
fn broken(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionReset => {
            "the receiver reset the connection before the answer was complete".to_string()
        }
        io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => broken_off().1,
        io::ErrorKind::TimedOut => {
            "the connection broke: the receiver no longer confirmed what it was sent".to_string()
        }
        _ => format!("the connection broke: {error}"),
    }
}

fn broken_off() -> (Outcome, String) {
    let reason = "the connection was closed before the answer was complete";
    (Outcome::Protocol, reason.to_string())
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
