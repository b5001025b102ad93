//! The shapes of the plots. All places are in percent of the plot, so that it may have any width, and its texts stay as
//! they are.

use super::axis::{CountAxis, LatenessAxis};

/// A bar that can be seen has this height at least, in percent.
const LEAST_HEIGHT: f64 = 1.5;
/// The part of the width of a bucket that a bar takes.
const BAR_PART: f64 = 0.78;

/// A rectangle.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::page) struct Bar {
    /// The class that gives it its colour.
    pub(in crate::page) class: &'static str,
    pub(in crate::page) x: String,
    pub(in crate::page) y: String,
    pub(in crate::page) width: String,
    pub(in crate::page) height: String,
}

/// A line from one place to another one.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::page) struct Line {
    pub(in crate::page) class: &'static str,
    pub(in crate::page) x1: String,
    pub(in crate::page) x2: String,
    pub(in crate::page) y1: String,
    pub(in crate::page) y2: String,
}

/// The places of buckets of equal width.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    pub(super) many: usize,
}

impl Columns {
    /// The base line of buckets that follow on each other.
    pub(super) fn base(self, at: usize, many: usize) -> Line {
        Line {
            class: "plot-base",
            x1: percent(self.left(at)),
            x2: percent(self.left(at + many)),
            y1: percent(100.0),
            y2: percent(100.0),
        }
    }

    /// Where a bucket begins.
    pub(super) fn left(self, at: usize) -> f64 {
        float(at) / float(self.many.max(1)) * 100.0
    }

    fn width(self) -> f64 {
        100.0 / float(self.many.max(1))
    }

    /// The whole column of a bucket, or of several that follow on each other.
    pub(super) fn whole(self, class: &'static str, at: usize, many: usize) -> Bar {
        Bar {
            class,
            x: percent(self.left(at)),
            y: percent(0.0),
            width: percent(self.width() * float(many)),
            height: percent(100.0),
        }
    }

    /// Numbers on top of each other in one bucket.
    pub(super) fn stack(
        self,
        at: usize,
        numbers: impl IntoIterator<Item = (&'static str, u64)>,
        axis: CountAxis,
    ) -> Vec<Bar> {
        let mut base = 100.0;
        let mut bars = Vec::new();
        for (class, number) in numbers {
            if number == 0 {
                continue;
            }
            let height = axis.height(number).max(LEAST_HEIGHT);
            base -= height;
            bars.push(Bar {
                class,
                x: percent(self.left(at) + self.width() * (1.0 - BAR_PART) / 2.0),
                y: percent(base.max(0.0)),
                width: percent(self.width() * BAR_PART),
                height: percent(height),
            });
        }
        bars
    }

    /// A line of steps: the value of each bucket, joined to the next one if that has a value too.
    pub(super) fn steps(
        self,
        class: &'static str,
        values: &[Option<i64>],
        axis: LatenessAxis,
    ) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut before: Option<f64> = None;
        for (at, value) in values.iter().enumerate() {
            let y = value.map(|value| 100.0 - axis.height(value));
            let (left, right) = (self.left(at), self.left(at + 1));
            let line = |x1, y1, x2, y2| Line {
                class,
                x1: percent(x1),
                x2: percent(x2),
                y1: percent(y1),
                y2: percent(y2),
            };
            if let (Some(before), Some(y)) = (before, y)
                && before.to_bits() != y.to_bits()
            {
                lines.push(line(left, before, left, y));
            }
            if let Some(y) = y {
                lines.push(line(left, y, right, y));
            }
            before = y;
        }
        lines
    }
}

/// The lines of a scale with so many labels, from the top down.
pub(super) fn scale_lines(labels: usize) -> Vec<String> {
    let steps = float(labels.saturating_sub(1).max(1));
    let place = |at| percent(float(at) / steps * 100.0);
    // The lowest one is the base of the plot, which is drawn only where there are data.
    (0..labels.saturating_sub(1)).map(place).collect()
}

/// A number as a percentage with two decimal places.
pub(super) fn percent(number: f64) -> String {
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}%")
}

#[expect(clippy::cast_precision_loss, reason = "a place on a screen")]
fn float(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_on_each_other_and_small_ones_can_be_seen() {
        let columns = Columns { many: 10 };
        let axis = CountAxis::up_to(1_000);
        let bars = columns.stack(1, [("a", 500), ("b", 0), ("c", 1)], axis);
        let shown: Vec<_> = bars
            .iter()
            .map(|bar| {
                (
                    bar.class,
                    bar.x.as_str(),
                    bar.y.as_str(),
                    bar.height.as_str(),
                )
            })
            .collect();
        let expected = [
            ("a", "11.1%", "50%", "50%"),
            ("c", "11.1%", "48.5%", "1.5%"),
        ];
        assert_eq!(shown, expected);
        assert_eq!(columns.stack(0, [("a", 0)], axis), []);
        assert_eq!(columns.whole("gap", 2, 3).width, "30%");
    }

    #[test]
    fn a_line_is_broken_where_there_is_no_value() {
        let columns = Columns { many: 4 };
        let axis = LatenessAxis::up_to(1_000);
        let lines = columns.steps("p", &[Some(1_000), Some(1), None, Some(1)], axis);
        let shown: Vec<_> = lines
            .iter()
            .map(|line| [&line.x1, &line.y1, &line.x2, &line.y2].map(String::as_str))
            .collect();
        let expected = [
            ["0%", "0%", "25%", "0%"],
            ["25%", "0%", "25%", "100%"],
            ["25%", "100%", "50%", "100%"],
            ["75%", "100%", "100%", "100%"],
        ];
        assert_eq!(shown, expected);
        assert_eq!(scale_lines(3), ["0%", "50%"]);
    }
}
