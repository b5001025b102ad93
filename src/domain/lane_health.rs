//! How a lane is doing: how many calls to its destination may be in flight, and how urgent its entries are.
//!
//! A destination that does not answer holds every call until the time limit. So the number of calls that a
//! lane may have in flight starts small, grows with every answer, and is halved by every call that brings none.
//! After [`PROBE_AFTER`] such calls in a row the lane is *probing*: it gets one call at a time, at growing
//! intervals, until one is answered. What waits behind a probe spends no attempt.
//!
//! An answer is any HTTP answer: a wrong body or a 500 is a matter of the ladder. Losing the state of a lane
//! costs one round of calls that run into their time limit. The Lua scripts of the schedule in Redis
//! (`schedule/redis/lua/lanes.lua`) keep the same rules.

use crate::domain::attempt::Outcome;
use crate::domain::deferral::{LanePauses, Pause};

/// Number of calls in a row without an answer after which a lane is probing.
pub const PROBE_AFTER: u16 = 3;
/// How long the first probe waits after the calls before it failed, in milliseconds.
pub const FIRST_PROBE_MS: i64 = 1_000;
/// The longest wait between two probes, in milliseconds. Each failed probe doubles the wait up to this.
pub const LONGEST_PROBE_MS: i64 = 30_000;
/// A lane is slow if its calls take longer than this on average, in milliseconds.
pub const SLOW_MS: i64 = 2_000;
/// An answer that takes less than this counts as taking no time, in milliseconds. So the state of a lane whose
/// destination answers quickly does not change.
pub const QUICK_MS: i64 = 500;
/// For how long the state of a lane without entries is kept without a call to it, in milliseconds.
pub const KEPT_MS: i64 = 3_600_000;
/// The same for a lane whose last call was not acknowledged. What failed may wait in the journal alone for its next step,
/// and alerts and lists must not forget meanwhile that the destination fails. Longer than any step of the named ladders.
pub const KEPT_UNACKNOWLEDGED_MS: i64 = 86_400_000;
/// The same for the lane of an endpoint whose last call was not answered. What failed may wait in the journal alone for
/// its next step, and the end of the outage must be noticed then ([`crate::domain::outage`]).
pub const KEPT_FAILING_MS: i64 = 7 * 86_400_000;

/// What is reported about a lane when a lease on one of its entries is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneReport {
    /// A call was answered by HTTP after so many milliseconds.
    Answered(i64),
    /// A call was not answered: the connection, TLS, DNS or the time limit failed.
    Unanswered,
    /// Somebody asks for a call now, so the next probe need not wait.
    CallNow,
}

impl LaneReport {
    /// What a call with this outcome says; `None` if nothing, because we did not make it or broke it off.
    #[must_use]
    pub fn of(outcome: Outcome, took_ms: i64) -> Option<Self> {
        match outcome {
            Outcome::Acknowledged | Outcome::WrongAnswer | Outcome::HttpStatus => {
                Some(Self::Answered(took_ms))
            }
            Outcome::Timeout
            | Outcome::Connect
            | Outcome::Tls
            | Outcome::Dns
            | Outcome::Protocol => Some(Self::Unanswered),
            Outcome::Blocked | Outcome::Interrupted => None,
        }
    }
}

/// How a call ended, with its HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallOutcome {
    /// How it ended.
    pub outcome: Outcome,
    /// The HTTP status, if the receiver sent one.
    pub status: Option<u16>,
}

impl CallOutcome {
    /// What an attempt that ended like this says; `None` if it was broken off by us, and is made again.
    #[must_use]
    pub fn of(outcome: Outcome, status: Option<u16>) -> Option<Self> {
        (outcome != Outcome::Interrupted).then_some(Self { outcome, status })
    }

    /// Its number in a store: above 0 and below 16384.
    #[must_use]
    pub fn to_number(self) -> u32 {
        let outcomes = (1..).zip(Outcome::ALL);
        let found = outcomes.into_iter().find(|(_, one)| **one == self.outcome);
        let number = found.map_or(0, |(number, _)| number);
        number * 1_000 + u32::from(self.status.unwrap_or(0).min(999))
    }

    /// The outcome of a number; `None` if no outcome has it.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        let index = usize::try_from(number / 1_000).ok()?.checked_sub(1)?;
        let status = u16::try_from(number % 1_000).ok()?;
        Some(Self {
            outcome: *Outcome::ALL.get(index)?,
            status: Some(status).filter(|status| *status > 0),
        })
    }
}

/// How the last call of a lane ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastOutcome {
    /// How it ended.
    pub call: CallOutcome,
    /// Since when all calls have ended like this, in milliseconds since 1970.
    pub since_ms: i64,
}

/// How urgent the due entries of a lane are, most urgent first. All due lanes of one class are served before
/// those of the next, so that destinations that answer never wait for those that do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneClass {
    /// The destination answers, and no call to it is in flight.
    Idle,
    /// The destination answers, and calls to it are in flight.
    Busy,
    /// The destination has not answered yet, or fails, or is slow.
    Doubtful,
    /// The destination fails, and is called once in a while.
    Probing,
}

impl LaneClass {
    /// Every class, most urgent first.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Busy, Self::Doubtful, Self::Probing];

    /// The name in the metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Doubtful => "doubtful",
            Self::Probing => "probing",
        }
    }
}

/// The state of one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneHealth {
    /// How many calls may be in flight, while the lane is not probing.
    pub allowed: usize,
    /// Number of calls in a row without an answer.
    pub failures: u16,
    /// Whether a call was answered since the last failure.
    pub is_proven: bool,
    /// The moving average of how long an answered call takes, in milliseconds.
    pub answer_ms: i64,
    /// How long the next probe waits, in milliseconds; 0 if the lane is not probing.
    pub probe_wait_ms: i64,
    /// When the next probe may be made, in milliseconds since 1970, if the lane is probing. If it is not: when somebody asked
    /// for a call since its calls fail, or 0.
    pub probe_at_ms: i64,
    /// Since when no call was answered, in milliseconds since 1970; 0 if the last one was.
    pub failing_since_ms: i64,
    /// When the last call ended, in milliseconds since 1970; or, for a lane with a rate, when it began.
    pub used_ms: i64,
    /// The arrival time of its calls ([`crate::domain::lane_settings`]), in microseconds since 1970; 0 if the lane
    /// has no rate.
    pub arrival_us: i64,
    /// When it was held and probed for the last time. A pause that still lasts is not in it.
    pub pauses: LanePauses,
    /// How its last call ended. Kept anew only if it differs, so a healthy lane need not be written for each call.
    pub last_outcome: Option<LastOutcome>,
}

impl LaneHealth {
    /// The state of a lane that was never called. `start` is how many calls it may have in flight.
    #[must_use]
    pub fn unknown(start: usize) -> Self {
        Self {
            allowed: start,
            failures: 0,
            is_proven: false,
            answer_ms: 0,
            probe_wait_ms: 0,
            probe_at_ms: 0,
            failing_since_ms: 0,
            used_ms: 0,
            arrival_us: 0,
            pauses: LanePauses::default(),
            last_outcome: None,
        }
    }

    /// Whether it gets one call at a time.
    #[must_use]
    pub fn is_probing(&self) -> bool {
        self.probe_wait_ms > 0
    }

    /// The pauses, with the one that lasts now while the lane is probing.
    #[must_use]
    pub fn pauses_until(&self, now_ms: i64) -> LanePauses {
        let mut pauses = self.pauses;
        if self.is_probing() {
            pauses.probed = pauses.probed.then(self.probing_until(now_ms));
        }
        pauses
    }

    /// Takes in how a call ended now.
    pub fn note_outcome(&mut self, call: CallOutcome, now_ms: i64) {
        if self.last_outcome.map(|last| last.call) != Some(call) {
            self.last_outcome = Some(LastOutcome {
                call,
                since_ms: now_ms,
            });
            self.used_ms = now_ms;
        }
    }

    /// Notes that a person releases the lane now, which was held since `since_ms`.
    pub fn release(&mut self, since_ms: i64, now_ms: i64) {
        self.pauses.held = self.pauses.held.then(Pause {
            from_ms: since_ms,
            until_ms: now_ms,
        });
        // The state of a lane is kept from its last use on, and what waited must still find the pause.
        self.used_ms = now_ms;
    }

    fn probing_until(&self, now_ms: i64) -> Pause {
        Pause {
            from_ms: self.failing_since_ms,
            until_ms: now_ms,
        }
    }

    /// Whether its last call is known and was not acknowledged.
    #[must_use]
    pub fn is_unacknowledged(&self) -> bool {
        let last = self.last_outcome.as_ref();
        last.is_some_and(|last| last.call.outcome != Outcome::Acknowledged)
    }

    /// For how long it is kept from its last use on, once the lane has no entries, in milliseconds.
    #[must_use]
    pub fn kept_ms(&self, is_of_endpoint: bool) -> i64 {
        if is_of_endpoint && self.failures > 0 {
            KEPT_FAILING_MS
        } else if self.is_unacknowledged() {
            KEPT_UNACKNOWLEDGED_MS
        } else {
            KEPT_MS
        }
    }

    /// How many calls may be in flight in a lane with this cap.
    #[must_use]
    pub fn limit(&self, cap: usize) -> usize {
        if self.is_probing() {
            1
        } else {
            self.allowed.min(cap)
        }
    }

    /// The class of the lane while it has so many leases.
    #[must_use]
    pub fn class(&self, leases: usize) -> LaneClass {
        if self.is_probing() {
            LaneClass::Probing
        } else if !self.is_proven || self.answer_ms > SLOW_MS {
            LaneClass::Doubtful
        } else if leases > 0 {
            LaneClass::Busy
        } else {
            LaneClass::Idle
        }
    }

    /// Bounds when the next probe may be made: at most its wait from now. If the clock was set back, no call would be made
    /// until the clock shows the former time again.
    pub fn bound_probe(&mut self, now_ms: i64) {
        let latest_ms = now_ms.saturating_add(self.probe_wait_ms);
        self.probe_at_ms = self.probe_at_ms.min(latest_ms);
    }

    /// Takes in the report of a lease that was given at `leased_ms` and ends now. `start` and `cap` are
    /// the smallest and largest number of calls that may be in flight.
    pub fn observe(
        &mut self,
        report: LaneReport,
        leased_ms: i64,
        now_ms: i64,
        start: usize,
        cap: usize,
    ) {
        if report != LaneReport::CallNow {
            self.used_ms = now_ms;
        }
        match report {
            LaneReport::Answered(took_ms) => {
                if self.is_probing() {
                    self.pauses.probed = self.pauses.probed.then(self.probing_until(now_ms));
                }
                let took_ms = if took_ms < QUICK_MS { 0 } else { took_ms };
                self.allowed = if self.is_probing() {
                    start
                } else {
                    (self.allowed + 1).min(cap)
                };
                self.answer_ms = if self.is_proven {
                    (3 * self.answer_ms + took_ms) / 4
                } else {
                    took_ms
                };
                self.is_proven = true;
                self.failures = 0;
                self.failing_since_ms = 0;
                self.probe_wait_ms = 0;
                self.probe_at_ms = 0;
            }
            LaneReport::Unanswered => {
                if self.failures == 0 {
                    self.failing_since_ms = now_ms;
                }
                self.failures = self.failures.saturating_add(1);
                self.is_proven = false;
                self.allowed = (self.allowed / 2).max(1);
                let wait_ms = match self.is_probing() {
                    true => (2 * self.probe_wait_ms).min(LONGEST_PROBE_MS),
                    false => FIRST_PROBE_MS,
                };
                // Calls from before the lane was probing, or from before somebody asked for a call, still end. They are
                // no probes, and what was asked for does not wait for them.
                let is_probe = leased_ms >= self.probe_at_ms;
                let begins = !self.is_probing() && self.failures >= PROBE_AFTER;
                if begins || self.is_probing() && is_probe {
                    self.probe_wait_ms = wait_ms;
                }
                if self.is_probing() && is_probe {
                    self.probe_at_ms = now_ms + wait_ms;
                }
            }
            LaneReport::CallNow => {
                // A lane that fails may be probing before the call is made.
                if self.is_probing() || self.failures > 0 {
                    self.probe_at_ms = now_ms;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
