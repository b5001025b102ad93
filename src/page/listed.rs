//! A notification in the lists of dead letters, of plans and of jobs: what one has to know to decide about it.

use super::html::encoded;
use super::language::Language;
use super::notification::path_of;
use super::reason::ShownReason;
use super::texts::letters::LetterTexts;
use super::texts::outcomes::OutcomeTexts;
use super::texts::states::StateTexts;
use super::times::TimeTag;
use crate::domain::attempt::{Attempt, Outcome};
use crate::domain::destination::Destination;
use crate::domain::key::Key;
use crate::domain::responsibility::Responsibility;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;

/// See the documentation of the module.
pub struct ListedRow {
    pub href: String,
    /// The key in a form ([`value_of`]).
    pub value: String,
    pub topic: String,
    pub id: String,
    /// The name of the state, which is the class of its mark.
    pub state: &'static str,
    pub state_in_words: &'static str,
    pub cause: &'static str,
    /// Whose fault it is, in words; empty if it is not dead, or if nobody can say.
    pub fault: &'static str,
    /// The series, if it has died again after a replay, or is sent again.
    pub repeated: Option<u32>,
    /// Whether it can never be sent again, because its endpoint was removed and made again.
    pub is_endpoint_made_again: bool,
    pub destination: String,
    pub registered: TimeTag,
    pub ended: Option<TimeTag>,
    pub attempts: u32,
    /// How the last attempt ended: in words, the status, and its reason.
    pub last: Option<(&'static str, Option<u16>, ShownReason)>,
}

impl ListedRow {
    /// The row of a notification whose last attempt was this one, if it is known.
    pub fn of(item: &Snapshot, last: Option<&Attempt>, language: Language) -> Self {
        let (states, outcomes) = (StateTexts::of(language), OutcomeTexts::of(language));
        let fault = responsibility_of(item, last).filter(|_| item.state == State::Dead);
        Self {
            href: path_of(&item.key),
            value: value_of(&item.key),
            topic: item.key.topic().to_string(),
            id: item.key.id().to_string(),
            state: item.state_name(),
            state_in_words: states.state(item.state_name()),
            cause: item.cause.map_or("", |cause| states.cause(cause)),
            fault: fault.map_or("", |fault| LetterTexts::of(language).fault(Some(fault))),
            repeated: (item.progress.series > 1).then_some(item.progress.series),
            is_endpoint_made_again: false,
            destination: (item.destination.as_ref())
                .map_or(item.lane.as_str(), Destination::as_str)
                .to_string(),
            registered: TimeTag(item.registered_ms),
            ended: item.ended_ms.map(TimeTag),
            attempts: item.progress.attempts,
            last: last.map(|last| {
                let words = outcomes.short(last.answer.outcome);
                let reason = ShownReason::of(&last.answer.reason, language);
                (words, last.answer.status, reason)
            }),
        }
    }

    /// Marks the rows of those whose endpoints were made again: `flags` has the order of the rows.
    pub fn mark_made_again(rows: &mut [Self], flags: &[bool]) {
        for (row, flag) in rows.iter_mut().zip(flags) {
            row.is_endpoint_made_again = *flag;
        }
    }

    /// The rows of these notifications, whose last attempts are in the same order. What has no attempt there has none that
    /// is known.
    pub fn all(items: &[Snapshot], last: &[Option<Attempt>], language: Language) -> Vec<Self> {
        let items = items.iter().enumerate();
        let rows = items.map(|(at, item)| {
            let known = last.get(at).and_then(Option::as_ref);
            Self::of(item, known.or(item.attempts.last()), language)
        });
        rows.collect()
    }
}

/// Whose fault a dead letter is.
pub fn responsibility_of(item: &Snapshot, last: Option<&Attempt>) -> Option<Responsibility> {
    let outcome: Option<Outcome> = last.map(|last| last.answer.outcome);
    Responsibility::for_dead(item.cause, item.progress.attempts, outcome)
}

/// A key as the value of a field of a form.
pub fn value_of(key: &Key) -> String {
    format!("{}/{}", encoded(key.topic()), encoded(key.id()))
}

/// Reads the value of a field that [`value_of`] has written.
pub fn key_of_value(value: &str) -> Option<Key> {
    let (topic, id) = value.split_once('/')?;
    let decoded = |text: &str| {
        let pair = format!("={text}");
        let (_, value) = url::form_urlencoded::parse(pair.as_bytes()).next()?;
        Some(value.into_owned())
    };
    Key::new(&decoded(topic)?, &decoded(id)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_a_form() {
        for id in ["1", "a/b c", " +%2F&=\"<>' ", "a?b#c"] {
            let key = Key::new("t.x", id).expect("a key");
            assert_eq!(key_of_value(&value_of(&key)), Some(key));
        }
        for wrong in ["", "t", "t/", "/1", "t/1/2%00"] {
            assert_eq!(key_of_value(wrong), None, "{wrong}");
        }
    }
}
