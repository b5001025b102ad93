//! When a kept connection may be used again: the rules, for one origin.
//!
//! A request that is written into a connection which the receiver is just closing is lost, and
//! it is not known whether it was read, so the attempt has failed. Some servers close shortly after
//! they have answered without saying so (`Connection: close`). These rules find out how a
//! server treats idle connections before calls depend on it:
//!
//! * A connection is used again only after one of the origin was seen to stay open for [`TRIAL`]
//!   after an answer. Until then calls get new connections, which costs no attempt.
//! * When an idle connection is seen to close, others are used only within half its age; if it was
//!   younger than [`TRIAL`], the trial begins again.
//! * When a kept connection closes under a call all the same, the origin gets new connections for
//!   [`REMEMBERED`].
//!
//! What that saves and costs was measured: `docs/performance.md`, "Kept connections".

use std::time::{Duration, Instant};

/// How long a connection must stay open after an answer, before one of its origin is used again.
/// Servers that close right after answering do so within a few milliseconds.
pub const TRIAL: Duration = Duration::from_millis(50);
/// How long an idle connection is kept. Shorter than what common servers grant (Node's default is
/// 5 s), so that a call is hardly ever sent into a connection that is just being closed.
pub const IDLE: Duration = Duration::from_secs(4);
/// How long it is remembered what an origin did.
pub const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// What is known of an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reuse {
    trial: Trial,
    /// Longest time that a connection may have been idle when it is used again.
    within: Duration,
    /// When something was last learned.
    learned: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// A connection has to stay open, from this instant or a later one.
    Since(Instant),
    Passed,
    /// A call failed.
    Failed,
}

impl Reuse {
    /// Nothing is known.
    pub fn unknown(now: Instant) -> Self {
        Self {
            trial: Trial::Since(now),
            within: IDLE,
            learned: now,
        }
    }

    /// A connection is open that has been idle since `since`.
    pub fn seen_open(&mut self, since: Instant, now: Instant) {
        if let Trial::Since(began) = self.trial
            && now.saturating_duration_since(began.max(since)) >= TRIAL
        {
            self.trial = Trial::Passed;
            self.learned = now;
        }
    }

    /// The receiver closed a connection that had been idle since `since`.
    pub fn seen_closed(&mut self, since: Instant, now: Instant) {
        let age = now.saturating_duration_since(since);
        if self.trial == Trial::Failed {
            return;
        }
        if age < TRIAL {
            self.trial = Trial::Since(now);
        } else {
            self.within = self.within.min(age / 2);
        }
        self.learned = now;
    }

    /// The receiver closed a kept connection under a call, unanswered.
    pub fn failed(&mut self, now: Instant) {
        self.trial = Trial::Failed;
        self.learned = now;
    }

    /// Whether a connection that has been idle since `since` may be used.
    pub fn allows(&self, since: Instant, now: Instant) -> bool {
        self.trial == Trial::Passed && now.saturating_duration_since(since) < self.within
    }

    /// Whether idle connections are worth keeping.
    pub fn keeps(&self) -> bool {
        self.trial != Trial::Failed
    }

    /// Whether an idle connection is to be closed.
    pub fn expired(&self, since: Instant, now: Instant) -> bool {
        now.saturating_duration_since(since) >= self.within
    }

    /// Forgets what is too old to go by. A trial that was passed stays so.
    pub fn forget(&mut self, now: Instant) {
        if self.is_forgotten(now) {
            let passed = self.trial == Trial::Passed;
            *self = Self::unknown(now);
            if passed {
                self.trial = Trial::Passed;
            }
        }
    }

    /// Whether nothing was learned for too long.
    pub fn is_forgotten(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.learned) >= REMEMBERED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// An origin, and the instant at which it became known.
    fn known() -> (Reuse, Instant) {
        let start = Instant::now() + HOUR;
        (Reuse::unknown(start), start)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_connection_must_have_stayed_open_for_a_moment() {
        fn check(idle_since_ms: u64, seen_ms: u64, expected: bool) {
            let (mut reuse, start) = known();
            let (since, now) = (start + ms(idle_since_ms), start + ms(seen_ms));
            assert!(!reuse.allows(since, now));
            reuse.seen_open(since, now);
            assert_eq!(
                reuse.allows(now, now),
                expected,
                "{idle_since_ms} {seen_ms}"
            );
        }
        check(0, 49, false);
        check(0, 50, true);
        check(10, 59, false);
        check(10, 60, true);
    }

    #[test]
    fn a_connection_that_closes_at_once_begins_the_trial_again() {
        let (mut reuse, start) = known();
        reuse.seen_open(start, start + ms(50));
        assert!(reuse.allows(start + ms(100), start + ms(100)));
        reuse.seen_closed(start + ms(100), start + ms(149));
        assert!(!reuse.allows(start + ms(149), start + ms(149)));
        // One that was idle before counts from then on.
        reuse.seen_open(start, start + ms(198));
        assert!(!reuse.allows(start + ms(198), start + ms(198)));
        reuse.seen_open(start, start + ms(199));
        assert!(reuse.allows(start + ms(199), start + ms(199)));
    }

    #[test]
    fn connections_are_used_within_half_the_age_at_which_one_was_closed() {
        let (mut reuse, start) = known();
        reuse.seen_open(start, start + ms(50));
        let check = |reuse: &Reuse, age_ms: u64, expected: bool| {
            let now = start + ms(60);
            let later = now + ms(age_ms);
            assert_eq!(reuse.allows(now, later), expected, "{age_ms}");
            assert_eq!(reuse.expired(now, later), !expected, "{age_ms}");
        };
        check(&reuse, 3_999, true);
        check(&reuse, 4_000, false);
        reuse.seen_closed(start, start + ms(2_000));
        check(&reuse, 999, true);
        check(&reuse, 1_000, false);
        // A longer one teaches nothing new.
        reuse.seen_closed(start, start + ms(3_000));
        check(&reuse, 999, true);
        reuse.seen_closed(start, start + ms(50));
        check(&reuse, 24, true);
        check(&reuse, 25, false);
    }

    #[test]
    fn after_a_failed_call_nothing_is_kept_until_it_is_forgotten() {
        let (mut reuse, start) = known();
        reuse.seen_open(start, start + ms(50));
        let failed = start + ms(60);
        reuse.failed(failed);
        let last = failed + REMEMBERED - ms(1);
        reuse.seen_open(start, last);
        reuse.seen_closed(start, last);
        reuse.forget(last);
        assert!(!reuse.keeps());
        assert!(!reuse.allows(last, last));
        reuse.forget(failed + REMEMBERED);
        assert!(reuse.keeps());
        assert_eq!(reuse, Reuse::unknown(failed + REMEMBERED));
    }
}
