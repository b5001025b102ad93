//! Draws the plots of one reading: bars, lines, hatched gaps, labels, and what is said of each in words.

use super::axis::{CountAxis, LatenessAxis};
use super::drawing::{Bar, Columns, Line, percent, scale_lines};
use super::range::PlotRange;
use crate::domain::activity::{ActivityBucket, ActivityCounts, MINUTE_MS};
use crate::domain::timestamp::display_ms;
use crate::page::texts::plots::PlotsTexts;
use crate::page::times::duration_in_words;
use crate::service::ActivityReading;

/// One plot.
pub(in crate::page) struct Plot {
    pub(in crate::page) name: &'static str,
    pub(in crate::page) title: &'static str,
    /// What the plot says, in words.
    pub(in crate::page) description: String,
    pub(in crate::page) help: Option<&'static str>,
    pub(in crate::page) labels: Vec<String>,
    pub(in crate::page) scale_lines: Vec<String>,
    pub(in crate::page) gaps: Vec<Bar>,
    pub(in crate::page) bases: Vec<Line>,
    pub(in crate::page) columns: Vec<Column>,
    pub(in crate::page) lines: Vec<Line>,
    pub(in crate::page) legend: Vec<LegendItem>,
    pub(in crate::page) total: Option<u64>,
}

/// A bucket of a plot: its bars, and what is said of it where the pointer is.
pub(in crate::page) struct Column {
    pub(in crate::page) area: Bar,
    pub(in crate::page) bars: Vec<Bar>,
    pub(in crate::page) words: String,
}

/// What a colour means.
pub(in crate::page) struct LegendItem {
    pub(in crate::page) class: &'static str,
    pub(in crate::page) text: &'static str,
    pub(in crate::page) value: String,
    pub(in crate::page) is_line: bool,
}

/// A label of the time.
pub(in crate::page) struct Tick {
    pub(in crate::page) x: String,
    pub(in crate::page) text: String,
    pub(in crate::page) iso: String,
}

/// A quantity of a plot of bars: its class, and how it is read.
pub(super) type Quantity<'a> = (&'static str, &'a dyn Fn(&ActivityCounts) -> u64);

/// What the plots of one reading have in common.
pub(super) struct Drawer<'a> {
    reading: &'a ActivityReading,
    t: &'static PlotsTexts,
    columns: Columns,
    /// Buckets without data: the first one, and how many.
    pub(super) gaps: Vec<(usize, usize)>,
    sum: ActivityCounts,
}

impl<'a> Drawer<'a> {
    pub(super) fn of(reading: &'a ActivityReading, t: &'static PlotsTexts) -> Self {
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

    pub(super) fn sum(&self, read: &dyn Fn(&ActivityCounts) -> u64) -> u64 {
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
    pub(super) fn bars(
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
    pub(super) fn lateness(&self) -> Plot {
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

/// The time of day of a minute, in UTC.
fn clock(minute: i64) -> String {
    let iso = display_ms(minute * MINUTE_MS);
    iso.get(11..16).unwrap_or(&iso).to_string()
}

/// The labels of the time axis.
pub(super) fn ticks(reading: &ActivityReading, range: PlotRange) -> Vec<Tick> {
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
