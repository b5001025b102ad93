//! What the registration of a notification with a place in an order does: the same for every journal.
//!
//! The functions are pure. A journal reads what it knows of the order key, calls [`verdict`], and writes the result in
//! the same transaction. It makes sure that no other registration of the same key runs meanwhile.

use super::effect::HistoryLine;
use super::rows::StoredNotification;
use super::{Actor, RegisterResult, Registering};
use crate::domain::history_note::HistoryNote;
use crate::domain::key::Key;
use crate::domain::order::{OrderConflict, OrderMode, OrderPlace};
use crate::domain::snapshot::Snapshot;
use crate::domain::state::{Cause, State};

/// Which notifications of an order key count for one of them: those that were registered between these two instants, both
/// included, in milliseconds since 1970. If an endpoint was removed and made again, the name may belong to somebody else
/// since, who numbers anew. So what means the endpoint of before counts for nothing that means the present one, nor the
/// other way round ([`crate::domain::endpoint::Endpoint::is_meant_by`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OrderSpan {
    /// The first instant.
    pub(super) first_ms: i64,
    /// The last instant.
    pub(super) last_ms: i64,
}

impl OrderSpan {
    /// Of a notification that was registered at this instant. `made_again_ms` is that of its endpoint.
    pub(super) fn around(registered_ms: i64, made_again_ms: Option<i64>) -> Self {
        let (first_ms, last_ms) = match made_again_ms {
            None => (i64::MIN, i64::MAX),
            Some(made_again_ms) if registered_ms < made_again_ms => {
                (i64::MIN, made_again_ms.saturating_sub(1))
            }
            Some(made_again_ms) => (made_again_ms, i64::MAX),
        };
        Self { first_ms, last_ms }
    }
}

/// What a journal knows of an order key when a number is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownOrder {
    /// The highest number that was registered.
    pub(super) highest: i64,
    /// The row number of that one.
    pub(super) highest_row: i64,
    /// Its mode.
    pub(super) mode: OrderMode,
    /// The row number of the notification that has the number; `None` if it is free.
    pub(super) taken_by: Option<i64>,
    /// The row number of the first higher number of which an attempt was recorded. It is not asked for where only the
    /// latest counts.
    pub(super) passed_by: Option<i64>,
}

/// What becomes of a notification that is registered with a place in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OrderVerdict {
    /// It is scheduled.
    Scheduled,
    /// It is scheduled, and the lower numbers that are pending end.
    EndsLower,
    /// It is cancelled at once: a higher number was registered.
    Superseded,
    /// It is not registered, because of the notification with this row number.
    Refused(OrderConflict, i64),
}

/// Decides about what a caller registers.
fn verdict_of_new(place: &OrderPlace, known: Option<KnownOrder>) -> OrderVerdict {
    let Some(known) = known else {
        return OrderVerdict::Scheduled;
    };
    if known.mode != place.mode() {
        return OrderVerdict::Refused(OrderConflict::OtherMode, known.highest_row);
    }
    if let Some(other) = known.taken_by {
        return OrderVerdict::Refused(OrderConflict::NumberTaken, other);
    }
    let is_highest = place.number() > known.highest;
    match (place.mode(), is_highest, known.passed_by) {
        (OrderMode::Latest, true, _) => OrderVerdict::EndsLower,
        (OrderMode::Latest, false, _) => OrderVerdict::Superseded,
        (OrderMode::Strict, false, Some(other)) => {
            OrderVerdict::Refused(OrderConflict::Passed, other)
        }
        (OrderMode::Strict, _, _) => OrderVerdict::Scheduled,
    }
}

/// Decides about what maintenance registers: it was accepted before, so it is kept whatever its number. But the journal may
/// have forgotten it together with what it did to others, or what others did to it: where only the latest counts, the
/// highest number of all ends the lower ones that are pending.
fn verdict_of_accepted(place: &OrderPlace, known: Option<KnownOrder>) -> OrderVerdict {
    match known.filter(|known| known.mode == place.mode()) {
        Some(known) if known.highest < place.number() => OrderVerdict::EndsLower,
        Some(known) if known.highest > place.number() => OrderVerdict::Superseded,
        Some(_) | None => OrderVerdict::Scheduled,
    }
}

/// Decides. `known` is `None` if the order key is new.
pub(super) fn verdict(
    registering: &Registering,
    place: &OrderPlace,
    known: Option<KnownOrder>,
) -> OrderVerdict {
    match is_accepted(registering) {
        true => verdict_of_accepted(place, known),
        false => verdict_of_new(place, known),
    }
}

fn is_accepted(registering: &Registering) -> bool {
    registering.actor == Actor::maintenance()
}

/// The place to check. In a strict order, what was accepted before has nothing to be checked.
pub(super) fn place_to_check(registering: &Registering) -> Option<&OrderPlace> {
    let order = registering.notification.order.as_deref();
    order.filter(|place| place.mode() == OrderMode::Latest || !is_accepted(registering))
}

/// Cancels a pending notification because of a higher number. Returns a line for its history. If an attempt of it is in
/// flight and acknowledged, it becomes delivered, unless it is cancelled by hand before ([`Snapshot::takes_late_delivery`]).
pub(super) fn supersede(snapshot: &mut Snapshot, by: i64, at_ms: i64) -> HistoryLine {
    snapshot.state = State::Cancelled;
    snapshot.cause = Some(Cause::Superseded);
    snapshot.ended_ms = Some(at_ms);
    snapshot.progress.retry_at_ms = None;
    snapshot.fence += 1;
    snapshot.set_aside = None;
    snapshot.waits_for_ms = None;
    HistoryLine {
        kind: "cancelled",
        detail: HistoryNote::SupersededBy { number: by }.to_string(),
    }
}

/// Cancels pending notifications as [`supersede`]. Returns a line for the history of each.
pub(super) fn supersede_all(
    lower: &mut [StoredNotification],
    by: i64,
    at_ms: i64,
) -> Vec<(i64, HistoryLine)> {
    let ended = lower.iter_mut();
    ended
        .map(|stored| (stored.row_id, supersede(&mut stored.snapshot, by, at_ms)))
        .collect()
}

/// What a registration with a place in an order did.
pub(super) struct OrderedRegistration {
    /// The notification as it is kept; `None` if it is refused.
    pub(super) snapshot: Option<Snapshot>,
    /// The lower numbers that it has ended.
    pub(super) ended: Vec<Snapshot>,
    /// What it was judged as.
    pub(super) verdict: OrderVerdict,
    /// What is in the way, if it is refused.
    pub(super) other: Option<Key>,
}

impl OrderedRegistration {
    /// A refusal.
    pub(super) fn refused(verdict: OrderVerdict, other: Option<Key>) -> Self {
        Self {
            snapshot: None,
            ended: Vec::new(),
            verdict,
            other,
        }
    }

    /// The reply to the registration.
    pub(super) fn into_reply(self) -> RegisterResult {
        match (self.verdict, self.snapshot) {
            (OrderVerdict::Refused(conflict, _), _) => RegisterResult::OutOfOrder {
                conflict,
                other: self.other,
            },
            (OrderVerdict::Superseded, Some(snapshot)) => {
                RegisterResult::Superseded(Box::new(snapshot))
            }
            (OrderVerdict::EndsLower, _) if !self.ended.is_empty() => {
                RegisterResult::CreatedOver(self.ended)
            }
            (OrderVerdict::Scheduled | OrderVerdict::EndsLower | OrderVerdict::Superseded, _) => {
                RegisterResult::Created
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_another_endpoint_of_the_name_does_not_count() {
        let check = |registered_ms, made_again_ms, expected| {
            let span = OrderSpan::around(registered_ms, made_again_ms);
            assert_eq!((span.first_ms, span.last_ms), expected);
        };
        check(5, None, (i64::MIN, i64::MAX));
        check(4, Some(5), (i64::MIN, 4));
        check(5, Some(5), (5, i64::MAX));
        check(6, Some(5), (5, i64::MAX));
    }

    #[test]
    fn numbers_are_judged_by_what_is_known() {
        use OrderConflict::{NumberTaken, OtherMode, Passed};
        use OrderMode::{Latest, Strict};
        use OrderVerdict::{EndsLower, Refused, Scheduled, Superseded};
        let check = |mode, number, known: Option<(i64, OrderMode, bool, bool)>, expected| {
            let place = OrderPlace::new("o", number, mode).expect("valid");
            let known = known.map(|(highest, mode, is_taken, is_passed)| KnownOrder {
                highest,
                highest_row: 1,
                mode,
                taken_by: is_taken.then_some(2),
                passed_by: is_passed.then_some(3),
            });
            assert_eq!(
                verdict_of_new(&place, known),
                expected,
                "{place:?} {known:?}"
            );
        };
        let taken = Refused(NumberTaken, 2);
        check(Latest, 5, None, Scheduled);
        check(Latest, 5, Some((4, Latest, false, false)), EndsLower);
        check(Latest, 5, Some((6, Latest, false, false)), Superseded);
        check(Latest, 5, Some((5, Latest, true, false)), taken);
        let other_mode = Refused(OtherMode, 1);
        check(Latest, 5, Some((4, Strict, false, false)), other_mode);
        check(Strict, 5, None, Scheduled);
        check(Strict, 5, Some((4, Strict, false, false)), Scheduled);
        check(Strict, 5, Some((6, Strict, false, false)), Scheduled);
        let passed = Refused(Passed, 3);
        check(Strict, 5, Some((6, Strict, false, true)), passed);
        check(Strict, 5, Some((6, Strict, true, true)), taken);
        check(Strict, 5, Some((6, Latest, false, false)), other_mode);
    }

    #[test]
    fn what_was_accepted_is_kept_and_only_the_latest_of_it_goes_on() {
        use OrderMode::{Latest, Strict};
        use OrderVerdict::{EndsLower, Scheduled, Superseded};
        let check = |known: Option<(i64, OrderMode, bool)>, expected| {
            let place = OrderPlace::new("o", 5, Latest).expect("valid");
            let known = known.map(|(highest, mode, is_taken)| KnownOrder {
                highest,
                highest_row: 1,
                mode,
                taken_by: is_taken.then_some(2),
                passed_by: Some(3),
            });
            assert_eq!(verdict_of_accepted(&place, known), expected, "{known:?}");
        };
        check(None, Scheduled);
        check(Some((4, Latest, false)), EndsLower);
        check(Some((5, Latest, true)), Scheduled);
        check(Some((6, Latest, false)), Superseded);
        check(Some((6, Latest, true)), Superseded);
        check(Some((4, Strict, false)), Scheduled);
    }
}
