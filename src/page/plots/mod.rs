//! The plots over time on the overview: deliveries, failures by cause, dead letters and lateness.
//!
//! They are drawn here, as SVG within the page. Time for which there are no data is hatched, and has no base line; so it
//! cannot be taken for a time without attempts. The same figures are in a table below the plots.

mod axis;
mod drawer;
mod drawing;
mod failures;
mod range;
mod table;

use super::texts::plots::PlotsTexts;
use crate::domain::activity::ActivityCounts;
use crate::service::ActivityReading;
use drawer::{Drawer, LegendItem, Plot, Quantity, Tick, ticks};
use failures::{FAILURES, of_outcomes};
pub(super) use range::PlotRange;
use table::{TableRow, rows};

/// The plots and the table, as the template takes them.
pub(super) struct ShownPlots {
    pub(super) t: &'static PlotsTexts,
    pub(super) ranges: Vec<RangeLink>,
    /// `None` if the journal does not answer.
    pub(super) drawn: Option<DrawnPlots>,
}

/// A link to the plots of another time.
pub(super) struct RangeLink {
    pub(super) href: String,
    pub(super) text: &'static str,
    pub(super) is_current: bool,
}

/// What is drawn.
pub(super) struct DrawnPlots {
    pub(super) plots: Vec<Plot>,
    pub(super) ticks: Vec<Tick>,
    pub(super) each: String,
    pub(super) has_gaps: bool,
    pub(super) is_empty: bool,
    pub(super) note: &'static str,
    pub(super) failures: Vec<&'static str>,
    pub(super) rows: Vec<TableRow>,
}

impl ShownPlots {
    pub(super) fn of(
        reading: Option<&ActivityReading>,
        range: PlotRange,
        t: &'static PlotsTexts,
    ) -> Self {
        let ranges = PlotRange::ALL.map(|other| RangeLink {
            href: format!("/ui/?hours={}#plots", other.hours()),
            text: other.name(t),
            is_current: other == range,
        });
        Self {
            t,
            ranges: ranges.into(),
            drawn: reading.map(|reading| DrawnPlots::of(reading, range, t)),
        }
    }
}

impl DrawnPlots {
    fn of(reading: &ActivityReading, range: PlotRange, t: &'static PlotsTexts) -> Self {
        let drawer = Drawer::of(reading, t);
        let delivered: Quantity<'_> = ("plot-delivered", &ActivityCounts::delivered);
        let dead: Quantity<'_> = ("plot-dead", &ActivityCounts::dead);
        let readers = FAILURES.map(|(class, _, outcomes)| {
            let read = move |counts: &ActivityCounts| of_outcomes(counts, outcomes);
            (class, read)
        });
        let failed: Vec<Quantity<'_>> = (readers.iter())
            .map(|(class, read)| (*class, read as &dyn Fn(&ActivityCounts) -> u64))
            .collect();
        let mut failing = drawer.bars(("failed", t.failed), &failed, |place| FAILURES[place].1(t));
        let names = FAILURES.iter().zip(&failed);
        failing.legend = names
            .map(|((class, name, _), (_, read))| (class, name(t), drawer.sum(*read)))
            .filter(|(.., sum)| *sum > 0)
            .map(|(class, text, sum)| LegendItem {
                class,
                text,
                value: sum.to_string(),
                is_line: false,
            })
            .collect();
        let plots = vec![
            drawer.bars(("delivered", t.delivered), &[delivered], |_| t.delivered),
            failing,
            drawer.bars(("dead", t.dead), &[dead], |_| t.dead),
            drawer.lateness(),
        ];
        Self {
            plots,
            ticks: ticks(reading, range),
            each: format!("{} {}", reading.bucket_minutes, t.minutes),
            has_gaps: !drawer.gaps.is_empty(),
            is_empty: reading.buckets.iter().all(Option::is_none),
            note: match reading.is_of_this_server {
                true => t.this_server,
                false => t.all_servers,
            },
            failures: FAILURES.iter().map(|(_, name, _)| name(t)).collect(),
            rows: rows(reading, range),
        }
    }
}
