//! Leasing one notification of a partition, for a change by hand or a repair.

use super::{Partition, expiry};
use crate::clock::Clock as _;
use crate::domain::lease::LeaseToken;
use crate::schedule::envelope;
use crate::schedule::{
    CHANGE_LEASE_MS, CLOCKS_APART_MS, HAND_LEASE_WAIT_MS, Lease, LeaseRequest, LeasedOne,
    ScheduleError,
};

/// How long after a request for one lease Redis may still give it, in milliseconds. Later, the caller has
/// stopped waiting, so no server would know of the lease.
const WANTED_MS: i64 = 3_000;

impl Partition {
    /// See [`crate::schedule::ScheduleLeases::lease_one`].
    pub async fn lease_one(&self, request: &LeaseRequest) -> Result<LeasedOne, ScheduleError> {
        let (key, known) = (&request.entry.key, request.known);
        let number = |number: Option<i64>| number.map(|number| number.to_string());
        let registered_ms = number(known.map(|known| known.registered_ms));
        let due_ms = number(known.and_then(|known| known.due_ms));
        let mut command = self.context.call(&self.lease_one);
        command
            .arg(CHANGE_LEASE_MS)
            .arg(key.as_str())
            .arg(self.context.clock.now_ms().saturating_add(WANTED_MS))
            .arg(self.context.limits.lease_ms)
            .arg(HAND_LEASE_WAIT_MS)
            .arg(registered_ms.unwrap_or_default())
            .arg(due_ms.unwrap_or_default())
            .arg(request.id())
            .arg(u8::from(request.is_for_repair()))
            .arg(CLOCKS_APART_MS)
            .arg(request.entry.lane.as_str());
        let mut reply = self
            .context
            .run(&self.reads, &self.lease_one, &command)
            .await?;
        let verdict = reply.text()?;
        Ok(match verdict.as_str() {
            "leased" => {
                let expiry = expiry(&mut reply)?;
                // If the lease is never settled, a claim returns the entry after the expiry. So the dispatcher
                // is woken then.
                self.context.wake.bring_forward(expiry.at_ms);
                match envelope::decode(key.as_str(), &reply.bytes()?) {
                    Ok(entry) => LeasedOne::Leased(Box::new(Lease::granted(entry, expiry))),
                    // Nobody else needs to wait until the lease expires.
                    Err(error) => {
                        self.defer(vec![key.as_str().to_string()], expiry);
                        return Err(error.into());
                    }
                }
            }
            "reserved" => {
                let expiry = expiry(&mut reply)?;
                self.context.wake.bring_forward(expiry.at_ms);
                LeasedOne::Reserved(LeaseToken::granted(request.entry.clone(), expiry))
            }
            "in_flight" => LeasedOne::InFlight,
            "changing" => LeasedOne::Changing,
            "may_be_in_flight" => LeasedOne::MayBeInFlight,
            "expected" => LeasedOne::Expected,
            "missing" => LeasedOne::Missing,
            "late" => {
                let late = "Redis took too long to run a call";
                return Err(ScheduleError::Unavailable(late.to_string()));
            }
            other => {
                return Err(ScheduleError::Corrupt(format!(
                    "unknown answer `{other}` of lease_one.lua"
                )));
            }
        })
    }
}
