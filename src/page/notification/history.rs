//! The history of a notification: who has changed it, when and why.

use crate::journal::Transition;
use crate::page::language::Language;
use crate::page::texts::history::HistoryTexts;
use crate::page::times::TimeTag;

/// A line of the history.
pub struct HistoryEntry<'a> {
    pub at: TimeTag,
    pub what: &'a str,
    pub actor: &'a str,
    pub instance: &'a str,
    pub detail: &'a str,
}

/// The lines, oldest first.
pub fn entries(transitions: &[Transition], language: Language) -> Vec<HistoryEntry<'_>> {
    let t = HistoryTexts::of(language);
    let entries = transitions.iter().map(|transition| HistoryEntry {
        at: TimeTag(transition.at_ms),
        what: t.kind(&transition.kind),
        actor: &transition.actor,
        instance: &transition.instance,
        detail: &transition.detail,
    });
    entries.collect()
}
