//! The ended entries that are remembered, where there is no journal: dead ones until they are replayed or discarded, the others for
//! [`Limits::remember_ms`].
//!
//! [`Limits::remember_ms`]: crate::schedule::Limits::remember_ms

use crate::domain::key::Key;
use crate::schedule::ScheduleError;
use std::collections::BTreeSet;

/// The keys of ended entries.
#[derive(Debug, Default)]
pub(super) struct EndedEntries {
    /// When it ended, and its key.
    dead: BTreeSet<(i64, Key)>,
    /// When to forget it, and its key.
    expiring: BTreeSet<(i64, Key)>,
}

impl EndedEntries {
    pub(super) fn park(&mut self, ended_ms: i64, key: Key) {
        self.dead.insert((ended_ms, key));
    }

    pub(super) fn unpark(&mut self, ended_ms: i64, key: &Key) {
        self.dead.remove(&(ended_ms, key.clone()));
    }

    pub(super) fn expire_at(&mut self, forget_ms: i64, key: Key) {
        self.expiring.insert((forget_ms, key));
    }

    pub(super) fn cancel_expiry(&mut self, forget_ms: i64, key: &Key) {
        self.expiring.remove(&(forget_ms, key.clone()));
    }

    /// Removes and returns the next key that is to be forgotten by now.
    pub(super) fn forget(&mut self, now_ms: i64) -> Option<Key> {
        let (forget_ms, _) = self.expiring.first()?;
        if *forget_ms > now_ms {
            return None;
        }
        self.expiring.pop_first().map(|(_, key)| key)
    }

    pub(super) fn dead_count(&self) -> usize {
        self.dead.len()
    }

    pub(super) fn count(&self) -> usize {
        self.dead.len() + self.expiring.len()
    }

    /// The dead after `cursor`, newest first, `limit` at most, and the cursor of the next page.
    ///
    /// A cursor is the position of the last key on the page, not a number of keys. So entries that are
    /// parked, replayed or discarded meanwhile do not shift the next page.
    pub(super) fn page(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<&Key>, Option<String>), ScheduleError> {
        let rest = match cursor {
            None => self.dead.range(..),
            Some(cursor) => {
                let place = parse_cursor(cursor).ok_or(ScheduleError::BadCursor)?;
                self.dead.range(..place)
            }
        };
        let mut rest = rest.rev();
        let page: Vec<&(i64, Key)> = rest.by_ref().take(limit).collect();
        let next = match (page.last(), rest.next()) {
            (Some((ended_ms, key)), Some(_)) => Some(format!("{ended_ms}/{key}")),
            (Some(_), None) | (None, Some(_) | None) => None,
        };
        Ok((page.into_iter().map(|(_, key)| key).collect(), next))
    }
}

fn parse_cursor(cursor: &str) -> Option<(i64, Key)> {
    let (ended_ms, key) = cursor.split_once('/')?;
    Some((ended_ms.parse().ok()?, Key::parse(key).ok()?))
}
