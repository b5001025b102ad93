//! The history of a notification: the lines that are written, and the lines that are shown.
//!
//! A history is shown with lines for the rebuilds of the schedule that began while the notification was
//! pending. The functions are pure.

use super::effect::HistoryLine;
use super::rows::{Released, StoredNotification};
use super::{Actor, Changing, Noting, Transition};
use crate::domain::key::Key;
use std::collections::HashMap;
use std::sync::Arc;

/// A line of a history, to be written.
pub(super) struct HistoryRow {
    pub(super) notification: i64,
    pub(super) at_ms: i64,
    pub(super) line: HistoryLine,
    pub(super) actor: Actor,
    pub(super) instance: Arc<str>,
}

/// The lines that a change by hand writes. If the change releases a notification that was set aside, the
/// first line says that it was set aside.
pub(super) fn of_change(
    notification: i64,
    changing: &Changing,
    line: HistoryLine,
    released: Option<Released>,
    instance: &Arc<str>,
) -> Vec<HistoryRow> {
    let released = released.map(|released| HistoryRow {
        notification,
        at_ms: released.set_aside.at_ms,
        line: HistoryLine {
            kind: "set_aside",
            detail: released.set_aside.reason,
        },
        actor: Actor::dispatcher(),
        instance: released.instance.into(),
    });
    let change = HistoryRow {
        notification,
        at_ms: changing.at_ms,
        line,
        actor: changing.actor.clone(),
        instance: instance.clone(),
    };
    released.into_iter().chain([change]).collect()
}

/// The line of a delivery that was shown so far although it has no row, as a row.
pub(super) fn of_delivery(notification: i64, shown: Transition) -> HistoryRow {
    HistoryRow {
        notification,
        at_ms: shown.at_ms,
        line: HistoryLine {
            kind: "delivered",
            detail: shown.detail,
        },
        actor: Actor::unaudited(shown.actor),
        instance: shown.instance.into(),
    }
}

/// The history lines of these notes. Notes for keys that are not in `known` are left out.
pub(super) fn of_notes(
    notes: &[Noting],
    known: &HashMap<Key, StoredNotification>,
    instance: &Arc<str>,
) -> Vec<HistoryRow> {
    let row = |note: &Noting| {
        Some(HistoryRow {
            notification: known.get(&note.key)?.row_id,
            at_ms: note.at_ms,
            line: HistoryLine {
                kind: note.kind,
                detail: note.detail.clone(),
            },
            actor: note.actor.clone(),
            instance: instance.clone(),
        })
    };
    notes.iter().filter_map(row).collect()
}

/// Adds the rebuilds that began while the notification was pending. `rebuilds` must be sorted, newest last.
pub(super) fn with_rebuilds(own: Vec<Transition>, rebuilds: Vec<Transition>) -> Vec<Transition> {
    let mut lines: Vec<Transition> = Vec::with_capacity(own.len() + rebuilds.len());
    let mut rebuilds = rebuilds.into_iter().peekable();
    let mut pending = false;
    for line in own {
        while let Some(rebuild) = rebuilds.next_if(|rebuild| rebuild.at_ms < line.at_ms) {
            lines.extend(Some(rebuild).filter(|_| pending));
        }
        pending = !matches!(
            line.kind.as_str(),
            "delivered" | "parked" | "cancelled" | "discarded"
        );
        lines.push(line);
    }
    lines.extend(rebuilds.filter(|_| pending));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebuild_shows_while_a_notification_is_pending() {
        fn check(own: &[(&str, i64)], rebuilds: &[i64], expected: &[(&str, i64)]) {
            let line = |kind: &str, at_ms| Transition {
                kind: kind.to_string(),
                at_ms,
                actor: String::new(),
                instance: String::new(),
                detail: String::new(),
            };
            let own = own.iter().map(|(kind, at_ms)| line(kind, *at_ms)).collect();
            let rebuilds = rebuilds
                .iter()
                .map(|at_ms| line("restored", *at_ms))
                .collect();
            let shown = with_rebuilds(own, rebuilds);
            let shown: Vec<(&str, i64)> = shown.iter().map(|l| (&*l.kind, l.at_ms)).collect();
            assert_eq!(shown, expected);
        }
        let registered = ("registered", 10);
        check(&[registered], &[], &[registered]);
        check(&[registered], &[5, 9], &[registered]);
        check(&[registered], &[11], &[registered, ("restored", 11)]);
        let delivered = ("delivered", 20);
        check(
            &[registered, delivered],
            &[20, 30],
            &[registered, delivered],
        );
        check(
            &[registered, delivered, ("resent", 30), ("delivered", 40)],
            &[25, 35, 45],
            &[
                registered,
                delivered,
                ("resent", 30),
                ("restored", 35),
                ("delivered", 40),
            ],
        );
        check(
            &[registered, ("parked", 20), ("replayed", 30), ("parked", 40)],
            &[15, 25, 35, 45],
            &[
                registered,
                ("restored", 15),
                ("parked", 20),
                ("replayed", 30),
                ("restored", 35),
                ("parked", 40),
            ],
        );
    }
}
