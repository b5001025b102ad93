//! Telling apart why a call brought no answer, by the types of the errors and never by their text.

use super::guard::Blocked;
use super::resolver::ResolveError;
use crate::domain::attempt::{Answer, Outcome};
use std::error::Error;
use std::io;

/// What a failed call is recorded as.
pub fn classify(error: &reqwest::Error) -> Answer {
    let (outcome, reason) = find(error).unwrap_or_else(|| {
        if error.is_connect() {
            (
                Outcome::Connect,
                format!("no connection: {}", deepest(error)),
            )
        } else {
            (
                Outcome::Protocol,
                format!("the answer was no HTTP: {}", deepest(error)),
            )
        }
    });
    without_answer(outcome, reason)
}

/// Whether the connection broke before a byte of an answer came.
pub fn is_broken_off(error: &reqwest::Error) -> bool {
    causes(error).any(|cause| {
        let incomplete = cause
            .downcast_ref::<hyper::Error>()
            .is_some_and(hyper::Error::is_incomplete_message);
        let broken = cause.downcast_ref::<io::Error>().is_some_and(|error| {
            matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
            )
        });
        incomplete || broken
    })
}

/// An answer that never came.
pub fn without_answer(outcome: Outcome, reason: String) -> Answer {
    Answer {
        outcome,
        status: None,
        body: Vec::new(),
        reason,
    }
}

/// What an address that may not be called is recorded as.
pub fn blocked(blocked: &Blocked) -> Answer {
    without_answer(Outcome::Blocked, blocked.to_string())
}

/// Looks through the chain of causes for one that says what happened.
fn find(error: &reqwest::Error) -> Option<(Outcome, String)> {
    causes(error).find_map(|cause| recognise(cause, error.is_connect()))
}

/// An error, its cause, the cause of that, and so on.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let first: &(dyn Error + 'static) = error;
    std::iter::successors(Some(first), |&cause| {
        let wrapped = cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        match wrapped {
            // An io::Error hides the error it wraps from `source`.
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
    if let Some(error) = cause.downcast_ref::<rustls::Error>() {
        return Some((Outcome::Tls, format!("TLS failed: {error}")));
    }
    if let Some(error) = cause.downcast_ref::<hyper::Error>() {
        if error.is_incomplete_message() {
            return Some(broken_off());
        }
        if error.is_parse() {
            return Some((
                Outcome::Protocol,
                format!("the answer was no HTTP: {error}"),
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
            (Outcome::Connect, format!("no connection: {error}"))
        } else {
            (Outcome::Protocol, format!("the connection broke: {error}"))
        });
    }
    None
}

fn broken_off() -> (Outcome, String) {
    let reason = "the connection was closed before the answer was complete";
    (Outcome::Protocol, reason.to_string())
}

fn deepest(error: &reqwest::Error) -> String {
    causes(error)
        .last()
        .map_or_else(String::new, ToString::to_string)
}
