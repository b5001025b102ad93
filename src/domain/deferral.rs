//! Why an attempt began later than it was due, if its lane or the limits of the servers were the reason.
//!
//! A destination that is held, probed or limited spends no attempt. What waits for it is late, and the record of the
//! attempt says for how long and why. The claim gives what is known of the lane at that moment ([`LaneMoment`]);
//! whether an entry was late is computed here, so entries that are on time cost nothing.

use crate::domain::state::named;

/// An attempt that is late by less than this was not deferred, in milliseconds.
pub const NOTICED_MS: i64 = 100;
/// By how much the deferrals of one series may move its deadline in sum: 30 days, in milliseconds.
pub const MOST_MOVED_MS: i64 = 30 * 24 * 60 * 60 * 1_000;

/// Why an attempt had to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeferralReason {
    /// A person held the lane.
    Held,
    /// The destination answered no call, so it was called once in a while.
    Probing,
    /// The rate of the lane allowed no more calls.
    Rate,
    /// The lane had as many calls in flight as it may.
    Concurrency,
    /// The servers made as many calls as they may, or a server had no capacity left for this one.
    Busy,
    /// A server could not open a signing key of the endpoint.
    Keys,
    /// Another notification of its order was in flight, or had to end first.
    Order,
    /// The proxy of a server failed.
    Proxy,
}

named!(DeferralReason {
    Held = "held",
    Probing = "probing",
    Rate = "rate",
    Concurrency = "concurrency",
    Busy = "busy",
    Keys = "keys",
    Order = "order",
    Proxy = "proxy",
});

/// What a server lacked when it put an entry off, as far as the entry says that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lacked {
    /// Its proxy, which failed.
    Proxy,
    /// Capacity: other attempts had all the threads for look-ups of names, or all the memory for bodies.
    Capacity,
}

/// For how long an attempt was deferred, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deferral {
    /// The reason for the largest part of that time.
    pub by: DeferralReason,
    /// How long it waited for any of the reasons, in milliseconds.
    pub ms: i64,
}

/// A time in which a lane gave nothing, or a probe once in a while. In milliseconds since 1970; both are 0 if there
/// was none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    /// When it began.
    pub from_ms: i64,
    /// When it ended.
    pub until_ms: i64,
}

/// The last pauses of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LanePauses {
    /// When it was held.
    pub held: Pause,
    /// When it was probed, from the first call without an answer on.
    pub probed: Pause,
}

/// What is known of a lane at the moment of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneMoment {
    /// Its pauses. That of a lane that is probed ends now.
    pub pauses: LanePauses,
    /// Until when its rate allowed no call, in milliseconds since 1970; 0 if it has no rate.
    pub rate_until_ms: i64,
    /// Whether it has as many leases as it may, those of the claim included.
    pub is_full: bool,
    /// Since when it could be served, in milliseconds since 1970: what was due earlier had to wait until then. 0 if nothing
    /// of the claim is late, if that is not known, or if nothing was due earlier and the lane is not full.
    pub ready_ms: i64,
}

/// An entry that was claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimedEntry {
    /// When it was due, in milliseconds since 1970.
    pub due_ms: i64,
    /// When it was claimed, in milliseconds since 1970.
    pub claimed_ms: i64,
    /// Whether it was put off: it waited for another one of its order, or a server could not open a key for it, or lacked
    /// something else.
    pub was_put_off: bool,
    /// What that server lacked, if it was something else than a key.
    pub lacked: Option<Lacked>,
    /// Whether it has a place in an order.
    pub is_ordered: bool,
    /// Whether its last lease expired: an attempt may have taken a part of the time.
    pub was_interrupted: bool,
}

/// What a server knows of its own claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerMoment {
    /// Since when it has claimed without a break, in milliseconds since 1970. What was late before that may be our
    /// own outage.
    pub claiming_since_ms: i64,
    /// Whether its permits for this class of lanes were used up before this claim.
    pub was_busy: bool,
}

impl Pause {
    /// The time from one instant to another that is part of this pause, in milliseconds.
    fn within(self, from_ms: i64, until_ms: i64) -> i64 {
        (self.until_ms.min(until_ms) - self.from_ms.max(from_ms)).max(0)
    }

    /// The part that both have in common.
    fn and(self, other: Self) -> Self {
        Self {
            from_ms: self.from_ms.max(other.from_ms),
            until_ms: self.until_ms.min(other.until_ms),
        }
    }

    /// This pause and the next one. They count as one if the time between them is shorter than this pause was,
    /// because an entry may have waited through both.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        let between_ms = next.from_ms - self.until_ms;
        let is_one = self.until_ms > 0 && between_ms < self.until_ms - self.from_ms;
        Self {
            from_ms: if is_one {
                self.from_ms.min(next.from_ms)
            } else {
                next.from_ms
            },
            until_ms: next.until_ms,
        }
    }
}

impl Deferral {
    /// For how long, and why, a claimed entry was deferred; `None` if it was on time, or late for another reason.
    #[must_use]
    pub fn of(entry: ClaimedEntry, lane: &LaneMoment, server: ServerMoment) -> Option<Self> {
        let ClaimedEntry {
            due_ms, claimed_ms, ..
        } = entry;
        if claimed_ms - due_ms < NOTICED_MS {
            return None;
        }
        let LanePauses { held, probed } = lane.pauses;
        let both = held.and(probed);
        let held_ms = held.within(due_ms, claimed_ms);
        let probed_ms = probed.within(due_ms, claimed_ms) - both.within(due_ms, claimed_ms);
        // The rest of the time is before, between and after the pauses.
        let rest_from_ms = match entry.was_put_off {
            // The server that put it off was at work, perhaps before this one.
            true => due_ms,
            false => due_ms.max(server.claiming_since_ms),
        };
        let rest_until = |until_ms: i64| {
            let paused = |pause: Pause| pause.within(rest_from_ms, until_ms);
            let paused_ms = paused(held) + paused(probed) - paused(both);
            (until_ms - rest_from_ms).max(0) - paused_ms
        };
        let rate_until_ms = lane.rate_until_ms.min(claimed_ms);
        let rate_ms = rest_until(rate_until_ms);
        let is_of_lane = !entry.was_put_off && !entry.was_interrupted;
        // What waited until the lane was ready waited for a place in it. If that is not known, a full lane is the reason.
        let ready_ms = match lane.ready_ms {
            _ if !is_of_lane => rate_until_ms,
            0 if lane.is_full => claimed_ms,
            ready_ms => ready_ms.min(claimed_ms).max(rate_until_ms),
        };
        let full_ms = rest_until(ready_ms) - rate_ms;
        let rest_ms = rest_until(claimed_ms) - rate_ms - full_ms;
        let rest_by = if entry.was_put_off {
            Some(match (entry.lacked, entry.is_ordered) {
                (Some(Lacked::Proxy), _) => DeferralReason::Proxy,
                (Some(Lacked::Capacity), _) => DeferralReason::Busy,
                (None, true) => DeferralReason::Order,
                (None, false) => DeferralReason::Keys,
            })
        } else {
            (is_of_lane && server.was_busy).then_some(DeferralReason::Busy)
        };
        let parts = [
            Some((DeferralReason::Held, held_ms)),
            Some((DeferralReason::Probing, probed_ms)),
            Some((DeferralReason::Rate, rate_ms)),
            Some((DeferralReason::Concurrency, full_ms)),
            rest_by.map(|by| (by, rest_ms)),
        ];
        let parts = parts.into_iter().flatten();
        let ms: i64 = parts.clone().map(|(_, part_ms)| part_ms).sum();
        let (by, _) = parts.rev().max_by_key(|(_, part_ms)| *part_ms)?;
        (ms >= NOTICED_MS).then_some(Self { by, ms })
    }

    /// The word in which stores keep it: `held:1200`.
    #[must_use]
    pub fn to_text(self) -> String {
        format!("{}:{}", self.by, self.ms)
    }

    /// Reads what [`Deferral::to_text`] wrote; `None` if it is not such a word.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let (by, ms) = text.split_once(':')?;
        Some(Self {
            by: DeferralReason::from_name(by)?,
            ms: ms.parse().ok().filter(|ms| *ms >= 0)?,
        })
    }
}

#[cfg(test)]
mod tests;
