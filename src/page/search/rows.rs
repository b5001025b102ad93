//! The rows of a list of notifications.

use crate::domain::attempt::Attempt;
use crate::domain::destination::Destination;
use crate::page::language::Language;
use crate::page::notification::path_of;
use crate::page::reason::ShownReason;
use crate::page::texts::outcomes::OutcomeTexts;
use crate::page::texts::states::StateTexts;
use crate::page::times::TimeTag;
use crate::service::ListPage;

/// A notification in a list.
pub struct ResultRow<'a> {
    pub href: String,
    pub topic: &'a str,
    pub id: &'a str,
    /// The name of the state, which is the class of its mark.
    pub state: &'static str,
    pub state_in_words: &'static str,
    pub cause: &'static str,
    pub destination: &'a str,
    pub registered: TimeTag,
    pub next: Option<TimeTag>,
    pub attempts: u32,
    /// How the last attempt ended: in words, and its reason.
    pub last: Option<(&'static str, Option<u16>, ShownReason)>,
}

/// The rows of a page.
pub fn of(page: &ListPage, language: Language) -> Vec<ResultRow<'_>> {
    let (states, outcomes) = (StateTexts::of(language), OutcomeTexts::of(language));
    let items = page.items.iter().enumerate();
    let rows = items.map(|(at, item)| {
        let read = page.last_attempts.as_ref();
        let last = read
            .and_then(|attempts| attempts.get(at))
            .and_then(Option::as_ref);
        let last_of = |attempt: &'_ Attempt| {
            (
                outcomes.short(attempt.answer.outcome),
                attempt.answer.status,
            )
        };
        ResultRow {
            href: path_of(&item.key),
            topic: item.key.topic(),
            id: item.key.id(),
            state: item.state_name(),
            state_in_words: states.state(item.state_name()),
            cause: item.cause.map_or("", |cause| states.cause(cause)),
            destination: (item.destination.as_ref())
                .map_or(item.lane.as_str(), Destination::as_str),
            registered: TimeTag(item.registered_ms),
            next: item.next_due_ms().map(TimeTag),
            attempts: item.progress.attempts,
            last: last.map(|attempt| {
                let (words, status) = last_of(attempt);
                let reason = ShownReason::of(&attempt.answer.reason, language);
                (words, status, reason)
            }),
        }
    });
    rows.collect()
}
