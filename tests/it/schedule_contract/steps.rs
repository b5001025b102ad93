//! The calls that the model is tried with, drawn at random.
//!
//! Times are short and few, so that they often fall on the same instant or on a boundary.

use proptest::prelude::*;
use ringback::domain::state::State;

/// Keys in all; they take the lanes in turn.
pub const KEYS: usize = 36;
/// How long a lease lasts, in milliseconds.
pub const SHORT_LEASE_MS: i64 = 1_000;
/// How long ended entries are remembered, if they are, in milliseconds.
pub const SHORT_MEMORY_MS: i64 = 3_000;

#[derive(Debug, Clone, Copy)]
pub enum How {
    Again(i64),
    Release,
    End(State),
}

#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// Registers some keys in a row, all due in so many milliseconds.
    Register(usize, usize, i64),
    Turn(i64),
    Claim(usize),
    /// Settles one of the leases in force.
    Settle(usize, How),
    /// Settles one of all leases there ever were.
    SettleAny(usize, How),
    Take(usize),
    Advance(usize),
    Find(usize),
    Revive(usize, Option<i64>),
    Dead(usize),
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
    ];
    let how = || {
        prop_oneof![
            wait().prop_map(How::Again),
            Just(How::Release),
            Just(How::End(State::Delivered)),
            Just(How::End(State::Dead)),
            Just(How::End(State::Cancelled)),
        ]
    };
    let picked = || 0..1_000_usize;
    prop_oneof![
        4 => (key.clone(), 1..12_usize, wait()).prop_map(|(key, many, in_ms)| {
            Step::Register(key, many, in_ms)
        }),
        4 => turn.prop_map(Step::Turn),
        6 => prop_oneof![Just(1_usize), 1..9_usize, Just(40)].prop_map(Step::Claim),
        6 => (picked(), how()).prop_map(|(picked, how)| Step::Settle(picked, how)),
        2 => (picked(), how()).prop_map(|(picked, how)| Step::SettleAny(picked, how)),
        1 => key.clone().prop_map(Step::Take),
        1 => key.clone().prop_map(Step::Advance),
        1 => key.clone().prop_map(Step::Find),
        1 => (key, proptest::option::of(wait())).prop_map(|(key, in_ms)| Step::Revive(key, in_ms)),
        1 => (1..5_usize).prop_map(Step::Dead),
    ]
}
