//! A custom ladder: a retry schedule that the caller writes. This module defines its JSON form and its
//! limits.

use super::{Ladder, Steps};
use crate::domain::duration;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use thiserror::Error;

/// Maximum number of intervals in a custom ladder.
pub const MOST_INTERVALS: usize = 100;
/// Maximum number of attempts in one series of a ladder that repeats its last interval.
const MOST_ATTEMPTS: i64 = 10_000;
/// Maximum window, in milliseconds: 60 days.
pub const LONGEST_WINDOW_MS: i64 = 60 * 86_400_000;
/// Maximum jitter: an interval becomes at most half of it shorter or longer.
const LARGEST_JITTER: f64 = 0.5;

/// A custom ladder as it is written in JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomLadder {
    /// The waits between attempts, as durations. If the list is empty, there is one attempt.
    pub intervals: Vec<String>,
    /// How long after the first due time other attempts may be due. The default is the sum of the intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// Whether the last interval repeats until the window closes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat_last: bool,
    /// By which share of itself an interval is randomly shortened or lengthened: 0 to 0.5.
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
    /// There is no ladder with this name.
    #[error("unknown ladder `{name}`; known are {known}", known = known.join(", "))]
    Unknown {
        /// The beginning of the unknown name.
        name: String,
        /// The names of all named ladders.
        known: Vec<&'static str>,
    },
    /// An interval or the window is not a duration.
    #[error("{0}")]
    Duration(#[from] duration::BadDuration),
    /// An interval is zero.
    #[error("an interval is at least 1ms")]
    Interval,
    /// The ladder has too many intervals.
    #[error("a ladder lists at most {MOST_INTERVALS} intervals")]
    TooManyIntervals,
    /// `repeat_last` is set, but there is no interval to repeat or no window that ends the repetition.
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

impl Ladder {
    /// Makes a custom ladder.
    ///
    /// # Errors
    /// [`BadLadder`] says which rule the ladder breaks.
    pub fn custom(custom: &CustomLadder) -> Result<Self, BadLadder> {
        Ok(Self(Arc::new(custom.check()?)))
    }
}

impl CustomLadder {
    /// The JSON form of a ladder that has no name.
    pub(super) fn of(steps: &Steps) -> Self {
        Self {
            intervals: steps
                .intervals_ms
                .iter()
                .map(|ms| duration::display_ms(*ms))
                .collect(),
            window: Some(duration::display_ms(steps.window_ms)),
            repeat_last: steps.repeat_last,
            jitter: f64::from(steps.jitter_permille) / 1000.0,
        }
    }

    /// Checks the ladder against the limits.
    pub(super) fn check(&self) -> Result<Steps, BadLadder> {
        if self.intervals.len() > MOST_INTERVALS {
            return Err(BadLadder::TooManyIntervals);
        }
        let mut intervals_ms = Vec::with_capacity(self.intervals.len());
        for interval in &self.intervals {
            let interval_ms = duration::parse_ms(interval)?;
            if interval_ms < 1 {
                return Err(BadLadder::Interval);
            }
            intervals_ms.push(interval_ms);
        }
        let window_ms = match &self.window {
            Some(window) => duration::parse_ms(window)?,
            None if self.repeat_last => return Err(BadLadder::Repeat),
            None => intervals_ms.iter().sum(),
        };
        if window_ms > LONGEST_WINDOW_MS {
            return Err(BadLadder::Window);
        }
        if self.repeat_last {
            let last_ms = *intervals_ms.last().ok_or(BadLadder::Repeat)?;
            if window_ms / last_ms > MOST_ATTEMPTS {
                return Err(BadLadder::TooManyAttempts);
            }
        }
        if !(0.0..=LARGEST_JITTER).contains(&self.jitter) {
            return Err(BadLadder::Jitter);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 500 after the check above"
        )]
        let jitter_permille = (self.jitter * 1000.0).round() as u16;
        Ok(Steps {
            name: None,
            intervals_ms,
            window_ms,
            repeat_last: self.repeat_last,
            jitter_permille,
        })
    }
}
