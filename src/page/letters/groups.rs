//! Groups of dead letters: whose fault they are, why they died, and how their last attempts ended.

use crate::domain::attempt::Outcome;
use crate::domain::responsibility::Responsibility;
use crate::domain::state::Cause;
use crate::page::bulk::filters::BulkFilters;
use crate::page::language::Language;
use crate::page::listed::responsibility_of;
use crate::page::texts::letters::LetterTexts;
use crate::page::texts::outcomes::OutcomeTexts;
use crate::page::texts::states::StateTexts;
use crate::page::times::TimeTag;
use crate::service::ListPage;
use std::collections::HashMap;

/// A group.
pub struct LetterGroup {
    /// Whose fault it is; the name is the class of its mark.
    pub fault: &'static str,
    pub fault_name: &'static str,
    pub cause: &'static str,
    /// How the last attempts ended, in words; empty if that is not known or there was none.
    pub outcome: &'static str,
    pub status: Option<u16>,
    pub many: usize,
    /// How many of them have been replayed before and died again.
    pub repeated: usize,
    /// When the last one died.
    pub last: TimeTag,
    /// The list of those with this cause.
    pub href: String,
}

/// What the letters of a group have in common.
type Common = (
    Option<Responsibility>,
    Option<Cause>,
    Option<Outcome>,
    Option<u16>,
);

/// The groups of these dead letters, the largest first.
pub fn of(page: &ListPage, filters: &BulkFilters, language: Language) -> Vec<LetterGroup> {
    let (t, states) = (LetterTexts::of(language), StateTexts::of(language));
    let outcomes = OutcomeTexts::of(language);
    let mut found: HashMap<Common, (usize, usize, i64)> = HashMap::new();
    let attempts = page.last_attempts.as_deref().unwrap_or_default();
    for (at, item) in page.items.iter().enumerate() {
        let last = attempts.get(at).and_then(Option::as_ref);
        let common = (
            responsibility_of(item, last),
            item.cause,
            last.map(|last| last.answer.outcome),
            last.and_then(|last| last.answer.status),
        );
        let (many, repeated, last_ms) = found.entry(common).or_default();
        *many += 1;
        *repeated += usize::from(item.progress.series > 1);
        *last_ms = (*last_ms).max(item.ended_ms.unwrap_or_default());
    }
    let groups = found.into_iter().map(
        |((fault, cause, outcome, status), (many, repeated, last_ms))| LetterGroup {
            fault: t.fault(fault),
            fault_name: fault_name(fault),
            cause: cause.map_or("", |cause| states.cause(cause)),
            outcome: outcome.map_or("", |outcome| outcomes.short(outcome)),
            status,
            many,
            repeated,
            last: TimeTag(last_ms),
            href: filters.with_cause(cause.map_or("", Cause::as_str)),
        },
    );
    let mut groups: Vec<_> = groups.collect();
    groups.sort_by_key(|group| {
        (
            std::cmp::Reverse(group.many),
            std::cmp::Reverse(group.last.0),
            group.outcome,
            group.status,
        )
    });
    groups
}

fn fault_name(fault: Option<Responsibility>) -> &'static str {
    match fault {
        Some(Responsibility::Merchant) => "merchant",
        Some(Responsibility::Ours) => "ours",
        Some(Responsibility::Policy) => "policy",
        None => "unknown",
    }
}
