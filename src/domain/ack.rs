//! The ack rule: which answers count as "I have it".
//!
//! Only the whole body counts, never a part of it: `unsuccessful` and `<body>success</body>` hold
//! the word too.

use crate::domain::attempt::{Answer, KEPT_ANSWER_BYTES, Outcome, READ_ANSWER_BYTES, escape};
use thiserror::Error;

/// The literal that both rules ask for, as Alipay's does.
const SUCCESS: &[u8] = b"success";
/// How much of a wrong answer the reason quotes, in bytes.
const QUOTED_BYTES: usize = 60;

/// Which answers acknowledge a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AckRule {
    /// A 2xx whose body is `success`, white space around it allowed (merchants' samples print it
    /// with a newline). Source: Alipay's notification page and samples.
    Success,
    /// A 2xx whose body is `success` and not a byte more. Source: Bilibili's payment platform.
    Exact,
}

/// Why an ack rule is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown ack rule `{0}`; known are {known}", known = AckRule::names())]
pub struct UnknownAckRule(pub String);

impl AckRule {
    /// Every rule.
    pub const ALL: &'static [Self] = &[Self::Success, Self::Exact];

    /// The names of all, for messages.
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

    /// The rule of that name.
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

    /// Judges an answer whose body was read up to [`READ_ANSWER_BYTES`]; `whole` says that it
    /// ended there.
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
                "answered 410: asks not to be called again".to_string(),
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

    /// What a receiver should have answered, for the reason of a wrong answer.
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
