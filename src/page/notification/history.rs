//! The history of a notification: who has changed it, when and why.

use crate::domain::history_note::HistoryNote;
use crate::domain::state::Cause;
use crate::journal::Transition;
use crate::page::language::Language;
use crate::page::texts::history::{HistoryTexts, note_in_words};
use crate::page::texts::states::StateTexts;
use crate::page::times::TimeTag;

/// A line of the history.
pub struct HistoryEntry<'a> {
    pub at: TimeTag,
    pub what: &'a str,
    pub actor: &'a str,
    pub instance: &'a str,
    pub detail: String,
    /// The name that the detail stands for, if it has one in the API.
    pub code: &'static str,
    /// Whether the detail is in English although the page may not be.
    pub is_english: bool,
}

/// The lines, oldest first.
pub fn entries(transitions: &[Transition], language: Language) -> Vec<HistoryEntry<'_>> {
    let t = HistoryTexts::of(language);
    let entries = transitions.iter().map(|transition| {
        let (detail, code) = detail_of(transition, language);
        HistoryEntry {
            at: TimeTag(transition.at_ms),
            what: t.kind(&transition.kind),
            actor: &transition.actor,
            instance: &transition.instance,
            detail,
            code,
            is_english: transition.kind == "set_aside",
        }
    });
    entries.collect()
}

/// What else is known of a line, and the name that it stands for. What a person gave as a reason stays as it is.
fn detail_of(transition: &Transition, language: Language) -> (String, &'static str) {
    let detail = transition.detail.as_str();
    if transition.kind == "parked"
        && let Some(cause) = Cause::from_name(detail)
    {
        let words = StateTexts::of(language).cause(cause);
        return (words.to_string(), cause.as_str());
    }
    let note = detail.parse().ok();
    let note = note.filter(|note| is_of(&transition.kind, note));
    let words = note.map(|note| note_in_words(&note, language));
    (words.unwrap_or_else(|| detail.to_string()), "")
}

/// Whether the servers write this note beside a line of this kind. A person may have given the same words as a reason for
/// something else.
fn is_of(kind: &str, note: &HistoryNote) -> bool {
    match note {
        HistoryNote::SupersededBy { .. } => kind == "cancelled",
        HistoryNote::MovedAndDropped { .. } | HistoryNote::Moved { .. } => kind == "rescheduled",
        HistoryNote::LostData
        | HistoryNote::SomethingMissing
        | HistoryNote::UnfinishedRebuild
        | HistoryNote::RebuildAsked
        | HistoryNote::OtherStep
        | HistoryNote::NotInSchedule
        | HistoryNote::NotInJournal => kind == "restored",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_servers_wrote_is_said_in_words_and_what_people_wrote_stays() {
        let check = |kind: &str, detail: &str, language, expected: &str| {
            let line = Transition {
                kind: kind.to_string(),
                at_ms: 0,
                actor: String::new(),
                instance: String::new(),
                detail: detail.to_string(),
            };
            assert_eq!(detail_of(&line, language).0, expected, "{kind} {detail}");
        };
        use Language::{Chinese, English};
        let exhausted = "every attempt of the ladder was made";
        check("parked", "ladder_exhausted", English, exhausted);
        check("parked", "ladder_exhausted", Chinese, "重试次数已用尽");
        check(
            "parked",
            "of_a_later_version",
            Chinese,
            "of_a_later_version",
        );
        let by = "superseded by number 7 of its order";
        check("cancelled", by, Chinese, "已被同一订单序列的编号 7 取代");
        check("discarded", by, Chinese, by);
        check("restored", "it was asked for", Chinese, "应要求重建");
        check("replayed", "it was asked for", Chinese, "it was asked for");
        check(
            "rescheduled",
            "from 2026-11-20T08:30:00.000Z to 2026-11-20T09:30:00.000Z",
            Chinese,
            "由 2026-11-20T08:30:00.000Z 改为 2026-11-20T09:30:00.000Z",
        );
        check("replayed", "", English, "");
    }
}
