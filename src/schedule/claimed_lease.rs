//! Leases that a claim has given: on entries with their content, and on bare ones.

use super::entry::BareEntry;
use super::lease::Lease;
use crate::domain::deferral::{ClaimedEntry, Deferral, LaneMoment};
use crate::domain::key::Key;
use crate::domain::lane_health::LaneClass;
use crate::domain::lease::{Expiry, LeaseToken};
use crate::domain::notification::Notification;
use crate::domain::progress::Progress;
use std::sync::Arc;

/// A claimed lease on a bare entry: the right and the duty to look it up in the journal and to make one attempt.
#[derive(Debug, Clone)]
pub struct BareLease {
    /// The entry as it was when leased.
    pub bare: BareEntry,
    /// As [`Lease::class`].
    pub class: LaneClass,
    /// As [`Lease::deferral`].
    pub deferral: Option<Deferral>,
    expiry: Expiry,
    lane: Option<Box<LaneMoment>>,
}

impl BareLease {
    /// Makes a lease in a lane of this class at this moment. For schedules alone.
    #[must_use]
    pub fn granted(bare: BareEntry, expiry: Expiry, class: LaneClass, lane: LaneMoment) -> Self {
        Self {
            bare,
            class,
            deferral: None,
            expiry,
            lane: (lane != LaneMoment::default()).then(|| Box::new(lane)),
        }
    }

    /// As [`Lease::lane`].
    #[must_use]
    pub fn lane(&self) -> LaneMoment {
        self.lane.as_deref().copied().unwrap_or_default()
    }

    /// When the lease ends, in milliseconds since 1970 by the schedule's clock.
    #[must_use]
    pub fn expires_ms(&self) -> i64 {
        self.expiry.at_ms
    }

    /// What proves this lease. It is ended as the lease of a key.
    #[must_use]
    pub fn token(&self) -> LeaseToken {
        LeaseToken::granted(self.bare.entry.clone(), self.expiry)
    }

    /// The same lease on the whole entry.
    #[must_use]
    pub fn with(self, notification: Arc<Notification>, progress: Progress) -> Lease {
        let (class, lane) = (self.class, self.lane());
        let entry = self.bare.with(notification, progress);
        let mut lease = Lease::granted(entry, self.expiry).in_lane(class, lane);
        lease.deferral = self.deferral;
        lease
    }
}

/// A lease that a claim has given.
#[derive(Debug, Clone)]
pub enum ClaimedLease {
    /// On an entry with its content.
    Whole(Box<Lease>),
    /// On a bare entry.
    Bare(Box<BareLease>),
}

impl ClaimedLease {
    /// The notification.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::Whole(lease) => &lease.entry.notification.key,
            Self::Bare(lease) => &lease.bare.entry.key,
        }
    }

    /// The class of its lane when it was claimed.
    #[must_use]
    pub fn class(&self) -> LaneClass {
        match self {
            Self::Whole(lease) => lease.class,
            Self::Bare(lease) => lease.class,
        }
    }

    /// What was known of its lane when it was claimed.
    #[must_use]
    pub fn lane(&self) -> LaneMoment {
        match self {
            Self::Whole(lease) => lease.lane(),
            Self::Bare(lease) => lease.lane(),
        }
    }

    /// When the lease ends, in milliseconds since 1970 by the schedule's clock.
    #[must_use]
    pub fn expires_ms(&self) -> i64 {
        match self {
            Self::Whole(lease) => lease.expires_ms(),
            Self::Bare(lease) => lease.expires_ms(),
        }
    }

    /// What says for how long the attempt was deferred, and why. `lease_ms` is how long a lease lasts.
    #[must_use]
    pub fn claimed_entry(&self, lease_ms: i64) -> ClaimedEntry {
        let claimed_ms = self.expires_ms() - lease_ms;
        match self {
            Self::Whole(lease) => ClaimedEntry {
                due_ms: lease.entry.progress.next_due_ms(),
                claimed_ms,
                was_put_off: lease.entry.was_put_off,
                lacked: lease.entry.lacked,
                is_ordered: lease.entry.notification.order.is_some(),
                was_interrupted: lease.entry.interrupted_ms.is_some(),
            },
            Self::Bare(lease) => ClaimedEntry {
                due_ms: lease.bare.due_ms,
                claimed_ms,
                was_put_off: lease.bare.was_put_off,
                lacked: lease.bare.lacked,
                is_ordered: false,
                was_interrupted: lease.bare.interrupted_ms.is_some(),
            },
        }
    }

    /// The same lease with this deferral.
    #[must_use]
    pub fn deferred(mut self, deferral: Option<Deferral>) -> Self {
        match &mut self {
            Self::Whole(lease) => lease.deferral = deferral,
            Self::Bare(lease) => lease.deferral = deferral,
        }
        self
    }
}

impl From<Box<Lease>> for ClaimedLease {
    fn from(lease: Box<Lease>) -> Self {
        Self::Whole(lease)
    }
}
