//! What is done about the order key of an entry when a lease on the entry was settled.

use crate::domain::lease::LeaseToken;
use crate::domain::order::{OrderMode, OrderPlace};
use crate::schedule::{Lease, Reservation, Settlement};
use redis::Cmd;

/// The arguments of `order.lua` about one entry.
pub struct PassedTurn {
    lane: String,
    key: String,
    expiry: String,
    order_key: String,
    number: i64,
    what: &'static str,
}

impl PassedTurn {
    /// `None` if the entry has no place in an order.
    pub fn of(lease: &Lease, settlement: &Settlement) -> Option<Self> {
        let notification = &lease.entry.notification;
        let order = notification.order.as_ref()?;
        let what = match (settlement, order.mode()) {
            (Settlement::Defer(_) | Settlement::DeferWithout(..), OrderMode::Strict) => "wait",
            (Settlement::Defer(_) | Settlement::DeferWithout(..), OrderMode::Latest) => "yield",
            (Settlement::End { .. }, mode) => after_end(mode),
            (
                Settlement::Again(_) | Settlement::Release | Settlement::Recheck,
                OrderMode::Strict,
            ) => "keep",
            (
                Settlement::Again(_) | Settlement::Release | Settlement::Recheck,
                OrderMode::Latest,
            ) => "highest",
        };
        Some(Self::new(&lease.token(), order, what))
    }

    /// Of a notification that has ended while it was in the journal alone. `None` if it has not, or has no place in an order.
    pub fn of_ended_key(lease: &LeaseToken, reservation: &Reservation) -> Option<Self> {
        match reservation {
            Reservation::End(Some(order)) => Some(Self::new(lease, order, after_end(order.mode()))),
            Reservation::End(None)
            | Reservation::Put(_)
            | Reservation::Forget
            | Reservation::Defer(_)
            | Reservation::Recheck => None,
        }
    }

    fn new(lease: &LeaseToken, order: &OrderPlace, what: &'static str) -> Self {
        Self {
            lane: lease.entry().lane.as_str().to_string(),
            key: lease.key().as_str().to_string(),
            expiry: lease.expiry().to_string(),
            order_key: order.key().to_string(),
            number: order.number(),
            what,
        }
    }

    /// Adds the arguments.
    pub fn add_to(&self, command: &mut Cmd) {
        command
            .arg(&self.lane)
            .arg(&self.key)
            .arg(&self.expiry)
            .arg(&self.order_key)
            .arg(format!("{:016}", self.number))
            .arg(self.what);
    }
}

/// Which entry is next when one has ended.
fn after_end(mode: OrderMode) -> &'static str {
    match mode {
        OrderMode::Strict => "lowest",
        OrderMode::Latest => "highest",
    }
}
