//! How many leases a claim may give, and to which lanes.
//!
//! A server makes a bounded number of attempts at a time. Calls to destinations that hang take long, so without
//! further bounds they would soon be all of them. So a part is kept for lanes whose destination answers and has
//! no call in flight, and lanes whose destination is not known to answer get a part only. A small part is kept for these
//! too: destinations that answer come first, and could have calls to make for hours.

use super::PER_VISIT;
use super::claimed_lease::{BareLease, ClaimedLease};
use super::lease::Lease;
use crate::domain::lane_health::LaneClass;

/// How many leases a claim may give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimQuota {
    /// To all lanes together.
    pub total: usize,
    /// Out of `total`, how many are kept for lanes of the class [`LaneClass::Idle`], one for each.
    pub kept_for_idle: usize,
    /// Out of `kept_for_idle`, how many idle lanes leave to lanes of the classes [`LaneClass::Doubtful`] and
    /// [`LaneClass::Probing`].
    pub kept_for_troubled: usize,
    /// To lanes of the class [`LaneClass::Doubtful`], at most.
    pub doubtful: usize,
    /// To lanes of the class [`LaneClass::Probing`], at most.
    pub probing: usize,
}

impl ClaimQuota {
    /// So many leases, to any lanes.
    #[must_use]
    pub fn of(total: usize) -> Self {
        Self {
            total,
            kept_for_idle: 0,
            kept_for_troubled: 0,
            doubtful: total,
            probing: total,
        }
    }

    /// The equal part of one out of `parts` claims, rounded up.
    #[must_use]
    pub fn part(self, parts: usize) -> Self {
        let part = |number: usize| number.div_ceil(parts);
        Self {
            total: part(self.total),
            kept_for_idle: part(self.kept_for_idle).min(self.total),
            kept_for_troubled: part(self.kept_for_troubled).min(self.total),
            doubtful: part(self.doubtful),
            probing: part(self.probing),
        }
    }

    /// Takes leases to lanes of this class out of the quota.
    pub fn take(&mut self, class: LaneClass, leases: usize) {
        self.total = self.total.saturating_sub(leases);
        let part = match class {
            LaneClass::Idle | LaneClass::Busy => return,
            LaneClass::Doubtful => &mut self.doubtful,
            LaneClass::Probing => &mut self.probing,
        };
        *part = part.saturating_sub(leases);
        self.kept_for_troubled = self.kept_for_troubled.saturating_sub(leases);
    }

    /// How many leases are not kept for idle lanes.
    #[must_use]
    pub fn shared(&self) -> usize {
        self.total.saturating_sub(self.kept_for_idle)
    }

    /// How many leases a visit of a lane of this class may give.
    #[must_use]
    pub fn for_visit(&self, class: LaneClass) -> usize {
        let shared = self.shared();
        let troubled = shared.max(self.kept_for_troubled.min(self.total));
        let allowed = match class {
            LaneClass::Idle if shared == 0 => {
                self.total.saturating_sub(self.kept_for_troubled).min(1)
            }
            LaneClass::Idle | LaneClass::Busy => shared,
            LaneClass::Doubtful => troubled.min(self.doubtful),
            LaneClass::Probing => troubled.min(self.probing).min(1),
        };
        allowed.min(PER_VISIT)
    }

    /// Whether lanes of this class get nothing although there are leases left for others.
    #[must_use]
    pub fn is_used_up(&self, class: LaneClass) -> bool {
        self.total > 0 && self.for_visit(class) == 0
    }
}

/// The result of a claim.
#[derive(Debug, Clone, Default)]
pub struct Claimed {
    /// The leases, in the order in which they should be worked on.
    pub leases: Vec<Lease>,
    /// The leases on bare entries, which need to be looked up in the journal first.
    pub bare: Vec<BareLease>,
    /// When there is next something to claim, if that is known: in the past if more is due now. Due lanes of a
    /// class whose part was used up while there were leases left for others do not count.
    pub next_due_ms: Option<i64>,
    /// Whether such a lane is due: the caller should claim again when its quota has grown.
    pub is_limited: bool,
}

impl Claimed {
    /// All leases.
    pub fn into_leases(self) -> impl Iterator<Item = ClaimedLease> {
        let whole = self.leases.into_iter().map(Box::new);
        let bare = self.bare.into_iter().map(Box::new);
        let whole = whole.map(ClaimedLease::Whole);
        whole.chain(bare.map(ClaimedLease::Bare))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LaneClass::{Busy, Doubtful, Idle, Probing};

    #[test]
    fn each_class_has_its_part() {
        fn check(quota: ClaimQuota, visits: [usize; 4]) {
            let given = LaneClass::ALL.map(|class| quota.for_visit(class));
            assert_eq!(given, visits, "{quota:?}");
        }
        let quota = |total, kept_for_idle, doubtful, probing| ClaimQuota {
            total,
            kept_for_idle,
            doubtful,
            probing,
            ..ClaimQuota::of(total)
        };
        check(ClaimQuota::of(100), [4, 4, 4, 1]);
        check(ClaimQuota::of(3), [3, 3, 3, 1]);
        check(ClaimQuota::of(0), [0; 4]);
        check(quota(10, 8, 10, 10), [2, 2, 2, 1]);
        check(quota(10, 10, 10, 10), [1, 0, 0, 0]);
        check(quota(10, 20, 10, 10), [1, 0, 0, 0]);
        check(quota(100, 25, 3, 0), [4, 4, 3, 0]);
        check(quota(100, 25, 0, 7), [4, 4, 0, 1]);
        let troubled = |total, kept_for_idle, kept_for_troubled| ClaimQuota {
            kept_for_troubled,
            ..quota(total, kept_for_idle, 10, 10)
        };
        check(troubled(10, 5, 3), [4, 4, 4, 1]);
        check(troubled(5, 5, 3), [1, 0, 3, 1]);
        check(troubled(3, 3, 3), [0, 0, 3, 1]);
        check(troubled(2, 2, 3), [0, 0, 2, 1]);
        check(troubled(0, 0, 3), [0; 4]);
    }

    #[test]
    fn leases_are_taken_out_of_the_quota() {
        let mut quota = ClaimQuota {
            kept_for_idle: 2,
            doubtful: 3,
            probing: 1,
            ..ClaimQuota::of(10)
        };
        quota.take(Doubtful, 3);
        assert_eq!((quota.total, quota.is_used_up(Doubtful)), (7, true));
        quota.take(Probing, 1);
        assert!(quota.is_used_up(Probing) && !quota.is_used_up(Busy));
        quota.take(Busy, 4);
        assert!(quota.is_used_up(Busy) && !quota.is_used_up(Idle));
        quota.take(Idle, 2);
        assert_eq!(quota.total, 0);
        assert!(!quota.is_used_up(Idle), "nothing is left for others either");
        let mut quota = ClaimQuota {
            kept_for_idle: 3,
            kept_for_troubled: 2,
            ..ClaimQuota::of(3)
        };
        quota.take(Idle, 1);
        assert!(quota.is_used_up(Idle) && !quota.is_used_up(Doubtful));
        quota.take(Doubtful, 1);
        assert_eq!(quota.for_visit(Probing), 1);
        assert!(quota.is_used_up(Idle));
    }

    #[test]
    fn a_quota_is_divided_without_loss() {
        let part = ClaimQuota::of(10).part(4);
        assert_eq!((part.total, part.doubtful, part.probing), (3, 3, 3));
        assert_eq!(ClaimQuota::of(1).part(4).total, 1);
    }
}
