//! Settling accounts when all is quiet: what callers were answered, what the receiver got, and what
//! the journal says have to fit together.
//!
//! A call counts as *in flight when its sender was killed* if it reached the receiver and the journal
//! has no outcome of it from that sender. Only such a call may be made again; every other second call
//! of the same attempt is a fault. Where replicas of Redis take over from each other under two servers, nobody can tell
//! which leases were lost. There a second call is excused that another server made soon after the first, if the first came
//! about when a replica took over.

use super::callers::{Answered, Callers};
use super::counts::Counts;
use super::plan::{ATTEMPTS_A_SERIES, Change, LATER, Plan};
use super::receiver::{Arrival, Book, Receiver, Try};
use super::stage::{CONCURRENCY, LEASE, Recorded, Stage};
use super::stands::{Stand, quiet};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Faults that are shown; there may be thousands.
const MOST_SHOWN: usize = 20;

/// How long after a call whose lease was lost another server may make it again. It asks the journal first, which has the outcome
/// a moment after the call has ended, so after one second; and then it has the time of a lease at most until its own call
/// begins. The second time of a lease is for a journal that is slow.
const MADE_AGAIN: Duration = Duration::from_secs(2 * LEASE.as_secs());

/// The numbers, and what does not fit.
pub struct Account {
    /// The numbers.
    pub counts: Counts,
    /// What does not fit; empty if all is well.
    pub faults: Vec<String>,
    /// The first log lines of the level ERROR.
    pub complaints: Vec<String>,
    /// What `ringback audit` printed in the end.
    pub audited: String,
}

impl Account {
    /// Waits until all is quiet, stops the servers and settles accounts.
    pub async fn settle(stage: &mut Stage, callers: &Callers, receiver: &Receiver) -> Self {
        let (stands, is_quiet) = quiet(&stage.api()).await;
        let pending = (stands.iter()).filter(|(_, stand)| stand.state == "scheduled");
        let pending = pending.map(|(number, stand)| format!("{}/n{number}", stand.topic));
        if is_quiet {
            stage.drained(&pending.collect()).await;
        }
        let (audited, is_sound) = stage.audited().await;
        stage.stop().await;

        let mut account = Self {
            counts: Counts::default(),
            faults: Vec::new(),
            complaints: Vec::new(),
            audited,
        };
        account.compare_answers(&stands, callers, &receiver.book());
        account.compare_audit(is_sound);
        let recorded = stage.recorded().await;
        account.compare_calls(stage, &receiver.book(), &recorded);
        let complaints = stage.complaints();
        account.counts.errors = complaints.errors;
        if complaints.panics > 0 {
            account.faults.push("a server panicked".to_string());
        }
        account.complaints.clone_from(&complaints.lines);
        account.faults.extend_from_slice(&receiver.book().faults);
        account.faults.extend_from_slice(&callers.answers().faults);
        account
    }

    /// Every accepted notification stands as its plan says it must.
    fn compare_answers(&mut self, stands: &HashMap<u32, Stand>, callers: &Callers, book: &Book) {
        let answers = callers.answers();
        let counts = &mut self.counts;
        (counts.requests, counts.unavailable) = (answers.requests, answers.unavailable);
        counts.unanswered = answers.unanswered;
        counts.changes.clone_from(&answers.changes);
        counts.asked = answers.by_number.len();
        counts.registered = stands.len();
        for stand in stands.values() {
            *match stand.state.as_str() {
                "delivered" => &mut counts.delivered,
                "dead" => &mut counts.dead,
                "cancelled" => &mut counts.cancelled,
                _ => &mut counts.pending,
            } += 1;
        }
        let mut calls: HashMap<u32, Calls> = HashMap::new();
        for (this, arrivals) in &book.calls {
            let calls = calls.entry(this.number).or_default();
            calls.acknowledged |= arrivals.iter().any(|arrival| arrival.acknowledged);
            let last = arrivals.iter().map(|arrival| arrival.at).max();
            calls.last = calls.last.max(last);
        }
        for (number, answered) in &answers.by_number {
            counts.accepted += usize::from(answered.accepted);
            let seen = Seen {
                number: *number,
                answered,
                calls: calls.remove(number).unwrap_or_default(),
                webhook_id: book.webhook_ids.get(number),
            };
            let plan = Plan::of(callers.seed(), *number);
            match stands.get(number) {
                Some(stand) => seen.compare(&plan, stand, &mut self.faults),
                None => seen.compare_missing(&mut self.faults),
            }
        }
        for number in stands
            .keys()
            .filter(|number| !answers.by_number.contains_key(number))
        {
            self.faults.push(format!("nobody asked for {number}"));
        }
    }

    /// The audit comes to the same sum and finds no difference.
    fn compare_audit(&mut self, is_sound: bool) {
        let sum = self.counts.sum();
        if !is_sound || !self.audited.contains(&sum) {
            let fault = format!("the audit says otherwise than {sum}{}", self.audited);
            self.faults.push(fault);
        }
    }

    /// Every call is in the journal, unless its sender was killed; and only such a call was made
    /// again.
    fn compare_calls(&mut self, stage: &Stage, book: &Book, recorded: &[Recorded]) {
        let mut outcomes: HashMap<(Try, &str), usize> = HashMap::new();
        for recorded in recorded {
            *outcomes
                .entry((recorded.this, &recorded.instance))
                .or_default() += 1;
        }
        let counts = &mut self.counts;
        let mut lost_bare = stage.lost_bare_leases().clone();
        let mut in_flight = vec![0; stage.senders().len()];
        for (this, arrivals) in &book.calls {
            let (mut unrecorded, mut excused) = (0, 0);
            for (place, arrival) in arrivals.iter().enumerate() {
                let sender = &stage.senders()[arrival.sender];
                let outcomes = outcomes.get_mut(&(*this, sender.instance.as_str()));
                match outcomes.filter(|outcomes| **outcomes > 0) {
                    Some(outcomes) => *outcomes -= 1,
                    None if sender.killed => {
                        unrecorded += 1;
                        excused += usize::from(was_made_again(arrivals, place));
                        in_flight[arrival.sender] += 1;
                    }
                    None => self.faults.push(format!(
                        "{this:?} was made by {}, which lived on, but is not in the journal",
                        sender.instance
                    )),
                }
            }
            let extra = arrivals.len() - 1;
            let mut lost = stage.lost_leases().get(this).copied().unwrap_or(0);
            if let Some(left) = lost_bare.get_mut(&this.number) {
                let taken = extra.saturating_sub(excused + lost).min(*left);
                *left -= taken;
                lost += taken;
            }
            let unseen = made_after_take_overs(stage, arrivals);
            if extra > excused + lost + unseen {
                let of_this = |recorded: &&Recorded| recorded.this.number == this.number;
                let history = recorded.iter().filter(of_this).map(Recorded::to_string);
                self.faults.push(format!(
                    "{this:?} was made {} times, but {excused} of the calls before others were in \
                     flight when their sender was killed, Redis lost {lost} leases of it, and \
                     {unseen} of the calls may be due to a lease that was lost when a replica took over: \
                     {arrivals:?}; the journal has {:?}",
                    arrivals.len(),
                    history.collect::<Vec<_>>(),
                ));
            }
            counts.after_lost_leases += extra.saturating_sub(excused);
            counts.attempts += 1;
            counts.calls += arrivals.len();
            counts.duplicates += extra;
            counts.in_flight += unrecorded;
        }
        counts.lost_leases = stage.lost_leases().values().sum();
        counts.lost_leases += stage.lost_bare_leases().values().sum::<usize>();
        counts.most_in_flight = in_flight.iter().copied().max().unwrap_or(0);
        if counts.most_in_flight > CONCURRENCY {
            let most = counts.most_in_flight;
            self.faults
                .push(format!("{most} calls were in flight at one kill"));
        }
    }

    /// Fails with the first faults, if there are any.
    pub fn check(&self) {
        let shown: Vec<&str> = self
            .faults
            .iter()
            .take(MOST_SHOWN)
            .map(String::as_str)
            .collect();
        assert!(
            self.faults.is_empty(),
            "{} faults:\n{}",
            self.faults.len(),
            shown.join("\n")
        );
    }
}

/// Whether a call, which was in flight when its sender was killed, was made again: another one came after it, or was made by a process
/// that was started later, since what the dead one sent may be read late.
fn was_made_again(arrivals: &[Arrival], place: usize) -> bool {
    let sender = arrivals[place].sender;
    let mut calls = arrivals.iter().enumerate();
    calls.any(|(other, call)| other > place || call.sender > sender)
}

/// How many calls another server made soon after one whose lease Redis may have lost when a replica took over.
fn made_after_take_overs(stage: &Stage, arrivals: &[Arrival]) -> usize {
    let is_one = |place: &usize| {
        let again = &arrivals[*place];
        arrivals[..*place].iter().any(|call| {
            call.sender != again.sender
                && again.at.saturating_duration_since(call.at) <= MADE_AGAIN
                && stage.may_have_lost_lease(call.at)
        })
    };
    (1..arrivals.len()).filter(is_one).count()
}

/// The state that a plan and what was answered lead to.
fn expected_state(plan: &Plan, answered: &Answered) -> &'static str {
    let is_changed = answered.changed.is_some();
    match (plan.change, plan.success_from) {
        _ if is_changed && is_ended_by_hand(plan) => "cancelled",
        _ if plan.topic == LATER => "scheduled",
        (Some((Change::Replay, _)), Some(_)) => "delivered",
        _ if plan.is_parked => "dead",
        _ => "delivered",
    }
}

fn is_ended_by_hand(plan: &Plan) -> bool {
    plan.change.is_some_and(|(change, _)| change.is_end())
}

/// How many attempts one may have had that is parked in the end: all of each series. A replay that was not
/// answered may have been made or not.
fn attempts_of_dead(plan: &Plan, answered: &Answered) -> Vec<u64> {
    let replays = match plan.change {
        Some((Change::Replay, _)) => {
            let answered_ones = u32::from(answered.changed.is_some());
            answered_ones..=answered_ones + answered.doubtful
        }
        _ => 0..=0,
    };
    replays
        .map(|replays| (1 + u64::from(replays)) * ATTEMPTS_A_SERIES)
        .collect()
}

/// What the receiver saw of one notification.
#[derive(Debug, Clone, Default)]
struct Calls {
    acknowledged: bool,
    last: Option<Instant>,
}

/// What the world outside saw of one notification.
struct Seen<'run> {
    number: u32,
    answered: &'run Answered,
    calls: Calls,
    webhook_id: Option<&'run String>,
}

impl Seen<'_> {
    /// With how it stands in the journal.
    fn compare(&self, plan: &Plan, stand: &Stand, faults: &mut Vec<String>) {
        let Self {
            number,
            answered,
            calls,
            webhook_id,
        } = self;
        let expected = expected_state(plan, answered);
        let was_attempted = stand.state == "scheduled" && stand.had_its_attempt_by_hand();
        if stand.state != expected && !was_attempted {
            faults.push(format!("{number} is not {expected}: {stand:?}"));
        }
        // A call that was in flight at a kill may have been acknowledged, and what was acknowledged
        // without anybody knowing can be cancelled.
        let fits = match stand.state.as_str() {
            "delivered" => calls.acknowledged,
            "cancelled" => true,
            // The answer may have come after the time limit.
            "scheduled" if was_attempted => true,
            _ => !calls.acknowledged,
        };
        if !fits {
            let not = if calls.acknowledged { "" } else { "not " };
            faults.push(format!("{number} was {not}acknowledged: {stand:?}"));
        }
        if stand.state == "dead" && !attempts_of_dead(plan, answered).contains(&stand.attempts_made)
        {
            faults.push(format!("{number} had other series: {stand:?} {answered:?}"));
        }
        let ended = answered.changed.filter(|_| is_ended_by_hand(plan));
        if let (Some(ended), Some(last)) = (ended, calls.last)
            && last > ended
        {
            let late = last - ended;
            let fault =
                format!("{number} was called {late:?} after its end was answered: {plan:?}");
            faults.push(fault);
        }
        if webhook_id.is_some_and(|webhook_id| *webhook_id != stand.webhook_id) {
            faults.push(format!("{number} was called as {webhook_id:?}: {stand:?}"));
        }
    }

    /// With the journal, which does not have it.
    fn compare_missing(&self, faults: &mut Vec<String>) {
        let number = self.number;
        if self.answered.accepted {
            faults.push(format!("{number} was accepted and is lost"));
        }
        if self.calls.last.is_some() {
            faults.push(format!("{number} was called, but is not in the journal"));
        }
    }
}
