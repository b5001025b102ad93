//! Settling accounts when all is quiet: what callers were answered, what the receiver got, and what
//! the journal says have to fit together.
//!
//! A call counts as *under way when its sender was killed* if it reached the receiver and the journal
//! has no outcome of it from that sender. Only such a call may be made again; every other second call
//! of the same attempt is a fault.

use super::callers::Callers;
use super::plan::{ATTEMPTS_OF_THE_DEAD, LATER, Plan, TOPIC};
use super::receiver::{Book, Receiver, Try};
use super::stage::Stage;
use crate::support::ringback::Api;
use reqwest::Method;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// Faults that are shown; there may be thousands.
const MOST_SHOWN: usize = 20;
/// How long it may take until all has ended, once nothing is killed any more.
const QUIET: Duration = Duration::from_secs(180);

/// How one notification stands in the end.
#[derive(Debug, Clone)]
struct Stand {
    topic: String,
    state: String,
    webhook_id: String,
    attempts_made: u64,
}

impl Stand {
    fn is_final(&self) -> bool {
        let is_over = self.state != "scheduled" && self.state != "in_flight";
        is_over || self.topic == LATER && self.state == "scheduled"
    }
}

/// The numbers of a run.
#[derive(Debug, Default)]
pub struct Counts {
    /// Notifications that callers asked for.
    pub asked: usize,
    /// Of those, how many were answered with a 2xx.
    pub accepted: usize,
    /// In the journal in the end.
    pub registered: usize,
    /// By state in the end.
    pub delivered: usize,
    pub dead: usize,
    pub cancelled: usize,
    pub pending: usize,
    /// Calls at the receiver.
    pub calls: usize,
    /// Attempts that the receiver saw: by notification and number.
    pub attempts: usize,
    /// Calls beyond the first of their attempt.
    pub duplicates: usize,
    /// Calls that were under way when their sender was killed.
    pub under_way: usize,
    /// Calls that were under way when Redis was flushed, where another server might be given them.
    pub under_way_at_flushes: usize,
    /// Requests of callers, those answered 503, those not answered.
    pub requests: u64,
    pub unavailable: u64,
    pub unanswered: u64,
    /// Log lines of the level ERROR, beside those that a store is away.
    pub errors: u64,
}

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
        let audited = if is_quiet {
            stage.drained(&pending.collect()).await;
            stage.audited().await
        } else {
            "not audited: not everything has ended".to_string()
        };
        stage.stop().await;

        let mut account = Self {
            counts: Counts::default(),
            faults: Vec::new(),
            complaints: Vec::new(),
            audited,
        };
        account.compare_answers(&stands, callers, &receiver.book());
        account.compare_audit();
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
            let plan = Plan::of(callers.seed(), *number);
            counts.accepted += usize::from(answered.accepted);
            let calls = calls.remove(number).unwrap_or_default();
            let Some(stand) = stands.get(number) else {
                if answered.accepted {
                    self.faults
                        .push(format!("{number} was accepted and is lost"));
                }
                if calls.last.is_some() {
                    let fault = format!("{number} was called, but is not in the journal");
                    self.faults.push(fault);
                }
                continue;
            };
            let expected = match (answered.cancelled, plan.topic, plan.success_from) {
                (Some(_), ..) => "cancelled",
                (None, LATER, _) => "scheduled",
                (None, _, Some(_)) => "delivered",
                (None, _, None) => "dead",
            };
            if stand.state != expected {
                let fault = format!("{number} is {}, not {expected}: {stand:?}", stand.state);
                self.faults.push(fault);
            }
            // A call that was under way at a kill may have been acknowledged, and what was
            // acknowledged without anybody knowing can be cancelled.
            let fits = match stand.state.as_str() {
                "delivered" => calls.acknowledged,
                "cancelled" => true,
                _ => !calls.acknowledged,
            };
            if !fits {
                self.faults.push(format!(
                    "{number} is {}, and the receiver did {}acknowledge it",
                    stand.state,
                    if calls.acknowledged { "" } else { "not " },
                ));
            }
            if stand.state == "dead" && stand.attempts_made != ATTEMPTS_OF_THE_DEAD {
                self.faults
                    .push(format!("{number} had another ladder: {stand:?}"));
            }
            if answered.cancelled.is_some() && calls.last > answered.cancelled {
                let late = calls.last.zip(answered.cancelled);
                let late = late.map(|(call, cancelled)| call - cancelled);
                self.faults.push(format!(
                    "{number} was called {late:?} after its cancellation was answered"
                ));
            }
            let webhook_id = book.webhook_ids.get(number);
            if webhook_id.is_some_and(|webhook_id| *webhook_id != stand.webhook_id) {
                self.faults
                    .push(format!("{number} was called as {webhook_id:?}: {stand:?}"));
            }
        }
        for number in stands
            .keys()
            .filter(|number| !answers.by_number.contains_key(number))
        {
            self.faults.push(format!("nobody asked for {number}"));
        }
    }

    /// The audit comes to the same sum.
    fn compare_audit(&mut self) {
        let Counts {
            registered,
            delivered,
            dead,
            cancelled,
            pending,
            ..
        } = &self.counts;
        let sum = format!(
            "registered {registered} = delivered {delivered} + dead {dead} + cancelled {cancelled} \
             + pending {pending}\n"
        );
        if !self.audited.contains(&sum) {
            let fault = format!("the audit says otherwise than {sum}{}", self.audited);
            self.faults.push(fault);
        }
    }

    /// Every call is in the journal, unless its sender was killed; and only such a call was made
    /// again.
    fn compare_calls(&mut self, stage: &Stage, book: &Book, recorded: &[super::stage::Recorded]) {
        let mut outcomes: HashMap<(Try, &str), usize> = HashMap::new();
        for recorded in recorded {
            *outcomes
                .entry((recorded.this, &recorded.instance))
                .or_default() += 1;
        }
        let counts = &mut self.counts;
        for (this, arrivals) in &book.calls {
            let mut unrecorded = 0;
            for arrival in arrivals {
                let sender = &stage.senders()[arrival.sender];
                let outcomes = outcomes.get_mut(&(*this, sender.instance.as_str()));
                match outcomes.filter(|outcomes| **outcomes > 0) {
                    Some(outcomes) => *outcomes -= 1,
                    None if sender.killed => unrecorded += 1,
                    None => self.faults.push(format!(
                        "{this:?} was made by {}, which lived on, but is not in the journal",
                        sender.instance
                    )),
                }
            }
            let extra = arrivals.len() - 1;
            let flushed = stage.flushed().get(&this.number).copied().unwrap_or(0);
            if extra > unrecorded + flushed {
                self.faults.push(format!(
                    "{this:?} was made {} times, but {unrecorded} of these calls were under way \
                     when their sender was killed, and {flushed} when Redis was flushed: \
                     {arrivals:?}",
                    arrivals.len(),
                ));
            }
            counts.attempts += 1;
            counts.calls += arrivals.len();
            counts.duplicates += extra;
            counts.under_way += unrecorded;
        }
        counts.under_way_at_flushes = stage.flushed().values().sum();
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

/// What the receiver saw of one notification.
#[derive(Debug, Clone, Default)]
struct Calls {
    acknowledged: bool,
    last: Option<std::time::Instant>,
}

impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "notifications asked for             {}", self.asked)?;
        writeln!(out, "  accepted (2xx)                    {}", self.accepted)?;
        writeln!(
            out,
            "  in the journal                    {}",
            self.registered
        )?;
        writeln!(
            out,
            "    delivered                       {}",
            self.delivered
        )?;
        writeln!(out, "    dead                            {}", self.dead)?;
        writeln!(
            out,
            "    cancelled                       {}",
            self.cancelled
        )?;
        writeln!(out, "    pending                         {}", self.pending)?;
        writeln!(out, "requests of callers                 {}", self.requests)?;
        writeln!(
            out,
            "  answered 503                      {}",
            self.unavailable
        )?;
        writeln!(
            out,
            "  not answered                      {}",
            self.unanswered
        )?;
        writeln!(out, "calls at the receiver               {}", self.calls)?;
        writeln!(out, "  attempts                          {}", self.attempts)?;
        writeln!(
            out,
            "  duplicates                        {}",
            self.duplicates
        )?;
        writeln!(
            out,
            "  under way at a kill               {}",
            self.under_way
        )?;
        writeln!(
            out,
            "  under way at a flush              {}",
            self.under_way_at_flushes
        )?;
        write!(out, "errors in the servers' logs         {}", self.errors)
    }
}

/// Waits until every notification but those due much later has ended: also what nobody asked for
/// again after a 503. Gives how all stand, by number, and whether they have ended in time.
async fn quiet(api: &Api) -> (HashMap<u32, Stand>, bool) {
    let waiting = async {
        loop {
            // All of them are asked for only when it looks as if they had ended.
            let mut left = 0;
            for state in ["scheduled", "in_flight"] {
                let path = format!("/v1/notifications?topic={TOPIC}&state={state}&limit=1000");
                let (status, page) = api.call(Method::GET, &path, None).await;
                assert_eq!(status, 200, "{page}");
                left += page["items"].as_array().expect("items").len();
            }
            if left == 0 {
                let stands = all(api).await;
                if stands.values().all(Stand::is_final) {
                    return stands;
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    match tokio::time::timeout(QUIET, waiting).await {
        Ok(stands) => (stands, true),
        // The account names what is missing.
        Err(_) => (all(api).await, false),
    }
}

async fn all(api: &Api) -> HashMap<u32, Stand> {
    let mut stands = HashMap::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/notifications?limit=1000&cursor={cursor}");
        let (status, page) = api.call(Method::GET, &path, None).await;
        assert_eq!(status, 200, "{page}");
        let text = |item: &Value, name: &str| item[name].as_str().expect("a text").to_string();
        for item in page["items"].as_array().expect("items") {
            let number = Plan::number_of(&text(item, "id")).expect("one of ours");
            let stand = Stand {
                topic: text(item, "topic"),
                state: text(item, "state"),
                webhook_id: text(item, "webhook_id"),
                attempts_made: item["attempts_made"].as_u64().expect("a number"),
            };
            stands.insert(number, stand);
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_string(),
            None => return stands,
        }
    }
}
