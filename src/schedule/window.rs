//! Which pending notifications are in the schedule: those that are due soon.
//!
//! With a journal, a notification that is due after the *horizon* waits in the journal alone. It touches the schedule
//! neither when it is registered nor when its next attempt is decided; a duty (`maintenance/window.rs`) loads it in time.
//! So the schedule holds the work of an hour or so, and not that of a month.
//!
//! Two edges keep the writers and the loader apart without a lock:
//!
//! ```text
//!   now                  horizon / 2                    horizon
//!    |------- loaded --------|--------------------------|------ left to the journal ------>
//!    |------------- put in at once by those who write --|
//! ```
//!
//! * A writer leaves a notification out only after the journal has committed it, and only if it is due after the horizon
//!   at that moment. So however long the writer was suspended before, the row is there by then.
//! * The loader reads half of the horizon ahead at most. So what a writer leaves out is read later than it was left
//!   out, by half of the horizon at least.
//! * What the loader puts in has the flag [`super::Entry::verify`], because it may have changed after it was read.
//!
//! Up to which due time everything was loaded is kept in the schedule itself
//! ([`super::ScheduleMaintenance::loaded_until`]). A schedule that loses its data, or is set back to an older copy, loses
//! that instant as well. A pending notification that is due later is not missing in the schedule.
//!
//! A server without a horizon ([`Window::WHOLE`]) puts in everything that it writes. Beside servers with one, and after
//! them, it loads as well, and reads the journal to its end. What they leave out meanwhile is due more than their horizon
//! after the reading began, but may be due before what was read already. So if one of them may have been at work since it
//! began, no later instant is noted than half of their horizon after that ([`LoadedWindow`]). The next run goes on there.

use std::time::Duration;

/// How long after it was registered a notification keeps its content in Redis, in milliseconds: longer than the standby of a
/// database is behind, which takes over when its primary fails. It is less than the usual wait for a second attempt, so
/// what waits for that is bare before it is sent.
const CONTENT_KEPT_MS: i64 = 120_000;

/// How long before it is due a notification keeps its content in Redis, if it has it still, in milliseconds.
pub const CONTENT_NEEDED_MS: i64 = 60_000;

/// How far ahead the schedule holds what is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// In milliseconds; `None`: everything is in the schedule.
    horizon_ms: Option<i64>,
    /// How long what waits keeps its content in the schedule, although the journal has it, in milliseconds.
    content_kept_ms: i64,
}

impl Window {
    /// Everything that is pending is in the schedule. For a schedule without a journal.
    pub const WHOLE: Self = Self {
        horizon_ms: None,
        content_kept_ms: CONTENT_KEPT_MS,
    };

    /// What is due within this time is in the schedule.
    #[must_use]
    pub const fn of(horizon: Duration) -> Self {
        let horizon_ms = horizon.as_millis();
        Self {
            horizon_ms: Some(if horizon_ms < i64::MAX as u128 {
                horizon_ms as i64
            } else {
                i64::MAX
            }),
            ..Self::WHOLE
        }
    }

    /// The same, where what was registered keeps its content for this time.
    #[must_use]
    pub const fn keeping_content(self, content_kept_ms: i64) -> Self {
        Self {
            content_kept_ms,
            ..self
        }
    }

    /// How long what was registered keeps its content in the schedule, in milliseconds, if there is a horizon: after that,
    /// it may be left to the journal ([`super::ScheduleMaintenance::leave_content`]).
    #[must_use]
    pub fn content_kept_ms(self) -> i64 {
        self.content_kept_ms
    }

    /// How far ahead, in milliseconds; `None`: everything.
    #[must_use]
    pub fn horizon_ms(self) -> Option<i64> {
        self.horizon_ms
    }

    /// Whether a notification that is due then must be put into the schedule now. If not, the journal must have
    /// committed it before this was asked. Both in milliseconds since 1970.
    #[must_use]
    pub fn includes(self, due_ms: i64, now_ms: i64) -> bool {
        let horizon_ms = self.horizon_ms;
        horizon_ms.is_none_or(|horizon_ms| due_ms <= now_ms.saturating_add(horizon_ms))
    }

    /// Up to which due time the journal may be read for the schedule now, in milliseconds since 1970.
    #[must_use]
    pub fn load_until_ms(self, now_ms: i64) -> i64 {
        let horizon_ms = self.horizon_ms;
        horizon_ms.map_or(i64::MAX, |horizon_ms| now_ms.saturating_add(horizon_ms / 2))
    }

    /// By which due time everything that is pending must be in the schedule, if everything was loaded by `loaded_until_ms`
    /// (`None`: that is not known): what is due by now always must. All in milliseconds since 1970.
    #[must_use]
    pub fn held_until_ms(loaded_until_ms: Option<i64>, now_ms: i64) -> i64 {
        loaded_until_ms.map_or(now_ms, |loaded_until_ms| loaded_until_ms.max(now_ms))
    }

    /// Whether the clock was set back since everything was loaded up to this due time: then writers may have left out
    /// what is due before it. Both in milliseconds since 1970.
    #[must_use]
    pub fn is_ahead(self, loaded_until_ms: i64, now_ms: i64) -> bool {
        // A writer leaves out what is due after `now + horizon`. A quarter is far more than clocks differ by.
        let horizon_ms = self.horizon_ms;
        horizon_ms.is_some_and(|horizon_ms| {
            loaded_until_ms > now_ms.saturating_add(horizon_ms - horizon_ms / 4)
        })
    }
}

/// What was read in the journal and put into the schedule: everything that was pending and is due by some instant. All in
/// milliseconds since 1970, by the clock of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadedWindow {
    /// When the reading began, or before that. What a server leaves out later may not have been read.
    pub began_ms: i64,
    /// That instant.
    pub until_ms: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn hour() -> Window {
        Window::of(Duration::from_secs(3_600))
    }

    #[test]
    fn what_is_due_within_the_horizon_is_included() {
        fn check(due_ms: i64, expected: bool) {
            assert_eq!(hour().includes(due_ms, 1_000), expected, "{due_ms}");
            assert!(Window::WHOLE.includes(due_ms, 1_000));
        }
        check(i64::MIN, true);
        check(1_000, true);
        check(1_000 + HOUR_MS, true);
        check(1_001 + HOUR_MS, false);
        check(i64::MAX, false);
    }

    #[test]
    fn half_of_the_horizon_is_loaded() {
        assert_eq!(hour().load_until_ms(1_000), 1_000 + HOUR_MS / 2);
        assert_eq!(hour().load_until_ms(i64::MAX), i64::MAX);
        assert_eq!(Window::WHOLE.load_until_ms(1_000), i64::MAX);
    }

    #[test]
    fn a_clock_that_was_set_back_is_noticed_before_anything_is_left_out_for_ever() {
        fn check(loaded_until_ms: i64, expected: bool) {
            assert_eq!(hour().is_ahead(loaded_until_ms, 0), expected);
            // Otherwise a writer puts in all that is due by then, so what is left out is still to be read.
            assert!(expected || hour().includes(loaded_until_ms, 0));
        }
        check(HOUR_MS / 2, false);
        check(HOUR_MS * 3 / 4, false);
        check(HOUR_MS * 3 / 4 + 1, true);
        check(i64::MAX, true);
        assert!(!Window::WHOLE.is_ahead(i64::MAX, 0));
    }
}
