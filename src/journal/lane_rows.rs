//! Reads rows of `lanes` of both databases: the settings of a lane, and the number of their last change.

use super::JournalError;
use super::rows::{Fields, StoredRow, corrupt, narrowed};
use crate::domain::call_rate::CallRate;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::{
    ChangeRange, LaneChange, LaneChanges, LaneHold, LaneLimits, LaneSetting, LaneSettings,
};
use sqlx::{ColumnIndex, Decode, Type};
use std::num::NonZeroU32;

/// The settings of a lane, and the number of their last change.
pub(super) struct LaneRow {
    pub(super) lane: Lane,
    pub(super) number: i64,
    pub(super) settings: LaneSettings,
}

/// Who holds a lane whose settings cannot be read.
const HELD_BY: &str = "ringback";

/// The changes after a number that are in these rows, which are at most `limit`, in order. `last` is the number of the
/// last change that was in the journal before the rows were read.
pub(super) fn changes_until(
    rows: Vec<LaneRow>,
    after: i64,
    last: i64,
    limit: usize,
) -> LaneChanges {
    let is_last = rows.len() < limit;
    let last_row = rows.last().map(|row| row.number);
    let until = match (is_last, last_row) {
        (false, Some(number)) => number,
        (true, number) => last.max(number.unwrap_or(0)),
        (false, None) => last,
    };
    let changes = rows.into_iter().map(|row| LaneChange {
        lane: row.lane,
        setting: LaneSetting::All(row.settings),
        number: row.number,
    });
    LaneChanges {
        changes: changes.collect(),
        range: Some(ChangeRange {
            after,
            until,
            is_last,
        }),
    }
}

impl<'row, R> Fields<'row, R>
where
    R: StoredRow,
    usize: ColumnIndex<R>,
    bool: Decode<'row, R::Database> + Type<R::Database>,
    i64: Decode<'row, R::Database> + Type<R::Database>,
    &'row str: Decode<'row, R::Database> + Type<R::Database>,
    &'row [u8]: Decode<'row, R::Database> + Type<R::Database>,
    R::Count: Decode<'row, R::Database> + Type<R::Database>,
{
    /// Reads `lane, number, concurrency, rate, held_ms, held_by, held_reason`. The error names the lane.
    pub(super) fn lane_row(&mut self) -> Result<LaneRow, JournalError> {
        let lane = Lane::from_name(self.take()?);
        let number = self.take()?;
        let settings = self.lane_settings().map_err(|error| match error {
            JournalError::Corrupt(cause) => {
                JournalError::Corrupt(format!("the settings of the lane {lane}: {cause}"))
            }
            other => other,
        })?;
        Ok(LaneRow {
            lane,
            number,
            settings,
        })
    }

    /// As [`Self::lane_row`], for what brings the settings of many lanes to the servers. A lane whose settings cannot be read
    /// is held, because nobody knows what it may be sent, and the others are sent as they are set. A change of such a lane
    /// fails until somebody has repaired its row, so that it does not lose its limits.
    pub(super) fn lane_row_or_held(&mut self) -> Result<LaneRow, JournalError> {
        let lane = Lane::from_name(self.take()?);
        let number: i64 = self.take()?;
        let settings = self.lane_settings().unwrap_or_else(|error| {
            tracing::error!(
                %lane,
                %error,
                "the settings of a lane in the journal cannot be read, so the lane is held; repair its row in `lanes`, then \
                 release it"
            );
            LaneSettings {
                limits: LaneLimits::default(),
                hold: Some(LaneHold {
                    by: HELD_BY.into(),
                    reason: format!("its settings cannot be read: {error}").into(),
                    // Numbers of changes begin with the time of the change.
                    since_ms: number,
                }),
            }
        });
        Ok(LaneRow {
            lane,
            number,
            settings,
        })
    }

    fn lane_settings(&mut self) -> Result<LaneSettings, JournalError> {
        let concurrency = match self.take::<Option<i64>>()? {
            Some(most) => {
                let most: u32 = narrowed("concurrency", most)?;
                Some(NonZeroU32::new(most).ok_or_else(|| corrupt("concurrency", &most))?)
            }
            None => None,
        };
        let rate = match self.take::<Option<i64>>()? {
            Some(rate) => {
                let stored = narrowed("rate", rate)?;
                let rate = CallRate::from_stored(stored);
                Some(rate.ok_or_else(|| corrupt("rate", &stored))?)
            }
            None => None,
        };
        let since_ms: Option<i64> = self.take()?;
        let (by, reason): (Option<&str>, Option<&str>) = (self.take()?, self.take()?);
        let hold = since_ms.map(|since_ms| LaneHold {
            by: by.unwrap_or_default().into(),
            reason: reason.unwrap_or_default().into(),
            since_ms,
        });
        Ok(LaneSettings {
            limits: LaneLimits { concurrency, rate },
            hold,
        })
    }
}
