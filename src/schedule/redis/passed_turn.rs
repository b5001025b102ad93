//! What is done about the order key of an entry when a lease on the entry was settled.

use crate::domain::order::OrderMode;
use crate::schedule::{Lease, Settlement};
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
            (Settlement::Defer(_) | Settlement::DeferForProxy(_), OrderMode::Strict) => "wait",
            (Settlement::Defer(_) | Settlement::DeferForProxy(_), OrderMode::Latest) => "yield",
            (Settlement::End { .. }, OrderMode::Strict) => "lowest",
            (
                Settlement::Again(_) | Settlement::Release | Settlement::Recheck,
                OrderMode::Strict,
            ) => "keep",
            (
                Settlement::End { .. }
                | Settlement::Again(_)
                | Settlement::Release
                | Settlement::Recheck,
                OrderMode::Latest,
            ) => "highest",
        };
        Some(Self {
            lane: notification.lane.as_str().to_string(),
            key: notification.key.as_str().to_string(),
            expiry: lease.expiry().to_string(),
            order_key: order.key().to_string(),
            number: order.number(),
            what,
        })
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
