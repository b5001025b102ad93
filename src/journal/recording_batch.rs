//! Applies a batch of recordings in memory, and collects the rows to write: attempts, changed notifications
//! and lines of history. Pure: a journal reads the notifications, calls this code, and writes the rows.

use super::effect::{self, Effect, Status};
use super::history::HistoryRow;
use super::rows::StoredNotification;
use super::{Actor, Recorded, Recording};
use crate::domain::attempt::Outcome;
use crate::domain::key::Key;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// An attempt to be written.
pub(super) struct AttemptRow<'batch> {
    pub(super) notification: i64,
    pub(super) recording: &'batch Recording,
}

/// The values that identify an attempt: notification, series, number, start and outcome.
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

/// The replies to a batch of which the usual recordings are done first, and the others after them.
pub(super) struct RecordingReplies(Vec<Option<Recorded>>);

impl RecordingReplies {
    /// Of a batch of so many, of which those with these indexes are applied.
    pub(super) fn of(many: usize, applied: impl IntoIterator<Item = usize>) -> Self {
        let mut replies = vec![None; many];
        for index in applied {
            if let Some(reply) = replies.get_mut(index) {
                *reply = Some(Recorded::Applied);
            }
        }
        Self(replies)
    }

    /// The indexes of the others.
    pub(super) fn left(&self) -> Vec<usize> {
        let indexes = 0..self.0.len();
        indexes.filter(|index| self.0[*index].is_none()).collect()
    }

    /// All replies, with those to the others, in the order of the batch.
    pub(super) fn with(mut self, left: Vec<usize>, replies: Vec<Recorded>) -> Vec<Recorded> {
        for (index, reply) in left.into_iter().zip(replies) {
            self.0[index] = Some(reply);
        }
        self.0.into_iter().flatten().collect()
    }
}

/// The notifications of a batch, and the results of the recordings that were applied so far.
pub(super) struct RecordingBatch<'batch> {
    instance: &'batch Arc<str>,
    known: HashMap<Key, StoredNotification>,
    /// Attempts that the journal has already, or that are in `attempts`.
    kept: HashSet<AttemptIdentity>,
    advanced: BTreeSet<i64>,
    attempts: Vec<AttemptRow<'batch>>,
    history: Vec<HistoryRow>,
}

/// The rows to write for a batch.
pub(super) struct BatchWrites<'batch> {
    pub(super) attempts: Vec<AttemptRow<'batch>>,
    /// The notifications whose status has changed, sorted by their row numbers.
    pub(super) advanced: Vec<StoredNotification>,
    pub(super) history: Vec<HistoryRow>,
}

impl<'batch> RecordingBatch<'batch> {
    /// Begins a batch. `known` contains its notifications as the journal has them.
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

    /// The attempt of a recording. `None` if the journal does not have the notification.
    pub(super) fn attempt(&self, recording: &'batch Recording) -> Option<AttemptRow<'batch>> {
        Some(self.known.get(&recording.key)?.attempt(recording))
    }

    /// The attempt of the recording that is applied next, if the journal may have this attempt already. The
    /// journal does not have an attempt that would still change the status: when an attempt is kept, its
    /// change of the status is applied with it.
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

    /// Notes that the journal has these attempts already.
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

    /// The rows to write for all recordings that were applied.
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
