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
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(cause) = next {
        if let Some(error) = cause.downcast_ref::<hyper::Error>()
            && error.is_incomplete_message()
        {
            return true;
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            let broken = [
                io::ErrorKind::ConnectionReset,
                io::ErrorKind::ConnectionAborted,
                io::ErrorKind::BrokenPipe,
            ];
            return broken.contains(&error.kind());
        }
        next = cause.source();
    }
    false
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
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(cause) = next {
        if let Some(found) = recognise(cause, error.is_connect()) {
            return Some(found);
        }
        next = match cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            // An io::Error hides the error it wraps from `source`.
            Some(inner) => Some(inner),
            None => cause.source(),
        };
    }
    None
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

fn deepest(error: &dyn Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
