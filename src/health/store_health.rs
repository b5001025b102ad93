//! How one store is doing, judged by what its calls come to.
//!
//! Pure: takes the time as a value, and says what should be logged instead of logging it. The rules:
//!
//! * A kind of work *fails* from the start of its first failed call until a call of that kind is
//!   answered. A check that succeeds ends it only while that kind of work is idle: none of its calls
//!   is in flight, and none has failed for [`LONG`]. As long as somebody tries, the work itself tells.
//! * A failure *counts* once more than one call has failed over [`CONFIRM`], or one over [`LONG`], or
//!   a check of the store has failed. So a single broken connection is no outage. Calls in flight of
//!   which none has come back for [`LONG`] count as well.
//! * An outage is over when nothing has failed for [`CONFIRM`]. It is logged when it begins and when
//!   it is over, but no more than one in [`QUIET`]; one that lasts is logged in the end. Failures
//!   that did not count are logged together, [`LONG`] after the last and at most once in
//!   [`BRIEFLY`].

use super::event::HealthEvent;
use super::{CallResult, StoreReport, StoreState, Work};
use crate::domain::duration;
use std::time::{Duration, Instant};

/// For how long calls must have failed to count, and for how long nothing may have failed until an
/// outage is over. A call that its caller gave up earlier says nothing about the store.
const CONFIRM: Duration = Duration::from_millis(500);
/// For how long calls may be in flight without any of them coming back, and for how long no call of
/// a kind may have failed until that kind of work is idle. Longer than callers are told to wait
/// before they try again.
const LONG: Duration = Duration::from_secs(3);
/// Shortest time between the beginnings of two outages that are logged.
const QUIET: Duration = Duration::from_secs(10);
/// Shortest time between two lines about failures that were no outage.
const BRIEFLY: Duration = Duration::from_secs(60);

/// The health of one store.
#[derive(Debug, Default)]
pub(super) struct StoreHealth {
    works: [Tally; Work::ALL.len()],
    outage: Option<Outage>,
    /// Calls that have failed since all was well.
    failed: u64,
    /// All calls that have ever failed.
    failed_ever: u64,
    last_failed: Option<Instant>,
    brief_said: Option<Instant>,
    outage_said: Option<Instant>,
    last_cause: String,
}

/// What is known of one kind of work.
#[derive(Debug, Default)]
struct Tally {
    in_flight: usize,
    /// When a call last came back, or when the first of those in flight began.
    moved: Option<Instant>,
    answered: Option<Instant>,
    failing: Option<Failing>,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    /// When a call, not a check, last failed.
    last: Option<Instant>,
    calls: u64,
    checked: bool,
    rebuilding: bool,
    cause: String,
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    /// Since when nothing has failed.
    calm: Option<Instant>,
    said: bool,
}

/// A failure that counts.
struct Trouble {
    work: Work,
    since: Instant,
    rebuilding: bool,
    cause: String,
}

/// What one observation changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HealthChange {
    /// What is to be logged.
    pub(super) event: Option<HealthEvent>,
    /// Work that was well until now fails.
    pub(super) failing: bool,
    /// Work that failed until now is done again.
    pub(super) returned: bool,
}

impl Failing {
    fn counts(&self) -> bool {
        let lasted = self.last.map_or(Duration::ZERO, |last| last - self.since);
        self.checked || lasted >= LONG || (self.calls > 1 && lasted >= CONFIRM)
    }
}

impl Tally {
    /// Whether nobody asks for this kind of work, so that only a check can tell whether it is done.
    fn is_idle(&self, now: Instant) -> bool {
        let last = self.failing.as_ref().and_then(|failing| failing.last);
        self.in_flight == 0 && last.is_none_or(|last| now.saturating_duration_since(last) >= LONG)
    }
}

impl StoreHealth {
    /// A call begins.
    pub(super) fn begin(&mut self, work: Work, now: Instant) {
        let tally = &mut self.works[work as usize];
        if tally.in_flight == 0 {
            tally.moved = Some(now);
        }
        tally.in_flight += 1;
    }

    /// A call has come back.
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
        let mut change = HealthChange::default();
        let (rebuilding, cause) = match ended {
            CallResult::Answered => {
                tally.answered = Some(now);
                change.returned = tally.failing.take().is_some();
                if self.failed == 0 && self.outage.is_none() {
                    return change;
                }
                change.event = self.review(now);
                return change;
            }
            CallResult::Unreadable => return change,
            CallResult::Failed(cause) => (false, cause),
            CallResult::Rebuilding(cause) => (true, cause),
        };
        change.failing = tally.failing.is_none();
        let failing = tally.failing.get_or_insert_with(|| Failing::from(begun));
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

    /// A call was given up by its caller.
    pub(super) fn abandoned(&mut self, work: Work, begun: Instant, now: Instant) -> HealthChange {
        let lasted = now - begun;
        if lasted >= CONFIRM {
            let cause = format!("no answer within {}", shown(lasted));
            return self.end(work, begun, now, CallResult::Failed(cause));
        }
        let tally = &mut self.works[work as usize];
        tally.in_flight = tally.in_flight.saturating_sub(1);
        HealthChange::default()
    }

    /// The store was checked; `None` if no answer came in time. While registrations are taken it may
    /// be slow to answer, and while anything is done it may be busy: then work says more than a check.
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
        accepting.get_or_insert_with(|| Failing::from(begun));
        for failing in self.works.iter_mut().filter_map(|it| it.failing.as_mut()) {
            failing.checked = true;
            if failing.calls == 0 {
                failing.rebuilding = rebuilding;
                failing.cause.clone_from(&cause);
            }
        }
        self.last_cause = cause;
        change.event = self.review(now);
        change
    }

    /// Looks at what only time changes. To be called now and then.
    pub(super) fn review(&mut self, now: Instant) -> Option<HealthEvent> {
        let troubles = self.troubles(now);
        let begun = troubles.iter().map(|trouble| trouble.since).min();
        let doubtful = begun.is_some() || self.is_failing();
        match (&mut self.outage, begun) {
            (None, None) => return self.brief(now, doubtful),
            (None, Some(since)) => {
                self.outage = Some(Outage {
                    since,
                    calm: None,
                    said: false,
                });
            }
            (Some(outage), _) if doubtful => outage.calm = None,
            (Some(outage), _) => {
                let calm = *outage.calm.get_or_insert(now);
                if now.saturating_duration_since(calm) < CONFIRM {
                    return None;
                }
                let (said, away) = (outage.said, calm.saturating_duration_since(outage.since));
                self.outage = None;
                if !said {
                    return self.brief(now, false);
                }
                let failed_calls = std::mem::take(&mut self.failed);
                return Some(HealthEvent::Back { away, failed_calls });
            }
        }
        let outage = self.outage.as_mut()?;
        let silent = |said| now.saturating_duration_since(said) >= QUIET;
        if outage.said || troubles.is_empty() || !self.outage_said.is_none_or(silent) {
            return None;
        }
        outage.said = true;
        self.outage_said = Some(now);
        Some(HealthEvent::Away(self.describe(now, &troubles)))
    }

    /// How it is doing.
    pub(super) fn report(&self, now: Instant) -> StoreReport {
        self.describe(now, &self.troubles(now))
    }

    /// Whether anything fails, whether it counts or not.
    pub(super) fn is_failing(&self) -> bool {
        let needed = Work::ALL.iter().filter(|work| work.is_needed());
        needed
            .map(|work| &self.works[*work as usize])
            .any(|tally| tally.failing.is_some())
    }

    /// Whether something should be done about it: something fails, or an outage is not over.
    pub(super) fn is_troubled(&self) -> bool {
        self.outage.is_some() || self.is_failing()
    }

    /// When a call of this kind was last answered.
    pub(super) fn answered(&self, work: Work) -> Option<Instant> {
        self.works[work as usize].answered
    }

    /// How many calls have ever failed.
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
        // Something that was asked after the trouble had begun, and was answered.
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
        let since = self.outage.as_ref().map_or(first.since, |outage| {
            // An outage that flaps is one outage.
            outage.since.min(first.since)
        });
        StoreReport {
            state,
            failing: troubles.iter().map(|trouble| trouble.work).collect(),
            lasted: Some(now.saturating_duration_since(since)),
            cause: Some(first.cause.clone()),
            failed_calls: self.failed,
        }
    }

    /// Takes the failures that were no outage together.
    fn brief(&mut self, now: Instant, doubtful: bool) -> Option<HealthEvent> {
        let passed = |limit| move |then| now.saturating_duration_since(then) >= limit;
        let settled = self.last_failed.is_some_and(passed(LONG));
        if doubtful || self.failed == 0 || !settled || !self.brief_said.is_none_or(passed(BRIEFLY))
        {
            return None;
        }
        self.brief_said = Some(now);
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
            checked: false,
            rebuilding: false,
            cause: String::new(),
        }
    }
}

/// A duration for people: to a tenth of a second, or to the second where that says enough.
pub(super) fn shown(lasted: Duration) -> String {
    let ms = i64::try_from(lasted.as_millis()).unwrap_or(i64::MAX);
    let step = if ms < 3_000 { 100 } else { 1_000 };
    duration::display_ms(ms / step * step)
}

#[cfg(test)]
mod tests;
