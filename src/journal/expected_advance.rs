//! The usual recordings of a batch: those whose notifications are expected to still have the progress that they had
//! before the attempt. What they write follows from the recording alone, so a journal need not read the notification first.

use super::Recording;
use super::effect::{self, Effect, HistoryLine, Status};
use crate::domain::state::State;
use std::collections::HashSet;

/// A recording whose notification is expected to have the same progress as before the attempt.
pub(super) struct ExpectedAdvance<'batch> {
    /// The index of the recording in the batch.
    pub(super) index: i32,
    pub(super) recording: &'batch Recording,
    /// The status of the notification after the recording.
    pub(super) after: Status,
    /// The line for its history, if it has ended then.
    pub(super) line: Option<HistoryLine>,
}

impl<'batch> ExpectedAdvance<'batch> {
    /// The recordings of a batch that change the status of a notification with the expected progress, in the order of the
    /// batch. If it has several recordings for one notification, only the first is returned: the others depend on
    /// its result.
    pub(super) fn all_of(batch: &'batch [Recording]) -> Vec<Self> {
        let mut seen = HashSet::with_capacity(batch.len());
        let firsts = (0..)
            .zip(batch)
            .filter(|(_, recording)| seen.insert(&recording.key));
        firsts
            .filter_map(|(index, recording)| Self::of(index, recording))
            .collect()
    }

    fn of(index: i32, recording: &'batch Recording) -> Option<Self> {
        let before = &recording.before;
        let mut after = Status::scheduled(*before);
        let Effect::Advanced(line) = effect::advance(&mut after, recording) else {
            return None;
        };
        let is_same_series = after.progress.series == before.series
            && after.progress.first_due_ms == before.first_due_ms
            && recording.attempt.series == before.series;
        let is_usual = match after.state {
            State::Scheduled | State::Delivered | State::Dead => true,
            State::Cancelled => false,
        };
        (is_same_series && is_usual).then_some(Self {
            index,
            recording,
            after,
            line,
        })
    }

    /// The deadline after the recording, if it moves it.
    pub(super) fn moved_deadline_ms(&self) -> Option<i64> {
        let (before_ms, after_ms) = (
            self.recording.before.deadline_ms,
            self.after.progress.deadline_ms,
        );
        (after_ms != before_ms).then_some(after_ms)
    }
}
