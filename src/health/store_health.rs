//! The health of one store, determined by the results of its calls.
//!
//! This file is pure: it takes the time as a value, and returns what must be logged. Its rules:
//!
//! * A kind of work *fails* from the start of its first failed call until a call of that kind is
//!   answered. A check that succeeds ends the failure only while that kind of work is idle: none of its calls
//!   is in flight, and none has failed for [`LONG`]. Calls prove more than a check.
//! * A failure *counts* as an outage if more than one call failed and the failures span [`CONFIRM`], if one
//!   call took [`LONG`] until it failed, or if a check of the store failed. So a single broken connection is
//!   no outage. It is an outage too if calls are in flight and none of them has ended for [`LONG`].
//! * An outage is over when nothing has failed for [`CONFIRM`]. An outage is logged when it begins and when
//!   it is over. At most one is logged per [`OUTAGE_LOG_INTERVAL`]; an outage that begins earlier is logged
//!   only if it lasts until then.
//! * Failures that were no outage are logged together, [`LONG`] after the last one and at most once per
//!   [`BRIEF_LOG_INTERVAL`].

use super::event::HealthEvent;
use super::{CallResult, StoreReport, StoreState, Work};
use crate::domain::call_durations::CallDurations;
use crate::domain::duration;
use std::time::{Duration, Instant};

/// For how long calls must have failed until they count as an outage, and for how long none may have
/// failed until the outage is over. A call that its caller stopped waiting for earlier than this says
/// nothing about the store.
const CONFIRM: Duration = Duration::from_millis(500);
/// For how long calls may be in flight without any of them ending, and how long after its last failed call
/// a kind of work is idle. Longer than `Retry-After` makes callers wait.
const LONG: Duration = Duration::from_secs(3);
/// Shortest time between the log lines of two outages that begin.
const OUTAGE_LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Shortest time between two log lines about failures that were no outage.
const BRIEF_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The health of one store.
#[derive(Debug, Default)]
pub(super) struct StoreHealth {
    works: [WorkTally; Work::ALL.len()],
    outage: Option<Outage>,
    /// How many calls have failed since the last line about failed calls.
    failed: u64,
    /// How many calls have failed since the start.
    failed_ever: u64,
    last_failed: Option<Instant>,
    /// When the beginning of an outage was last logged.
    outage_logged: Option<Instant>,
    /// When failures that were no outage were last logged.
    brief_logged: Option<Instant>,
    last_cause: String,
}

/// The calls of one kind of work.
#[derive(Debug, Default)]
struct WorkTally {
    in_flight: usize,
    /// When a call last ended, or when a call began while none was in flight, whichever was later.
    moved: Option<Instant>,
    /// When a call was last answered.
    answered: Option<Instant>,
    failing: Option<Box<Failing>>,
    durations: CallDurations,
}

/// A kind of work that fails.
#[derive(Debug)]
struct Failing {
    since: Instant,
    /// When a call last failed. Checks do not count here.
    last: Option<Instant>,
    /// How many calls have failed.
    calls: u64,
    /// Whether a check has failed too.
    seen_by_check: bool,
    rebuilding: bool,
    cause: String,
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    /// Since when nothing has failed.
    quiet_since: Option<Instant>,
    logged: bool,
}

/// A kind of work whose failure counts as an outage.
struct Trouble {
    work: Work,
    since: Instant,
    rebuilding: bool,
    cause: String,
}

/// What a call or a check changed in the health of the store.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HealthChange {
    /// What must be logged.
    pub(super) event: Option<HealthEvent>,
    /// Whether a failure began.
    pub(super) failing: bool,
    /// Whether a kind of work that failed works again.
    pub(super) returned: bool,
}

impl Failing {
    fn counts(&self) -> bool {
        let lasted = self.last.map_or(Duration::ZERO, |last| last - self.since);
        self.seen_by_check || lasted >= LONG || (self.calls > 1 && lasted >= CONFIRM)
    }
}

impl WorkTally {
    /// Whether no call of this kind is in flight and none has failed for [`LONG`], so that only a check can find
    /// out whether this kind of work succeeds.
    fn is_idle(&self, now: Instant) -> bool {
        let last = self.failing.as_ref().and_then(|failing| failing.last);
        self.in_flight == 0 && has_passed(LONG, last, now)
    }
}

impl StoreHealth {
    /// Notes that a call begins.
    pub(super) fn begin(&mut self, work: Work, now: Instant) {
        let tally = &mut self.works[work as usize];
        if tally.in_flight == 0 {
            tally.moved = Some(now);
        }
        tally.in_flight += 1;
    }

    /// Notes that a call has ended.
    pub(super) fn end(
        &mut self,
        work: Work,
        begun: Instant,
        now: Instant,
        ended: CallResult,
    ) -> HealthChange {
        let tally = &mut self.works[work as usize];
        tally.in_flight = tally.in_flight.saturating_sub(1);
        tally.moved = Some(now);
        (tally.durations).observe(micros(now.saturating_duration_since(begun)));
        let mut change = HealthChange::default();
        let (rebuilding, cause) = match ended {
            CallResult::Answered => {
                tally.answered = Some(now);
                change.returned = tally.failing.take().is_some();
                // Every notification passes here, so the review is skipped while the store works.
                if self.failed > 0 || self.outage.is_some() {
                    change.event = self.review(now);
                }
                return change;
            }
            CallResult::Unreadable => return change,
            CallResult::Failed(cause) => (false, cause),
            CallResult::Rebuilding(cause) => (true, cause),
        };
        change.failing = tally.failing.is_none();
        let failing = tally
            .failing
            .get_or_insert_with(|| Box::new(Failing::from(begun)));
        failing.last = Some(now);
        failing.calls += 1;
        failing.rebuilding = rebuilding;
        failing.cause.clone_from(&cause);
        self.last_cause = cause;
        self.failed += 1;
        self.last_failed = Some(now);
        self.failed_ever += 1;
        change.event = self.review(now);
        change
    }

    /// Notes that the caller of a call stopped waiting for it.
    pub(super) fn abandoned(&mut self, work: Work, begun: Instant, now: Instant) -> HealthChange {
        let lasted = now - begun;
        if lasted >= CONFIRM {
            let cause = format!("no answer within {}", shown(lasted));
            return self.end(work, begun, now, CallResult::Failed(cause));
        }
        let tally = &mut self.works[work as usize];
        tally.in_flight = tally.in_flight.saturating_sub(1);
        tally.durations.observe(micros(lasted));
        HealthChange::default()
    }

    /// Notes the result of a check, `None` if no answer came in time. A busy store may be slow to answer a
    /// check. So a check without an answer is ignored if any needed call was answered since the check began. A
    /// failed check is ignored if a registration or a change by hand was answered since then.
    pub(super) fn checked(
        &mut self,
        begun: Instant,
        now: Instant,
        ended: Option<CallResult>,
    ) -> HealthChange {
        let mut change = HealthChange::default();
        let since = |work: &Work| self.works[*work as usize].answered >= Some(begun);
        let (accepts, works) = (
            since(&Work::Accept),
            Work::ALL.iter().filter(|work| work.is_needed()).any(since),
        );
        let (rebuilding, cause) = match ended {
            None if works => return change,
            Some(CallResult::Failed(_)) if accepts => return change,
            None => (false, format!("no answer within {}", shown(now - begun))),
            Some(CallResult::Answered) => {
                for tally in self.works.iter_mut().filter(|tally| tally.is_idle(now)) {
                    change.returned |= tally.failing.take().is_some();
                }
                change.event = self.review(now);
                return change;
            }
            Some(CallResult::Unreadable) => return change,
            Some(CallResult::Failed(cause)) => (false, cause),
            Some(CallResult::Rebuilding(cause)) => (true, cause),
        };
        change.failing = !self.is_failing();
        let accepting = &mut self.works[Work::Accept as usize].failing;
        accepting.get_or_insert_with(|| Box::new(Failing::from(begun)));
        for failing in self.works.iter_mut().filter_map(|it| it.failing.as_mut()) {
            failing.seen_by_check = true;
            if failing.calls == 0 {
                failing.rebuilding = rebuilding;
                failing.cause.clone_from(&cause);
            }
        }
        self.last_cause = cause;
        change.event = self.review(now);
        change
    }

    /// Applies the rules that depend on the time, and returns what must be logged. Must be called regularly.
    pub(super) fn review(&mut self, now: Instant) -> Option<HealthEvent> {
        let troubles = self.troubles(now);
        let begun = troubles.iter().map(|trouble| trouble.since).min();
        let fails = begun.is_some() || self.is_failing();
        match (&mut self.outage, begun) {
            (None, None) => return self.brief(now),
            (None, Some(since)) => {
                self.outage = Some(Outage {
                    since,
                    quiet_since: None,
                    logged: false,
                });
            }
            (Some(outage), _) if fails => outage.quiet_since = None,
            (Some(outage), _) => {
                let quiet_since = *outage.quiet_since.get_or_insert(now);
                if now.saturating_duration_since(quiet_since) < CONFIRM {
                    return None;
                }
                let away = quiet_since.saturating_duration_since(outage.since);
                let was_logged = outage.logged;
                self.outage = None;
                if !was_logged {
                    return None;
                }
                let failed_calls = std::mem::take(&mut self.failed);
                return Some(HealthEvent::Back { away, failed_calls });
            }
        }
        let outage = self.outage.as_mut()?;
        let may_log = has_passed(OUTAGE_LOG_INTERVAL, self.outage_logged, now);
        if outage.logged || troubles.is_empty() || !may_log {
            return None;
        }
        outage.logged = true;
        self.outage_logged = Some(now);
        Some(HealthEvent::Away(self.describe(now, &troubles)))
    }

    /// The present health of the store.
    pub(super) fn report(&self, now: Instant) -> StoreReport {
        self.describe(now, &self.troubles(now))
    }

    /// Whether any needed kind of work fails, even if the failure does not count as an outage.
    pub(super) fn is_failing(&self) -> bool {
        let needed = Work::ALL.iter().filter(|work| work.is_needed());
        needed
            .map(|work| &self.works[*work as usize])
            .any(|tally| tally.failing.is_some())
    }

    /// Whether the store must be checked: a needed kind of work fails, or an outage is not over.
    pub(super) fn is_troubled(&self) -> bool {
        self.outage.is_some() || self.is_failing()
    }

    /// When a call of this kind was last answered.
    pub(super) fn answered(&self, work: Work) -> Option<Instant> {
        self.works[work as usize].answered
    }

    /// How long the calls of this kind took since the start.
    pub(super) fn durations(&self, work: Work) -> &CallDurations {
        &self.works[work as usize].durations
    }

    /// How many calls have failed since the start.
    pub(super) fn failed_ever(&self) -> u64 {
        self.failed_ever
    }

    fn troubles(&self, now: Instant) -> Vec<Trouble> {
        let mut troubles = Vec::new();
        for work in Work::ALL.iter().copied().filter(|work| work.is_needed()) {
            let tally = &self.works[work as usize];
            let stuck = tally.moved.filter(|moved| {
                tally.in_flight > 0 && now.saturating_duration_since(*moved) >= LONG
            });
            match (&tally.failing, stuck) {
                (Some(failing), _) if failing.counts() => troubles.push(Trouble {
                    work,
                    since: failing.since,
                    rebuilding: failing.rebuilding,
                    cause: failing.cause.clone(),
                }),
                (_, Some(since)) => troubles.push(Trouble {
                    work,
                    since,
                    rebuilding: false,
                    cause: format!("no answer for {}", shown(now - since)),
                }),
                (_, None) => {}
            }
        }
        troubles
    }

    fn describe(&self, now: Instant, troubles: &[Trouble]) -> StoreReport {
        let Some(first) = troubles.iter().min_by_key(|trouble| trouble.since) else {
            return StoreReport::up();
        };
        // Whether another kind of work was answered after the first failure. Calls that were answered within
        // `CONFIRM` of the failure may have been answered before the store failed, so they do not count.
        let answers = Work::ALL.iter().any(|work| {
            let well = troubles.iter().all(|trouble| trouble.work != *work);
            let answered = self.works[*work as usize].answered;
            well && answered.is_some_and(|answered| answered >= first.since + CONFIRM)
        });
        let state = if troubles.iter().any(|trouble| trouble.rebuilding) {
            StoreState::Rebuilding
        } else if answers {
            StoreState::Refusing
        } else {
            StoreState::Away
        };
        StoreReport {
            state,
            failing: troubles.iter().map(|trouble| trouble.work).collect(),
            lasted: Some(now.saturating_duration_since(first.since)),
            cause: Some(first.cause.clone()),
            failed_calls: self.failed,
        }
    }

    /// Reports together the failures that were no outage.
    fn brief(&mut self, now: Instant) -> Option<HealthEvent> {
        let is_over = has_passed(LONG, self.last_failed, now);
        let may_log = has_passed(BRIEF_LOG_INTERVAL, self.brief_logged, now);
        if self.failed == 0 || !is_over || !may_log {
            return None;
        }
        self.brief_logged = Some(now);
        Some(HealthEvent::Brief {
            failed_calls: std::mem::take(&mut self.failed),
            cause: self.last_cause.clone(),
        })
    }
}

impl Failing {
    fn from(since: Instant) -> Self {
        Self {
            since,
            last: None,
            calls: 0,
            seen_by_check: false,
            rebuilding: false,
            cause: String::new(),
        }
    }
}

/// Whether `limit` has passed since `since`. True if `since` is `None`: the event never happened.
fn has_passed(limit: Duration, since: Option<Instant>, now: Instant) -> bool {
    since.is_none_or(|since| now.saturating_duration_since(since) >= limit)
}

fn micros(lasted: Duration) -> u64 {
    u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX)
}

/// A duration for people to read: to a tenth of a second if it is shorter than 3 s, else to the second.
pub(super) fn shown(lasted: Duration) -> String {
    let ms = i64::try_from(lasted.as_millis()).unwrap_or(i64::MAX);
    let step = if ms < 3_000 { 100 } else { 1_000 };
    duration::display_ms(ms / step * step)
}

#[cfg(test)]
mod tests;
