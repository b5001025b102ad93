//! The table below the plots: the same figures, several bars in a row.

use super::failures::{FAILURES, of_outcomes};
use super::range::PlotRange;
use crate::domain::activity::{ActivityCounts, MINUTE_MS};
use crate::page::times::{TimeTag, duration_in_words};
use crate::service::ActivityReading;

/// A row of the table. `None` if there are no data.
pub(in crate::page) struct TableRow {
    pub(in crate::page) from: TimeTag,
    pub(in crate::page) figures: Option<RowFigures>,
}

/// The figures of a row.
pub(in crate::page) struct RowFigures {
    pub(in crate::page) delivered: u64,
    pub(in crate::page) failures: Vec<u64>,
    pub(in crate::page) dead: u64,
    pub(in crate::page) half: Option<String>,
    pub(in crate::page) ninety_nine: Option<String>,
}

/// The rows for a reading, oldest first.
pub(super) fn rows(reading: &ActivityReading, range: PlotRange) -> Vec<TableRow> {
    let many = range.row_buckets();
    let minutes = i64::try_from(many).unwrap_or(1) * reading.bucket_minutes;
    let groups = reading.buckets.chunks(many).zip(0..);
    let rows = groups.map(|(buckets, at)| {
        let mut sum = ActivityCounts::default();
        for bucket in buckets.iter().flatten() {
            sum.add(&bucket.counts);
        }
        let has_data = buckets.iter().any(Option::is_some);
        let lateness = |percent| sum.lateness_ms(percent).map(duration_in_words);
        TableRow {
            from: TimeTag((reading.from_minute + at * minutes) * MINUTE_MS),
            figures: has_data.then(|| RowFigures {
                delivered: sum.delivered(),
                failures: (FAILURES.iter())
                    .map(|(.., outcomes)| of_outcomes(&sum, outcomes))
                    .collect(),
                dead: sum.dead(),
                half: lateness(50),
                ninety_nine: lateness(99),
            }),
        }
    });
    rows.collect()
}
