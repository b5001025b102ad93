//! What is wrong with a request, place by place.
//!
//! A caller should correct a request once, not once per field: whatever reads a request notes every
//! fault here and goes on. The list is bounded, since a hostile request could name a new unknown
//! field every five bytes.

use serde::Serialize;
use std::fmt::Display;

/// Most faults that are listed; the rest is counted.
const MOST_LISTED: usize = 100;
/// Most faults that the one-line summary spells out.
const MOST_IN_SUMMARY: usize = 3;
/// Most characters of a caller's field name that are given back.
const LONGEST_NAME: usize = 128;

/// Where in a request a fault lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// In the body, as a JSON pointer (RFC 6901); empty for the body as a whole.
    Pointer(String),
    /// In the query.
    Parameter(String),
    /// In a header.
    Header(&'static str),
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// What, in plain words.
    pub detail: String,
}

impl Fault {
    /// Where and what, in one phrase.
    #[must_use]
    pub fn in_words(&self) -> String {
        let place = match &self.place {
            Place::Pointer(name) | Place::Parameter(name) => name.as_str(),
            Place::Header(name) => name,
        };
        if place.is_empty() {
            self.detail.clone()
        } else {
            format!("{place}: {}", self.detail)
        }
    }
}

/// The fault is on the list; there is nothing more to say to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted;

/// The faults of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    listed: Vec<Fault>,
    unlisted: usize,
    too_large: bool,
}

impl Faults {
    /// A list with one fault on it.
    #[must_use]
    pub fn one(place: Place, detail: impl Display) -> Self {
        let mut faults = Self::default();
        faults.push(place, &detail);
        faults
    }

    /// Notes a fault of the body at a JSON pointer.
    pub fn add(&mut self, pointer: &str, detail: impl Display) -> Noted {
        self.push(Place::Pointer(pointer.to_string()), &detail)
    }

    /// Notes a fault of the member `name` of the object at a JSON pointer.
    pub fn add_member(&mut self, pointer: &str, name: &str, detail: impl Display) -> Noted {
        self.push(Place::Pointer(member_pointer(pointer, name)), &detail)
    }

    /// Notes that what stands at a JSON pointer is larger than this server takes.
    pub fn add_too_large(&mut self, pointer: &str, detail: impl Display) -> Noted {
        self.too_large = true;
        self.add(pointer, detail)
    }

    /// Notes a fault of a query parameter.
    pub fn add_parameter(&mut self, name: &str, detail: impl Display) -> Noted {
        self.push(Place::Parameter(shortened(name)), &detail)
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Whether something is merely too large.
    #[must_use]
    pub fn too_large(&self) -> bool {
        self.too_large
    }

    /// The faults in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let shown: Vec<String> = self
            .listed
            .iter()
            .take(MOST_IN_SUMMARY)
            .map(Fault::in_words)
            .collect();
        let mut line = shown.join("; ");
        let more = self.listed.len() - shown.len() + self.unlisted;
        if more > 0 {
            line.push_str(&format!("; and {more} more"));
        }
        line
    }

    /// The list. If it did not hold all of them, a last entry says so.
    #[must_use]
    pub fn into_list(mut self) -> Vec<Fault> {
        if self.unlisted > 0 {
            self.listed.push(Fault {
                place: Place::Pointer(String::new()),
                detail: format!("{} more faults are not listed", self.unlisted),
            });
        }
        self.listed
    }

    fn push(&mut self, place: Place, detail: &impl Display) -> Noted {
        if self.listed.len() < MOST_LISTED {
            self.listed.push(Fault {
                place,
                detail: detail.to_string(),
            });
        } else {
            self.unlisted += 1;
        }
        Noted
    }
}

/// The pointer to a member, its name escaped as RFC 6901 says; a very long name is cut.
fn member_pointer(pointer: &str, name: &str) -> String {
    let name = shortened(name).replace('~', "~0").replace('/', "~1");
    format!("{pointer}/{name}")
}

fn shortened(name: &str) -> String {
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
    fn the_list_is_bounded_and_says_so() {
        let mut faults = Faults::default();
        for _ in 0..MOST_LISTED + 7 {
            faults.add("/x", "is wrong");
        }
        assert!(faults.summary().ends_with("; and 104 more"));
        let list = faults.into_list();
        assert_eq!(list.len(), MOST_LISTED + 1);
        assert_eq!(list[MOST_LISTED].detail, "7 more faults are not listed");
    }

    #[test]
    fn the_summary_reads_as_a_line() {
        let mut faults = Faults::default();
        faults.add("", "an object is expected");
        faults.add("/url", "is missing");
        faults.add_parameter("limit", "is no number");
        assert_eq!(
            faults.summary(),
            "an object is expected; /url: is missing; limit: is no number"
        );
    }
}
