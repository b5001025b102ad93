//! What the log says of attempts.
//!
//! Single attempts are at the level `debug`, but for one after which a notification becomes a dead letter: while a thousand
//! merchants fail, their attempts would be thousands of lines in which nothing else is found. At `info`, a destination has
//! a line when it begins to fail, summaries at growing intervals, and a line when it is over. Each attempt is in the
//! history of its notification.
//!
//! A destination fails from an attempt that is not acknowledged on, whatever the reason, until one is acknowledged and none has
//! failed for a minute: one that accepts every other call has no line for each. Summaries come with the attempts, so a
//! destination without any has no lines.

use crate::clock::millis;
use crate::domain::attempt::{Attempt, Outcome};
use crate::domain::decision::Decision;
use crate::domain::lane::Lane;
use crate::domain::notification::Notification;
use crate::domain::state::State;
use crate::domain::timestamp::display_ms;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::field::display;

/// The waits before each summary of a destination that goes on failing. After the third, the last one is used again.
const SUMMARIES: [Duration; 3] = [
    Duration::from_secs(60),
    Duration::from_secs(600),
    Duration::from_secs(3_600),
];
/// A destination has recovered when an attempt succeeds and none has failed for so long.
const QUIET: Duration = Duration::from_secs(60);
/// A destination without a failed attempt for so long is forgotten. The next attempt that fails is then a new beginning.
const FORGOTTEN: Duration = Duration::from_secs(2 * 3_600);
/// Maximum number of destinations that are remembered. Further ones have no lines of their own.
const MOST_LANES: usize = 10_000;
/// How often it is tried at most to forget destinations if there are too many.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// The destinations that fail, as this server sees it.
#[derive(Debug, Default)]
pub(super) struct AttemptLog(Mutex<FailingLanes>);

#[derive(Debug, Default)]
struct FailingLanes {
    lanes: HashMap<Lane, FailingLane>,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct FailingLane {
    since: Instant,
    /// When the last attempt failed.
    last: Instant,
    /// When its last line was written.
    logged: Instant,
    /// How many summaries it has had.
    summaries: usize,
    /// Attempts that failed since it began, and since its last line.
    failed: u64,
    failed_since_line: u64,
}

/// A line to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailureLine {
    /// A destination begins to fail.
    Begins,
    /// It goes on: so many attempts failed since its last line, and since it began so long ago.
    GoesOn {
        failed: u64,
        in_all: u64,
        lasted: Duration,
    },
    /// It is over: so many attempts had failed since it began so long ago.
    IsOver { failed: u64, lasted: Duration },
}

impl AttemptLog {
    /// Writes the lines that follow from an attempt that has ended.
    pub(super) fn write(
        &self,
        notification: &Notification,
        attempt: &Attempt,
        decision: &Decision,
    ) {
        write_attempt(notification, attempt, decision);
        let outcome = attempt.answer.outcome;
        if let Some(line) = self.note(&notification.lane, outcome, Instant::now()) {
            line.write(&notification.lane, attempt);
        }
    }

    /// Notes an attempt that has ended. Returns the line that the log should have of its destination.
    fn note(&self, lane: &Lane, outcome: Outcome, now: Instant) -> Option<FailureLine> {
        let mut failing = self.lock();
        match outcome {
            Outcome::Acknowledged => {
                // The usual case: nothing fails.
                if failing.lanes.is_empty() {
                    return None;
                }
                let last = failing.lanes.get(lane)?.last;
                if now.saturating_duration_since(last) < QUIET {
                    return None;
                }
                let before = failing.lanes.remove(lane)?;
                Some(FailureLine::IsOver {
                    failed: before.failed,
                    lasted: now.saturating_duration_since(before.since),
                })
            }
            // It says nothing of the destination.
            Outcome::Interrupted => None,
            Outcome::WrongAnswer
            | Outcome::HttpStatus
            | Outcome::Timeout
            | Outcome::Connect
            | Outcome::Tls
            | Outcome::Dns
            | Outcome::Blocked
            | Outcome::Protocol => failing.failed(lane, now),
        }
    }

    fn lock(&self) -> MutexGuard<'_, FailingLanes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FailingLanes {
    fn failed(&mut self, lane: &Lane, now: Instant) -> Option<FailureLine> {
        let is_old = |known: &FailingLane| now.saturating_duration_since(known.last) >= FORGOTTEN;
        if let Some(known) = self.lanes.get_mut(lane)
            && !is_old(known)
        {
            return known.failed(now);
        }
        if self.lanes.len() >= MOST_LANES
            && (self.swept).is_none_or(|swept| now.duration_since(swept) >= SWEEP_INTERVAL)
        {
            self.swept = Some(now);
            self.lanes.retain(|_, known| !is_old(known));
            if self.lanes.len() >= MOST_LANES {
                tracing::warn!(
                    destinations = MOST_LANES,
                    "too many destinations fail; further ones have no lines in the log until some of these recover or have \
                     had no failed attempt for two hours"
                );
            }
        }
        if self.lanes.len() >= MOST_LANES && !self.lanes.contains_key(lane) {
            return None;
        }
        let begins = FailingLane {
            since: now,
            last: now,
            logged: now,
            summaries: 0,
            failed: 1,
            failed_since_line: 0,
        };
        self.lanes.insert(lane.clone(), begins);
        Some(FailureLine::Begins)
    }
}

impl FailingLane {
    fn failed(&mut self, now: Instant) -> Option<FailureLine> {
        self.last = now;
        self.failed += 1;
        self.failed_since_line += 1;
        let interval = SUMMARIES[self.summaries.min(SUMMARIES.len() - 1)];
        if now.saturating_duration_since(self.logged) < interval {
            return None;
        }
        self.logged = now;
        self.summaries += 1;
        Some(FailureLine::GoesOn {
            failed: std::mem::take(&mut self.failed_since_line),
            in_all: self.failed,
            lasted: now.saturating_duration_since(self.since),
        })
    }
}

impl FailureLine {
    /// Writes the line. `attempt` is the one that it follows from.
    fn write(self, lane: &Lane, attempt: &Attempt) {
        let answer = &attempt.answer;
        let (outcome, status, reason) = (answer.outcome, answer.status, &answer.reason);
        match self {
            Self::Begins => tracing::info!(
                %lane, %outcome, status, reason,
                "a delivery attempt did not succeed; further failed attempts for this destination are in the log as \
                 summaries only, until one succeeds and none has failed for a minute"
            ),
            Self::GoesOn {
                failed,
                in_all,
                lasted,
            } => tracing::info!(
                %lane, %outcome, status, reason, failed, in_all, lasted_ms = millis(lasted),
                "delivery attempts for a destination go on failing; outcome and reason are those of the last one"
            ),
            Self::IsOver { failed, lasted } => tracing::info!(
                %lane, failed, lasted_ms = millis(lasted),
                "a delivery attempt for a destination succeeded, after others that failed"
            ),
        }
    }
}

fn write_attempt(notification: &Notification, attempt: &Attempt, decision: &Decision) {
    let Attempt {
        number,
        duration_ms,
        answer,
        ..
    } = attempt;
    let Notification { key, lane, .. } = notification;
    let outcome = answer.outcome;
    let (status, reason) = (answer.status, &answer.reason);
    let trace_id = notification
        .headers
        .trace()
        .map(|trace| display(trace.trace_id()));
    match decision.state {
        State::Delivered => tracing::debug!(
            notification = %key, %lane, attempt = number, duration_ms, status, trace_id,
            "a delivery attempt succeeded; the notification is to be recorded as delivered"
        ),
        State::Scheduled | State::Cancelled => tracing::debug!(
            notification = %key, %lane, attempt = number, duration_ms, %outcome, status, reason, trace_id,
            next_attempt_at = %display_ms(decision.progress.next_due_ms()),
            "a delivery attempt did not succeed; another attempt is to follow"
        ),
        State::Dead => tracing::info!(
            notification = %key, %lane, attempt = number, duration_ms, %outcome, status, reason, trace_id,
            cause = decision.cause.map(|cause| cause.as_str()),
            "a delivery attempt failed, and no other is to follow; the notification is to be recorded as a dead \
             letter, which is sent again only if it is replayed"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(name: &str) -> Lane {
        Lane::from_name(name)
    }

    #[test]
    fn a_destination_that_fails_has_a_line_at_first_then_summaries_and_one_at_the_end() {
        let (log, begun, shop) = (AttemptLog::default(), Instant::now(), lane("https://shop"));
        let check = |seconds: u64, outcome, expected| {
            let now = begun + Duration::from_secs(seconds);
            let line = log.note(&shop, outcome, now);
            assert_eq!(line, expected, "after {seconds} s");
        };
        let goes_on = |failed, in_all, lasted| {
            let lasted = Duration::from_secs(lasted);
            Some(FailureLine::GoesOn {
                failed,
                in_all,
                lasted,
            })
        };
        check(0, Outcome::Acknowledged, None);
        check(0, Outcome::Interrupted, None);
        check(0, Outcome::Connect, Some(FailureLine::Begins));
        check(1, Outcome::Connect, None);
        check(59, Outcome::HttpStatus, None);
        check(60, Outcome::Timeout, goes_on(3, 4, 60));
        check(600, Outcome::Timeout, None);
        check(660, Outcome::Timeout, goes_on(2, 6, 660));
        check(4_200, Outcome::WrongAnswer, None);
        check(4_260, Outcome::WrongAnswer, goes_on(2, 8, 4_260));
        check(7_860, Outcome::WrongAnswer, goes_on(1, 9, 7_860));
        check(7_861, Outcome::Interrupted, None);
        // It accepts some calls only.
        check(7_870, Outcome::Acknowledged, None);
        check(7_871, Outcome::WrongAnswer, None);
        check(7_930, Outcome::Acknowledged, None);
        let is_over = FailureLine::IsOver {
            failed: 10,
            lasted: Duration::from_secs(7_931),
        };
        check(7_931, Outcome::Acknowledged, Some(is_over));
        check(7_932, Outcome::Acknowledged, None);
        check(7_933, Outcome::Dns, Some(FailureLine::Begins));
        // It was forgotten meanwhile.
        check(15_133, Outcome::Dns, Some(FailureLine::Begins));
    }

    #[test]
    fn the_memory_is_bounded() {
        let (log, begun) = (AttemptLog::default(), Instant::now());
        let fail = |number: usize, now| log.note(&lane(&number.to_string()), Outcome::Tls, now);
        for number in 0..MOST_LANES {
            assert_eq!(fail(number, begun), Some(FailureLine::Begins));
        }
        assert_eq!(fail(MOST_LANES, begun), None);
        assert_eq!(log.lock().lanes.len(), MOST_LANES);
        let later = begun + FORGOTTEN;
        assert_eq!(fail(MOST_LANES, later), Some(FailureLine::Begins));
        assert_eq!(log.lock().lanes.len(), 1);
    }
}
