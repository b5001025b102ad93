//! The calls that the model is tried with, drawn at random.
//!
//! Times are short and few, so that they often fall on the same instant or on a boundary.

use proptest::prelude::*;
use ringback::domain::lane_health::{LaneReport, QUICK_MS};
use ringback::domain::state::State;
use ringback::schedule::{CHANGE_LEASE_MS, ClaimQuota};

/// Keys in all; they take the lanes in turn.
pub const KEYS: usize = 36;
/// How long the lease of an attempt lasts, in milliseconds.
pub const SHORT_LEASE_MS: i64 = 1_000;
/// How long ended entries are remembered, if they are, in milliseconds.
pub const SHORT_MEMORY_MS: i64 = 3_000;

#[derive(Debug, Clone, Copy)]
pub enum How {
    Again(i64),
    /// An attempt is requested by hand.
    Requested,
    Release,
    Recheck,
    End(State),
}

/// How a reservation is ended.
#[derive(Debug, Clone, Copy)]
pub enum Ending {
    Put(i64),
    Forget,
    Recheck,
}

/// What whoever asks for a lease by hand has learnt in the journal.
#[derive(Debug, Clone, Copy)]
pub enum Knows {
    Nothing,
    /// It was accepted a moment ago.
    JustAccepted,
    /// It was accepted long ago.
    LongAccepted,
}

#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// Registers some keys in a row, all due in so many milliseconds; late or not.
    Register(usize, usize, i64, bool),
    Turn(i64),
    Claim(ClaimQuota),
    /// Settles one of the leases in force, with what its call says if it is that of an attempt.
    Settle(usize, How, Option<LaneReport>),
    /// Settles one of all leases there ever were.
    SettleAny(usize, How, Option<LaneReport>),
    /// Renews the lease of an attempt that is in force.
    Renew(usize),
    /// Asks for a lease by hand.
    LeaseOne(usize, Knows),
    /// Makes one of the latest such requests again.
    AskAgain(usize),
    /// Ends one of the reservations in force.
    EndReservation(usize, Ending),
    /// Ends one of all reservations there ever were.
    EndAnyReservation(usize, Ending),
    /// Restores a key, due in so many milliseconds.
    Restore(usize, i64),
    Find(usize),
    Dead(usize),
    /// Changes the settings of a lane.
    Configure(usize, Configured),
}

/// What becomes of the settings of a lane.
#[derive(Debug, Clone, Copy)]
pub enum Configured {
    Held,
    Released,
    /// The largest number of leases, and the calls per second.
    Limited(Option<u32>, Option<f64>),
}

/// How many leases a claim may give: to any lanes, or with parts for classes of lanes.
fn quota() -> impl Strategy<Value = ClaimQuota> {
    let total = prop_oneof![Just(1_usize), 1..9_usize, Just(40)];
    let part = || prop_oneof![2 => Just(40_usize), 3 => 0..4_usize];
    let parts = (0..4_usize, 0..3_usize, part(), part());
    (total, prop::option::of(parts)).prop_map(|(total, parts)| match parts {
        None => ClaimQuota::of(total),
        Some((kept_for_idle, kept_for_troubled, doubtful, probing)) => ClaimQuota {
            total,
            kept_for_idle,
            kept_for_troubled,
            doubtful,
            probing,
        },
    })
}

/// What calls say about their destination.
fn result() -> impl Strategy<Value = Option<LaneReport>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(LaneReport::CallNow)),
        3 => Just(Some(LaneReport::Unanswered)),
        2 => Just(Some(LaneReport::Answered(QUICK_MS - 1))),
        1 => (0..12_000_i64).prop_map(|took_ms| Some(LaneReport::Answered(took_ms))),
    ]
}

fn configured() -> impl Strategy<Value = Configured> {
    let rates = prop_oneof![Just(0.4), Just(2.0), Just(30.0), Just(300.0), Just(9_000.0)];
    let limits = (prop::option::of(1..12_u32), prop::option::of(rates));
    prop_oneof![
        1 => Just(Configured::Held),
        2 => Just(Configured::Released),
        2 => limits.prop_map(|(concurrency, rate)| Configured::Limited(concurrency, rate)),
    ]
}

pub fn step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS;
    let wait = || prop_oneof![Just(0_i64), 0..4_i64, 0..2_500_i64];
    let turn = prop_oneof![
        Just(1_i64),
        0..6_i64,
        Just(SHORT_LEASE_MS - 1),
        Just(SHORT_LEASE_MS),
        0..2_500_i64,
        Just(SHORT_MEMORY_MS),
        Just(CHANGE_LEASE_MS - 1),
        Just(CHANGE_LEASE_MS),
    ];
    let how = || {
        prop_oneof![
            wait().prop_map(How::Again),
            Just(How::Requested),
            Just(How::Release),
            Just(How::Recheck),
            Just(How::End(State::Delivered)),
            Just(How::End(State::Dead)),
            Just(How::End(State::Cancelled)),
        ]
    };
    let picked = || 0..1_000_usize;
    let knows = prop_oneof![
        2 => Just(Knows::Nothing),
        1 => Just(Knows::JustAccepted),
        4 => Just(Knows::LongAccepted),
    ];
    let ending = || {
        prop_oneof![
            wait().prop_map(Ending::Put),
            Just(Ending::Forget),
            Just(Ending::Recheck),
        ]
    };
    let registering = (
        key.clone(),
        1..12_usize,
        wait(),
        proptest::bool::weighted(0.2),
    );
    prop_oneof![
        4 => registering.prop_map(|(key, many, in_ms, late)| {
            Step::Register(key, many, in_ms, late)
        }),
        4 => turn.prop_map(Step::Turn),
        6 => quota().prop_map(Step::Claim),
        8 => (picked(), how(), result()).prop_map(|(picked, how, result)| {
            Step::Settle(picked, how, result)
        }),
        2 => (picked(), how(), result()).prop_map(|(picked, how, result)| {
            Step::SettleAny(picked, how, result)
        }),
        1 => picked().prop_map(Step::Renew),
        4 => (key.clone(), knows).prop_map(|(key, knows)| Step::LeaseOne(key, knows)),
        2 => (0..6_usize).prop_map(Step::AskAgain),
        2 => (picked(), ending()).prop_map(|(picked, how)| Step::EndReservation(picked, how)),
        1 => (picked(), ending()).prop_map(|(picked, how)| Step::EndAnyReservation(picked, how)),
        2 => (key.clone(), wait()).prop_map(|(key, in_ms)| Step::Restore(key, in_ms)),
        1 => key.prop_map(Step::Find),
        1 => (1..5_usize).prop_map(Step::Dead),
        2 => (0..3_usize, configured()).prop_map(|(lane, how)| Step::Configure(lane, how)),
    ]
}
