//! The timeline of a notification: its attempts and its changes in order of time.
//!
//! An attempt is sorted by its start. The timeline does not contain the answers of the receiver; they are in
//! the list of attempts.

use crate::api::schema::OutcomeName;
use crate::domain::attempt::Attempt;
use crate::domain::timestamp::display_ms;
use crate::journal::Transition;
use serde::Serialize;
use utoipa::ToSchema;

/// An entry of a timeline.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TimelineEntry)]
#[serde(untagged)]
pub enum TimelineEntryView<'a> {
    /// An attempt.
    Attempt {
        /// When the attempt started.
        #[schema(format = DateTime)]
        at: String,
        /// Always `attempt`.
        kind: &'static str,
        /// The series of the attempt.
        series: u32,
        /// The number of the attempt.
        number: u32,
        /// How the attempt ended.
        #[schema(value_type = OutcomeName)]
        outcome: &'static str,
        /// The HTTP status, if the receiver sent one.
        #[schema(required)]
        status: Option<u16>,
        /// The position in the list of attempts, from 0.
        index: usize,
    },
    /// A change.
    Change {
        /// When the change was made.
        #[schema(format = DateTime)]
        at: String,
        /// The kind of change.
        kind: &'a str,
        /// The actor: the person or service that requested the change.
        actor: &'a str,
        /// The cause or the reason of the change.
        #[schema(required)]
        detail: Option<&'a str>,
    },
}

/// Merges attempts and changes into one list, oldest first.
#[must_use]
pub fn timeline<'a>(
    attempts: &'a [Attempt],
    changes: &'a [Transition],
) -> Vec<TimelineEntryView<'a>> {
    let mut begun: Vec<(usize, &Attempt)> = attempts.iter().enumerate().collect();
    // The journal stores attempts in the order in which they ended.
    begun.sort_by_key(|(_, attempt)| attempt.started_ms);
    let mut begun = begun.into_iter().peekable();
    let mut lines = Vec::with_capacity(attempts.len() + changes.len());
    for change in changes {
        // If an attempt and the end that it caused have the same millisecond, the attempt comes first.
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
    use crate::domain::call_trace::CallTrace;

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
            trace: CallTrace::default(),
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
        // All have the same millisecond.
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
        // The journal records an interrupted attempt when it is made again, so it may be stored second.
        check(
            &[(1, 8), (1, 3)],
            &[("registered", 0), ("delivered", 9)],
            "registered 1@1 1@0 delivered",
        );
    }
}
