//! The numbers of a run, as `docs/reliability.md` explains them.

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
    /// Calls that were under way when their sender was killed.
    pub under_way: usize,
    /// The most of them at one kill.
    pub most_under_way: usize,
    /// Leases that were out when Redis was flushed, where another server might be given the attempt.
    pub leased_at_flushes: usize,
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
        for (name, number) in [
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
            ("  under way at a kill", many(self.under_way)),
            ("    at most, at one kill", many(self.most_under_way)),
            ("  leased at a flush", many(self.leased_at_flushes)),
            ("errors in the servers' logs", self.errors),
        ] {
            writeln!(out, "{name:<36}{number}")?;
        }
        Ok(())
    }
}
