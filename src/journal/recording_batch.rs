//! What a batch of recordings comes to: the attempts to keep, how the notifications stand, the lines
//! of their histories. Pure: a journal says what it holds, asks here and writes the outcome.

use super::effect::{self, Effect, Status};
use super::history::HistoryRow;
use super::rows::StoredNotification;
use super::{Actor, Recorded, Recording};
use crate::domain::attempt::Outcome;
use crate::domain::key::Key;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// An attempt to be kept.
pub(super) struct AttemptRow<'batch> {
    pub(super) notification: i64,
    pub(super) recording: &'batch Recording,
}

/// What makes two attempts the same.
pub(super) type AttemptIdentity = (i64, u32, u32, i64, Outcome);

impl AttemptRow<'_> {
    pub(super) fn identity(&self) -> AttemptIdentity {
        let attempt = &self.recording.attempt;
        (
            self.notification,
            attempt.series,
            attempt.number,
            attempt.started_ms,
            attempt.answer.outcome,
        )
    }
}

impl StoredNotification {
    fn attempt<'batch>(&self, recording: &'batch Recording) -> AttemptRow<'batch> {
        AttemptRow {
            notification: self.row_id,
            recording,
        }
    }
}

/// The recordings of a batch that were applied until now.
pub(super) struct RecordingBatch<'batch> {
    instance: &'batch Arc<str>,
    known: HashMap<Key, StoredNotification>,
    /// In the journal already, or to be kept.
    kept: HashSet<AttemptIdentity>,
    advanced: BTreeSet<i64>,
    attempts: Vec<AttemptRow<'batch>>,
    history: Vec<HistoryRow>,
}

/// What is to be written.
pub(super) struct BatchWrites<'batch> {
    pub(super) attempts: Vec<AttemptRow<'batch>>,
    /// How those stand that have moved on, by their row numbers.
    pub(super) advanced: Vec<StoredNotification>,
    pub(super) history: Vec<HistoryRow>,
}

impl<'batch> RecordingBatch<'batch> {
    /// `known` are the notifications that the batch is about, as they stand.
    pub(super) fn of(known: HashMap<Key, StoredNotification>, instance: &'batch Arc<str>) -> Self {
        Self {
            instance,
            known,
            kept: HashSet::new(),
            advanced: BTreeSet::new(),
            attempts: Vec::new(),
            history: Vec::new(),
        }
    }

    /// The attempt of a recording, unless there is no such notification.
    pub(super) fn attempt(&self, recording: &'batch Recording) -> Option<AttemptRow<'batch>> {
        Some(self.known.get(&recording.key)?.attempt(recording))
    }

    /// The attempt of the recording that is applied next, if the journal may have it already. One that
    /// moves the notification on cannot have been kept before.
    pub(super) fn possible_repeat(
        &self,
        recording: &'batch Recording,
    ) -> Option<AttemptRow<'batch>> {
        let stored = self.known.get(&recording.key)?;
        let effect = effect::advance(&mut Status::of(&stored.snapshot), recording);
        if matches!(effect, Effect::Advanced(_)) {
            return None;
        }
        let row = stored.attempt(recording);
        (!self.kept.contains(&row.identity())).then_some(row)
    }

    /// Tells that the journal has these attempts already.
    pub(super) fn mark_kept(&mut self, identities: impl IntoIterator<Item = AttemptIdentity>) {
        self.kept.extend(identities);
    }

    /// Applies the next recording of the batch.
    pub(super) fn apply(&mut self, recording: &'batch Recording) -> Recorded {
        let Some(stored) = self.known.get_mut(&recording.key) else {
            return Recorded::Missing;
        };
        let row = stored.attempt(recording);
        let effect = effect::record(&mut stored.snapshot, recording);
        let is_new = self.kept.insert(row.identity());
        if is_new {
            self.attempts.push(row);
        }
        match effect {
            Effect::Unchanged | Effect::Stale if !is_new => {
                effect::reply_to_repeat(&stored.snapshot, recording)
            }
            Effect::Unchanged => Recorded::Applied,
            Effect::Stale => Recorded::Stale(Box::new(stored.snapshot.clone())),
            Effect::Advanced(line) => {
                self.advanced.insert(stored.row_id);
                self.history.extend(line.map(|line| HistoryRow {
                    notification: stored.row_id,
                    at_ms: recording.at_ms,
                    line,
                    actor: Actor::dispatcher(),
                    instance: self.instance.clone(),
                }));
                Recorded::Applied
            }
        }
    }

    /// What all of the batch comes to.
    pub(super) fn into_writes(self) -> BatchWrites<'batch> {
        let advanced = self.known.into_values();
        let mut advanced: Vec<StoredNotification> = advanced
            .filter(|stored| self.advanced.contains(&stored.row_id))
            .collect();
        advanced.sort_unstable_by_key(|stored| stored.row_id);
        BatchWrites {
            attempts: self.attempts,
            advanced,
            history: self.history,
        }
    }
}
