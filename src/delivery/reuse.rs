//! The rules for one origin that say when a kept connection may be used again.
//!
//! If a request is written while the receiver closes the connection, it is not known whether the receiver
//! read the request, so the attempt has failed. Some servers close a connection shortly after an answer
//! without announcing it (`Connection: close`). So these rules observe how a server treats idle
//! connections before they allow calls over them:
//!
//! * A connection is used again only after one connection of the origin was still open [`TRIAL`] after an
//!   answer. Until then calls get new connections, so this trial makes no attempt fail.
//! * When the receiver closes an idle connection, the other connections are used only within half the time
//!   that this one was idle. If it was idle for less than [`TRIAL`], the trial begins again.
//! * No connection is used again [`MOST_AGE`] after it was opened.
//! * When the receiver nevertheless closes a kept connection during a call, the origin gets only new
//!   connections for [`REMEMBERED`].
//!
//! `docs/performance.md`, "Kept connections", has measurements of what these rules save and cost.

use std::time::{Duration, Instant};

/// How long a connection must stay open after an answer before connections of its origin are used again.
/// Servers that close after an answer do so within a few milliseconds.
pub const TRIAL: Duration = Duration::from_millis(50);
/// How long an idle connection is kept. Shorter than common servers keep it (Node's default is 5 s), so
/// that a call rarely uses a connection that the receiver is about to close.
pub const IDLE: Duration = Duration::from_secs(4);
/// How long a connection may be used at most after it was opened, also while calls follow each other. A receiver that moves
/// to other addresses gets all calls there after this time, because each new connection looks its name up.
pub const MOST_AGE: Duration = Duration::from_secs(60);
/// How long the behaviour of an origin is remembered.
pub const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// Whether no more calls may begin on a connection that was opened at this instant. It holds for every kept connection,
/// also for one that calls share.
pub fn is_too_old(opened: Instant, now: Instant) -> bool {
    now.saturating_duration_since(opened) >= MOST_AGE
}

/// What is known about the behaviour of an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reuse {
    trial: Trial,
    /// Maximum time that a connection may have been idle when it is used again.
    within: Duration,
    /// When the behaviour of the origin was last observed.
    learned: Instant,
}

/// Whether connections of an origin were seen to stay open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// No connection has stayed open for [`TRIAL`] yet. Only time after this instant counts.
    Since(Instant),
    /// A connection has stayed open for [`TRIAL`].
    Passed,
    /// A kept connection was closed during a call.
    Failed,
}

impl Reuse {
    /// An origin of which nothing is known.
    pub fn unknown(now: Instant) -> Self {
        Self {
            trial: Trial::Since(now),
            within: IDLE,
            learned: now,
        }
    }

    /// Notes that a connection is open that has been idle since `since`.
    pub fn seen_open(&mut self, since: Instant, now: Instant) {
        if let Trial::Since(began) = self.trial
            && now.saturating_duration_since(began.max(since)) >= TRIAL
        {
            self.trial = Trial::Passed;
            self.learned = now;
        }
    }

    /// Notes that the receiver closed a connection that had been idle since `since`.
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

    /// Notes that the receiver closed a kept connection during a call, before an answer.
    pub fn failed(&mut self, now: Instant) {
        self.trial = Trial::Failed;
        self.learned = now;
    }

    /// Whether a connection that has been idle since `since` may be used.
    pub fn allows(&self, since: Instant, now: Instant) -> bool {
        self.trial == Trial::Passed && now.saturating_duration_since(since) < self.within
    }

    /// Whether a connection of HTTP/2 that has been idle since `since` may be used. It needs no trial: the protocol has a
    /// message (GOAWAY) for a receiver that closes a connection.
    pub fn allows_without_trial(&self, since: Instant, now: Instant) -> bool {
        self.keeps() && now.saturating_duration_since(since) < self.within
    }

    /// Whether idle connections of this origin should be kept.
    pub fn keeps(&self) -> bool {
        self.trial != Trial::Failed
    }

    /// Whether a connection that has been idle since `since` should be closed.
    pub fn expired(&self, since: Instant, now: Instant) -> bool {
        now.saturating_duration_since(since) >= self.within
    }

    /// Forgets observations that are older than [`REMEMBERED`]. A passed trial stays passed.
    pub fn forget(&mut self, now: Instant) {
        if self.is_forgotten(now) {
            let passed = self.trial == Trial::Passed;
            *self = Self::unknown(now);
            if passed {
                self.trial = Trial::Passed;
            }
        }
    }

    /// Whether the last observation is older than [`REMEMBERED`].
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
        // A connection that was idle before the trial began counts only from the beginning of the trial.
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
        // A connection that closes later than an earlier one does not change the limit.
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
