//! The ladder of a notification as a line of steps: what happened at each, what comes next, and the deadline.

use crate::domain::attempt::{Attempt, Outcome};
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::domain::timetable::Timetable;
use crate::page::language::Language;
use crate::page::texts::outcomes::OutcomeTexts;
use crate::page::texts::states::StateTexts;
use crate::page::texts::steps::StepTexts;
use crate::page::times::TimeTag;

/// Attempts that were made of which the line shows the last ones, at most.
const MOST_MADE: usize = 12;
/// Attempts to come of which the line shows the first ones, at most.
const MOST_AHEAD: usize = 12;

/// A step of the line.
#[derive(Debug, PartialEq, Eq)]
pub struct LadderStep {
    /// The kind of step: `good`, `failed`, `now`, `next`, `later`, `deadline`, `more`, or the name of the state in which the
    /// notification has ended, after `end-`.
    pub kind: &'static str,
    /// What it is: the number of an attempt, or a word.
    pub title: String,
    /// What happened, or happens.
    pub words: &'static str,
    /// The HTTP status.
    pub status: Option<u16>,
    pub at: Option<TimeTag>,
    /// The attempt on this page.
    pub href: Option<String>,
}

/// The steps of the present series.
pub fn steps(snapshot: &Snapshot, language: Language) -> Vec<LadderStep> {
    let t = StepTexts::of(language);
    let outcomes = OutcomeTexts::of(language);
    let progress = &snapshot.progress;
    let own = |attempt: &&(usize, &Attempt)| attempt.1.series == progress.series;
    let made: Vec<(usize, &Attempt)> = snapshot.attempts.iter().enumerate().collect();
    let made: Vec<&(usize, &Attempt)> = made.iter().filter(own).collect();
    let left_out = made.len().saturating_sub(MOST_MADE);
    let mut steps = Vec::new();
    if left_out > 0 {
        steps.push(more(left_out, t.earlier));
    }
    for (at, attempt) in &made[left_out..] {
        let outcome = attempt.answer.outcome;
        steps.push(LadderStep {
            kind: match outcome == Outcome::Acknowledged {
                true => "good",
                false => "failed",
            },
            title: format!("#{}", attempt.number),
            words: outcomes.short(outcome),
            status: attempt.answer.status,
            at: Some(TimeTag(attempt.started_ms)),
            href: Some(format!("#attempt-{at}")),
        });
    }
    match snapshot.state {
        State::Scheduled => ahead(snapshot, t, &mut steps),
        state => steps.push(LadderStep {
            kind: match state {
                State::Delivered => "end-delivered",
                State::Dead => "end-dead",
                State::Scheduled | State::Cancelled => "end-cancelled",
            },
            title: StateTexts::of(language).state(state.as_str()).to_string(),
            words: "",
            status: None,
            at: snapshot.ended_ms.map(TimeTag),
            href: None,
        }),
    }
    steps
}

/// The attempts to come, and the deadline.
fn ahead(snapshot: &Snapshot, t: &'static StepTexts, steps: &mut Vec<LadderStep>) {
    let progress = &snapshot.progress;
    let step = |kind, number: usize, words, at_ms| LadderStep {
        kind,
        title: format!("#{number}"),
        words,
        status: None,
        at: Some(TimeTag(at_ms)),
        href: None,
    };
    let next = usize::try_from(progress.next_number()).unwrap_or(usize::MAX);
    let by_hand = progress.next_is_by_hand();
    let (kind, words) = match (snapshot.in_flight, by_hand) {
        (true, _) => ("now", t.now),
        (false, true) => ("next", t.by_hand),
        (false, false) => ("next", t.next),
    };
    steps.push(step(kind, next, words, progress.next_due_ms()));
    // The next one is the first of the ladder, unless it was asked for by hand.
    let planned = Timetable::ahead(&snapshot.ladder, progress).attempts;
    let later = planned.iter().skip(usize::from(!by_hand)).enumerate();
    for (at, planned) in later.clone().take(MOST_AHEAD) {
        let words = if planned.clamped {
            t.at_deadline
        } else {
            t.later
        };
        steps.push(step("later", next + 1 + at, words, planned.due_ms));
    }
    let left_out = later.count().saturating_sub(MOST_AHEAD);
    if left_out > 0 {
        steps.push(more(left_out, t.further));
    }
    steps.push(LadderStep {
        kind: "deadline",
        title: t.deadline.to_string(),
        words: "",
        status: None,
        at: Some(TimeTag(progress.deadline_ms)),
        href: None,
    });
}

fn more(number: usize, words: &'static str) -> LadderStep {
    LadderStep {
        kind: "more",
        title: format!("+{number}"),
        words,
        status: None,
        at: None,
        href: None,
    }
}
