//! Which bodies are kept in memory while their notifications wait. If a journal has them, only small bodies
//! and those that are needed soon are kept, so that pending notifications take little memory.

use crate::domain::body::Body;
use crate::domain::notification::Notification;
use crate::schedule::Entry;
use crate::schedule::memory_budget::MemoryBudget;
use std::sync::Arc;

/// A body is kept if its first attempt is due within this time, in milliseconds.
const SOON_MS: i64 = 5_000;
/// A body of up to this many bytes is kept for any attempt, if it is in memory already and the budget allows
/// it. It takes about as much as the rest of its entry, and reading it from the journal would cost more
/// than everything else that an attempt does in this process.
const SMALL_BYTES: usize = 1_024;

/// Where bodies are while their notifications wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeldBodies {
    /// In memory: there is no journal.
    Held,
    /// In the journal; in memory as well if they are small or needed soon, and the budget allows it.
    LeftToJournal,
}

impl HeldBodies {
    /// Leaves the body of a new entry to the journal, unless it is small or its first attempt is due soon. In
    /// both cases it is kept only if the budget allows it.
    pub(super) fn leave_unneeded(self, budget: &MemoryBudget, entry: &mut Entry, now_ms: i64) {
        let is_first = entry.progress.attempts == 0;
        let is_soon = entry.progress.next_due_ms() <= now_ms.saturating_add(SOON_MS);
        if is_first && is_soon {
            if !budget.can_hold_body(entry.notification.body.held_len()) {
                self.leave_to_journal(&mut entry.notification);
            }
        } else {
            self.leave_unless_small(budget, &mut entry.notification);
        }
    }

    /// Leaves the body of a notification that waits for a later attempt to the journal, unless it is small
    /// and the budget allows it. The notification must not be counted in the budget at this moment.
    pub(super) fn leave_unless_small(
        self,
        budget: &MemoryBudget,
        notification: &mut Arc<Notification>,
    ) {
        let bytes = notification.body.held_len();
        if bytes > SMALL_BYTES || !budget.can_hold_waiting_body(bytes) {
            self.leave_to_journal(notification);
        }
    }

    /// Leaves a body to the journal, if there is one.
    pub(super) fn leave_to_journal(self, notification: &mut Arc<Notification>) {
        match (self, &notification.body) {
            (Self::LeftToJournal, Body::Here(bytes)) => {
                let body = Body::InJournal(bytes.len());
                *notification = Arc::new(Notification {
                    body,
                    ..Notification::clone(notification)
                });
            }
            (Self::Held, _) | (Self::LeftToJournal, Body::InJournal(_)) => {}
        }
    }
}
