//! What happened to a notification, in one order: its attempts and its changes.
//!
//! An attempt is placed by its beginning. An entry has what happened, by whom, and how it ended; the
//! answer of an attempt is shown once, among the attempts.

use crate::domain::attempt::Attempt;
use crate::domain::timestamp::display_ms;
use crate::journal::Transition;
use serde::Serialize;

/// An entry of a timeline.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum TimelineEntryView<'a> {
    /// An attempt began.
    Attempt {
        /// When it began.
        at: String,
        /// `attempt`.
        kind: &'static str,
        /// Its series.
        series: u32,
        /// Its number.
        number: u32,
        /// How it ended.
        outcome: &'static str,
        /// The HTTP status, if one came back.
        status: Option<u16>,
        /// Its place among the attempts, from 0.
        index: usize,
    },
    /// A change.
    Change {
        /// When it was made.
        at: String,
        /// The kind of change.
        kind: &'a str,
        /// Who asked for it.
        actor: &'a str,
        /// Its cause or reason.
        detail: Option<&'a str>,
    },
}

/// Puts attempts and changes, each oldest first, into one order.
#[must_use]
pub fn timeline<'a>(
    attempts: &'a [Attempt],
    changes: &'a [Transition],
) -> Vec<TimelineEntryView<'a>> {
    let mut begun: Vec<(usize, &Attempt)> = attempts.iter().enumerate().collect();
    // They are kept in the order in which they ended.
    begun.sort_by_key(|(_, attempt)| attempt.started_ms);
    let mut begun = begun.into_iter().peekable();
    let mut lines = Vec::with_capacity(attempts.len() + changes.len());
    for change in changes {
        // Within one millisecond an attempt comes before the end that it led to.
        let ends = matches!(
            change.kind.as_str(),
            "delivered" | "parked" | "cancelled" | "discarded"
        );
        let before = change.at_ms.saturating_add(i64::from(ends));
        while let Some((index, attempt)) = begun.next_if(|(_, attempt)| attempt.started_ms < before)
        {
            lines.push(TimelineEntryView::of_attempt(index, attempt));
        }
        lines.push(TimelineEntryView::Change {
            at: display_ms(change.at_ms),
            kind: &change.kind,
            actor: &change.actor,
            detail: (!change.detail.is_empty()).then_some(change.detail.as_str()),
        });
    }
    lines.extend(begun.map(|(index, attempt)| TimelineEntryView::of_attempt(index, attempt)));
    lines
}

impl TimelineEntryView<'_> {
    fn of_attempt(index: usize, attempt: &Attempt) -> Self {
        Self::Attempt {
            at: display_ms(attempt.started_ms),
            kind: "attempt",
            series: attempt.series,
            number: attempt.number,
            outcome: attempt.answer.outcome.as_str(),
            status: attempt.answer.status,
            index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attempt::{Answer, Outcome};

    fn attempt((number, started_ms): &(u32, i64)) -> Attempt {
        Attempt {
            series: 1,
            number: *number,
            due_ms: 0,
            started_ms: *started_ms,
            duration_ms: 1,
            answer: Answer {
                outcome: Outcome::HttpStatus,
                status: Some(500),
                body: Vec::new(),
                reason: String::new(),
            },
        }
    }

    fn transition((kind, at_ms): &(&str, i64)) -> Transition {
        Transition {
            kind: (*kind).to_string(),
            at_ms: *at_ms,
            actor: "api".into(),
            instance: "one".into(),
            detail: String::new(),
        }
    }

    #[test]
    fn attempts_and_changes_come_in_one_order() {
        fn check(attempts: &[(u32, i64)], changes: &[(&str, i64)], expected: &str) {
            let attempts: Vec<Attempt> = attempts.iter().map(attempt).collect();
            let changes: Vec<Transition> = changes.iter().map(transition).collect();
            let lines = timeline(&attempts, &changes);
            let names: Vec<String> = lines
                .iter()
                .map(|line| match line {
                    TimelineEntryView::Attempt { number, index, .. } => format!("{number}@{index}"),
                    TimelineEntryView::Change { kind, .. } => (*kind).to_string(),
                })
                .collect();
            assert_eq!(names.join(" "), expected);
        }
        check(&[], &[], "");
        check(&[(1, 5)], &[], "1@0");
        // All within one millisecond.
        check(
            &[(1, 5)],
            &[("registered", 5), ("delivered", 5)],
            "registered 1@0 delivered",
        );
        check(
            &[(1, 5), (2, 9), (3, 20)],
            &[
                ("registered", 0),
                ("restored", 7),
                ("parked", 9),
                ("replayed", 9),
                ("delivered", 21),
            ],
            "registered 1@0 restored 2@1 parked replayed 3@2 delivered",
        );
        // An interruption is noted when the attempt is made again.
        check(
            &[(1, 8), (1, 3)],
            &[("registered", 0), ("delivered", 9)],
            "registered 1@1 1@0 delivered",
        );
    }
}
