//! Judges the answer to one call.

use crate::domain::ack::{AckRule, Received};
use crate::domain::attempt::{Answer, KEPT_ANSWER_BYTES, READ_ANSWER_BYTES};
use crate::domain::key::Key;
use crate::domain::receiver_requests::WAIT_STATUSES;
use crate::domain::retry_after::RetryAfter;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
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
    /// What has come of an answer, if the call is ended before the answer is.
    pub unfinished: &'a OnceLock<UnfinishedAnswer>,
}

/// The part of an answer that came before its call was ended.
pub struct UnfinishedAnswer {
    /// Its status.
    pub status: u16,
    /// The part of its body that came, [`KEPT_ANSWER_BYTES`] at most.
    pub body: Vec<u8>,
}

/// An answer whose head is known, and whose body is still to come.
pub struct BegunAnswer<'a> {
    judging: &'a Judging<'a>,
    status: u16,
    body: Vec<u8>,
    location: Option<HeaderValue>,
    /// The length that the head gives the body, if it gives one length.
    content_length: Option<usize>,
    /// What the receiver asks for with `Retry-After`, if the status is one for which that counts.
    pub retry_after: Option<RetryAfter>,
    is_accepted: bool,
    is_judged: bool,
}

impl Judging<'_> {
    /// Judges the head of an answer.
    pub fn begin<Body>(&self, response: &Response<Body>) -> BegunAnswer<'_> {
        let begun = BegunAnswer {
            judging: self,
            status: response.status().as_u16(),
            body: Vec::new(),
            location: response.headers().get(LOCATION).cloned(),
            content_length: content_length(response.headers()),
            retry_after: retry_after(response.status(), response.headers()),
            is_accepted: self.ack.accepts_status(response.status().as_u16()),
            is_judged: false,
        };
        if begun.is_accepted {
            // Each exchange has its own cell, so it is empty.
            let _ = self.accepted.set(begun.judgement(false));
        }
        begun
    }
}

impl BegunAnswer<'_> {
    /// Takes in a part of the body. Returns `false` if more has come than is read: then the rest is not wanted.
    pub fn take_in(&mut self, part: &[u8]) -> bool {
        let room = READ_ANSWER_BYTES - self.body.len();
        self.body.extend_from_slice(&part[..part.len().min(room)]);
        part.len() <= room
    }

    /// Whether the body has come whole by the length that the head gives it, and none of it was left out. `false` if the head
    /// gives no length.
    pub fn has_its_length(&self) -> bool {
        self.content_length == Some(self.body.len())
    }

    /// The judgement, with the part of the body that was read. `whole` says whether that is all of it.
    pub fn judge(mut self, whole: bool) -> Answer {
        self.is_judged = true;
        self.judgement(whole)
    }

    fn judgement(&self, whole: bool) -> Answer {
        let received = Received {
            status: self.status,
            body: &self.body,
            whole,
            location: self.location.as_ref().map(HeaderValue::as_bytes),
        };
        self.judging.ack.judge(self.judging.key, received)
    }

    /// The judgement of an answer that failed after the part of its body that was read.
    pub fn judge_broken(mut self, failure: Answer) -> Answer {
        self.is_judged = true;
        if self.is_accepted {
            return self.judgement(false);
        }
        self.take_unfinished().of_failure(failure)
    }

    fn take_unfinished(&mut self) -> UnfinishedAnswer {
        let mut body = std::mem::take(&mut self.body);
        body.truncate(KEPT_ANSWER_BYTES);
        UnfinishedAnswer {
            status: self.status,
            body,
        }
    }
}

impl Drop for BegunAnswer<'_> {
    fn drop(&mut self) {
        if !self.is_judged {
            let unfinished = self.take_unfinished();
            // Each exchange has its own cell.
            let _ = self.judging.unfinished.set(unfinished);
        }
    }
}

impl UnfinishedAnswer {
    /// The recorded answer of a call that failed after this had come.
    pub fn of_failure(self, failure: Answer) -> Answer {
        Answer {
            status: Some(self.status),
            body: self.body,
            ..failure
        }
    }
}

/// The length of the body in `Content-Length`. `None` if there is none, or one that has other characters than digits, or several.
fn content_length(headers: &HeaderMap) -> Option<usize> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    let text = value.to_str().ok()?;
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<RetryAfter> {
    let counts = WAIT_STATUSES.contains(&status.as_u16());
    let values = headers.get_all(RETRY_AFTER);
    RetryAfter::read(values.iter().map(HeaderValue::as_bytes)).filter(|_| counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_one_number() {
        fn check(values: &[&'static str], expected: Option<usize>) {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_LENGTH, HeaderValue::from_static(value));
            }
            assert_eq!(content_length(&headers), expected, "{values:?}");
        }
        check(&[], None);
        check(&["7"], Some(7));
        check(&["0"], Some(0));
        check(&["7", "7"], None);
        check(&["7", "8"], None);
        for wrong in ["", "+7", "-7", " 7", "7, 7", "0x7", "99999999999999999999"] {
            check(&[wrong], None);
        }
    }
}
