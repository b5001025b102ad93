//! The ladder: when the attempts of one series fall due.
//!
//! A series starts at `first_due_ms` (T0) and its window closes at `deadline_ms` = T0 + window,
//! fixed at the start. The rules, which the golden tables under `fixtures/ladders` spell out:
//!
//! * An attempt is due one interval after the one before it was *due*, not after it ended: slow
//!   receivers do not stretch the ladder.
//! * An attempt that starts more than [`LATE_MS`] late (the dispatcher was down) moves the anchor
//!   to its real start, so there is never a burst to catch up.
//! * The window gates the start of an attempt and includes its last instant. A step beyond it is
//!   replaced by one last attempt at the deadline itself.
//! * An attempt that could only start after the deadline, because we were down, is made once: the
//!   recovery attempt.
//!
//! Knows nothing of clocks: instants are arguments, and so is the random draw of a jittered ladder.

use crate::domain::duration;
use crate::domain::named_ladders;
use crate::domain::progress::Progress;
use crate::domain::state::Cause;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use thiserror::Error;

/// An attempt that starts later than this after it was due moves the anchor of the next one.
pub const LATE_MS: i64 = 5_000;
/// Most intervals a custom ladder may list.
pub const MOST_INTERVALS: usize = 100;
/// Most attempts one series may make, however often the last interval repeats.
pub const MOST_ATTEMPTS: i64 = 10_000;
/// Longest window, in milliseconds: 60 days.
pub const LONGEST_WINDOW_MS: i64 = 60 * 86_400_000;
/// Largest jitter: half an interval either way.
pub const LARGEST_JITTER: f64 = 0.5;

/// A ladder, named or custom. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder(Arc<Steps>);

#[derive(Debug, PartialEq, Eq)]
struct Steps {
    name: Option<&'static str>,
    intervals_ms: Vec<i64>,
    window_ms: i64,
    repeat_last: bool,
    jitter_permille: u16,
}

/// A custom ladder as it is written in JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomLadder {
    /// The wait before each attempt after the first, as durations. Empty: one attempt.
    pub intervals: Vec<String>,
    /// How long after the first attempt another may start. Left out: the sum of the intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// Repeat the last interval until the window closes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat_last: bool,
    /// Spread of each interval either way, as a share of it: 0 to 0.5.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jitter: f64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_zero(jitter: &f64) -> bool {
    *jitter == 0.0
}

/// Why a ladder is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadLadder {
    /// No ladder of that name.
    #[error("unknown ladder `{0}`; known are {known}", known = named_ladders::names().join(", "))]
    Unknown(String),
    /// An interval or the window is not a duration.
    #[error("{0}")]
    Duration(#[from] duration::BadDuration),
    /// An interval of nothing.
    #[error("an interval is at least 1ms")]
    Interval,
    /// Too many intervals.
    #[error("a ladder lists at most {MOST_INTERVALS} intervals")]
    TooManyIntervals,
    /// The last interval cannot repeat if there is none, or without an end.
    #[error("`repeat_last` needs at least one interval and a `window`")]
    Repeat,
    /// The window is too long.
    #[error("a window is at most 60 days")]
    Window,
    /// The series would make too many attempts.
    #[error("a series makes at most {MOST_ATTEMPTS} attempts; this one would make more")]
    TooManyAttempts,
    /// The jitter is out of range.
    #[error("`jitter` is a number from 0 to 0.5")]
    Jitter,
    /// The text is neither a name nor a custom ladder.
    #[error("a ladder is a name or an object with `intervals`: {0}")]
    Shape(String),
}

/// The attempt that just failed, as far as its successor depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// How many attempts of the series were made on the ladder, this one included: 1, 2, ...
    pub step: u32,
    /// When it was due.
    pub due_ms: i64,
    /// When it really started.
    pub started_ms: i64,
    /// When the window of the series closes.
    pub deadline_ms: i64,
    /// Whether it stood at the deadline in place of a step beyond it.
    pub clamped: bool,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another attempt.
    Attempt {
        /// When it is due.
        due_ms: i64,
        /// Whether it stands at the deadline in place of a step beyond it.
        clamped: bool,
    },
    /// None: the notification is parked.
    End(Cause),
}

impl Ladder {
    pub(super) fn named(
        name: &'static str,
        intervals: &[&str],
        repeat_last: bool,
        window: Option<&str>,
    ) -> Self {
        let custom = CustomLadder {
            intervals: intervals.iter().map(ToString::to_string).collect(),
            window: window.map(ToString::to_string),
            repeat_last,
            jitter: 0.0,
        };
        let mut steps = Steps::check(&custom).expect("invariant: the named ladders are valid");
        steps.name = Some(name);
        Self(Arc::new(steps))
    }

    /// The ladder that is taken when none is named: `alipay`.
    #[must_use]
    pub fn standard() -> Self {
        Self::by_name("alipay").expect("invariant: alipay is a named ladder")
    }

    /// One of the named ladders.
    ///
    /// # Errors
    /// [`BadLadder::Unknown`] lists the known names.
    pub fn by_name(name: &str) -> Result<Self, BadLadder> {
        named_ladders::find(name)
            .map(|(ladder, _)| ladder.clone())
            .ok_or_else(|| BadLadder::Unknown(name.chars().take(64).collect()))
    }

    /// A ladder of the caller's own.
    ///
    /// # Errors
    /// [`BadLadder`] says which rule it breaks.
    pub fn custom(custom: &CustomLadder) -> Result<Self, BadLadder> {
        Ok(Self(Arc::new(Steps::check(custom)?)))
    }

    /// Reads what [`Ladder::to_text`] wrote: a name, or the JSON of a custom ladder.
    ///
    /// # Errors
    /// [`BadLadder`] says what is wrong.
    pub fn from_text(text: &str) -> Result<Self, BadLadder> {
        if text.starts_with('{') {
            let custom =
                serde_json::from_str(text).map_err(|error| BadLadder::Shape(error.to_string()))?;
            Self::custom(&custom)
        } else {
            Self::by_name(text)
        }
    }

    /// The ladder's name, or the JSON of a custom one: the form in which stores keep it.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self.0.name {
            Some(name) => name.to_string(),
            None => serde_json::to_string(&self.0.to_custom())
                .expect("invariant: strings and numbers serialise"),
        }
    }

    /// About how many bytes it takes in memory for itself; named ladders are shared by all.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        match self.0.name {
            Some(_) => 0,
            None => size_of::<Steps>() + size_of_val(self.0.intervals_ms.as_slice()),
        }
    }

    /// The name of a named ladder.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        self.0.name
    }

    /// The waits between attempts, in milliseconds.
    #[must_use]
    pub fn intervals_ms(&self) -> &[i64] {
        &self.0.intervals_ms
    }

    /// Whether the last interval repeats until the window closes.
    #[must_use]
    pub fn repeats_last(&self) -> bool {
        self.0.repeat_last
    }

    /// How long after the first attempt another may start, in milliseconds.
    #[must_use]
    pub fn window_ms(&self) -> i64 {
        self.0.window_ms
    }

    /// The rule: what follows a failed attempt. `draw` is a random number from 0 up to 1; only a
    /// jittered ladder looks at it.
    #[must_use]
    pub fn after(&self, failed: Failed, draw: f64) -> Next {
        let Some(interval_ms) = self.interval_ms(failed.step) else {
            return Next::End(if failed.clamped {
                Cause::WindowClosed
            } else {
                Cause::LadderExhausted
            });
        };
        let late = failed.started_ms - failed.due_ms > LATE_MS;
        let anchor_ms = if late {
            failed.started_ms
        } else {
            failed.due_ms
        };
        let due_ms = anchor_ms + self.spread_ms(interval_ms, draw);
        if due_ms <= failed.deadline_ms {
            // Also if the last attempt began a little late and so after this: it was on time.
            return Next::Attempt {
                due_ms,
                clamped: false,
            };
        }
        if failed.due_ms < failed.deadline_ms && failed.started_ms < failed.deadline_ms {
            return Next::Attempt {
                due_ms: failed.deadline_ms,
                clamped: true,
            };
        }
        Next::End(Cause::WindowClosed)
    }

    /// When the attempts of an undisturbed series are due, in milliseconds after the first.
    #[must_use]
    pub fn offsets_ms(&self) -> Vec<i64> {
        self.offsets_from(&Progress::start(self, 0))
    }

    /// How many attempts `progress` has still ahead, the one that is due next included.
    #[must_use]
    pub fn attempts_left(&self, progress: &Progress) -> usize {
        self.offsets_from(progress).len() + usize::from(progress.retry_at_ms.is_some())
    }

    fn offsets_from(&self, progress: &Progress) -> Vec<i64> {
        let mut step = progress.step;
        let mut clamped = progress.clamped;
        let mut due_ms = progress.due_ms;
        let mut offsets = Vec::new();
        loop {
            offsets.push(due_ms - progress.first_due_ms);
            step += 1;
            let failed = Failed {
                step,
                due_ms,
                started_ms: due_ms,
                deadline_ms: progress.deadline_ms,
                clamped,
            };
            match self.after(failed, 0.5) {
                Next::Attempt {
                    due_ms: next_ms,
                    clamped: next_clamped,
                } => {
                    due_ms = next_ms;
                    clamped = next_clamped;
                }
                Next::End(_) => return offsets,
            }
        }
    }

    /// The wait after the `step`th attempt.
    fn interval_ms(&self, step: u32) -> Option<i64> {
        let index = usize::try_from(step).ok()?.checked_sub(1)?;
        let intervals = &self.0.intervals_ms;
        match intervals.get(index) {
            Some(interval_ms) => Some(*interval_ms),
            None if self.0.repeat_last => intervals.last().copied(),
            None => None,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "an interval is far below 2^52 ms"
    )]
    fn spread_ms(&self, interval_ms: i64, draw: f64) -> i64 {
        if self.0.jitter_permille == 0 {
            return interval_ms;
        }
        let share = f64::from(self.0.jitter_permille) / 1000.0 * (2.0 * draw - 1.0);
        (interval_ms + (interval_ms as f64 * share).round() as i64).max(1)
    }
}

impl Steps {
    fn check(custom: &CustomLadder) -> Result<Self, BadLadder> {
        if custom.intervals.len() > MOST_INTERVALS {
            return Err(BadLadder::TooManyIntervals);
        }
        let mut intervals_ms = Vec::with_capacity(custom.intervals.len());
        for interval in &custom.intervals {
            let interval_ms = duration::parse_ms(interval)?;
            if interval_ms < 1 {
                return Err(BadLadder::Interval);
            }
            intervals_ms.push(interval_ms);
        }
        let window_ms = match &custom.window {
            Some(window) => duration::parse_ms(window)?,
            None if custom.repeat_last => return Err(BadLadder::Repeat),
            None => intervals_ms.iter().sum(),
        };
        if window_ms > LONGEST_WINDOW_MS {
            return Err(BadLadder::Window);
        }
        if custom.repeat_last {
            let last_ms = *intervals_ms.last().ok_or(BadLadder::Repeat)?;
            if window_ms / last_ms > MOST_ATTEMPTS {
                return Err(BadLadder::TooManyAttempts);
            }
        }
        if !(0.0..=LARGEST_JITTER).contains(&custom.jitter) {
            return Err(BadLadder::Jitter);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 500 after the check above"
        )]
        let jitter_permille = (custom.jitter * 1000.0).round() as u16;
        Ok(Self {
            name: None,
            intervals_ms,
            window_ms,
            repeat_last: custom.repeat_last,
            jitter_permille,
        })
    }

    fn to_custom(&self) -> CustomLadder {
        CustomLadder {
            intervals: self
                .intervals_ms
                .iter()
                .map(|ms| duration::display_ms(*ms))
                .collect(),
            window: Some(duration::display_ms(self.window_ms)),
            repeat_last: self.repeat_last,
            jitter: f64::from(self.jitter_permille) / 1000.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder(intervals: &[&str], window: Option<&str>) -> Ladder {
        Ladder::custom(&CustomLadder {
            intervals: intervals.iter().map(ToString::to_string).collect(),
            window: window.map(ToString::to_string),
            repeat_last: false,
            jitter: 0.0,
        })
        .expect("a valid ladder")
    }

    fn failed(step: u32, due_ms: i64, started_ms: i64, deadline_ms: i64) -> Failed {
        Failed {
            step,
            due_ms,
            started_ms,
            deadline_ms,
            clamped: false,
        }
    }

    #[test]
    fn the_next_attempt_counts_from_when_the_last_was_due() {
        let ladder = ladder(&["10s", "20s"], Some("1h"));
        let next = |started_ms| ladder.after(failed(1, 1_000, started_ms, 3_600_000), 0.0);
        let due = |due_ms| Next::Attempt {
            due_ms,
            clamped: false,
        };
        assert_eq!(next(1_000), due(11_000));
        assert_eq!(
            next(1_000 + LATE_MS),
            due(11_000),
            "five seconds late is on time"
        );
        assert_eq!(
            next(1_001 + LATE_MS),
            due(16_001),
            "later than that moves the anchor"
        );
    }

    #[test]
    fn the_window_includes_its_last_instant() {
        let ladder = ladder(&["10s", "10s"], Some("10s"));
        assert_eq!(
            ladder.after(failed(1, 0, 0, 10_000), 0.0),
            Next::Attempt {
                due_ms: 10_000,
                clamped: false
            }
        );
        assert_eq!(
            ladder.after(failed(2, 10_000, 10_000, 10_000), 0.0),
            Next::End(Cause::WindowClosed)
        );
    }

    #[test]
    fn a_step_beyond_the_window_becomes_one_attempt_at_the_deadline() {
        let ladder = ladder(&["10s", "10s"], Some("15s"));
        let last = ladder.after(failed(2, 10_000, 10_003, 15_000), 0.0);
        assert_eq!(
            last,
            Next::Attempt {
                due_ms: 15_000,
                clamped: true
            }
        );
        let over = Failed {
            clamped: true,
            ..failed(3, 15_000, 15_002, 15_000)
        };
        assert_eq!(ladder.after(over, 0.0), Next::End(Cause::WindowClosed));
    }

    #[test]
    fn a_little_lateness_costs_no_step() {
        let ladder = ladder(&["20ms", "20ms"], None);
        assert_eq!(
            ladder.after(failed(1, 0, 4_000, 40), 0.0),
            Next::Attempt {
                due_ms: 20,
                clamped: false
            }
        );
        assert_eq!(
            ladder.after(failed(2, 20, 4_100, 40), 0.0),
            Next::Attempt {
                due_ms: 40,
                clamped: false
            }
        );
    }

    #[test]
    fn an_attempt_after_the_deadline_is_the_last() {
        let ladder = ladder(&["10s", "10s", "10s"], None);
        assert_eq!(
            ladder.after(failed(1, 0, 40_000, 30_000), 0.0),
            Next::End(Cause::WindowClosed)
        );
        assert_eq!(
            ladder.after(failed(4, 30_000, 30_000, 30_000), 0.0),
            Next::End(Cause::LadderExhausted)
        );
    }

    #[test]
    fn no_intervals_is_one_attempt() {
        let ladder = ladder(&[], None);
        assert_eq!(ladder.offsets_ms(), [0]);
        assert_eq!(
            ladder.after(failed(1, 0, 1, 0), 0.0),
            Next::End(Cause::LadderExhausted)
        );
    }

    #[test]
    fn jitter_stays_within_its_share_and_named_ladders_have_none() {
        let jittered = Ladder::custom(&CustomLadder {
            intervals: vec!["10s".into()],
            window: Some("1m".into()),
            repeat_last: false,
            jitter: 0.1,
        })
        .expect("valid");
        let due = |ladder: &Ladder, draw| match ladder.after(failed(1, 0, 0, 60_000), draw) {
            Next::Attempt { due_ms, .. } => due_ms,
            Next::End(cause) => panic!("ended: {cause}"),
        };
        assert_eq!(due(&jittered, 0.0), 9_000);
        assert_eq!(due(&jittered, 0.5), 10_000);
        assert_eq!(due(&jittered, 1.0), 11_000);
        for (ladder, _) in named_ladders::all() {
            assert_eq!(due(ladder, 0.0), due(ladder, 1.0));
        }
    }

    #[test]
    fn ladders_survive_their_stored_form() {
        for (ladder, _) in named_ladders::all() {
            assert_eq!(Ladder::from_text(&ladder.to_text()).as_ref(), Ok(ladder));
        }
        let custom = r#"{"intervals":["10s","1m"],"window":"1h","repeat_last":true,"jitter":0.1}"#;
        let ladder = Ladder::from_text(custom).expect("valid");
        assert_eq!(ladder.to_text(), custom);
    }

    #[test]
    fn bad_ladders_are_named() {
        fn check(text: &str, expected: &str) {
            let error = Ladder::from_text(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        check("alipya", "unknown ladder `alipya`; known are alipay, ");
        check(r#"{"intervals":["10"]}"#, "`10` is not a duration");
        check(r#"{"intervals":["0s"]}"#, "at least 1ms");
        check(
            r#"{"intervals":["1s"],"repeat_last":true}"#,
            "needs at least one interval and a",
        );
        check(
            r#"{"intervals":[],"repeat_last":true,"window":"1h"}"#,
            "needs at least one",
        );
        check(
            r#"{"intervals":["1ms"],"repeat_last":true,"window":"1h"}"#,
            "at most 10000",
        );
        check(r#"{"intervals":["1s"],"window":"61d"}"#, "at most 60 days");
        check(r#"{"intervals":["1s"],"jitter":0.6}"#, "from 0 to 0.5");
        check(r#"{"intervals":["1s"],"jitter":-0.1}"#, "from 0 to 0.5");
        check(
            r#"{"intervals":["1s"],"windw":"1h"}"#,
            "unknown field `windw`",
        );
        let many = format!(r#"{{"intervals":[{}]}}"#, vec!["\"1s\""; 101].join(","));
        check(&many, "at most 100 intervals");
    }
}
