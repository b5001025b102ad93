//! The ack rule: which answers acknowledge a notification.
//!
//! A rule has a name ([`named`]) or is the caller's own ([`custom`]); [`condition`] compares an answer with
//! it. The whole body counts, never a part of it: `unsuccessful` and `<body>success</body>` contain the word
//! too. A redirect never acknowledges. No other status than 2xx does, unless the rule lists that status.

pub mod condition;
pub mod custom;
pub mod json_value;
pub mod named;
mod text;
mod xml;

pub use custom::{BadAckRule, CustomAck};

use crate::domain::attempt::{Answer, GONE, KEPT_ANSWER_BYTES, Outcome, READ_ANSWER_BYTES, escape};
use crate::domain::attempt_reason::{AnswerReason, BodyFlaw};
use crate::domain::key::Key;
use condition::Condition;
use std::sync::Arc;

/// Maximum bytes that the reason uses to quote a redirect's target, escapes included.
const LOCATION_BYTES: usize = 300;

/// Which answers acknowledge a notification. To clone it costs next to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckRule(Arc<Rule>);

#[derive(Debug, PartialEq, Eq)]
struct Rule {
    /// Its name, if it is one of the named rules.
    name: Option<&'static str>,
    condition: Condition,
}

/// What came back from the receiver, as far as it was read.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The body, up to [`READ_ANSWER_BYTES`].
    pub body: &'a [u8],
    /// Whether the body ended there.
    pub whole: bool,
    /// Where a redirect leads.
    pub location: Option<&'a [u8]>,
}

impl AckRule {
    /// The rule's name; `None` if it is the caller's own.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        self.0.name
    }

    /// About how many bytes of memory the caller's own rule takes; 0 for a named rule, which all notifications share.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        match self.0.name {
            Some(_) => 0,
            None => size_of::<Rule>() + self.0.condition.own_bytes(),
        }
    }

    /// Whether an answer with this status acknowledges whatever its body is. Then the body need not be
    /// complete.
    #[must_use]
    pub fn accepts_status(&self, status: u16) -> bool {
        match &self.0.condition {
            Condition::Status(accepted) => accepted.contains(status),
            Condition::Text(_) | Condition::Json(_) | Condition::Xml(_) => false,
        }
    }

    /// Judges the answer to the notification of this key.
    #[must_use]
    pub fn judge(&self, key: &Key, received: Received<'_>) -> Answer {
        let (outcome, reason) = self.verdict(key, received);
        let Received { status, body, .. } = received;
        Answer {
            outcome,
            status: Some(status),
            body: body[..body.len().min(KEPT_ANSWER_BYTES)].to_vec(),
            reason: reason.map_or(String::new(), |reason| reason.to_string()),
        }
    }

    fn verdict(&self, key: &Key, received: Received<'_>) -> (Outcome, Option<AnswerReason>) {
        let Received {
            status,
            body,
            whole,
            location,
        } = received;
        if self.accepts_status(status) {
            return (Outcome::Acknowledged, None);
        }
        let wrong = |flaw| {
            let reason = AnswerReason::WrongBody { status, flaw };
            (Outcome::WrongAnswer, Some(reason))
        };
        let reason = match status {
            200..=299 => match &self.0.condition {
                Condition::Status(accepted) => AnswerReason::NotListed {
                    status,
                    accepted: accepted.to_string(),
                },
                _ if !whole => {
                    let limit = READ_ANSWER_BYTES;
                    return wrong(BodyFlaw::TooLong { limit });
                }
                condition => match condition.check_body(key, body) {
                    Ok(()) => return (Outcome::Acknowledged, None),
                    Err(flaw) => return wrong(flaw),
                },
            },
            300..=399 => match location {
                Some(to) => AnswerReason::Redirected {
                    status,
                    target: shown_target(to),
                },
                None => AnswerReason::Redirect { status },
            },
            // What follows from a request of the receiver is decided later, and added to the reason.
            GONE => AnswerReason::Gone,
            _ => AnswerReason::Status { status },
        };
        (Outcome::HttpStatus, Some(reason))
    }
}

/// The target of a redirect, or its beginning and dots.
fn shown_target(target: &[u8]) -> String {
    let mut end = target.len().min(LOCATION_BYTES);
    let mut shown = escape(&target[..end]);
    while shown.len() > LOCATION_BYTES {
        // No byte takes more than six when it is escaped.
        end -= (shown.len() - LOCATION_BYTES).div_ceil(6);
        shown = escape(&target[..end]);
    }
    let dots = if end < target.len() { "..." } else { "" };
    format!("{shown}{dots}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::new("payment.succeeded", "order-1").expect("a key")
    }

    fn judge(rule: &str, status: u16, body: &[u8]) -> Answer {
        let rule = AckRule::from_text(rule).expect(rule);
        let received = Received {
            status,
            body,
            whole: true,
            location: None,
        };
        rule.judge(&key(), received)
    }

    #[test]
    fn answers_are_judged_by_their_whole_body() {
        fn check(rule: &str, status: u16, body: &[u8], expected: Outcome) {
            let answer = judge(rule, status, body);
            let shown = escape(body);
            assert_eq!(answer.outcome, expected, "{rule} {status} {shown}");
            assert_eq!(answer.reason.is_empty(), expected == Outcome::Acknowledged);
        }
        use Outcome::{Acknowledged, HttpStatus, WrongAnswer};
        check("success", 200, b"success", Acknowledged);
        check("success", 204, b"success", Acknowledged);
        check("success", 299, b" \t\r\nsuccess\n", Acknowledged);
        check("success", 200, b"SUCCESS", WrongAnswer);
        check("success", 200, b"", WrongAnswer);
        check("success", 200, b"unsuccessful", WrongAnswer);
        check("success", 200, b"<body>success</body>", WrongAnswer);
        check("success", 200, "\u{feff}success".as_bytes(), WrongAnswer);
        check("success", 200, "success\u{a0}".as_bytes(), WrongAnswer);
        check("success", 200, b"\"success\"", WrongAnswer);
        check("success", 302, b"success", HttpStatus);
        check("success", 500, b"success", HttpStatus);
        check("success", 199, b"success", HttpStatus);
        check("success", 300, b"success", HttpStatus);
        check("exact", 200, b"success", Acknowledged);
        check("exact", 200, b"success\n", WrongAnswer);
        check("standard-webhooks", 204, b"", Acknowledged);
        check("standard-webhooks", 200, b"no", Acknowledged);
        check("standard-webhooks", 300, b"", HttpStatus);
        check(
            r#"{"status":[200,409]}"#,
            409,
            b"known already",
            Acknowledged,
        );
        check(r#"{"status":[200,409]}"#, 204, b"", HttpStatus);
        check(
            r#"{"json":{"pointer":"/ok","equals":true}}"#,
            200,
            b"{\"ok\":true}",
            Acknowledged,
        );
        check(
            r#"{"json":{"pointer":"/ok","equals":true}}"#,
            500,
            b"{\"ok\":true}",
            HttpStatus,
        );
        check(
            "wechat-v2",
            200,
            b"<xml><return_code>SUCCESS</return_code></xml>",
            Acknowledged,
        );
        check("wechat-v2", 200, b"success", WrongAnswer);
    }

    #[test]
    fn an_answer_without_end_acknowledges_by_its_status_only() {
        fn check(rule: &str, expected: Outcome) {
            let rule = AckRule::from_text(rule).expect(rule);
            let received = Received {
                status: 200,
                body: b"success",
                whole: false,
                location: None,
            };
            assert_eq!(rule.judge(&key(), received).outcome, expected, "{rule:?}");
        }
        check("success", Outcome::WrongAnswer);
        check("standard-webhooks", Outcome::Acknowledged);
    }

    #[test]
    fn the_reason_names_what_is_wrong() {
        fn check(rule: &str, status: u16, body: &[u8], expected: &str) {
            let reason = judge(rule, status, body).reason;
            assert_eq!(reason, expected, "{rule} {}", escape(body));
        }
        const BOM: &[u8] = "\u{feff}success".as_bytes();
        check(
            "success",
            200,
            BOM,
            "answered 200, but the body is `\\u{feff}success` and not `success`",
        );
        check(
            "success",
            200,
            b"",
            "answered 200, but with an empty body and not `success`",
        );
        check(
            "success",
            302,
            b"",
            "answered 302, a redirect; redirects are not followed",
        );
        check(
            r#"{"status":[200,201]}"#,
            204,
            b"",
            "answered 204, and not 200 or 201",
        );
        check(
            r#"{"text":"OK-{id}"}"#,
            200,
            b"OK-7",
            "answered 200, but the body is `OK-7` and not `OK-order-1`",
        );
        check(
            "douyin",
            200,
            b"{\"err_no\":5}",
            "answered 200, but `/err_no` in the body is `5` and not `0`",
        );
        check(
            "douyin",
            200,
            b"[]",
            "answered 200, but the body has no `/err_no`: `[]`",
        );
        check(
            "douyin",
            200,
            b"ok",
            "answered 200, but the body is not JSON: `ok`",
        );
        check(
            "wechat-v2",
            200,
            b"<a/>",
            "answered 200, but the body has no element `return_code`: `<a/>`",
        );
        let page = "x".repeat(200);
        let quoted = "x".repeat(60);
        check(
            "success",
            200,
            page.as_bytes(),
            &format!("answered 200, but the body is `{quoted}...` and not `success`"),
        );
    }

    #[test]
    fn the_target_of_a_redirect_is_quoted() {
        let check = |location: &[u8], quoted: &str| {
            let received = Received {
                status: 302,
                body: b"",
                whole: true,
                location: Some(location),
            };
            let reason = AckRule::standard().judge(&key(), received).reason;
            let expected = format!(
                "answered 302: the receiver redirects to `{quoted}`; redirects are not followed"
            );
            assert_eq!(reason, expected);
        };
        check(
            b"https://www.shop.example/notify",
            "https://www.shop.example/notify",
        );
        check(b"/login\xff", "/login\\xff");
        check("/登录\u{1b}[2J".as_bytes(), "/登录\\u{1b}[2J");
        check(&[b'x'; 300], &"x".repeat(300));
        check(&[b'x'; 301], &format!("{}...", "x".repeat(300)));
        check(&[0xff; 301], &format!("{}...", "\\xff".repeat(75)));
        check(&[0x1b; 100], &format!("{}...", "\\u{1b}".repeat(50)));
        check(b"", "");
    }

    #[test]
    fn only_the_beginning_of_an_answer_is_kept() {
        let kept = judge("success", 500, &[b'x'; KEPT_ANSWER_BYTES + 1]).body;
        assert_eq!(kept.len(), KEPT_ANSWER_BYTES);
    }
}
