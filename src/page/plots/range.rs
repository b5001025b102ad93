//! How much time the plots show, and in which steps.

use crate::page::texts::plots::PlotsTexts;
use crate::page::visit::Visit;
use crate::service::ActivityWindow;

/// How much time the plots show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::page) enum PlotRange {
    Hour,
    SixHours,
    Day,
}

impl PlotRange {
    pub(in crate::page) const ALL: [Self; 3] = [Self::Hour, Self::SixHours, Self::Day];

    /// The range that the address asks for.
    pub(in crate::page) fn of(visit: &Visit) -> Self {
        let asked = visit.parameter("hours");
        let found = Self::ALL
            .into_iter()
            .find(|range| asked.as_deref() == Some(range.hours()));
        found.unwrap_or(Self::SixHours)
    }

    /// What is read for it.
    pub(in crate::page) fn window(self) -> ActivityWindow {
        let (buckets, bucket_minutes) = match self {
            Self::Hour => (60, 1),
            Self::SixHours => (72, 5),
            Self::Day => (96, 15),
        };
        ActivityWindow {
            buckets,
            bucket_minutes,
        }
    }

    pub(super) fn hours(self) -> &'static str {
        match self {
            Self::Hour => "1",
            Self::SixHours => "6",
            Self::Day => "24",
        }
    }

    pub(super) fn name(self, t: &'static PlotsTexts) -> &'static str {
        match self {
            Self::Hour => t.hour,
            Self::SixHours => t.six_hours,
            Self::Day => t.day,
        }
    }

    /// The minutes between two labels of the time.
    pub(super) fn tick_minutes(self) -> i64 {
        match self {
            Self::Hour => 10,
            Self::SixHours => 60,
            Self::Day => 240,
        }
    }

    /// How many buckets a row of the table has.
    pub(super) fn row_buckets(self) -> usize {
        match self {
            Self::Hour => 5,
            Self::SixHours => 6,
            Self::Day => 4,
        }
    }
}
