//! The plots over time on the overview: deliveries, failures by cause, dead letters and lateness.
//!
//! They are drawn here, as SVG within the page. Time for which there are no data is hatched, and has no base line; so it
//! cannot be taken for a time without attempts. The same figures are in a table below the plots.

mod axis;
mod drawing;

use super::texts::plots::PlotsTexts;
use super::times::{TimeTag, duration_in_words};
use super::visit::Visit;
use crate::domain::activity::{ActivityBucket, ActivityCounts, MINUTE_MS};
use crate::domain::attempt::Outcome;
use crate::domain::timestamp::display_ms;
use crate::service::{ActivityReading, ActivityWindow};
use axis::{CountAxis, LatenessAxis};
use drawing::{Bar, Columns, Line, percent, scale_lines};

/// How much time the plots show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlotRange {
    Hour,
    SixHours,
    Day,
}

/// A kind of failure: its class, its name, and its outcomes.
type FailureKind = (
    &'static str,
    fn(&PlotsTexts) -> &'static str,
    &'static [Outcome],
);

/// The kinds of failures, from the bottom of a bar to its top.
const FAILURES: [FailureKind; 5] = [
    (
        "plot-answered",
        |t| t.answered,
        &[Outcome::WrongAnswer, Outcome::HttpStatus],
    ),
    ("plot-timeout", |t| t.timed_out, &[Outcome::Timeout]),
    (
        "plot-unreached",
        |t| t.not_reached,
        &[
            Outcome::Connect,
            Outcome::Tls,
            Outcome::Dns,
            Outcome::Protocol,
        ],
    ),
    ("plot-blocked", |t| t.blocked, &[Outcome::Blocked]),
    ("plot-ours", |t| t.interrupted, &[Outcome::Interrupted]),
];

impl PlotRange {
    pub(super) const ALL: [Self; 3] = [Self::Hour, Self::SixHours, Self::Day];

    /// The range that the address asks for.
    pub(super) fn of(visit: &Visit) -> Self {
        let asked = visit.parameter("hours");
        let found = Self::ALL
            .into_iter()
            .find(|range| asked.as_deref() == Some(range.hours()));
        found.unwrap_or(Self::SixHours)
    }

    /// What is read for it.
    pub(super) fn window(self) -> ActivityWindow {
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

    fn hours(self) -> &'static str {
        match self {
            Self::Hour => "1",
            Self::SixHours => "6",
            Self::Day => "24",
        }
    }

    fn name(self, t: &'static PlotsTexts) -> &'static str {
        match self {
            Self::Hour => t.hour,
            Self::SixHours => t.six_hours,
            Self::Day => t.day,
        }
    }

    /// The minutes between two labels of the time.
    fn tick_minutes(self) -> i64 {
        match self {
            Self::Hour => 10,
            Self::SixHours => 60,
            Self::Day => 240,
        }
    }

    /// How many buckets a row of the table has.
    fn row_buckets(self) -> usize {
        match self {
            Self::Hour => 5,
            Self::SixHours => 6,
            Self::Day => 4,
        }
    }
}

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

/// One plot.
pub(super) struct Plot {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What the plot says, in words.
    pub(super) description: String,
    pub(super) help: Option<&'static str>,
    pub(super) labels: Vec<String>,
    pub(super) scale_lines: Vec<String>,
    pub(super) gaps: Vec<Bar>,
    pub(super) bases: Vec<Line>,
    pub(super) columns: Vec<Column>,
    pub(super) lines: Vec<Line>,
    pub(super) legend: Vec<LegendItem>,
    pub(super) total: Option<u64>,
}

/// A bucket of a plot: its bars, and what is said of it where the pointer is.
pub(super) struct Column {
    pub(super) area: Bar,
    pub(super) bars: Vec<Bar>,
    pub(super) words: String,
}

/// What a colour means.
pub(super) struct LegendItem {
    pub(super) class: &'static str,
    pub(super) text: &'static str,
    pub(super) value: String,
    pub(super) is_line: bool,
}

/// A label of the time.
pub(super) struct Tick {
    pub(super) x: String,
    pub(super) text: String,
    pub(super) iso: String,
}

/// A row of the table. `None` if there are no data.
pub(super) struct TableRow {
    pub(super) from: TimeTag,
    pub(super) figures: Option<RowFigures>,
}

/// The figures of a row.
pub(super) struct RowFigures {
    pub(super) delivered: u64,
    pub(super) failures: Vec<u64>,
    pub(super) dead: u64,
    pub(super) half: Option<String>,
    pub(super) ninety_nine: Option<String>,
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

/// A quantity of a plot of bars: its class, and how it is read.
type Quantity<'a> = (&'static str, &'a dyn Fn(&ActivityCounts) -> u64);

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

/// What the plots of one reading have in common.
struct Drawer<'a> {
    reading: &'a ActivityReading,
    t: &'static PlotsTexts,
    columns: Columns,
    /// Buckets without data: the first one, and how many.
    gaps: Vec<(usize, usize)>,
    sum: ActivityCounts,
}

impl<'a> Drawer<'a> {
    fn of(reading: &'a ActivityReading, t: &'static PlotsTexts) -> Self {
        // Of the last bucket, which has just begun, there may be no data yet.
        let past = reading.buckets.len().saturating_sub(1);
        let gaps = runs(&reading.buckets[..past], Option::is_none);
        let mut sum = ActivityCounts::default();
        for bucket in reading.buckets.iter().flatten() {
            sum.add(&bucket.counts);
        }
        Self {
            reading,
            t,
            columns: Columns {
                many: reading.buckets.len(),
            },
            gaps,
            sum,
        }
    }

    fn counted(&self) -> impl Iterator<Item = (usize, &ActivityBucket)> {
        let buckets = self.reading.buckets.iter().enumerate();
        buckets.filter_map(|(at, bucket)| Some((at, bucket.as_ref()?)))
    }

    fn sum(&self, read: &dyn Fn(&ActivityCounts) -> u64) -> u64 {
        read(&self.sum)
    }

    /// A plot without its contents.
    fn empty(&self, (name, title): (&'static str, &'static str), labels: Vec<String>) -> Plot {
        let gaps = self.gaps.iter();
        let bases = runs(&self.reading.buckets, Option::is_some).into_iter();
        Plot {
            name,
            title,
            description: String::new(),
            help: None,
            scale_lines: scale_lines(labels.len()),
            labels,
            gaps: gaps
                .map(|(at, many)| self.columns.whole("plot-gap", *at, *many))
                .collect(),
            bases: bases
                .map(|(at, many)| self.columns.base(at, many))
                .collect(),
            columns: Vec::new(),
            lines: Vec::new(),
            legend: Vec::new(),
            total: None,
        }
    }

    /// A plot of numbers, on top of each other.
    fn bars(
        &self,
        of: (&'static str, &'static str),
        quantities: &[Quantity<'_>],
        name: impl Fn(usize) -> &'static str,
    ) -> Plot {
        let t = self.t;
        let all = |counts: &ActivityCounts| quantities.iter().map(|(_, read)| read(counts)).sum();
        let most: u64 = self
            .counted()
            .map(|(_, bucket)| all(&bucket.counts))
            .max()
            .unwrap_or(0);
        let axis = CountAxis::up_to(most);
        let mut plot = self.empty(of, axis.labels());
        for (at, bucket) in self.counted() {
            let numbers = quantities
                .iter()
                .map(|(class, read)| (*class, read(&bucket.counts)));
            let said: Vec<String> = (quantities.iter().enumerate())
                .map(|(place, (_, read))| (place, read(&bucket.counts)))
                .filter(|(_, number)| *number > 0 || quantities.len() == 1)
                .map(|(place, number)| format!("{}{}{number}", name(place), t.colon))
                .collect();
            let said = match said.is_empty() {
                true => "0".to_string(),
                false => said.join(t.comma),
            };
            plot.columns.push(Column {
                area: self.columns.whole("plot-area", at, 1),
                bars: self.columns.stack(at, numbers, axis),
                words: self.words(bucket, &said),
            });
        }
        let total = all(&self.sum);
        let sums = format!("{} {total}{}{} {most}", t.total, t.semicolon, t.most);
        plot.description = self.described(&sums);
        plot.total = Some(total);
        plot
    }

    /// The plot of lateness.
    fn lateness(&self) -> Plot {
        let t = self.t;
        let values = |percent| -> Vec<Option<i64>> {
            let buckets = self.reading.buckets.iter();
            let value =
                |bucket: &Option<ActivityBucket>| bucket.as_ref()?.counts.lateness_ms(percent);
            buckets.map(value).collect()
        };
        let (half, ninety_nine) = (values(50), values(99));
        let axis = LatenessAxis::up_to(ninety_nine.iter().flatten().copied().max().unwrap_or(0));
        let mut plot = self.empty(("lateness", t.lateness), axis.labels());
        plot.help = Some(t.lateness_help);
        plot.lines = self.columns.steps("plot-p99", &ninety_nine, axis);
        (plot.lines).extend(self.columns.steps("plot-p50", &half, axis));
        let words = |value: Option<i64>| value.map_or(t.no_attempts.to_string(), duration_in_words);
        for (at, bucket) in self.counted() {
            let said = match (half[at], ninety_nine[at]) {
                (Some(half), Some(ninety_nine)) => {
                    let [half, ninety_nine] = [half, ninety_nine].map(duration_in_words);
                    format!("p50 {half}{}p99 {ninety_nine}", t.comma)
                }
                (None, _) | (_, None) => t.no_attempts.to_string(),
            };
            plot.columns.push(Column {
                area: self.columns.whole("plot-area", at, 1),
                bars: Vec::new(),
                words: self.words(bucket, &said),
            });
        }
        let quantiles = [(50, "plot-p50", t.half), (99, "plot-p99", t.ninety_nine)];
        plot.legend = quantiles
            .map(|(percent, class, text)| LegendItem {
                class,
                text,
                value: words(self.sum.lateness_ms(percent)),
                is_line: true,
            })
            .into();
        let said: Vec<String> = (plot.legend.iter())
            .map(|item| format!("{}{}{}", item.text, t.colon, item.value))
            .collect();
        plot.description = self.described(&said.join(t.semicolon));
        plot
    }

    /// What is said of a bucket.
    fn words(&self, bucket: &ActivityBucket, said: &str) -> String {
        let from = clock(bucket.from_minute);
        let (minutes, t) = (self.reading.bucket_minutes, self.t);
        match bucket.counted_minutes < minutes {
            false => format!("{from} UTC{}{said}", t.colon),
            true => {
                let part = format!("{} {}/{minutes}", t.part, bucket.counted_minutes);
                format!("{from} UTC{}{said}{}{part}{}", t.colon, t.open, t.close)
            }
        }
    }

    /// A plot in words.
    fn described(&self, said: &str) -> String {
        let t = self.t;
        let many = i64::try_from(self.reading.buckets.len()).unwrap_or(0);
        let from = self.reading.from_minute;
        let until = from + many * self.reading.bucket_minutes;
        let missing: usize = self.gaps.iter().map(|(_, many)| many).sum();
        let (from, until) = (clock(from), clock(until));
        let description = format!(
            "{} {from} {} {until} UTC{}{said}{}{} {missing}{}",
            t.from, t.until, t.full_stop, t.semicolon, t.gaps, t.full_stop
        );
        description.trim_end().to_string()
    }
}

/// Buckets that follow on each other and are so: the first one, and how many.
fn runs(
    buckets: &[Option<ActivityBucket>],
    is_so: impl Fn(&Option<ActivityBucket>) -> bool,
) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, _) in buckets
        .iter()
        .enumerate()
        .filter(|(_, bucket)| is_so(bucket))
    {
        match runs.last_mut() {
            Some((first, many)) if *first + *many == at => *many += 1,
            Some(_) | None => runs.push((at, 1)),
        }
    }
    runs
}

fn of_outcomes(counts: &ActivityCounts, outcomes: &[Outcome]) -> u64 {
    let numbers = outcomes.iter().map(|outcome| counts.outcome(*outcome));
    numbers.sum()
}

/// The time of day of a minute, in UTC.
fn clock(minute: i64) -> String {
    let iso = display_ms(minute * MINUTE_MS);
    iso.get(11..16).unwrap_or(&iso).to_string()
}

fn ticks(reading: &ActivityReading, range: PlotRange) -> Vec<Tick> {
    let many = i64::try_from(reading.buckets.len()).unwrap_or(0);
    let until = reading.from_minute + many * reading.bucket_minutes;
    let every = range.tick_minutes();
    let first = reading.from_minute - reading.from_minute.rem_euclid(every) + every;
    let mut ticks = Vec::new();
    let mut minute = first;
    while minute < until {
        let at = usize::try_from((minute - reading.from_minute) / reading.bucket_minutes);
        let columns = Columns {
            many: reading.buckets.len(),
        };
        ticks.push(Tick {
            x: percent(columns.left(at.unwrap_or(0))),
            text: clock(minute),
            iso: display_ms(minute * MINUTE_MS),
        });
        minute += every;
    }
    ticks
}

fn rows(reading: &ActivityReading, range: PlotRange) -> Vec<TableRow> {
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
