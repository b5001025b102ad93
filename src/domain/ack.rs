//! The ack rule: it decides whether an HTTP answer acknowledges a notification.
//!
//! The rule compares the whole body. A search for the word in the body would be wrong: `unsuccessful`
//! and `<body>success</body>` contain `success` too.

use crate::domain::attempt::{Answer, KEPT_ANSWER_BYTES, Outcome, READ_ANSWER_BYTES, escape};
use thiserror::Error;

/// The body that both rules require. Alipay requires the same word.
const SUCCESS: &[u8] = b"success";
/// Maximum bytes of a wrong answer that the reason quotes.
const QUOTED_BYTES: usize = 60;

/// The rule that says which answers acknowledge a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AckRule {
    /// The status is 2xx and the body is `success`. White space before and after the word is allowed,
    /// because sample code for merchants prints a newline after it. Source: Alipay's notification page
    /// and samples.
    Success,
    /// The status is 2xx and the body is exactly `success`. Source: Bilibili's payment platform.
    Exact,
}

/// The error for a name that is not an ack rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown ack rule `{0}`; known are {known}", known = AckRule::names())]
pub struct UnknownAckRule(pub String);

impl AckRule {
    /// Every rule.
    pub const ALL: &'static [Self] = &[Self::Success, Self::Exact];

    /// The names of all rules, for error messages.
    #[must_use]
    pub fn names() -> String {
        let names: Vec<&str> = Self::ALL.iter().map(|rule| rule.as_str()).collect();
        names.join(", ")
    }

    /// The rule's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Exact => "exact",
        }
    }

    /// The rule with this name.
    ///
    /// # Errors
    /// [`UnknownAckRule`] lists the known names.
    pub fn by_name(name: &str) -> Result<Self, UnknownAckRule> {
        Self::ALL
            .iter()
            .copied()
            .find(|rule| rule.as_str() == name)
            .ok_or_else(|| UnknownAckRule(name.chars().take(64).collect()))
    }

    /// Judges an answer. `body` is at most the first [`READ_ANSWER_BYTES`] of the answer's body. `whole`
    /// says that the answer has no more bytes.
    #[must_use]
    pub fn judge(self, status: u16, body: &[u8], whole: bool) -> Answer {
        let (outcome, reason) = match status {
            200..=299 if !whole => (
                Outcome::WrongAnswer,
                format!("answered {status}, but with more than {READ_ANSWER_BYTES} bytes"),
            ),
            200..=299 if self.accepts(body) => (Outcome::Acknowledged, String::new()),
            200..=299 => (Outcome::WrongAnswer, self.wrong_answer(status, body)),
            300..=399 => (
                Outcome::HttpStatus,
                format!("answered {status}, a redirect; redirects are not followed"),
            ),
            410 => (
                Outcome::HttpStatus,
                "answered 410 (Gone): the receiver asks for no more calls".to_string(),
            ),
            _ => (Outcome::HttpStatus, format!("answered {status}")),
        };
        Answer {
            outcome,
            status: Some(status),
            body: body[..body.len().min(KEPT_ANSWER_BYTES)].to_vec(),
            reason,
        }
    }

    fn accepts(self, body: &[u8]) -> bool {
        match self {
            Self::Success => body.trim_ascii() == SUCCESS,
            Self::Exact => body == SUCCESS,
        }
    }

    /// The body that the receiver should have sent. The reason of a wrong answer quotes it.
    fn expects(self) -> &'static str {
        match self {
            Self::Success | Self::Exact => "success",
        }
    }

    fn wrong_answer(self, status: u16, body: &[u8]) -> String {
        let expected = self.expects();
        if body.is_empty() {
            return format!("answered {status}, but with an empty body and not `{expected}`");
        }
        let quoted = escape(&body[..body.len().min(QUOTED_BYTES)]);
        let more = if body.len() > QUOTED_BYTES { "..." } else { "" };
        format!("answered {status}, but the body is `{quoted}{more}` and not `{expected}`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_judged_by_their_whole_body() {
        fn check(rule: AckRule, status: u16, body: &[u8], expected: Outcome) {
            let answer = rule.judge(status, body, true);
            assert_eq!(
                answer.outcome,
                expected,
                "{rule:?} {status} {}",
                escape(body)
            );
            assert_eq!(answer.reason.is_empty(), expected == Outcome::Acknowledged);
        }
        use AckRule::{Exact, Success};
        use Outcome::{Acknowledged, HttpStatus, WrongAnswer};
        check(Success, 200, b"success", Acknowledged);
        check(Success, 204, b"success", Acknowledged);
        check(Success, 299, b" \t\r\nsuccess\n", Acknowledged);
        check(Success, 200, b"SUCCESS", WrongAnswer);
        check(Success, 200, b"", WrongAnswer);
        check(Success, 200, b"unsuccessful", WrongAnswer);
        check(Success, 200, b"<body>success</body>", WrongAnswer);
        check(Success, 200, "\u{feff}success".as_bytes(), WrongAnswer);
        check(Success, 200, "success\u{a0}".as_bytes(), WrongAnswer);
        check(Success, 200, b"\"success\"", WrongAnswer);
        check(Success, 302, b"success", HttpStatus);
        check(Success, 500, b"success", HttpStatus);
        check(Success, 199, b"success", HttpStatus);
        check(Success, 300, b"success", HttpStatus);
        check(Exact, 200, b"success", Acknowledged);
        check(Exact, 200, b"success\n", WrongAnswer);
    }

    #[test]
    fn an_answer_without_end_is_no_acknowledgement() {
        let answer = AckRule::Success.judge(200, b"success", false);
        assert_eq!(answer.outcome, Outcome::WrongAnswer);
    }

    #[test]
    fn the_reason_shows_a_bom_and_the_start_of_a_page() {
        let reason = |body: &[u8]| AckRule::Success.judge(200, body, true).reason;
        assert!(reason("\u{feff}success".as_bytes()).contains("`\\u{feff}success`"));
        assert!(reason(&[b'x'; 200]).contains(&format!("`{}...`", "x".repeat(60))));
    }

    #[test]
    fn only_the_beginning_of_an_answer_is_kept() {
        let kept = AckRule::Success
            .judge(500, &[b'x'; KEPT_ANSWER_BYTES + 1], true)
            .body;
        assert_eq!(kept.len(), KEPT_ANSWER_BYTES);
    }
}
