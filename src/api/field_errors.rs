//! The list of all errors in a request, field by field.
//!
//! All errors are reported at once, so that a caller corrects a request once and not once per field. So
//! the code that reads a request adds each error to this list and continues. The list is bounded, because
//! a hostile request could contain an unknown field every five bytes. What looks like a secret is not repeated.

use crate::domain::redaction::redacted;
use serde::Serialize;
use std::fmt::Display;
use utoipa::ToSchema;

/// Maximum number of errors that are listed. Further errors are only counted.
const MOST_LISTED: usize = 100;
/// Maximum number of errors that the one-line summary contains.
const MOST_IN_SUMMARY: usize = 3;
/// Maximum characters of a caller's field name that an answer repeats.
const LONGEST_NAME: usize = 128;

/// The place of an error in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FieldLocation {
    /// A place in the body, as a JSON pointer (RFC 6901). An empty pointer means the whole body.
    Pointer(String),
    /// The name of a query parameter.
    Parameter(String),
    /// The name of a header.
    Header(&'static str),
}

/// One error in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// The field, parameter or header.
    #[serde(flatten)]
    pub location: FieldLocation,
    /// The error in plain words.
    pub detail: String,
}

impl FieldError {
    /// The place and the error, in one phrase.
    #[must_use]
    pub fn in_words(&self) -> String {
        let name = match &self.location {
            FieldLocation::Pointer(name) | FieldLocation::Parameter(name) => name.as_str(),
            FieldLocation::Header(name) => name,
        };
        if name.is_empty() {
            self.detail.clone()
        } else {
            format!("{name}: {}", self.detail)
        }
    }
}

/// Says that an error was added to the list. It is used as the error type of functions that add their
/// errors themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted;

/// The errors of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldErrors {
    listed: Vec<FieldError>,
    unlisted: usize,
    too_large: bool,
}

impl FieldErrors {
    /// A list with one error.
    #[must_use]
    pub fn one(location: FieldLocation, detail: impl Display) -> Self {
        let mut errors = Self::default();
        errors.push(location, &detail);
        errors
    }

    /// Adds an error at a JSON pointer in the body.
    pub fn add(&mut self, pointer: &str, detail: impl Display) -> Noted {
        self.push(FieldLocation::Pointer(pointer.to_string()), &detail)
    }

    /// Adds an error for the member `name` of the object at a JSON pointer.
    pub fn add_member(&mut self, pointer: &str, name: &str, detail: impl Display) -> Noted {
        self.push(
            FieldLocation::Pointer(member_pointer(pointer, name)),
            &detail,
        )
    }

    /// Adds an error: the value at a JSON pointer is larger than this server accepts.
    pub fn add_too_large(&mut self, pointer: &str, detail: impl Display) -> Noted {
        self.too_large = true;
        self.add(pointer, detail)
    }

    /// Adds an error for a query parameter.
    pub fn add_parameter(&mut self, name: &str, detail: impl Display) -> Noted {
        self.push(FieldLocation::Parameter(shortened(name)), &detail)
    }

    /// Whether the list has no errors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Whether a value is too large.
    #[must_use]
    pub fn too_large(&self) -> bool {
        self.too_large
    }

    /// The errors in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let shown: Vec<String> = self
            .listed
            .iter()
            .take(MOST_IN_SUMMARY)
            .map(FieldError::in_words)
            .collect();
        let mut line = shown.join("; ");
        let more = self.listed.len() - shown.len() + self.unlisted;
        if more > 0 {
            line.push_str(&format!("; and {more} more"));
        }
        line
    }

    /// The first `most` of these errors; the others are only counted. For a list of many requests.
    #[must_use]
    pub fn at_most(mut self, most: usize) -> Self {
        self.unlisted += self.listed.len().saturating_sub(most);
        self.listed.truncate(most);
        self
    }

    /// The errors as a list. If some were only counted, the last entry says how many.
    #[must_use]
    pub fn into_list(mut self) -> Vec<FieldError> {
        if self.unlisted > 0 {
            self.listed.push(FieldError {
                location: FieldLocation::Pointer(String::new()),
                detail: format!("{} more errors are not listed", self.unlisted),
            });
        }
        self.listed
    }

    fn push(&mut self, location: FieldLocation, detail: &impl Display) -> Noted {
        if self.listed.len() < MOST_LISTED {
            self.listed.push(FieldError {
                location,
                detail: redacted(&detail.to_string()).into_owned(),
            });
        } else {
            self.unlisted += 1;
        }
        Noted
    }
}

/// The JSON pointer to a member. The name is escaped as RFC 6901 requires. A very long name is cut.
pub(super) fn member_pointer(pointer: &str, name: &str) -> String {
    let name = shortened(name).replace('~', "~0").replace('/', "~1");
    format!("{pointer}/{name}")
}

fn shortened(name: &str) -> String {
    let name = redacted(name);
    let mut short: String = name.chars().take(LONGEST_NAME).collect();
    if short.len() < name.len() {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_names_are_escaped_in_pointers() {
        fn check(name: &str, expected: &str) {
            assert_eq!(member_pointer("/headers", name), expected);
        }
        check("x", "/headers/x");
        check("a/b~c", "/headers/a~1b~0c");
        check("~1", "/headers/~01");
        check("", "/headers/");
        check(
            &"x".repeat(129),
            &format!("/headers/{}...", "x".repeat(128)),
        );
    }

    #[test]
    fn secrets_are_not_repeated() {
        let mut errors = FieldErrors::default();
        errors.add("/ladder", "unknown ladder `whsec_hunter2`");
        errors.add_member("", "whsk_hunter2", "unknown field");
        errors.add_parameter("whsec_hunter2", "unknown");
        assert!(!errors.summary().contains("hunter2"), "{errors:?}");
    }

    #[test]
    fn the_list_is_bounded_and_says_so() {
        let mut errors = FieldErrors::default();
        for _ in 0..MOST_LISTED + 7 {
            errors.add("/x", "is wrong");
        }
        assert!(errors.summary().ends_with("; and 104 more"));
        for (most, unlisted) in [(MOST_LISTED, 7), (2, MOST_LISTED + 5)] {
            let list = errors.clone().at_most(most).into_list();
            assert_eq!(list.len(), most + 1);
            let expected = format!("{unlisted} more errors are not listed");
            assert_eq!(list[most].detail, expected);
        }
    }

    #[test]
    fn the_summary_reads_as_a_line() {
        let mut errors = FieldErrors::default();
        errors.add("", "an object is expected");
        errors.add("/url", "is missing");
        errors.add_parameter("limit", "is no number");
        assert_eq!(
            errors.summary(),
            "an object is expected; /url: is missing; limit: is no number"
        );
    }
}
