//! What the two servers do, and how both notifications stand before.

use crate::interleaving::operations::{Before, Operation};
use Before::{Dead, Delivered, Due, Later, Replayed, Unscheduled};
use Operation::{
    Attempt, Cancel, Discard, Reconcile, Register, RegisterAgain, Replay, Reschedule, Resend, Retry,
};
use OrderMode::{Latest, Strict};
use Which::{Higher, Lower};
use ringback::domain::order::OrderMode;

/// One of the two notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    Lower,
    Higher,
}

impl Which {
    pub const BOTH: [Self; 2] = [Lower, Higher];

    /// Its number in the order.
    pub fn number(self) -> i64 {
        self as i64 + 1
    }
}

/// What is done to a notification. An attempt is made of whatever is due.
type Deed = (Which, Operation);

/// A case.
#[derive(Debug)]
pub struct Case {
    pub mode: OrderMode,
    /// How they stand before; what is not named is not known.
    pub before: &'static [(Which, Before)],
    /// What each server does, one after the other.
    pub works: [&'static [Deed]; 2],
}

impl Case {
    /// How one of them stands before.
    pub fn before_of(&self, which: Which) -> Before {
        let mut found = self.before.iter().filter(|(one, _)| *one == which);
        found.next().map_or(Before::Unknown, |(_, before)| *before)
    }
}

const TRY: Deed = (Higher, Attempt);

const fn latest(before: &'static [(Which, Before)], works: [&'static [Deed]; 2]) -> Case {
    Case {
        mode: Latest,
        before,
        works,
    }
}

const fn strict(before: &'static [(Which, Before)], works: [&'static [Deed]; 2]) -> Case {
    Case {
        mode: Strict,
        before,
        works,
    }
}

/// All cases.
pub const CASES: &[Case] = &[
    // Both are registered at the same moment, in either order, or one after the other while attempts are made.
    latest(&[], [&[(Lower, Register)], &[(Higher, Register)]]),
    latest(&[], [&[(Lower, Register), (Higher, Register)], &[TRY, TRY]]),
    latest(
        &[],
        [
            &[(Higher, RegisterAgain), TRY],
            &[(Lower, RegisterAgain), TRY],
        ],
    ),
    strict(&[], [&[(Lower, Register)], &[(Higher, Register)]]),
    strict(&[], [&[(Higher, Register), TRY], &[(Lower, Register), TRY]]),
    strict(
        &[],
        [
            &[(Higher, RegisterAgain), TRY],
            &[(Lower, RegisterAgain), TRY],
        ],
    ),
    // The higher one is registered while an attempt of the lower one is made, and settles.
    latest(&[(Lower, Due)], [&[(Higher, Register)], &[TRY]]),
    latest(&[(Lower, Due)], [&[(Higher, Register), TRY], &[TRY, TRY]]),
    latest(
        &[(Lower, Unscheduled)],
        [&[(Higher, Register), TRY], &[(Lower, Reconcile), TRY]],
    ),
    latest(
        &[(Lower, Replayed)],
        [&[(Higher, Register), TRY], &[(Lower, Reconcile), TRY]],
    ),
    // The lower one is called off after the higher one has ended it, while an attempt of it is made.
    latest(
        &[(Lower, Due)],
        [&[TRY], &[(Higher, Register), (Lower, Cancel)]],
    ),
    latest(
        &[(Lower, Due)],
        [&[TRY], &[(Higher, Register), (Lower, Discard)]],
    ),
    latest(
        &[(Lower, Due)],
        [&[TRY, TRY], &[(Higher, Register), TRY, (Lower, Cancel)]],
    ),
    strict(&[(Lower, Due)], [&[(Higher, Register), TRY], &[TRY, TRY]]),
    strict(
        &[(Lower, Unscheduled)],
        [&[(Higher, Register), TRY], &[(Lower, Reconcile), TRY]],
    ),
    // The lower one is registered while an attempt of the higher one is made.
    latest(&[(Higher, Due)], [&[(Lower, Register), TRY], &[TRY]]),
    strict(&[(Higher, Due)], [&[(Lower, Register), TRY], &[TRY, TRY]]),
    // The higher one is registered while the lower one is changed by hand.
    latest(
        &[(Lower, Due)],
        [&[(Higher, Register), TRY], &[(Lower, Cancel)]],
    ),
    latest(
        &[(Lower, Later)],
        [&[(Higher, Register), TRY], &[(Lower, Retry), TRY]],
    ),
    latest(
        &[(Lower, Due)],
        [&[(Higher, Register), TRY], &[(Lower, Reschedule), TRY]],
    ),
    latest(
        &[(Lower, Dead)],
        [&[(Higher, Register), TRY], &[(Lower, Replay), TRY]],
    ),
    latest(
        &[(Lower, Delivered)],
        [&[(Higher, Register), TRY], &[(Lower, Resend), TRY]],
    ),
    latest(
        &[(Lower, Dead)],
        [&[(Higher, Register), TRY], &[(Lower, Discard)]],
    ),
    strict(
        &[(Lower, Later)],
        [&[(Higher, Register), TRY], &[(Lower, Retry), TRY]],
    ),
    strict(
        &[(Lower, Due)],
        [&[(Higher, Register), TRY], &[(Lower, Reschedule), TRY]],
    ),
    strict(
        &[(Lower, Dead)],
        [&[(Higher, Register), TRY], &[(Lower, Replay), TRY]],
    ),
    // The lower one is registered while the higher one is changed by hand.
    latest(
        &[(Higher, Due)],
        [&[(Lower, Register), TRY], &[(Higher, Cancel)]],
    ),
    latest(
        &[(Higher, Later)],
        [&[(Lower, Register), TRY], &[(Higher, Retry), TRY]],
    ),
    strict(
        &[(Higher, Due)],
        [&[(Lower, Register), TRY], &[(Higher, Cancel)]],
    ),
    strict(
        &[(Higher, Later)],
        [&[(Lower, Register), TRY], &[(Higher, Retry), TRY]],
    ),
    strict(
        &[(Higher, Due)],
        [&[(Lower, Register), TRY], &[(Higher, Reschedule), TRY]],
    ),
    // Both wait, and attempts are made while one of them is changed.
    strict(&[(Lower, Due), (Higher, Due)], [&[TRY, TRY], &[TRY, TRY]]),
    strict(
        &[(Lower, Due), (Higher, Due)],
        [&[TRY, TRY], &[(Lower, Cancel), TRY]],
    ),
    strict(
        &[(Lower, Due), (Higher, Due)],
        [&[TRY, TRY], &[(Higher, Cancel), TRY]],
    ),
    strict(
        &[(Lower, Later), (Higher, Due)],
        [&[TRY, TRY], &[(Lower, Retry), TRY]],
    ),
    strict(
        &[(Lower, Due), (Higher, Due)],
        [&[TRY, TRY], &[(Higher, Retry), TRY]],
    ),
    strict(
        &[(Lower, Due), (Higher, Due)],
        [&[TRY, TRY], &[(Lower, Reschedule), TRY]],
    ),
    strict(
        &[(Lower, Unscheduled), (Higher, Due)],
        [&[TRY, TRY], &[(Lower, Reconcile), TRY]],
    ),
    strict(
        &[(Lower, Dead), (Higher, Due)],
        [&[TRY, TRY], &[(Lower, Replay), TRY]],
    ),
    strict(
        &[(Lower, Delivered), (Higher, Due)],
        [&[TRY, TRY], &[(Lower, Resend), TRY]],
    ),
    strict(
        &[(Lower, Delivered), (Higher, Delivered)],
        [&[(Lower, Resend), TRY], &[(Higher, Resend), TRY]],
    ),
];
