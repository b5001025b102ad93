//! Which bodies are held in memory while their notifications wait. Where a journal has them, all that are
//! not small or needed soon are left to it, so that what is pending takes little memory.

use crate::domain::body::Body;
use crate::domain::notification::Notification;
use crate::schedule::Entry;
use crate::schedule::memory_budget::MemoryBudget;
use std::sync::Arc;

/// A body is held for a first attempt that is due within this, in milliseconds.
const SOON_MS: i64 = 5_000;
/// A body of up to so many bytes is held for any attempt, if it is here and there is room: it takes about what
/// the rest of its entry takes, and to read it costs more than all else of an attempt here.
const SMALL_BYTES: usize = 1_024;

/// Where bodies are while their notifications wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeldBodies {
    /// Here: nobody else has them.
    Held,
    /// In a journal; here as well if they are small or needed soon, and there is room.
    LeftToJournal,
}

impl HeldBodies {
    /// Leaves the body of an entry that comes in to the journal, unless it is small or needed soon, and
    /// there is room.
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
    /// and there is room. Of a notification that is not counted in the budget.
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
