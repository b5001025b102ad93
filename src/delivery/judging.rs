//! Judges the answer to one call.

use crate::domain::ack::{AckRule, Received};
use crate::domain::attempt::{Answer, KEPT_ANSWER_BYTES};
use crate::domain::key::Key;
use crate::domain::receiver_requests::WAIT_STATUSES;
use crate::domain::retry_after::RetryAfter;
use http::header::{HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use http::{Response, StatusCode};
use std::sync::OnceLock;

/// How an answer is judged.
pub struct Judging<'a> {
    /// The ack rule of the notification.
    pub ack: &'a AckRule,
    /// The key of the notification.
    pub key: &'a Key,
    /// The judgement of an answer whose status alone acknowledges. It is set before the body is read, so
    /// it counts even if the body never ends.
    pub accepted: &'a OnceLock<Answer>,
}

/// An answer whose head is known, and whose body is still to come.
pub struct BegunAnswer<'a> {
    judging: &'a Judging<'a>,
    status: u16,
    location: Option<HeaderValue>,
    /// What the receiver asks for with `Retry-After`, if the status is one for which that counts.
    pub retry_after: Option<RetryAfter>,
    is_accepted: bool,
}

impl Judging<'_> {
    /// Judges the head of an answer.
    pub fn begin<Body>(&self, response: &Response<Body>) -> BegunAnswer<'_> {
        let begun = BegunAnswer {
            judging: self,
            status: response.status().as_u16(),
            location: response.headers().get(LOCATION).cloned(),
            retry_after: retry_after(response.status(), response.headers()),
            is_accepted: self.ack.accepts_status(response.status().as_u16()),
        };
        if begun.is_accepted {
            // Each exchange has its own cell, so it is empty.
            let _ = self.accepted.set(begun.judge(&[], false));
        }
        begun
    }
}

impl BegunAnswer<'_> {
    /// The judgement, with the part of the body that was read. `whole` says whether that is all of it.
    pub fn judge(&self, body: &[u8], whole: bool) -> Answer {
        let received = Received {
            status: self.status,
            body,
            whole,
            location: self.location.as_ref().map(HeaderValue::as_bytes),
        };
        self.judging.ack.judge(self.judging.key, received)
    }

    /// The judgement of an answer that failed after this part of its body.
    pub fn judge_broken(&self, mut body: Vec<u8>, failure: Answer) -> Answer {
        if self.is_accepted {
            return self.judge(&body, false);
        }
        body.truncate(KEPT_ANSWER_BYTES);
        Answer {
            status: Some(self.status),
            body,
            ..failure
        }
    }
}

fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<RetryAfter> {
    let counts = WAIT_STATUSES.contains(&status.as_u16());
    let values = headers.get_all(RETRY_AFTER);
    RetryAfter::read(values.iter().map(HeaderValue::as_bytes)).filter(|_| counts)
}
