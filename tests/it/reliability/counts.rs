//! The numbers of a run, as `docs/reliability.md` explains them.

use super::plan::Change;
use std::collections::BTreeMap;
use std::fmt;

/// The numbers of a run.
#[derive(Debug, Default)]
pub struct Counts {
    /// Notifications that callers asked for.
    pub asked: usize,
    /// Of those, how many were answered with a 2xx.
    pub accepted: usize,
    /// In the journal in the end.
    pub registered: usize,
    /// Acknowledged in the end.
    pub delivered: usize,
    /// Parked.
    pub dead: usize,
    /// Called off.
    pub cancelled: usize,
    /// Due much later.
    pub pending: usize,
    /// Calls at the receiver.
    pub calls: usize,
    /// Attempts that the receiver saw: by notification and number.
    pub attempts: usize,
    /// Calls beyond the first of their attempt.
    pub duplicates: usize,
    /// Calls that were in flight when their sender was killed.
    pub in_flight: usize,
    /// The most of them at one kill.
    pub most_in_flight: usize,
    /// Leases of attempts that Redis lost, where another server might be given the attempt.
    pub lost_leases: usize,
    /// Duplicates that only these excuse.
    pub after_lost_leases: usize,
    /// Changes by hand that were answered with a 2xx.
    pub changes: BTreeMap<Change, usize>,
    /// Requests of callers.
    pub requests: u64,
    /// Those answered 503.
    pub unavailable: u64,
    /// Those not answered.
    pub unanswered: u64,
    /// Log lines of the level ERROR, beside those that a store is away.
    pub errors: u64,
}

impl Counts {
    /// What the audit has to say of them.
    pub fn sum(&self) -> String {
        let Self {
            registered,
            delivered,
            dead,
            cancelled,
            pending,
            ..
        } = self;
        format!(
            "registered {registered} = delivered {delivered} + dead {dead} + cancelled {cancelled} \
             + pending {pending}\n"
        )
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = |many: usize| many as u64;
        let numbers = [
            ("notifications asked for", many(self.asked)),
            ("  accepted (2xx)", many(self.accepted)),
            ("  in the journal", many(self.registered)),
            ("    delivered", many(self.delivered)),
            ("    dead", many(self.dead)),
            ("    cancelled", many(self.cancelled)),
            ("    pending", many(self.pending)),
            ("requests of callers", self.requests),
            ("  answered 503", self.unavailable),
            ("  not answered", self.unanswered),
            ("calls at the receiver", many(self.calls)),
            ("  attempts", many(self.attempts)),
            ("  duplicates", many(self.duplicates)),
            ("  in flight at a kill", many(self.in_flight)),
            ("    at most, at one kill", many(self.most_in_flight)),
            ("  leases that Redis lost", many(self.lost_leases)),
            (
                "    made again for these alone",
                many(self.after_lost_leases),
            ),
            ("errors in the servers' logs", self.errors),
        ];
        for (name, number) in numbers {
            writeln!(out, "{name:<36}{number}")?;
        }
        for (change, number) in &self.changes {
            writeln!(out, "{:<36}{number}", change.name())?;
        }
        Ok(())
    }
}
