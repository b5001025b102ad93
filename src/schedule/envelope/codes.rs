//! The codes of states, of causes and of what a server lacked, in the header of an envelope.

use crate::domain::deferral::Lacked;
use crate::domain::state::{Cause, State};

pub(super) fn state_code(state: State) -> u8 {
    match state {
        State::Scheduled => 0,
        State::Delivered => 1,
        State::Dead => 2,
        State::Cancelled => 3,
    }
}

pub(super) fn decode_state(code: u8) -> Option<State> {
    State::ALL
        .iter()
        .copied()
        .find(|state| state_code(*state) == code)
}

/// What stands in the place of the cause of a pending entry that was put off by a server that lacked this.
#[must_use]
pub fn lacked_code(lacked: Lacked) -> u8 {
    match lacked {
        Lacked::Proxy => 64,
        Lacked::Capacity => 65,
    }
}

pub(super) fn decode_lacked(code: u8) -> Option<Lacked> {
    [Lacked::Proxy, Lacked::Capacity]
        .into_iter()
        .find(|lacked| lacked_code(*lacked) == code)
}

pub(super) fn cause_code(cause: Option<Cause>) -> u8 {
    match cause {
        None => 0,
        Some(Cause::LadderExhausted) => 1,
        Some(Cause::WindowClosed) => 2,
        Some(Cause::Refused) => 3,
        Some(Cause::Blocked) => 4,
        Some(Cause::Superseded) => 5,
    }
}

pub(super) fn decode_cause(code: u8) -> Option<Option<Cause>> {
    std::iter::once(None)
        .chain(Cause::ALL.iter().copied().map(Some))
        .find(|cause| cause_code(*cause) == code)
}
