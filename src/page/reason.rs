//! Sentences that stores keep in English, as the page shows them.

use super::language::Language;
use super::texts::reasons::in_chinese;
use crate::domain::attempt_reason::AttemptReason;

/// Why an attempt failed, in the language of the visitor as far as that is possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownReason {
    /// The sentence; empty if there is none.
    pub text: String,
    /// Whether the sentence is in English although the page may not be.
    pub is_english: bool,
    /// What belongs to it in English: a text of the operating system or of a library. It may be empty.
    pub foreign: String,
}

impl ShownReason {
    /// A reason as it is recorded. What a server of another version has written may not be known here; then it is shown as
    /// it is.
    pub fn of(recorded: &str, language: Language) -> Self {
        let read = match language {
            Language::English => None,
            Language::Chinese => AttemptReason::read(recorded),
        };
        match read {
            Some(reason) => {
                let (text, foreign) = in_chinese(&reason);
                Self {
                    text,
                    is_english: false,
                    foreign: foreign.to_string(),
                }
            }
            None => Self {
                text: recorded.to_string(),
                is_english: true,
                foreign: String::new(),
            },
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_stays_as_it_is() {
        let check = |recorded: &str, language, text: &str, is_english| {
            let shown = ShownReason::of(recorded, language);
            assert_eq!((shown.text.as_str(), shown.is_english), (text, is_english));
        };
        check("answered 500", Language::English, "answered 500", true);
        check("answered 500", Language::Chinese, "应答状态码 500", false);
        let later = "answered in a way that a later version knows";
        check(later, Language::Chinese, later, true);
        check("", Language::Chinese, "", true);
    }
}
