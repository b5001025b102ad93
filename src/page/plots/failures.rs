//! The kinds of failures that the plots tell apart.

use crate::domain::activity::ActivityCounts;
use crate::domain::attempt::Outcome;
use crate::page::texts::plots::PlotsTexts;

/// A kind of failure: its class, its name, and its outcomes.
pub(super) type FailureKind = (
    &'static str,
    fn(&PlotsTexts) -> &'static str,
    &'static [Outcome],
);

/// The kinds of failures, from the bottom of a bar to its top.
pub(super) const FAILURES: [FailureKind; 5] = [
    (
        "plot-answered",
        |t| t.answered,
        &[Outcome::WrongAnswer, Outcome::HttpStatus],
    ),
    ("plot-timeout", |t| t.timed_out, &[Outcome::Timeout]),
    (
        "plot-unreached",
        |t| t.not_reached,
        &[
            Outcome::Connect,
            Outcome::Tls,
            Outcome::Dns,
            Outcome::Protocol,
        ],
    ),
    ("plot-blocked", |t| t.blocked, &[Outcome::Blocked]),
    ("plot-ours", |t| t.interrupted, &[Outcome::Interrupted]),
];

/// The number of attempts with one of these outcomes.
pub(super) fn of_outcomes(counts: &ActivityCounts, outcomes: &[Outcome]) -> u64 {
    let numbers = outcomes.iter().map(|outcome| counts.outcome(*outcome));
    numbers.sum()
}
